import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CountersignClient } from "../src/index.js";
import { FakeSocket, event, last, make } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

describe("u2: CountersignClient, after the server has lost what was seen of a session", () => {
  const told = (client: CountersignClient) => {
    const all: string[] = [];
    client.on("event", (one) => void all.push("seq" in one ? `event ${one.seq}` : "delta"));
    client.on("restarted", (id) => void all.push(`restarted ${id}`));
    client.on("historyChanged", (id) => void all.push(`another history ${id}`));
    client.on("error", ({ code }) => void all.push(code));
    return all;
  };
  const refuse = (code: string) => last().receive({ type: "error", code, message: "", session_id: "s" });
  /** Of a session that has two events, after a restart of the server. */
  const restarted = (from: Parameters<CountersignClient["subscribe"]>[1]) => {
    const client = make();
    const all = told(client);
    client.subscribe("s", from);
    client.connect();
    last().hello();
    for (const seq of [41, 42]) last().receive(event(seq));
    last().die();
    vi.advanceTimersByTime(200);
    last().hello();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 42 }]);
    return all.splice(0) && all;
  };

  it("follows it from its beginning, once, and tells that nothing of before holds", () => {
    for (const [from, anew] of [[40, { after: 0 }], [{ last: 80 }, { last: 80 }], [{ last: 80, after: 40 }, { last: 80 }]] as const) {
      for (const code of ["invalid_message", "session_not_found"]) {
        const all = restarted(from);
        refuse(code);
        expect(last().sent.slice(1)).toEqual([{ type: "subscribe", session_id: "s", ...anew }]);
        for (const seq of [1, 2]) last().receive(event(seq));
        expect(all).toEqual(["restarted s", "event 1", "event 2"]);
      }
    }
  });

  it("follows all from their beginning where the server has another history, and none where it has the same", () => {
    for (const [before, now, anew] of [["a", "b", true], ["a", "a", false], ["a", undefined, false], [undefined, "b", false]] as const) {
      const client = make();
      const all = told(client);
      client.subscribe("s", 40);
      client.subscribe("end", { last: 80 });
      client.connect();
      last().hello(before);
      last().receive(event(41));
      last().die();
      vi.advanceTimersByTime(200);
      last().hello(now);
      // No event of `end` was seen, so nothing of it can be wrong.
      const subscribed = [{ type: "subscribe", session_id: "s", after: anew ? 0 : 41 }, { type: "subscribe", session_id: "end", last: 80 }];
      expect(last().sent).toEqual(expect.arrayContaining(subscribed));
      expect(last().sent).toHaveLength(2);
      expect(all).toEqual(anew ? ["event 41", "another history b", "restarted s"] : ["event 41"]);
    }
    // Also if it could not be noticed in between.
    const client = make();
    const all = told(client);
    client.subscribe("s", 40);
    client.connect();
    for (const id of ["a", undefined, "b"]) {
      last().hello(id);
      last().die();
      vi.advanceTimersByTime(200);
    }
    expect(all).toEqual(["another history b", "restarted s"]);
  });

  it("tells once that it is gone, and follows it if somebody makes it again", () => {
    const all = restarted({ last: 80 });
    const asked = () => last().sent.filter(({ type }) => type === "subscribe").length;
    refuse("session_not_found");
    refuse("session_not_found");
    vi.advanceTimersByTime(1_000);
    expect(asked()).toBe(3);
    refuse("session_not_found");
    vi.advanceTimersByTime(2_000);
    expect([all, asked()]).toEqual([["restarted s", "session_not_found"], 4]);
    for (const seq of [1, 2]) last().receive(event(seq));
    expect(all.slice(2)).toEqual(["event 1", "event 2"]);
  });

  it("follows the one that a message has made under its id", () => {
    const all = restarted({ last: 80 });
    refuse("session_not_found");
    refuse("session_not_found");
    for (const seq of [1, 2]) last().receive(event(seq));
    last().die();
    vi.advanceTimersByTime(200);
    last().hello();
    expect(all.slice(2)).toEqual(["event 1", "event 2"]);
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 2 }]);
  });

  it("keeps what it has of one where something else was refused", () => {
    const all = restarted({ last: 80 });
    refuse("queue_full");
    last().receive({ type: "error", code: "invalid_message", message: "", session_id: "s", request_id: "other" });
    expect(all).toEqual(["queue_full", "invalid_message"]);
    expect(last().sent).toHaveLength(1);
  });
});
