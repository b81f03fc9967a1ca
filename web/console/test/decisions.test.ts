import { describe, expect, it } from "vitest";
import { CountersignError, type Action, type ReviewConfig } from "@countersign/client";
import { actionIndexOf, argumentOf, asksAnew, editProblems, emptyAction, problemsOf, toDecision } from "../src/lib/decisions.js";
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

describe("what an edit would lead to", () => {
  it("is another approval where the edit would have been one", () => {
    expect(asksAnew(config, undefined)).toBe(false);
    expect(asksAnew(config, { outcome: "approves" })).toBe(false);
    expect(asksAnew(config, { outcome: "asks", reviewConfig: { role: "admin" } })).toBe(true);
    // The next level is asked as before.
    expect(asksAnew({ ...config, level: 1, levels: ["a", "b"] }, { outcome: "asks", reviewConfig: { level: 2 } })).toBe(false);
    // An edit is none here anyway.
    expect(asksAnew({ ...config, quorum: 2 }, { outcome: "asks", reviewConfig: { quorum: 2 } })).toBe(false);
  });
});

describe("errors of an edit", () => {
  it("are those of its arguments, in words of the page where it knows them", () => {
    const schema = { type: "object", properties: { q: { type: "integer", maximum: 5 } } };
    const errors = [{ pointer: "/q", message: "9 is greater than the maximum of 5" }, { pointer: "", message: "denied" }];
    const refused = new CountersignError("invalid_edit", "decisions[0]: no", { details: { errors } });
    expect(editProblems(refused, { ...config, args_schema: schema }, { q: 9 })).toEqual([
      { ...errors[0], error: { key: "edit.error.max", n: "5" } },
      { ...errors[1], error: undefined },
    ]);
    expect(editProblems(new CountersignError("forbidden", "no"), config, {})).toEqual([]);
  });

  it("reads pointers into the arguments and into the message", () => {
    expect(argumentOf("/price")).toBe("price");
    expect(argumentOf("/a~1b/0")).toBe("a/b");
    expect(argumentOf("/decisions/1/edited_action/args/price")).toBe("price");
    expect(actionIndexOf("/decisions/1/edited_action/args/price")).toBe(1);
    expect(actionIndexOf("/price")).toBeUndefined();
    expect(actionIndexOf("/price", "decisions[2]: the arguments do not fit")).toBe(2);
    expect(argumentOf("")).toBe("");
  });

  it("takes only what it understands from the details", () => {
    expect(problemsOf({ errors: [{ pointer: "/q", message: "bad" }, "?"] })).toEqual([{ pointer: "/q", message: "bad" }]);
    expect(problemsOf(undefined)).toEqual([]);
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
