// @vitest-environment jsdom
import { createElement as h } from "react";
import { expect, test } from "vitest";
import type { Action, ApprovalView, Decision, ReviewConfig } from "@countersign/client";
import { Changes } from "@countersign/react";
import { summarize } from "../src/components/approval/ResolvedLine.js";
import { catalogues } from "../src/i18n/all.js";
import { translate, wordText, type Translate } from "../src/i18n/index.js";
import { show } from "./page.js";

const t: Translate = (key, params) => translate(catalogues.en, key, params);
const edit: Decision = { type: "edit", edited_action: { name: "pay", args: { n: 2 } } };

function request(n: number, ids: string[], more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    approvalKey: `s_${n}`,
    sessionId: "s",
    kind: "approval",
    actions: ids.map((id): Action => ({ id, name: "pay", args: { n: 1 } })),
    reviewConfigs: ids.map((): ReviewConfig => ({ role: "admin" })),
    complete: true,
    updates: [],
    ...more,
  };
}

test("an edit that is asked about again is not called an approval, each action for itself", () => {
  const decided = { resolution: "decided" as const, decisions: [edit, edit] };
  const said = (first: ApprovalView, ...rest: ApprovalView[]) =>
    summarize(first, t, Object.fromEntries([first, ...rest].map((a) => [a.approvalKey, a]))).text;
  const first = request(1, ["a", "b"], decided);
  expect(said(first)).toBe("Approved with changes");
  expect(said(first, request(2, ["c"]))).toBe("Approved with changes");
  expect(said(first, request(2, ["b"], { kind: "in_doubt" }))).toBe("Approved with changes");
  expect(said(first, request(2, ["b"]))).toBe("1 approved with changes, 1 changed and sent for approval again");
  expect(said(first, request(2, ["a", "b"]))).toBe(t("resolved.changed"));
  const second = { ...first, reviewConfigs: [{ role: "admin", level: 2 }, { role: "admin" }] };
  expect(said(second)).toBe("1 approved with changes, 1 changed and sent for approval again");
});

test("what is put together from parts has the punctuation of its language", () => {
  const chinese: Translate = (key, params) => translate(catalogues.zh, key, params);
  const reject = (message?: string): Decision => ({ type: "reject", ...(message ? { message } : {}) });
  const rejected = request(1, ["a"], { resolution: "decided", decisions: [reject("太贵")] });
  expect([summarize(rejected, chinese).text, summarize(rejected, t).text]).toEqual(["已拒绝：太贵", "Rejected: 太贵"]);
  const twice = request(1, ["a", "b"], { kind: "in_doubt", resolution: "decided", decisions: [{ type: "approve" }, reject()] });
  expect(summarize(twice, chinese).text).toBe("决定重新执行（1），决定不再执行（1）");
  expect(summarize(twice, t).text).toBe("To be run again (1), Not run again (1)");
});

test("what only a newer server knows is said as it says it, and nobody is said to have decided, declined or approved it", () => {
  const end = (more: object) => summarize(request(1, ["a", "b"], more as Partial<ApprovalView>), t);
  for (const kind of ["approval", "question", "interrupt", "handover"]) {
    expect(end({ kind, resolution: "superseded\u202e" })).toEqual({ text: "superseded⟨U+202E⟩", tone: "neutral", icon: "clock" });
  }
  const escalated = { type: "escalate" };
  expect(end({ resolution: "decided", decisions: [escalated, escalated] })).toMatchObject({ text: "escalate", tone: "neutral" });
  expect(end({ resolution: "decided", decisions: [escalated, { type: "approve" }] }).text).toBe("1 approved, escalate (1)");
  expect(wordText(t, "tool.status", "postponed")).toBe("postponed");
});

test("an edit to another tool is a change, whatever its arguments", async () => {
  const shown = async (names: [string, string], after: { n: number }) => (await show(h(Changes, { names, before: { n: 1 }, after }))).page.textContent;
  expect(await shown(["pay", "pay"], { n: 1 })).toBe(t("edit.noChanges"));
  expect(await shown(["pay", "refund"], { n: 1 })).toBe("pay→refund");
  expect(await shown(["pay", "refund"], { n: 2 })).toBe("pay→refundn1→2");
});
