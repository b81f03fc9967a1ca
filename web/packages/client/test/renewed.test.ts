import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { CountersignClient } from "../src/index.js";
import { FakeSocket, last, make } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

/** The server greets somebody. */
const greet = (subject?: string, tenant?: string) =>
  last().receive({ type: "hello", protocol: "countersign.v1", server: "test", heartbeat_seconds: 10, subject, tenant });
const end = () => last().onclose?.({ code: 4401, reason: "the token has expired" });
const open = (subject?: string) => {
  const client = make({ token: "old" });
  client.connect();
  greet(subject);
  return client;
};
/** A message that is not acknowledged, and how it ended. */
const ask = (client: CountersignClient) => {
  const asked = { ended: "waits" };
  client.sendMessage({ session_id: "s", content: "hi" }).then(() => (asked.ended = "sent"), ({ code }) => (asked.ended = code));
  return asked;
};
const settle = () => vi.advanceTimersByTimeAsync(0);
const messages = () => last().sent.filter(({ type }) => type === "message");

describe("u2: a token that was renewed while the connection was open", () => {
  it("is used at once when the old one ends, and nobody is signed out", async () => {
    const client = open("ann");
    const [states, ended] = [vi.fn(), vi.fn()];
    client.on("state", states);
    client.on("tokenEnded", ended);
    client.subscribe("s", 7);
    client.setToken("new");
    expect(FakeSocket.all).toHaveLength(1);
    end();
    expect(last().protocols).toEqual(["countersign.v1", "bearer.new"]);
    greet("ann");
    expect(states.mock.calls).toEqual([["reconnecting"], ["open"]]);
    expect(ended).not.toHaveBeenCalled();
    expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 7 }]);
    // Once that ends too, there is no other.
    end();
    expect([client.state, ended.mock.calls]).toEqual(["unauthorized", [["the token has expired"]]]);
  });

  it.each([["4401", end], ["a lost connection", () => last().die()]])("after %s, what waits is sent where the server greets the same person", async (_, lose) => {
    const client = open("ann");
    const asked = ask(client);
    const [first] = messages();
    client.setToken("new");
    lose();
    await vi.advanceTimersByTimeAsync(200);
    greet("ann");
    expect(messages()).toEqual([first]);
    // And with the one after that.
    client.setToken("newest");
    lose();
    await vi.advanceTimersByTimeAsync(400);
    greet("ann");
    expect(messages()).toEqual([first]);
    last().receive({ type: "ack", request_id: first!.request_id, session_id: "s" });
    await settle();
    expect(asked.ended).toBe("sent");
  });

  it.each([
    ["another person", "ann", "bob", undefined],
    ["somebody of that name in another tenant", "ann", "ann", "elsewhere"],
    ["nobody by name", undefined, undefined, undefined],
  ])("what waits is rejected, not sent, where the server greets %s", async (_, before, now, tenant) => {
    for (const lose of [end, () => last().die()]) {
      const client = open(before);
      const asked = ask(client);
      client.setToken("new");
      lose();
      await vi.advanceTimersByTimeAsync(200);
      const mine = ask(client);
      greet(now, tenant);
      await settle();
      expect([asked.ended, mine.ended, messages().length, client.unsent]).toEqual(["unauthenticated", "waits", 1, 1]);
      client.close();
    }
  });

  it("is used at once where the server has not greeted the connection of the old one, with what was asked for before and since", async () => {
    const client = open("ann");
    const before = ask(client);
    last().die();
    await vi.advanceTimersByTimeAsync(200);
    const [old, early] = [last(), ask(client)];
    client.setToken("new");
    const late = ask(client);
    expect([old.protocols[1], old.closed, last().protocols[1]]).toEqual(["bearer.old", true, "bearer.new"]);
    greet("ann");
    for (const { request_id } of messages()) last().receive({ type: "ack", request_id, session_id: "s" });
    await settle();
    expect([before.ended, early.ended, late.ended]).toEqual(["sent", "sent", "sent"]);
    // The same one changes nothing.
    client.setToken("new");
    expect(FakeSocket.all).toHaveLength(3);
  });

  it("is used at once there, and another person's sends nothing that was asked for before", async () => {
    const client = open("ann");
    last().die();
    await vi.advanceTimersByTimeAsync(200);
    const hers = ask(client);
    client.setToken("new");
    const his = ask(client);
    greet("bob");
    await settle();
    expect([hers.ended, his.ended, messages().length]).toEqual(["unauthenticated", "waits", 1]);
  });

  it("what a listener asks for as the old one opens a connection is the old one's, and not sent in another person's name", async () => {
    const client = make({ token: "old" });
    let asked = { ended: "" };
    const stop = client.on("state", (state) => {
      if (state !== "open") return;
      client.setToken("new");
      asked = ask(client);
    });
    client.connect();
    greet("ann");
    expect([last().protocols[1], messages().length]).toEqual(["bearer.old", 1]);
    stop();
    last().die();
    await vi.advanceTimersByTimeAsync(200);
    expect(last().protocols[1]).toBe("bearer.new");
    greet("bob");
    await settle();
    expect([asked.ended, messages()]).toEqual(["unauthenticated", []]);
  });

  it("what is asked for before the first connection waits for it, but for no other token", async () => {
    const client = make();
    const early = ask(client);
    client.setToken("alice");
    const hers = ask(client);
    client.setToken("bob");
    const his = ask(client);
    client.connect();
    greet("bob");
    await settle();
    expect([early.ended, hers.ended, his.ended, messages().length]).toEqual(["waits", "unauthenticated", "waits", 2]);
  });
});

it("u2: a token that cannot be one is told of, with what one may be made of", () => {
  const client = make({ token: "ab/cd==" });
  const errors = vi.fn();
  client.on("error", errors);
  client.connect();
  expect([client.state, FakeSocket.all.length]).toEqual(["unauthorized", 0]);
  expect(errors).toHaveBeenCalledExactlyOnceWith({ type: "error", code: "unauthenticated", message: expect.stringContaining("other than letters, digits and") });
  client.setToken("good");
  expect(last().protocols).toEqual(["countersign.v1", "bearer.good"]);
});
