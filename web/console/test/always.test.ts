import { describe, expect, it } from "vitest";
import { approvalFromBlock, decisionOf, type ApprovalView, type ReviewConfig } from "@countersign/client";
import { alwaysChoices, readAlways } from "../src/lib/always.js";
import { emptyCall } from "@countersign/react";

const approval = (config: ReviewConfig, more: Partial<ApprovalView> = {}): ApprovalView => ({
  ...approvalFromBlock(
    {
      type: "approval_request",
      approval_key: "s_1",
      kind: "approval",
      actions: [{ name: "pay", args: {} }],
      review_configs: [{ allowed_decisions: ["approve", "edit", "reject"], ...config }],
    },
    "s",
  ),
  ...more,
});
const nobody = () => false;

describe("a decision for later calls", () => {
  const now = Date.parse("2027-01-31T12:00:00Z");

  it("needs a day that is not over for a whole tool, and may have one for arguments", () => {
    const of = (scope: "session" | "arguments" | "tool", until = "") => readAlways({ choice: "approve", scope, until }, now);
    expect(of("session", "2020-01-01")).toEqual({ ok: true, always: { scope: "session" } });
    expect(of("arguments")).toEqual({ ok: true, always: { scope: "arguments" } });
    expect(of("tool")).toEqual({ ok: false, error: "always.pickDate" });
    expect(of("tool", "2027-01-30")).toEqual({ ok: false, error: "always.past" });
    const until = new Date("2027-02-03T23:59:59").toISOString();
    expect(of("tool", "2027-02-03")).toEqual({ ok: true, always: { scope: "tool", until } });
    expect(of("arguments", "2027-02-03")).toEqual({ ok: true, always: { scope: "arguments", until } });
  });

  it("is offered only where one person's word is enough", () => {
    expect(alwaysChoices(approval({}), 0, nobody)).toEqual(["approve", "reject"]);
    expect(alwaysChoices(approval({ role: "admin" }), 0, nobody)).toEqual(["approve", "reject"]);
    expect(alwaysChoices(approval({ quorum: 2 }), 0, nobody)).toEqual(["reject"]);
    expect(alwaysChoices(approval({ levels: ["user", "admin"], level: 1 }), 0, nobody)).toEqual(["reject"]);
    expect(alwaysChoices(approval({}, { escalatedFrom: "s_0" }), 0, nobody)).toEqual(["reject"]);
    expect(alwaysChoices(approval({}, { updates: [{ update: "reassigned", role: "cfo" }] }), 0, nobody)).toEqual(["reject"]);
    expect(alwaysChoices(approval({}, { updates: [{ update: "reassigned", subject: "eve" }] }), 0, nobody)).toHaveLength(2);
    expect(alwaysChoices(approval({}, { kind: "in_doubt" }), 0, nobody)).toEqual([]);
    expect(alwaysChoices(approval({ allowed_decisions: ["approve"] }), 0, nobody)).toEqual(["approve"]);
    expect(alwaysChoices(approval({}), 0, (choice) => choice !== "reject")).toEqual(["reject"]);
  });

  it("is sent with an approval or a rejection, never with an edit", () => {
    const always = { scope: "arguments" } as const;
    const action = { name: "pay", args: { n: 1 } };
    const of = (choice: "approve" | "reject" | "edit") =>
      decisionOf(action, { allowed_decisions: ["edit"] }, { ...emptyCall, choice, always, args: { n: 2 } });
    expect(of("approve")).toEqual({ type: "approve", always });
    expect(of("reject")).toEqual({ type: "reject", always });
    expect(of("edit")).not.toHaveProperty("always");
  });
});
