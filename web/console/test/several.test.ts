// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { expect, test, vi } from "vitest";
import type { Action, ApprovalView } from "@countersign/client";
import type { Replying } from "@countersign/react";
import { CardFrame } from "../src/components/approval/CardFrame.js";
import { DecisionCard } from "../src/components/approval/DecisionCard.js";
import { button, click, show, write } from "./page.js";

const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };

/** A request about two calls. */
const request: ApprovalView = {
  approvalKey: "s_1",
  sessionId: "s",
  kind: "approval",
  actions: ["a", "b"].map((id): Action => ({ id, name: "pay", args: { n: 1 }, digest: `d-${id}` })),
  reviewConfigs: ["a", "b"].map(() => ({ allowed_decisions: ["approve", "reject", "edit"] as const, args_schema: schema }) as never),
  complete: true,
  updates: [],
};

async function card(approval = request, voted = false) {
  const send = vi.fn<Replying["send"]>(async () => true);
  const replying: Replying = { state: "idle", error: undefined, voted, settling: false, clearError: () => {}, send };
  const { page } = await show(h(DecisionCard, { approval, replying, Frame: CardFrame }));
  const choose = (action: number, choice: string) => click(page.querySelector(`[data-action="${action}"] [data-choice="${choice}"]`));
  const sent = () => send.mock.calls.at(-1)?.[0].decisions;
  return { page, choose, sent };
}

test("u1: approving all is no way around what somebody has begun to decide otherwise", async () => {
  const { page, choose } = await card();
  const all = () => button(page, "decide.approveAll") as HTMLButtonElement;
  expect(all().disabled).toBe(false);
  for (const other of ["edit", "reject", "always"]) {
    await choose(1, other);
    expect(all().disabled, other).toBe(true);
    await (other === "always" ? click(button(page, "decide.back")) : choose(1, other));
    expect(all().disabled, other).toBe(false);
  }
});

test("s7: approving all keeps what is to hold for later calls", async () => {
  const { page, choose, sent } = await card();
  await choose(0, "always");
  await click(button(page, "always.mark.approve"));
  await click(button(page, "decide.approveAll"));
  expect(sent()?.map((decision) => [decision.type, "always" in decision])).toEqual([
    ["approve", true],
    ["approve", false],
  ]);
});

test("an edit is of one call, so it takes back what was to hold for later ones", async () => {
  const { page, choose } = await card();
  await choose(0, "always");
  await click(button(page, "always.mark.approve"));
  expect(page.querySelector('[data-action="0"] [role="status"]')).not.toBeNull();
  await choose(0, "edit");
  expect(page.querySelector('[data-action="0"] [role="status"]')).toBeNull();
});

test("u1: an edit that changes nothing is not sent by who has approved already", async () => {
  const [action] = request.actions;
  const reviewConfigs = [{ ...request.reviewConfigs[0], quorum: 2, approved_by: ["alice"] }];
  const { page, choose, sent } = await card({ ...request, actions: [action!], reviewConfigs }, true);
  await choose(0, "edit");
  const button = page.querySelector<HTMLButtonElement>(".buttons .button.primary");
  expect([button?.disabled, sent()]).toEqual([true, undefined]);
  await write(page.querySelector(".fields input"), "2");
  await click(button);
  expect(sent()).toMatchObject([{ type: "edit", edited_action: { args: { n: 2 } } }]);
});

test("u1: Escape in an empty comment closes the comment, and not what is open above it", async () => {
  const [action] = request.actions;
  const { page, choose } = await card({ ...request, actions: [action!] });
  await choose(0, "reject");
  await click(button(page, "decide.addComment"));
  const escape = () => new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true });
  await act(async () => void page.querySelector(".comment textarea")?.dispatchEvent(escape()));
  expect([page.querySelector(".comment"), page.querySelectorAll("textarea").length]).toEqual([null, 1]);
  await act(async () => void page.querySelector("textarea")?.dispatchEvent(escape()));
  expect(page.querySelector("textarea")).toBeNull();
});
