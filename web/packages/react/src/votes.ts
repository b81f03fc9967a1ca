/** A tab's record of its own approvals, if more people must approve. */
import type { ApprovalView } from "@countersign/client";
import { forgetDrafts } from "./useDraft.js";

const VOTED = "voted:";

/**
 * The name under which it keeps that it has approved a request: this does not count for another request with the same
 * key.
 */
export const votedKey = ({ approvalKey, digest = "" }: ApprovalView) => `${VOTED}${approvalKey}:${digest}`;

/** Forget what this tab has approved: somebody has signed in, who may be the same person. */
export const forgetVotes = (): void => forgetDrafts(VOTED);

/** Forget everything that was entered and approved in this tab: somebody else uses it now. */
export const forgetPerson = (): void => forgetDrafts("");
