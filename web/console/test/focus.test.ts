// @vitest-environment jsdom
import { createElement as h, useState } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import type { ApprovalView, SessionSummary } from "@countersign/client";
import { ApprovalCard } from "../src/components/approval/ApprovalCard.js";
import { focusCard } from "../src/components/approval/focus.js";
import { DeleteSession } from "../src/components/DeleteSession.js";
import { http } from "../src/state/connection.js";
import { button, click, show } from "./page.js";

const request = (more: Partial<ApprovalView> = {}): ApprovalView => ({
  approvalKey: "s_1",
  sessionId: "s",
  kind: "approval",
  actions: [{ id: "c1", name: "pay", args: { n: 1 }, digest: "d1" }],
  reviewConfigs: [{ allowed_decisions: ["approve", "reject"] }],
  complete: true,
  updates: [],
  ...more,
});
const decided = request({ resolution: "decided", decisions: [{ type: "approve" }] });
const drawn = (approval: ApprovalView) => h("main", null, h("input"), h(ApprovalCard, { approval }));

beforeEach(() => {
  vi.stubGlobal("fetch", () => new Promise(() => {}));
});

test("u1: the focus stays on a card whose buttons go, and is not taken from who has gone on", async () => {
  for (const goesOn of [false, true]) {
    const { page, draw } = await show(drawn(request()));
    const approve = page.querySelector<HTMLElement>("[data-choice=approve]");
    approve?.focus();
    approve?.blur();
    if (goesOn) page.querySelector("input")?.focus();
    await draw(drawn(decided));
    expect(document.activeElement?.matches("input"), String(goesOn)).toBe(goesOn);
    expect(document.activeElement).not.toBe(document.body);
  }
});

test("u1: a card that opens by itself takes the focus of nobody who types elsewhere or has a dialog open", async () => {
  const { page } = await show(h("main", null, h("input"), h("button"), h("dialog"), h(ApprovalCard, { approval: request() })));
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const [field, elsewhere, dialog] = ["input", "button", "dialog"].map((name) => page.querySelector<HTMLElement>(name)!);
  const goes = async (from: HTMLElement) => {
    from.focus();
    focusCard("s_1");
    await frame();
    return document.activeElement?.id === "card-s_1";
  };
  expect(await goes(field!)).toBe(false);
  expect(document.activeElement).toBe(field);
  expect(await goes(elsewhere!)).toBe(true);
  dialog!.setAttribute("open", "");
  expect(await goes(elsewhere!)).toBe(false);
});

test("u1: the buttons of a card do not move when the time of the request comes to be known", async () => {
  const { page } = await show(drawn(request()));
  expect(page.querySelectorAll(".card-asked")).toHaveLength(1);
});

test.each([false, true])("u1: the focus stays on the page once a session is deleted (from the list of a phone: %s)", async (phone) => {
  HTMLDialogElement.prototype.showModal = () => {};
  HTMLDialogElement.prototype.close = () => {};
  vi.spyOn(http, "deleteSession").mockResolvedValue();
  function Page() {
    const [asks, setAsks] = useState(true);
    return h(
      "div",
      null,
      h("aside", { className: "sidebar" }, h("a", { href: "#/" })),
      h("main", { id: "main", tabIndex: -1, inert: phone }),
      asks && h(DeleteSession, { session: { session_id: "s" } as SessionSummary, onClose: () => setAsks(false) }),
    );
  }
  const { page } = await show(h(Page));
  await click(button(page, "sessions.deleteConfirm"));
  expect(page.querySelector("dialog")).toBeNull();
  expect(document.activeElement?.matches(phone ? ".sidebar a" : "#main")).toBe(true);
});
