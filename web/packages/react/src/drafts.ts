/** What a person has entered on a card about a call. */
import { isObject, parseJson, stringifyJson, type Action, type ApprovalView, type DecisionType, type JsonObject, type JsonValue } from "@countersign/client";
import { visibleText } from "./visible.js";

/** The name under which a tab keeps it. What is shown belongs to it: what was entered for something else is not found. */
export const draftKey = ({ approvalKey, digest = "" }: ApprovalView) => `reply:${approvalKey}:${digest}`;

/** What was entered for one call. */
export interface CallDraft {
  choice?: DecisionType;
  /** The reason of a reject. */
  reason: string;
  /** The arguments of an edit, as JSON text. */
  json: string;
  /** The result that a person gives. */
  output: string;
}

export const callDraft = (action: Action): CallDraft => ({ reason: "", json: stringifyJson(action.args, 2), output: "" });

/** The text of a call's arguments, made by the server; one that gives none has them shown as well as can be. */
export const shownArgs = (action: Action): string => action.display?.text ?? visibleText(stringifyJson(action.args, 2));

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
