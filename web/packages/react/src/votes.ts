/** What a tab keeps of its own approvals, where more people must approve. */
import type { ApprovalView } from "@countersign/client";
import { forgetDrafts } from "./useDraft.js";

const VOTED = "voted:";

/** The name under which it keeps that it has approved a request: of another one with the same key it has approved nothing. */
export const votedKey = ({ approvalKey, digest = "" }: ApprovalView) => `${VOTED}${approvalKey}:${digest}`;

/** Forget what this tab has approved: somebody has signed in, who may be the same person. */
export const forgetVotes = (): void => forgetDrafts(VOTED);

/** Forget all that somebody has entered and approved in this tab: somebody else uses it now. */
export const forgetPerson = (): void => forgetDrafts("");
