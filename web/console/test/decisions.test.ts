import { describe, expect, it } from "vitest";
import type { Action, ReviewConfig } from "@countersign/client";
import { emptyAction, toDecision } from "../src/lib/decisions.js";
import { clockText, secondsText } from "../src/lib/time.js";

const action: Action = { name: "trade", args: { q: 1 }, args_digest: "d1", digest: "r1" };
const config: ReviewConfig = { allowed_decisions: ["approve", "edit", "reject"] };
const raw = (text: string) => ({ tab: "json" as const, texts: {}, raw: text });

describe("toDecision", () => {
  it("is nothing while undecided", () => {
    expect(toDecision(action, config, emptyAction)).toBeUndefined();
  });

  it("sends the digest of what was shown with every decision", () => {
    expect(toDecision(action, config, { ...emptyAction, choice: "approve" })).toEqual({ type: "approve", args_digest: "d1", digest: "r1" });
    expect(toDecision(action, config, { ...emptyAction, choice: "reject", reason: " no " })).toEqual({
      type: "reject",
      message: "no",
      args_digest: "d1",
      digest: "r1",
    });
  });

  it("sends an edit, or an approval where the edit changes nothing", () => {
    const edited = { ...emptyAction, choice: "edit" as const, edit: raw('{"q":2}') };
    expect(toDecision(action, config, edited)).toEqual({
      type: "edit",
      edited_action: { name: "trade", args: { q: 2 } },
      args_digest: "d1",
      digest: "r1",
    });
    expect(toDecision(action, config, { ...edited, edit: raw('{ "q": 1 }') })?.type).toBe("approve");
    expect(toDecision(action, config, { ...edited, edit: raw('{"q":') })).toBeUndefined();
  });
});

describe("secondsText", () => {
  it("is a whole number of the largest unit, in the language of the page", () => {
    expect([90, 300, 7_200, 86_400, 90_000].map((n) => secondsText(n, "en"))).toEqual(["90 seconds", "5 minutes", "2 hours", "1 day", "25 hours"]);
    expect(secondsText(300, "vi")).toBe("5 phút");
    expect(secondsText(300, "zh")).toBe("5分钟");
  });
});

describe("clockText", () => {
  it("counts minutes and hours", () => {
    expect([0, 4_100, 245_000, 3_723_000, -5].map(clockText)).toEqual(["0:00", "0:05", "4:05", "1:02:03", "0:00"]);
  });
});
