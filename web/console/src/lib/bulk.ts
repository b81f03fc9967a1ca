/** One decision for many requests. */
import { allowedOf, configOf, decisionOf, type ApprovalView, type Decision } from "@countersign/client";

export type BulkChoice = "approve" | "reject";

/** The maximum number of requests decided at once: a person has to look at each before approving. */
export const BULK_MOST = 100;

/** Whether a request can be one of many: all its actions allow it, and it asks for no more than yes or no. */
export function fitsBulk(row: ApprovalView, choice: BulkChoice): boolean {
  return row.kind === "approval" && row.actions.every((_, i) => allowedOf(configOf(row, i)).includes(choice));
}

/** The decisions about all actions of a request, each with the digests of what was shown. */
export function bulkDecisions(row: ApprovalView, choice: BulkChoice, reason: string): Decision[] {
  const draft = { choice, reason, output: "" };
  return row.actions.flatMap((action, i) => decisionOf(action, configOf(row, i), draft) ?? []);
}
