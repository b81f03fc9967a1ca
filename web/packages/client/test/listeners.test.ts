import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ConnectionState } from "../src/index.js";
import { FakeSocket, event, last, make, seen } from "./support/socket.js";

const reported: unknown[] = [];
const mine = new Error("Mine.");
const fail = () => {
  throw mine;
};

beforeEach(() => {
  FakeSocket.all = [];
  reported.length = 0;
  vi.useFakeTimers();
  vi.stubGlobal("reportError", (error: unknown) => void reported.push(error));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("u2: what an application's function throws", () => {
  it("is reported, and keeps an event from no other listener", () => {
    const client = make();
    client.on("event", fail);
    const seqs = seen(client);
    client.subscribe("s");
    client.connect();
    last().hello();
    last().receive(event(1));
    last().receive(event(2));
    expect(seqs).toEqual([1, 2]);
    expect(reported).toEqual([mine, mine]);
  });

  it("is thrown where nobody can catch it if there is no reportError, as in Node", async () => {
    vi.stubGlobal("reportError", undefined);
    const later = vi.spyOn(globalThis, "queueMicrotask").mockImplementation(() => undefined);
    const client = make();
    client.on("state", fail);
    client.connect();
    expect(later).toHaveBeenCalledTimes(1);
    expect(later.mock.calls[0]![0]).toThrow("Mine.");
    later.mockRestore();
  });

  it("does not end the connection's care for itself: listeners of its state, and what is asked of the token", async () => {
    const client = make({ isUnauthorized: fail });
    client.on("state", (state) => state === "reconnecting" && fail());
    client.connect();
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    last().hello();
    last().die();
    await vi.advanceTimersByTimeAsync(1000);
    expect(FakeSocket.all).toHaveLength(3);
    last().hello();
    expect(client.state).toBe("open");
    expect(reported).toEqual([mine, mine]);
  });

  it("leaves the state as it was where connect() throws, and the next one tries again", () => {
    let works = false;
    const client = make({ webSocket: function (...args: [string, string[]]) {
      return works ? new FakeSocket(...args) : fail();
    } });
    const states: ConnectionState[] = [];
    client.on("state", (state) => void states.push(state));
    expect(() => client.connect()).toThrow("Mine.");
    expect(() => client.connect()).toThrow("Mine.");
    expect(client.state).toBe("idle");
    works = true;
    client.connect();
    last().hello();
    expect(states).toEqual(["connecting", "idle", "connecting", "idle", "connecting", "open"]);
  });

  it("is no reason to give up where a later socket cannot be made", async () => {
    let works = true;
    const client = make({ webSocket: function (...args: [string, string[]]) {
      return works ? new FakeSocket(...args) : fail();
    } });
    client.connect();
    last().hello();
    works = false;
    last().die();
    await vi.advanceTimersByTimeAsync(100);
    expect(reported).toEqual([mine]);
    works = true;
    await vi.advanceTimersByTimeAsync(200);
    last().hello();
    expect(client.state).toBe("open");
  });

  it("sends nothing before the server greets it where a listener has closed the last connection as it followed", () => {
    const client = make();
    const stop = client.on("follows", () => client.close());
    client.subscribe("s");
    client.connect();
    last().hello();
    expect(client.state).toBe("closed");
    stop();
    client.connect();
    void client.sendMessage({ session_id: "s", content: "hi" });
    expect(last().sent).toEqual([]);
    last().hello();
    expect(last().sent.map(({ type }) => type)).toEqual(["subscribe", "message"]);
  });

  it("opens nothing where a listener closes it as it connects", () => {
    const client = make();
    client.on("state", () => client.close());
    client.connect();
    expect(FakeSocket.all).toEqual([]);
    expect(client.state).toBe("closed");
  });
});
