/** The sessions this tab has opened, each as the fold of its events. */
import {
  CountersignError,
  emptySession,
  foldAll,
  randomId,
  type SessionEvent,
  type SessionView,
} from "@countersign/client";
import { contentOf, type InlineImage } from "../lib/images.js";
import { client } from "./connection.js";
import { Store } from "./store.js";

/** A message on its way: shown until the server's own events bring it. */
export interface OutgoingMessage {
  id: string;
  text: string;
  images: InlineImage[];
}

export interface OpenSession {
  view: SessionView;
  outgoing: OutgoingMessage[];
  /** Not there, or not ours to see. */
  missing: boolean;
  /** It was there, and is deleted. */
  deleted: boolean;
  /** Made here a moment ago, so there is nothing to load. */
  fresh: boolean;
}

const opened = new Map<string, Store<OpenSession>>();
const followed = new Set<string>();

export function sessionStore(id: string): Store<OpenSession> {
  let store = opened.get(id);
  if (!store) {
    store = new Store<OpenSession>({ view: emptySession(id), outgoing: [], missing: false, deleted: false, fresh: false });
    opened.set(id, store);
  }
  return store;
}

/** Follow a session from where we know it; returns how to stop. */
export function followSession(id: string): () => void {
  if (!followed.has(id)) {
    followed.add(id);
    client.subscribe(id, sessionStore(id).get().view.lastSeq);
  }
  return () => {
    followed.delete(id);
    client.unsubscribe(id);
  };
}

/** Start a conversation under an id made here. Whoever sends a message follows the session. */
export function startSession(agent: string | undefined, text: string, images: InlineImage[]): { id: string; sent: Promise<void> } {
  const id = randomId();
  followed.add(id);
  sessionStore(id).set((s) => ({ ...s, fresh: true }));
  return { id, sent: sendMessage(id, text, images, agent) };
}

export async function sendMessage(sessionId: string, text: string, images: InlineImage[], agent?: string): Promise<void> {
  const store = sessionStore(sessionId);
  const message: OutgoingMessage = { id: randomId(), text, images };
  store.set((s) => ({ ...s, outgoing: [...s.outgoing, message] }));
  try {
    await client.sendMessage({ session_id: sessionId, content: contentOf(text, images), ...(agent ? { agent } : {}) });
  } finally {
    store.set((s) => ({ ...s, outgoing: s.outgoing.filter((m) => m.id !== message.id) }));
  }
}

// ---------------------------------------------------------------- events

/** Events are folded once a frame: a fast stream must not draw more often than the screen. */
let queue: SessionEvent[] = [];

client.on("event", (event) => {
  if (queue.push(event) === 1) {
    // A hidden tab gets no frames, and must keep up all the same.
    if (document.hidden) setTimeout(flush, 50);
    else requestAnimationFrame(flush);
  }
});

document.addEventListener("visibilitychange", () => flush());

function flush(): void {
  const events = queue;
  queue = [];
  const bySession = Map.groupBy(events, (e) => e.session_id);
  for (const [id, list] of bySession) {
    opened.get(id)?.set((s) => ({ ...s, missing: false, view: foldAll(s.view, list) }));
  }
}

client.on("error", (event) => {
  if (event.session_id === undefined) return;
  if (event.code === "session_deleted") return sessionDeleted(event.session_id);
  if (["session_not_found", "forbidden", "invalid_session_id"].includes(event.code)) {
    opened.get(event.session_id)?.set((s) => (s.view.lastSeq === 0 ? { ...s, missing: true } : s));
  }
});

/** A session is deleted: nothing of it stays on the page. */
export function sessionDeleted(id: string): void {
  sessionStore(id).set({ view: emptySession(id), outgoing: [], missing: false, deleted: true, fresh: false });
}

/** The refusal of a request, whatever was thrown. */
export function asRefusal(error: unknown): CountersignError {
  if (error instanceof CountersignError) return error;
  return new CountersignError("unreachable", error instanceof Error ? error.message : String(error));
}
