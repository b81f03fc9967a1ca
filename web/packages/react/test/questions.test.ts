import { describe, expect, it } from "vitest";
import type { Question } from "@countersign/client";
import { answersOf, answerText, choose, emptyAnswer, lacksWords, problemOf, skippedAnswer, write, writtenIn } from "../src/questions.js";

const one: Question = {
  question: "Which?",
  multiSelect: false,
  options: [{ label: "A" }, { label: "B" }, { label: "Other", input: true }],
};
const many: Question = { ...one, question: "Which ones?", multiSelect: true };

describe("answers", () => {
  it("has one choice, or several in the order they are offered", () => {
    expect(answerText(one, choose(one, choose(one, emptyAnswer, "A", true), "B", true))).toBe("B");
    const both = choose(many, choose(many, emptyAnswer, "B", true), "A", true);
    expect(answerText(many, both)).toBe("A, B");
    expect(answerText(many, choose(many, both, "A", false))).toBe("B");
  });

  it("takes what is written for the option that it is written into", () => {
    expect(answerText(one, write(one, choose(one, emptyAnswer, "A", true), "Other", " mine "))).toBe("mine");
    expect(answerText(many, write(many, choose(many, emptyAnswer, "A", true), "Other", "mine"))).toBe("A, mine");
    // Another choice leaves the text alone, but it is no answer any more.
    expect(answerText(one, choose(one, write(one, emptyAnswer, "Other", "mine"), "A", true))).toBe("A");
  });

  it("keeps what is written for each option apart", () => {
    const two = (multiSelect: boolean): Question => ({
      question: "How?",
      multiSelect,
      options: [{ label: "constructor", input: true }, { label: "A" }, { label: "Amount", input: true }],
    });
    const written = (question: Question) => write(question, write(question, emptyAnswer, "Amount", "500"), "constructor", "in parts");
    const single = written(two(false));
    expect([answerText(two(false), single), writtenIn(single, "Amount")]).toEqual(["in parts", "500"]);
    expect(answerText(two(false), choose(two(false), single, "Amount", true))).toBe("500");
    expect(answerText(two(true), written(two(true)))).toBe("in parts, 500");
    expect(answerText(two(true), choose(two(true), written(two(true)), "A", true))).toBe("in parts, A, 500");
    // Each that is chosen has to have its own words.
    const half = choose(two(true), write(two(true), emptyAnswer, "Amount", "500"), "constructor", true);
    expect([problemOf(two(true), half), writtenIn(half, "constructor")]).toEqual(["write", ""]);
    expect(two(true).options.map((option) => lacksWords(option, half))).toEqual([true, false, false]);
  });

  it("is not ready without a choice, or without the words that were promised", () => {
    expect(problemOf(one, emptyAnswer)).toBe("choose");
    expect(problemOf(one, choose(one, emptyAnswer, "Other", true))).toBe("write");
    expect(problemOf(one, write(one, emptyAnswer, "Other", "  "))).toBe("write");
    expect(problemOf(one, choose(one, emptyAnswer, "A", true))).toBeUndefined();
    expect(problemOf(one, skippedAnswer)).toBeUndefined();
  });

  it("says of a skipped question that there is no preference", () => {
    expect(answersOf([one, many], [skippedAnswer, choose(many, skippedAnswer, "A", true)])).toEqual({
      "Which?": "[No preference]",
      "Which ones?": "A",
    });
  });
});
