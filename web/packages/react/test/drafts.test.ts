import { describe, expect, it } from "vitest";
import type { Action, ReviewConfig } from "@countersign/client";
import { callDecision, emptyCall } from "../src/drafts.js";

const action: Action = { name: "trade", args: { q: 1 }, args_digest: "d1", digest: "r1" };
const config: ReviewConfig = { allowed_decisions: ["approve", "edit", "reject"] };
const raw = (text: string) => ({ tab: "json" as const, texts: {}, raw: text });

describe("the decision about a call", () => {
  it("is nothing while undecided", () => {
    expect(callDecision(action, config, emptyCall)).toBeUndefined();
  });

  it("sends the digest of what was shown with every decision", () => {
    expect(callDecision(action, config, { ...emptyCall, choice: "approve" })).toEqual({ type: "approve", args_digest: "d1", digest: "r1" });
    expect(callDecision(action, config, { ...emptyCall, choice: "reject", reason: " no " })).toEqual({
      type: "reject",
      message: "no",
      args_digest: "d1",
      digest: "r1",
    });
  });

  it("sends an edit, or an approval where the edit changes nothing", () => {
    const edited = { ...emptyCall, choice: "edit" as const, edit: raw('{"q":2}') };
    expect(callDecision(action, config, edited)).toEqual({
      type: "edit",
      edited_action: { name: "trade", args: { q: 2 } },
      args_digest: "d1",
      digest: "r1",
    });
    expect(callDecision(action, config, { ...edited, edit: raw('{ "q": 1 }') })?.type).toBe("approve");
    expect(callDecision(action, config, { ...edited, edit: raw('{"q":') })).toBeUndefined();
  });
});
