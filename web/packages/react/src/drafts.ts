/** What a person has entered on a card about a call. */
import { decisionOf, stringifyJson, type Action, type Always, type ApprovalView, type Decision, type DecisionType, type ReviewConfig } from "@countersign/client";
import { draftKey } from "./draftKey.js";
import { editedArgs } from "./forms/edits.js";
import type { AnswerDraft } from "./forms/answer.js";
import type { EditDraft } from "./forms/form.js";
import type { QuestionDraft } from "./questions.js";
import { readDraft } from "./useDraft.js";
import { visibleText } from "./visibleText.js";

/** What was entered for one call. */
export interface CallDraft {
  choice?: DecisionType;
  /** The reason of a reject. */
  reason: string;
  /** Of the arguments, once something is typed. */
  edit?: EditDraft;
  /** The result that a person gives. */
  output: string;
  /** The same is to hold for later calls. */
  always?: Always;
}

/** What was entered for the calls of a request. */
export interface CallsDraft<C extends CallDraft = CallDraft> {
  calls: readonly C[];
  /** A person's own words to the agent; nothing while they want to add none. */
  comment?: string | undefined;
}

/** What was entered for any request: to calls, to questions, or a value. */
export type ReplyDraft<C extends CallDraft = CallDraft> = Partial<CallsDraft<C> & QuestionDraft & AnswerDraft>;

/** What the cards keep of a reply that is not sent, if anything. */
export const readReply = <C extends CallDraft = CallDraft>(approval: ApprovalView): ReplyDraft<C> | undefined => readDraft(draftKey(approval));

export const emptyCall: CallDraft = { reason: "", output: "" };

/** The decision about a call; nothing while there is none, or its edit cannot be read. */
export function callDecision(action: Action, config: ReviewConfig, draft: CallDraft): Decision | undefined {
  return decisionOf(action, config, { ...draft, args: draft.choice === "edit" ? editedArgs(action, config, draft.edit) : undefined });
}

/** The text of a call's arguments, made by the server; one that gives none has them shown as well as can be. */
export const shownArgs = (action: Action): string => action.display?.text ?? visibleText(stringifyJson(action.args, 2));
