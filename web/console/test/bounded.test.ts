// @vitest-environment jsdom
import { expect, test } from "vitest";
import { forgetOldest } from "../src/lib/bounded.js";
import { outgoingOf } from "../src/state/sessions.js";

test("what a tab keeps of sessions is bounded, and nothing that is on its way is forgotten", () => {
  const [idle, sending] = [outgoingOf("idle"), outgoingOf("sending")];
  sending.set((s) => ({ ...s, messages: [{ id: "m", text: "Hi", images: [] }] }));
  for (let n = 0; n < 498; n++) outgoingOf(`s${n}`);
  expect(outgoingOf("idle")).toBe(idle);
  outgoingOf("one more");
  expect(outgoingOf("sending")).toBe(sending);
  expect(outgoingOf("idle")).not.toBe(idle);
});

test("the oldest are forgotten first", () => {
  const map = new Map([1, 2, 3, 4].map((n) => [n, n]));
  expect([forgetOldest(map, 4), forgetOldest(map, 2), [...map.keys()]]).toEqual([[], [1, 2], [3, 4]]);
});
