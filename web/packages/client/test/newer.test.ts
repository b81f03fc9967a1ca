/** A server that is newer than this package: unknown content is handled as well as possible. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { allowedOf, CountersignError, emptySession, foldAll, isSessionEvent, LosslessNumber, stringifyJson, type ReviewConfig } from "../src/index.js";
import { numbered, type Loose } from "./events.js";
import { event, FakeSocket, last, make, seen } from "./support/socket.js";

beforeEach(() => {
  FakeSocket.all = [];
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

it("u2: an event that is not known has its place among the others: nothing is missing, and nothing waits for it", () => {
  const client = make();
  const seqs = seen(client);
  client.subscribe("s");
  client.connect();
  last().hello();
  last().receive(event(1));
  last().receive({ type: "hologram_shown", session_id: "s", seq: 2 });
  last().receive({ type: "of_no_session" });
  for (const seq of [3, 4]) last().receive(event(seq));
  expect([seqs, last().sent]).toEqual([[1, 2, 3, 4], [{ type: "subscribe", session_id: "s", after: 0 }]]);
  last().die();
  vi.advanceTimersByTime(200);
  last().hello();
  expect(last().sent).toEqual([{ type: "subscribe", session_id: "s", after: 4 }]);
  expect([isSessionEvent({ type: "of_no_session" }), isSessionEvent({ type: "ack", session_id: "s" })]).toEqual([false, false]);
});

it("u2: what it adds to a block in a way that is not known is no part of its text", () => {
  const block = { message_id: "m", index: 0 };
  const events: Loose[] = [
    { type: "message_start", message_id: "m", role: "assistant" },
    { type: "content_block_start", ...block, content_block: { type: "text" } },
    { type: "content_block_delta", ...block, delta: { type: "text_delta", text: "It is so" } },
    { type: "content_block_delta", ...block, delta: { type: "citation_delta", text: "https://example.com" } },
    { type: "content_block_delta", ...block, delta: { type: "text_delta", text: "." } },
  ];
  expect(foldAll(emptySession("s1"), numbered(events)).messages[0]?.blocks).toMatchObject([{ text: "It is so." }]);
});

it("u2: of what it allows, only what can be decided here is offered", () => {
  const config = (...allowed_decisions: string[]) => ({ allowed_decisions }) as ReviewConfig;
  expect([allowedOf(config("approve", "escalate", "reject")), allowedOf(config("escalate")), allowedOf({})]).toEqual([["approve", "reject"], [], ["approve", "reject"]]);
});

it("u2: two copies of this package on a page know each other's refusals, and numbers", async () => {
  vi.resetModules();
  const other = await import("../src/index.js");
  const refusal = new other.CountersignError("session_busy", "It is busy.");
  expect(refusal instanceof CountersignError).toBe(false);
  expect([CountersignError.is(refusal), CountersignError.is(refusal, "session_busy"), CountersignError.is(refusal, "offline")]).toEqual([true, true, false]);
  expect(CountersignError.of(refusal)).toBe(refusal);
  for (const none of [undefined, null, "session_busy", new Error("session_busy"), { code: "session_busy" }]) expect(CountersignError.is(none)).toBe(false);
  expect(stringifyJson([new other.LosslessNumber("1.10"), new LosslessNumber("1.10")])).toBe("[1.10,1.10]");
});
