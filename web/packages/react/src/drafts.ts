/** What a person has entered on a card about a call. */
import { decisionOf, stringifyJson, type Action, type Always, type ApprovalView, type Decision, type DecisionType, type ReviewConfig } from "@countersign/client";
import { editedArgs } from "./forms/edits.js";
import type { EditDraft } from "./forms/form.js";
import { visibleText } from "./visibleText.js";

/** The name under which a tab keeps it. What is shown belongs to it: what was entered for something else is not found. */
export const draftKey = ({ approvalKey, digest = "" }: ApprovalView) => `reply:${approvalKey}:${digest}`;

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

export const emptyCall: CallDraft = { reason: "", output: "" };

/** The decision about a call; nothing while there is none, or its edit cannot be read. */
export function callDecision(action: Action, config: ReviewConfig, draft: CallDraft): Decision | undefined {
  return decisionOf(action, config, { ...draft, args: draft.choice === "edit" ? editedArgs(action, config, draft.edit) : undefined });
}

/** The text of a call's arguments, made by the server; one that gives none has them shown as well as can be. */
export const shownArgs = (action: Action): string => action.display?.text ?? visibleText(stringifyJson(action.args, 2));
