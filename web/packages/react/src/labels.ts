/** The words of the cards. */
import { useContext, useMemo, type ReactNode } from "react";
import type { CountersignError, DecisionType } from "@countersign/client";
import { NO_PROVIDER, Parts, Words, type Part } from "./context.js";
import type { texts } from "./en.js";
import type { Ending } from "./ended.js";
import { visibleText } from "./visibleText.js";

/** The texts for showing and editing arguments, by their names; TypeScript says which are missing. */
export type Texts = Record<keyof typeof texts, string>;
export type TextKey = keyof Texts;

/** Puts values into a text, each in place of its name in braces. */
export type Tell = (key: TextKey, values?: Readonly<Record<string, string | number>>) => string;

/** The words of questions. */
export interface QuestionLabels {
  /** Its position among several questions, for screen readers. */
  place: (n: number, of: number) => string;
  /** More than one may be chosen. */
  several: string;
  skipped: string;
  noPreference: string;
  /** In the field for a free answer, and the name of that field. */
  own: string;
  ownFor: (option: string) => string;
  /** What is missing before it can be sent. */
  choose: string;
  write: string;
  /** The buttons: after one question, after the last of several, after the review, and the others. */
  next: string;
  review: string;
  send: string;
  sendAll: string;
  back: string;
  skip: string;
  decline: string;
  /** The reason for declining, for the agent. */
  reason: string;
  reasonPlaceholder: string;
  /** Above all answers, and the button at each that leads back to it. */
  reviewHeading: string;
  change: string;
  changeOne: (question: string) => string;
}

export interface Labels {
  /** The language of these words, as a BCP 47 tag: dates and numbers are written in it. */
  language: string;
  /** Texts of arguments, their forms and changes, and the forms of answers. */
  texts: Texts;
  /** The choices about a call. */
  choices: Record<DecisionType, string>;
  /** The button that asks the server again for the outcome of an edit, if that has failed. */
  again: string;
  /** For the fields that a choice opens. */
  reason: string;
  result: string;
  comment: string;
  questions: QuestionLabels;
  send: string;
  sending: string;
  sent: string;
  /** This tab has approved, and more people must. */
  voted: string;
  until: string;
  /** What is missing before it can be sent. */
  choose: string;
  /** The questions could not be read. */
  unreadable: string;
  waitingFor: (role: string | undefined) => string;
  progress: (approved: number, quorum: number) => string;
  inDoubt: string;
  /** The request is of a kind that only a newer version of this package knows. */
  unknownKind: (kind: string) => string;
  /** This tab's reply came too late, and the button that confirms having read this. */
  late: string;
  dismiss: string;
  /** A refusal, for people; its own message is English. */
  error: (error: CountersignError) => ReactNode;
  /** How it ended, and by whom. */
  resolved: (ending: Ending) => string;
}

/**
 * Some of the words, for pages that must keep working with newer versions of the packages, which may have more. The
 * rest is English.
 */
export type PartialLabels = Partial<Omit<Labels, "texts" | "choices" | "questions">> & {
  texts?: Partial<Texts> | undefined;
  choices?: Partial<Labels["choices"]> | undefined;
  questions?: Partial<QuestionLabels> | undefined;
};

/** These words, and those of `others` where there are none. */
export function withWords(labels: PartialLabels | undefined, others: Labels): Labels {
  const { texts, choices, questions, ...rest } = labels ?? {};
  return {
    ...over(others, rest),
    texts: over(others.texts, texts),
    choices: over(others.choices, choices),
    questions: over(others.questions, questions),
  };
}

const over = <T extends object>(others: T, own: Partial<T> = {}): T => ({
  ...others,
  ...Object.fromEntries(Object.entries(own).filter(([, word]) => word !== undefined)),
});

/** The words of the provider above. */
export function useLabels(): Labels {
  const labels = useContext(Words);
  if (!labels) throw new Error(NO_PROVIDER);
  return labels;
}

/** Puts values into a text: `{n}` is the value of that name. A name without a value stays as it is. */
export function filled(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
}

/** The words, the language and the part attributes for rendering arguments. */
export interface Writing {
  t: Tell;
  language: string;
  part: Part;
}

export function useTexts(): Writing {
  const { texts, language } = useLabels();
  const part = useContext(Parts);
  return useMemo(() => ({ t: (key, values = {}) => filled(texts[key] ?? key, values), language, part }), [texts, language, part]);
}

/** The words of questions, and the attributes that mark their parts. */
export function useQuestionWords() {
  return { words: useLabels().questions, part: useContext(Parts) };
}

/** The name of a role on the page; `user`, or none, is the session's owner. */
export const roleName = (role: string | undefined, t: Tell): string => (role === undefined || role === "user" ? t("people.owner") : visibleText(role));
