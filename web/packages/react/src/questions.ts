/** Turns a person's input on a question card into the answers that are sent. */
import { isObject, NO_PREFERENCE, type Answers, type CountersignError, type JsonValue, type Question, type QuestionOption } from "@countersign/client";
import type { Problem } from "./arguments/Problems.js";
import { visibleText } from "./visibleText.js";

/** A person's input for one question so far. */
export interface AnswerDraft {
  /** Labels. */
  chosen: string[];
  /** Their own texts, by the label of the option into which each is written. */
  texts?: Readonly<Record<string, string>>;
  skipped: boolean;
}

export interface QuestionDraft {
  answers: AnswerDraft[];
  /** The index of the question shown; the number of questions: the review of all answers. */
  at: number;
  /** Whether the review has been seen: after changing a question, the person returns there. */
  reviewed: boolean;
  /** Whether the person is writing why they will not answer. */
  declining: boolean;
  reason: string;
}

export const emptyAnswer: AnswerDraft = { chosen: [], skipped: false };
export const skippedAnswer: AnswerDraft = { ...emptyAnswer, skipped: true };

export function emptyDraft(questions: number): QuestionDraft {
  return { answers: Array.from({ length: questions }, () => emptyAnswer), at: 0, reviewed: false, declining: false, reason: "" };
}

export function choose(question: Question, draft: AnswerDraft, label: string, on: boolean): AnswerDraft {
  const others = question.multiSelect ? draft.chosen.filter((l) => l !== label) : [];
  return { ...draft, skipped: false, chosen: on ? [...others, label] : others };
}

/** Writing into an option chooses it. */
export function write(question: Question, draft: AnswerDraft, label: string, text: string): AnswerDraft {
  return { ...choose(question, draft, label, true), texts: { ...draft.texts, [label]: text } };
}

/** The text written into an option. Labels come from a model, and may be names that every object has. */
export function writtenIn({ texts = {} }: AnswerDraft, label: string): string {
  return Object.hasOwn(texts, label) ? (texts[label] ?? "") : "";
}

/** Whether it is chosen without the text that it needs. */
export function lacksWords(option: QuestionOption, draft: AnswerDraft): boolean {
  return option.input === true && draft.chosen.includes(option.label) && writtenIn(draft, option.label).trim() === "";
}

export type AnswerProblem = "choose" | "write";

/** Why it cannot be sent yet. */
export function problemOf(question: Question, draft: AnswerDraft): AnswerProblem | undefined {
  if (draft.skipped) return undefined;
  if (!question.options.some((o) => draft.chosen.includes(o.label))) return "choose";
  return question.options.some((o) => lacksWords(o, draft)) ? "write" : undefined;
}

/** Chosen labels in the order they are offered, joined as the protocol says; free text replaces its option. */
export function answerText(question: Question, draft: AnswerDraft): string {
  if (draft.skipped) return NO_PREFERENCE;
  return question.options
    .filter((o) => draft.chosen.includes(o.label))
    .map((o) => (o.input ? writtenIn(draft, o.label).trim() : o.label))
    .join(", ");
}

export function answersOf(questions: Question[], drafts: AnswerDraft[]): Answers {
  return Object.fromEntries(questions.map((q, i) => [q.question, answerText(q, drafts[i] ?? skippedAnswer)]));
}

/** The problems that the server found with answers, by question: `details.errors` of `invalid_answers`. */
export function answerProblems(error: CountersignError | undefined): Problem[] {
  const errors = error?.code === "invalid_answers" ? error.details?.errors : undefined;
  const text = (value: JsonValue | undefined) => (typeof value === "string" ? value : "");
  return (Array.isArray(errors) ? errors : []).filter(isObject).map((e) => ({ what: visibleText(text(e.question)), message: text(e.message) }));
}
