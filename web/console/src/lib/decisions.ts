/** From what a person did on a card to the decisions that are sent, and from those to words. */
import { configOf, decisionOf, type Action, type Always, type ApprovalView, type Decision, type DecisionType, type ReviewConfig } from "@countersign/client";
import { editApproves, editedArgs, type EditDraft } from "@countersign/react/forms";
import type { AlwaysDraft } from "./always.js";

/** What a person has entered for one action so far. */
export interface ActionDraft {
  choice?: DecisionType;
  reason: string;
  output: string;
  edit?: EditDraft;
  /** The form of a decision for later calls too, while it is open. */
  alwaysDraft?: AlwaysDraft;
  /** What was chosen there. */
  always?: Always;
}

export interface CardDraft {
  actions: ActionDraft[];
  comment: string;
  commentOpen: boolean;
}

export const emptyAction: ActionDraft = { reason: "", output: "" };

export function emptyCard(actions: number): CardDraft {
  return { actions: Array.from({ length: actions }, () => emptyAction), comment: "", commentOpen: false };
}

/** The decision for one action; nothing while it is undecided or its edit cannot be read. */
export function toDecision(action: Action, config: ReviewConfig, draft: ActionDraft): Decision | undefined {
  return decisionOf(action, config, { ...draft, args: draft.choice === "edit" ? editedArgs(action, config, draft.edit) : undefined });
}

/** Whether people are asked about an action again once it is edited, or have been: about its call, in a later request. */
export function askedAgain(approval: ApprovalView, index: number, approvals: Readonly<Record<string, ApprovalView>>): boolean {
  const id = approval.actions[index]?.id;
  const all = Object.values(approvals);
  const later = all.slice(all.findIndex((one) => one.approvalKey === approval.approvalKey) + 1);
  const asked = id !== undefined && later.some((one) => one.kind === "approval" && one.actions.some((action) => action.id === id));
  return asked || !editApproves(configOf(approval, index));
}
