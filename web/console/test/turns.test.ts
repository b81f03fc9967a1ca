import { expect, it } from "vitest";
import type { ApprovalView, BlockView, MessageView, SessionView, StopReason } from "@countersign/client";
import { isLeft, longTurns } from "../src/lib/turns.js";

let n = 0;
const base = () => ({ index: ++n, seq: n, open: false });
const use = (id: string, json = "{}"): BlockView => ({ ...base(), type: "tool_use", id, name: "trade", json });
const result = (toolUseId: string): BlockView => ({ ...base(), type: "tool_result", toolUseId, name: "trade", status: "success", content: "" });
const agent = (id: string, stopReason?: StopReason, ...blocks: BlockView[]): MessageView => ({
  id,
  role: "assistant",
  seq: ++n,
  blocks,
  groups: {},
  open: stopReason === undefined,
  ...(stopReason && { stopReason }),
});
const user = (id: string): MessageView => ({ ...agent(id, "end_turn"), role: "user" });
const view = (messages: MessageView[], more: Partial<SessionView> = {}): SessionView => ({
  sessionId: "s",
  lastSeq: n,
  status: "failed",
  messages,
  approvals: {},
  ...more,
});

it("w2: a turn that is tried again goes on in its next message, however often", () => {
  const messages = [user("u1"), agent("a", "error"), agent("b", "max_turns"), agent("c", "end_turn"), user("u2"), agent("d")];
  const turns = longTurns(messages);
  for (const id of ["a", "b", "c"]) expect(turns.get(id)?.map((m) => m.id)).toEqual(["a", "b", "c"]);
  expect(turns.has("d")).toBe(false);
  expect(turns.has("u1")).toBe(false);
  expect(longTurns([user("u1"), agent("a", "end_turn"), agent("b", "cancelled"), agent("c")]).size).toBe(0);
});

it("w2: a call that stands open in a failed turn is left, wherever its result stands", () => {
  expect(isLeft(view([agent("a", "error", use("t1"))]))).toBe(true);
  expect(isLeft(view([agent("a", "error", use("t1"), result("t1"))]))).toBe(false);
  expect(isLeft(view([agent("a", "error", use("t1")), agent("b", "error", result("t1"))]))).toBe(false);
  expect(isLeft(view([agent("a", "error", use("t1")), agent("b", "error")]))).toBe(true);
  expect(isLeft(view([agent("a", "cancelled", use("t1")), user("u"), agent("b", "error")]))).toBe(false);
});

it("w2: what the model has not said to its end is no call", () => {
  expect(isLeft(view([agent("a", "error", use("t1", '{"q":'))]))).toBe(false);
  expect(isLeft(view([agent("a", "error", { ...use("t1"), replaced: true })]))).toBe(false);
});

it("w2: a pending request is left, and only of a turn that has failed", () => {
  const approval = { approvalKey: "s_1", complete: true, actions: [] } as unknown as ApprovalView;
  expect(isLeft(view([agent("a", "error")], { approvals: { s_1: approval } }))).toBe(true);
  expect(isLeft(view([agent("a", "error")], { approvals: { s_1: { ...approval, resolution: "cancelled" } } }))).toBe(false);
  expect(isLeft(view([agent("a")], { status: "awaiting_input", approvals: { s_1: approval } }))).toBe(false);
});
