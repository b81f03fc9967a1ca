import { describe, expect, it } from "vitest";
import { CountersignError, type ReviewConfig } from "@countersign/client";
import { actionIndexOf, argumentOf, asksAnew, editProblems, problemsOf } from "../src/forms/edits.js";

const config: ReviewConfig = { allowed_decisions: ["approve", "edit", "reject"] };

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
