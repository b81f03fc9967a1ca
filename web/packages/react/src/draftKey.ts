import type { ApprovalView } from "@countersign/client";

/** The name under which a tab keeps it. What is shown belongs to it: what was entered for something else is not found. */
export const draftKey = ({ approvalKey, digest = "" }: ApprovalView) => `reply:${approvalKey}:${digest}`;
