/** A person's input on a card about a call. */
import { decisionOf, stringifyJson, type Action, type Always, type ApprovalView, type Decision, type DecisionType, type ReviewConfig } from "@countersign/client";
import { draftKey } from "./draftKey.js";
import { editedArgs } from "./forms/edits.js";
import type { AnswerDraft } from "./forms/answer.js";
import type { EditDraft } from "./forms/form.js";
import type { QuestionDraft } from "./questions.js";
import { readDraft } from "./useDraft.js";
import { visibleText } from "./visibleText.js";

/** The input for one call. */
export interface CallDraft {
  choice?: DecisionType;
  /** The reason for a rejection. */
  reason: string;
  /** The edit of the arguments, once something is typed. */
  edit?: EditDraft;
  /** The result that a person supplies. */
  output: string;
  /** Whether the same applies to later calls. */
  always?: Always;
}

/** The input for the calls of a request. */
export interface CallsDraft<C extends CallDraft = CallDraft> {
  calls: readonly C[];
  /** A person's own words to the agent; absent while they want to add none. */
  comment?: string | undefined;
}

/**
 * The input for any request: for calls, for questions, or a value. `sent`: it has been sent, and this tab was reloaded
 * before it knew the outcome, or does not know it yet.
 */
export type ReplyDraft<C extends CallDraft = CallDraft> = Partial<CallsDraft<C> & QuestionDraft & AnswerDraft & { sent: boolean }>;

/** The draft that the cards keep of an unsent reply, if any. */
export const readReply = <C extends CallDraft = CallDraft>(approval: ApprovalView): ReplyDraft<C> | undefined => readDraft(draftKey(approval));

export const emptyCall: CallDraft = { reason: "", output: "" };

/** The decision about a call; `undefined` while there is none, or its edit cannot be read. */
export function callDecision(action: Action, config: ReviewConfig, draft: CallDraft): Decision | undefined {
  return decisionOf(action, config, { ...draft, args: draft.choice === "edit" ? editedArgs(action, config, draft.edit) : undefined });
}

/** The text of a call's arguments, made by the server; without one they are shown as well as possible. */
export const shownArgs = (action: Action): string => action.display?.text ?? visibleText(stringifyJson(action.args, 2));
