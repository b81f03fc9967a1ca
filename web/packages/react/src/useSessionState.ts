import { useCallback, useMemo, useSyncExternalStore } from "react";
import type { ConnectionState } from "@countersign/client";
import { useCountersign } from "./context.js";
import { nothingOf, sessionsOf, type SessionSnapshot } from "./sessions.js";

/** A session's state as known here, without following it. */
export function useSessionState(sessionId: string): SessionSnapshot {
  const { client } = useCountersign();
  const sessions = sessionsOf(client);
  // The server's rendering: when a page hydrates part by part, another part may follow the session already.
  const empty = useMemo(() => nothingOf(sessionId), [sessionId]);
  return useSyncExternalStore(
    useCallback((listener) => sessions.watch(sessionId, listener), [sessions, sessionId]),
    () => sessions.get(sessionId),
    () => empty,
  );
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
