/** A person's input for a call here, and the outcome of an edit. */
import { configOf, type ApprovalView } from "@countersign/client";
import type { CallDraft } from "@countersign/react";
import { editApproves } from "@countersign/react/forms";
import type { AlwaysDraft } from "./always.js";

export interface ActionDraft extends CallDraft {
  /** The form of a decision that also applies to later calls, while it is open. */
  alwaysDraft?: AlwaysDraft;
}

/**
 * Whether people are, or have been, asked again about an action once it is edited: in a later request about its call.
 */
export function askedAgain(approval: ApprovalView, index: number, approvals: Readonly<Record<string, ApprovalView>>): boolean {
  const id = approval.actions[index]?.id;
  const all = Object.values(approvals);
  const later = all.slice(all.findIndex((one) => one.approvalKey === approval.approvalKey) + 1);
  const asked = id !== undefined && later.some((one) => one.kind === "approval" && one.actions.some((action) => action.id === id));
  return asked || !editApproves(configOf(approval, index));
}
