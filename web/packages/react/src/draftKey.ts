import type { ApprovalView } from "@countersign/client";

/**
 * The name under which a tab keeps a draft. It depends on the content shown: a draft for other content is not found.
 */
export const draftKey = ({ approvalKey, digest = "" }: ApprovalView) => `reply:${approvalKey}:${digest}`;
