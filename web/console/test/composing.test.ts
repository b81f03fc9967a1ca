// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { expect, test, vi } from "vitest";
import type { ApprovalView } from "@countersign/client";
import { Discussion } from "../src/components/approval/Discussion.js";
import { Sidebar } from "../src/components/Sidebar.js";
import { client } from "../src/state/connection.js";
import { sessionList } from "../src/state/lists.js";
import { button, click, show, write } from "./page.js";

vi.stubGlobal("matchMedia", () => ({ matches: false }));

const request: ApprovalView = {
  approvalKey: "s_1",
  sessionId: "s",
  kind: "approval",
  actions: [{ name: "pay", args: {} }],
  reviewConfigs: [{ role: "finance", reassign: ["legal"] }],
  complete: true,
  updates: [],
};

const press = (field: Element | null, init: KeyboardEventInit) =>
  act(async () => void field?.dispatchEvent(new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...init })));

/** Keys of an input method; Safari has ended the composition when it tells the last. */
const COMPOSING = [{ isComposing: true }, { keyCode: 229 }];

test.each(["comment", "hand"])("u1: keys of an input method neither close nor send a form (%s)", async (opens) => {
  const send = [vi.spyOn(client, "comment"), vi.spyOn(client, "reassign")];
  const { page } = await show(h(Discussion, { approval: request }));
  await click(page.querySelector(`[data-open="${opens}"]`));
  const field = () => [...page.querySelectorAll<HTMLInputElement>(".talk-form :is(textarea, input)")].at(-1) ?? null;
  await write(field(), "zhong");
  for (const method of COMPOSING) {
    await press(field(), { key: "Escape", ...method });
    await press(field(), { key: "Enter", ctrlKey: true, ...method });
  }
  expect([field()?.value, ...send.map((one) => one.mock.calls.length)]).toEqual(["zhong", 0, 0]);
  await press(field(), { key: "Escape" });
  expect(field()).toBeNull();
});

test("u1: what somebody has entered to hand a request over is kept when the form closes", async () => {
  vi.spyOn(client, "reassign").mockResolvedValue({} as never);
  const { page } = await show(h(Discussion, { approval: request }));
  const inputs = () => [...page.querySelectorAll<HTMLInputElement>(".talk-form input")];
  const open = () => click(page.querySelector('[data-open="hand"]'));
  await open();
  await write(inputs()[0]!, "carol");
  await write(inputs()[1]!, "She knows the contract.");
  await click(button(page, "decide.back"));
  await open();
  expect(inputs().map((one) => one.value)).toEqual(["carol", "She knows the contract."]);
  await click(button(page, "hand.send"));
  expect(client.reassign).toHaveBeenCalledWith({ session_id: "s", approval_key: "s_1", role: "legal", subject: "carol", text: "She knows the contract." });
  await open();
  expect(inputs().map((one) => one.value)).toEqual(["", ""]);
});

test("u1: keys of an input method neither empty the search for sessions nor close the drawer", async () => {
  sessionList.set((list) => ({ ...list, rows: [{ session_id: "s", updated_at: "2026-01-01T00:00:00Z" }] as never, loaded: true }));
  const onClose = vi.fn();
  const { page } = await show(h(Sidebar, { open: true, onClose }));
  const search = page.querySelector<HTMLInputElement>(".session-search input");
  await write(search, "zhong");
  for (const method of COMPOSING) await press(search, { key: "Escape", ...method });
  expect([search?.value, onClose.mock.calls.length]).toEqual(["zhong", 0]);
  await press(search, { key: "Escape" });
  await press(search, { key: "Escape" });
  expect([search?.value, onClose.mock.calls.length]).toEqual(["", 1]);
});
