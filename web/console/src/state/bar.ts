/** Why this tab's person may not approve a session's pending request, given everything that has happened there. */
import { useMemo } from "react";
import type { ApprovalView, SessionView } from "@countersign/client";
import { useSessionState } from "@countersign/react";
import { barIn } from "../lib/bars.js";
import type { Bar } from "../lib/people.js";
import { useMe, useSubjectOf } from "./me.js";

/** Why this person may not approve a request, if known. */
export function useBar(approval: ApprovalView): Bar | undefined {
  const me = useMe();
  const subject = useSubjectOf(approval);
  const { view } = useSessionState(approval.sessionId);
  return useMemo(() => barIn(view, approval, { me, subject }), [approval, me, subject, view]);
}

/** The first of a session's pending requests that is for this person. */
export function useTurnOf(pending: readonly ApprovalView[], subject: string | undefined, view: SessionView): ApprovalView | undefined {
  const me = useMe();
  return pending.find((approval) => barIn(view, approval, { me, subject }) === undefined);
}
