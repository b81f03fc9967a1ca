import { useEffect, useMemo } from "react";
import { pendingApprovals, type AckEvent, type ApprovalView, type MessageCommand } from "@countersign/client";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { useLate } from "./late.js";
import { sessionsOf, type SessionSnapshot } from "./sessions.js";
import type { CardReply } from "./replies.js";
import { useSessionState } from "./useSessionState.js";

/** A session's current state, and the actions on it. */
export interface Session extends SessionSnapshot {
  /** The pending requests, in the order they were made. */
  pending: ApprovalView[];
  /**
   * The requests to render as cards: the pending ones, and those for which a reply of this tab came too late, until
   * that is marked as read on the card.
   */
  requests: ApprovalView[];
  /** Whether there are earlier events: a long session is followed from near its end. */
  hasEarlier: boolean;
  /** A message creates a missing session, if it may. */
  send: (content: MessageCommand["content"], options?: Pick<MessageCommand, "agent" | "on_pending">) => Promise<AckEvent>;
  reply: (approval: ApprovalView, reply: CardReply) => Promise<AckEvent>;
  /** Stop the turn. */
  cancel: () => Promise<AckEvent>;
  /** Read more of the earlier events. */
  loadEarlier: () => Promise<void>;
}

/** Follows a session while the component is shown. Components that follow the same one share it. */
export function useSession(sessionId: string): Session {
  const { client, http } = useCountersign();
  const sessions = sessionsOf(client);
  useEffect(() => sessions.follow(sessionId, http), [sessions, http, sessionId]);
  const state = useSessionState(sessionId);
  const actions = useMemo(
    () => ({
      send: (content: MessageCommand["content"], options = {}) => client.sendMessage({ ...options, session_id: sessionId, content }),
      reply: (approval: ApprovalView, reply: CardReply) => client.reply(approval, reply),
      cancel: () => client.cancel(sessionId),
      loadEarlier: () => sessions.loadEarlier(sessionId, http),
    }),
    [client, http, sessions, sessionId],
  );
  const pending = useMemo(() => pendingApprovals(state.view), [state.view]);
  const late = useLate(client);
  const requests = useMemo(
    () => Object.values(state.view.approvals).filter((one) => one.complete && (one.resolution === undefined || late.get(draftKey(one))?.read === false)),
    [state.view, late],
  );
  return { ...state, pending, requests, hasEarlier: state.view.firstSeq !== undefined, ...actions };
}
