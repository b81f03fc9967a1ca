import { describe, expect, it } from "vitest";
import type { ApprovalView, JsonObject } from "@countersign/client";
import { argFields, newEdit, type EditDraft } from "@countersign/react/forms";
import { emptyCall, type ReplyDraft } from "@countersign/react";
import { unsentTexts } from "../src/lib/unsent.js";

const config = {
  args_schema: {
    type: "object",
    properties: { to: { type: "string" }, price: { type: "number" }, side: { enum: ["buy", "sell"] } },
  },
};
const args: JsonObject = { to: "ann", price: 5, side: "buy" };

function request(more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    approvalKey: "s_1",
    sessionId: "s",
    kind: "approval",
    actions: [{ name: "pay", args }],
    reviewConfigs: [config],
    complete: true,
    updates: [],
    ...more,
  };
}

describe("what was typed for a request that was resolved first", () => {
  const approval = request();
  const edit = newEdit(argFields(approval.actions[0]!, config), args);
  const drafted = (change: Partial<EditDraft>): ReplyDraft => ({
    calls: [{ ...emptyCall, choice: "edit", edit: { ...edit, ...change } }],
  });
  const typed = (change: Partial<EditDraft>) => unsentTexts(approval, drafted(change));

  it("is what an edit changes", () => {
    expect([typed({}), unsentTexts(approval, undefined)]).toEqual([[], []]);
    expect(typed({ texts: { ...edit.texts, price: "7" } })).toEqual(["price: 7"]);
    expect(typed({ tab: "json", raw: '{"to":"bob","price":5,"side":"buy"}' })).toEqual(['to: "bob"']);
  });

  it("is as it stands in the form, or in the JSON, where that cannot be read", () => {
    expect(typed({ texts: { ...edit.texts, to: "bob", price: "7,5", side: '"sell"' } })).toEqual(["to: bob\nprice: 7,5\nside: sell"]);
    expect(typed({ tab: "json", raw: '{"to":"bob' })).toEqual(['{"to":"bob']);
  });

  it("is every text of a card, and a comment for other people", () => {
    const draft = { calls: [{ ...emptyCall, choice: "reject" as const, reason: " too much " }], comment: "hm" };
    expect(unsentTexts(approval, draft, "Ask Eve")).toEqual(["too much", "hm", "Ask Eve"]);
  });

  it("is nothing that was sent and counted, also if the page was reloaded before it knew", () => {
    const draft = { calls: [{ ...emptyCall, choice: "reject" as const, reason: "too much" }], sent: true };
    const texts = (more: Partial<ApprovalView>, me?: string) => unsentTexts(request(more), draft, "Ask Eve", me);
    expect([texts({ resolution: "decided", by: "ann" }, "ann"), texts({ resolution: "decided" })]).toEqual([["Ask Eve"], ["Ask Eve"]]);
    // Somebody else, or the deadline, was first.
    for (const more of [{ resolution: "decided", by: "bob" }, { resolution: "timeout" }] as const) {
      expect([texts(more, "ann"), texts({ ...more, by: "bob" })]).toEqual(Array(2).fill(["too much", "Ask Eve"]));
    }
  });

  it("is the answer to a node or a server, without what the form began with", () => {
    const properties = {
      ok: { type: "boolean", default: true },
      why: { type: "string", title: "Reason" },
      pet: { enum: ["p1", "p2"], enumNames: ["Cat", "Dog"] },
    };
    const node = request({ kind: "interrupt", interrupt: { node: "n", name: "q", payload: {}, schema: { type: "object", properties } } });
    expect(unsentTexts(node, { texts: { ok: "true", why: "late", pet: '"p2"' } })).toEqual(["Reason: late\npet: Dog"]);
    expect(unsentTexts(node, { texts: { ok: "true", why: "", pet: "" } })).toEqual([]);
    const one = request({ kind: "interrupt", interrupt: { node: "n", name: "q", payload: {}, schema: { type: "string" } } });
    expect(unsentTexts(one, { texts: { "": "forty" } })).toEqual(["forty"]);
    const content = { type: "object", properties: { who: { type: "string" } } };
    const schema = { oneOf: [{ properties: { action: { const: "accept" }, content } }] };
    const server = request({ kind: "input", interrupt: { node: "n", name: "q", payload: { from: "shop", message: "Who?", mode: "form" }, schema } });
    expect(unsentTexts(server, { texts: { who: "ann" } })).toEqual(["who: ann"]);
  });
});
