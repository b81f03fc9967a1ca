import { useCallback, useMemo, useSyncExternalStore } from "react";
import {
  emptySession,
  foldAll,
  pendingApprovals,
  type AckEvent,
  type ApprovalView,
  type ConnectionState,
  type CountersignClient,
  type MessageCommand,
  type SessionEvent,
  type SessionView,
} from "@countersign/client";
import { useCountersign } from "./context.js";
import type { CardReply } from "./useReply.js";

/** A session as it stands, and what can be done in it. */
export interface Session {
  view: SessionView;
  /** What waits for a person, in the order it was asked. */
  pending: ApprovalView[];
  /** There is none of this id, or it is not this person's to see. A message makes it, where it may. */
  missing: boolean;
  send: (content: MessageCommand["content"], options?: Pick<MessageCommand, "agent" | "on_pending">) => Promise<AckEvent>;
  reply: (approval: ApprovalView, reply: CardReply) => Promise<AckEvent>;
  /** Stop the turn. */
  cancel: () => Promise<AckEvent>;
}

/** Follows a session while the component is shown. Components that follow the same one share it. */
export function useSession(sessionId: string): Session {
  const { client } = useCountersign();
  const empty = useMemo((): Snapshot => ({ view: emptySession(sessionId), missing: false }), [sessionId]);
  const { view, missing } = useSyncExternalStore(
    useCallback((listener) => follow(client, sessionId, listener), [client, sessionId]),
    () => followed.get(client)?.get(sessionId)?.now ?? empty,
    () => empty,
  );
  const actions = useMemo(
    () => ({
      send: (content: MessageCommand["content"], options = {}) => client.sendMessage({ ...options, session_id: sessionId, content }),
      reply: (approval: ApprovalView, reply: CardReply) => client.reply(approval, reply),
      cancel: () => client.cancel(sessionId),
    }),
    [client, sessionId],
  );
  const pending = useMemo(() => pendingApprovals(view), [view]);
  return { view, pending, missing, ...actions };
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

// ---------------------------------------------------------------- following

interface Snapshot {
  view: SessionView;
  missing: boolean;
}

interface Followed {
  now: Snapshot;
  listeners: Set<() => void>;
  end: () => void;
}

/** What is followed now, by its connection and its id. */
const followed = new WeakMap<CountersignClient, Map<string, Followed>>();

/** A fast stream must not draw more often than the screen. */
const FRAME_MS = 16;

const MISSING = new Set(["session_not_found", "session_deleted", "forbidden", "invalid_session_id"]);

function follow(client: CountersignClient, sessionId: string, listener: () => void): () => void {
  let sessions = followed.get(client);
  if (!sessions) followed.set(client, (sessions = new Map()));
  let session = sessions.get(sessionId);
  if (!session) sessions.set(sessionId, (session = begin(client, sessionId)));
  const { listeners, end } = session;
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    sessions.delete(sessionId);
    end();
  };
}

function begin(client: CountersignClient, sessionId: string): Followed {
  let events: SessionEvent[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const set = (now: Snapshot) => {
    session.now = now;
    for (const listener of [...session.listeners]) listener();
  };
  const flush = () => {
    timer = undefined;
    const view = foldAll(session.now.view, events);
    events = [];
    set({ view, missing: false });
  };
  const offEvent = client.on("event", (event) => {
    if (event.session_id !== sessionId) return;
    events.push(event);
    timer ??= setTimeout(flush, FRAME_MS);
  });
  const offError = client.on("error", (event) => {
    if (event.session_id === sessionId && MISSING.has(event.code) && session.now.view.lastSeq === 0) {
      set({ ...session.now, missing: true });
    }
  });
  const session: Followed = {
    now: { view: emptySession(sessionId), missing: false },
    listeners: new Set(),
    end: () => {
      clearTimeout(timer);
      offEvent();
      offError();
      client.unsubscribe(sessionId);
    },
  };
  client.subscribe(sessionId);
  return session;
}
