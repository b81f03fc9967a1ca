import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react";
import { pendingApprovals, type AckEvent, type ApprovalView, type ConnectionState, type MessageCommand } from "@countersign/client";
import { useCountersign } from "./context.js";
import { sessionsOf, type SessionState } from "./sessions.js";
import type { CardReply } from "./useReply.js";

/** A session as it stands, and what can be done in it. */
export interface Session extends SessionState {
  /** What waits for a person, in the order it was asked. */
  pending: ApprovalView[];
  /** A message makes a session that is missing, where it may. */
  send: (content: MessageCommand["content"], options?: Pick<MessageCommand, "agent" | "on_pending">) => Promise<AckEvent>;
  reply: (approval: ApprovalView, reply: CardReply) => Promise<AckEvent>;
  /** Stop the turn. */
  cancel: () => Promise<AckEvent>;
}

/** Follows a session while the component is shown. Components that follow the same one share it. */
export function useSession(sessionId: string): Session {
  const { client } = useCountersign();
  const sessions = sessionsOf(client);
  useEffect(() => sessions.follow(sessionId), [sessions, sessionId]);
  const state = useSessionState(sessionId);
  const actions = useMemo(
    () => ({
      send: (content: MessageCommand["content"], options = {}) => client.sendMessage({ ...options, session_id: sessionId, content }),
      reply: (approval: ApprovalView, reply: CardReply) => client.reply(approval, reply),
      cancel: () => client.cancel(sessionId),
    }),
    [client, sessionId],
  );
  const pending = useMemo(() => pendingApprovals(state.view), [state.view]);
  return { ...state, pending, ...actions };
}

/** A session as far as it is known here, without following it. */
export function useSessionState(sessionId: string): SessionState {
  const { client } = useCountersign();
  const sessions = sessionsOf(client);
  const get = () => sessions.get(sessionId);
  return useSyncExternalStore(useCallback((listener) => sessions.watch(sessionId, listener), [sessions, sessionId]), get, get);
}

/** The state of the connection. */
export function useConnection(): ConnectionState {
  const { client } = useCountersign();
  return useSyncExternalStore(
    useCallback((listener) => client.on("state", listener), [client]),
    () => client.state,
    () => "idle" as const,
  );
}
