import { expect, it } from "vitest";
import type { ApprovalView, BlockView } from "@countersign/client";
import { callsOf } from "../src/lib/calls.js";
import { reviewedCalls } from "../src/lib/edits.js";

const base = (index: number) => ({ index, seq: index + 10, open: false });
const use = (index: number, id: string): BlockView => ({ ...base(index), type: "tool_use", id, name: "pay", json: "{}" });
const result = (index: number, toolUseId: string): BlockView => ({
  ...base(index),
  type: "tool_result",
  toolUseId,
  name: "pay",
  status: "success",
  content: "paid",
});
const request = (index: number, approvalKey: string): BlockView => ({ ...base(index), type: "approval_request", approvalKey });
const approval = (approvalKey: string, n: number) =>
  ({ approvalKey, kind: "approval", actions: [{ tool_use_id: "dup", name: "pay", args: { n } }] }) as unknown as ApprovalView;

it("tells calls apart to which a model gave the same id in consecutive answers", () => {
  const { uses, results } = callsOf([use(0, "dup"), result(1, "dup"), use(2, "dup")]);
  expect([...uses]).toEqual(["dup"]);
  expect([...results.keys()]).toEqual([10]);
  expect([...callsOf([use(0, "dup"), result(1, "dup"), use(2, "dup"), result(3, "dup")]).results.keys()]).toEqual([10, 12]);
});

it("shows what people made of a call at that call, not at another with its id", () => {
  const blocks = [use(0, "dup"), request(1, "s_1"), result(2, "dup"), use(3, "dup"), request(4, "s_2")];
  const reviewed = reviewedCalls(blocks, { s_1: approval("s_1", 1), s_2: approval("s_2", 2) });
  expect([...reviewed].map(([seq, { args }]) => [seq, args])).toEqual([
    [10, { n: 1 }],
    [13, { n: 2 }],
  ]);
});
