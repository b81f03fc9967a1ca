// @vitest-environment jsdom
/** Double clicks: the second press is meant for what was there before. */
import { act } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApprovalCard } from "../src/index.js";
import { button, click, connected, request, show, Socket } from "./page.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const question = (n: number) =>
  request({
    approvalKey: `s_${n}`,
    kind: "question",
    digest: `d${n}`,
    actions: [{ name: "ask_user_question", args: { questions: [{ question: `${n}?`, multiSelect: false, options: [{ label: "A" }] }] } }],
    reviewConfigs: [],
  });
const cards = (...numbers: number[]) => (
  <>
    {numbers.map((n) => (
      <ApprovalCard key={n} approval={question(n)} />
    ))}
  </>
);
const answered = () => Socket.last.sent.filter(({ type }) => type === "approval").map(({ approval_key }) => approval_key);
const requestId = () => Socket.last.sent.findLast(({ type }) => type === "approval")?.request_id;
const pressable = (card: Element | null | undefined) => (card as HTMLElement).style.pointerEvents !== "none";

it("u1: in a list of cards the second press of a double click answers no other request", async () => {
  const { page, draw } = await show(cards(1, 2), { client: connected() });
  await click(button(page, "Skip"));
  expect(answered()).toEqual(["s_1"]);
  // While it is on its way nothing moves, and the other can be answered.
  expect(pressable(page.querySelectorAll("section")[1])).toBe(true);
  await act(async () => Socket.last.receive({ type: "ack", request_id: requestId(), session_id: "s" }));
  await draw(cards(2));
  expect(pressable(page.querySelector("section"))).toBe(false);
  await click(button(page, "Skip"));
  expect(answered()).toEqual(["s_1"]);
  await act(() => vi.advanceTimersByTimeAsync(600));
  expect(pressable(page.querySelector("section"))).toBe(true);
  await click(button(page, "Skip"));
  expect(answered()).toEqual(["s_1", "s_2"]);
});

it("r2: the second press of a double click does not take away the notice that the first came too late", async () => {
  const { page } = await show(cards(1), { client: connected() });
  await click(button(page, "Skip"));
  const late = { type: "error", code: "approval_already_resolved", message: "Over.", details: { resolution: "timeout" } };
  await act(async () => Socket.last.receive({ ...late, request_id: requestId(), session_id: "s", approval_key: "s_1" }));
  expect(page.querySelector('[data-part="late"]')).not.toBeNull();
  expect(pressable(page.querySelector("section"))).toBe(false);
});
