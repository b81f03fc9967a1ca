// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { createRoot } from "react-dom/client";
import { expect, test } from "vitest";
import type { ApprovalView } from "@countersign/client";
import { Inbox } from "../src/components/Inbox.js";
import { catalogues, I18nProvider, translate, type Translate } from "../src/i18n/index.js";
import { waiting } from "../src/state/lists.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
HTMLDialogElement.prototype.showModal = () => {};
HTMLDialogElement.prototype.close = () => {};
const t: Translate = (key, params) => translate(catalogues.en, key, params);

/** Without tokens everybody is who asked, and may not approve it. */
const others = (n: number): ApprovalView => ({
  approvalKey: `s_${n}`,
  sessionId: "s",
  kind: "approval",
  actions: [{ name: "pay", args: {} }],
  reviewConfigs: [{ role: "admin", not_self: true }],
  complete: true,
  updates: [],
});

test("where not all was looked at, the inbox does not say that nothing waits", async () => {
  const box = document.createElement("div");
  const root = createRoot(box);
  const page = h(I18nProvider, null, h(Inbox, { open: true, onClose: () => {} }));
  const shown = async (rows: ApprovalView[], more: boolean) => {
    await act(async () => {
      waiting.set({ rows, more });
      root.render(page);
    });
    return [box.querySelector("h2")?.textContent.trim(), box.querySelector("p")?.textContent, box.querySelector(".button.wide")?.textContent];
  };
  const heading = t("inbox.heading");
  expect(await shown([others(1)], true)).toEqual([`${heading} (?)`, t("inbox.unknown", { n: 1 }), t("sessions.more")]);
  expect(await shown([others(1)], false)).toEqual([heading, t("inbox.empty"), undefined]);
  const mine = { ...others(2), reviewConfigs: [] };
  expect((await shown([mine, others(1)], true))[0]).toBe(`${heading} (1+)`);
});
