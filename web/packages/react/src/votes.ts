/** What a tab keeps of its own approvals, where more people must approve. */
import { forgetDrafts } from "./useDraft.js";

const VOTED = "voted:";

/** The name under which it keeps that it has approved a request. */
export const votedKey = (approvalKey: string) => `${VOTED}${approvalKey}`;

/** Forget what this tab has approved: somebody else uses it now. */
export const forgetVotes = (): void => forgetDrafts(VOTED);
