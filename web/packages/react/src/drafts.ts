/** From what a person has entered on a card to the reply that is sent. */
import {
  isObject,
  NO_PREFERENCE,
  parseJson,
  stringifyJson,
  type Action,
  type ApprovalView,
  type Decision,
  type DecisionType,
  type JsonObject,
  type JsonValue,
  type Question,
} from "@countersign/client";
import { visible } from "./visible.js";

/** What was entered for one call. */
export interface CallDraft {
  choice?: DecisionType;
  /** The reason of a reject. */
  reason: string;
  /** The arguments of an edit, as JSON text. */
  args: string;
  /** The result that a person gives. */
  output: string;
}

export const callDraft = (action: Action): CallDraft => ({ reason: "", args: stringifyJson(action.args, 2), output: "" });

/** What a call's arguments look like: made by the server from those that will run, else as they are. */
export const shownArgs = (action: Action): string => action.display?.text ?? visible(stringifyJson(action.args, 2));

/** A value of JSON text, or why it is none. */
export function readJson(text: string): { value: JsonValue } | { wrong: string } {
  try {
    return { value: parseJson(text) };
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) };
  }
}

/** The arguments of an edit, with every digit; or why there are none. */
export function readArgs(text: string): { args: JsonObject } | { wrong: string } {
  const read = readJson(text);
  if ("wrong" in read) return read;
  return isObject(read.value) ? { args: read.value } : { wrong: "{ … }" };
}

/** The decision about a call; nothing while there is none. It names what was shown, so that it counts for nothing else. */
export function decisionOf(action: Action, draft: CallDraft): Decision | undefined {
  const shown = {
    ...(action.digest === undefined ? {} : { digest: action.digest }),
    ...(action.args_digest === undefined ? {} : { args_digest: action.args_digest }),
  };
  switch (draft.choice) {
    case "approve":
    case "defer":
      return { type: draft.choice, ...shown };
    case "reject": {
      const message = draft.reason.trim();
      return { type: "reject", ...(message ? { message } : {}), ...shown };
    }
    case "respond":
      return { type: "respond", output: draft.output, ...shown };
    case "edit": {
      const read = readArgs(draft.args);
      return "wrong" in read ? undefined : { type: "edit", edited_action: { name: action.name, args: read.args }, ...shown };
    }
    default:
      return undefined;
  }
}

/** A server that says nothing allows the two basic ones. */
export const allowedFor = ({ reviewConfigs }: ApprovalView, index: number): DecisionType[] =>
  reviewConfigs[index]?.allowed_decisions ?? ["approve", "reject"];

/** What was entered for one question: the labels that were chosen, and what was written into one of them. */
export interface AnswerDraft {
  chosen: string[];
  text: string;
}

export const emptyAnswer: AnswerDraft = { chosen: [], text: "" };

/** With an option chosen or not; of a question with one answer, instead of the one before. */
export function choose(question: Question, draft: AnswerDraft, label: string, on: boolean): AnswerDraft {
  const others = question.multiSelect ? draft.chosen.filter((one) => one !== label && one !== NO_PREFERENCE) : [];
  if (label === NO_PREFERENCE) return { ...draft, chosen: on ? [label] : [] };
  return { ...draft, chosen: on ? [...others, label] : others };
}

/** The answer in the order in which it was offered; nothing while there is none, or one that is to be written is empty. */
export function answerOf(question: Question, draft: AnswerDraft): string | string[] | undefined {
  if (draft.chosen.includes(NO_PREFERENCE)) return NO_PREFERENCE;
  const chosen = question.options.filter((option) => draft.chosen.includes(option.label));
  const texts = chosen.map((option) => (option.input ? draft.text.trim() : option.label));
  if (texts.length === 0 || texts.includes("")) return undefined;
  return question.multiSelect ? texts : texts[0];
}
