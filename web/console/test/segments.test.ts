import { expect, it } from "vitest";
import type { BlockView } from "@countersign/client";
import { layOut } from "../src/lib/segments.js";

const base = (index: number, groupId?: string) => ({ index, seq: index, open: false, ...(groupId ? { groupId } : {}) });
const text = (index: number, words = "Hi"): BlockView => ({ ...base(index), type: "text", text: words });
const thinking = (index: number, groupId?: string, words = "Hm"): BlockView => ({ ...base(index, groupId), type: "thinking", thinking: words });
const use = (index: number, id: string, groupId?: string): BlockView => ({ ...base(index, groupId), type: "tool_use", id, name: "x", json: "" });
const result = (index: number, id: string, groupId?: string): BlockView => ({
  ...base(index, groupId),
  type: "tool_result",
  toolUseId: id,
  name: "x",
  status: "success",
  content: "",
});
const groups = { a: { id: "a", open: false }, b: { id: "b", open: true } };
const shape = (blocks: BlockView[], calls: string[] = []) =>
  layOut(blocks, groups, new Set(calls)).map((s) => {
    if ("replaced" in s) return ["replaced", ...s.replaced.map((b) => b.index)];
    return "group" in s ? [s.group.id, ...s.blocks.map((b) => b.index)] : s.block.index;
  });

it("puts the steps of a group together, and all else by itself", () => {
  expect(shape([thinking(0, "a"), use(1, "t", "a"), result(2, "t", "a"), text(3), thinking(4, "b")], ["t"])).toEqual([
    ["a", 0, 1],
    3,
    ["b", 4],
  ]);
});

it("folds away what an answer that broke off had said, whatever groups it stood in", () => {
  const gone = (block: BlockView): BlockView => ({ ...block, replaced: true });
  expect(shape([text(0), gone(thinking(1, "a")), gone(text(2)), thinking(3, "b"), text(4)])).toEqual([
    0,
    ["replaced", 1, 2],
    ["b", 3],
    4,
  ]);
});

it("shows a result with its call, and by itself where its call was not streamed", () => {
  expect(shape([use(0, "t"), result(1, "t")], ["t"])).toEqual([0]);
  expect(shape([result(1, "t", "a")])).toEqual([["a", 1]]);
});

it("leaves out what is empty, and groups of nothing", () => {
  expect(shape([text(0, ""), thinking(1, "a", ""), text(2)])).toEqual([2]);
});
