/** The sessions this tab has opened, each as the fold of its events. */
import {
  CountersignError,
  emptySession,
  foldAll,
  randomId,
  withEarlier,
  type MessageCommand,
  type MessageView,
  type SessionEvent,
  type SessionView,
} from "@countersign/client";
import { contentOf, type InlineImage } from "../lib/images.js";
import { readTabJson, writeTab } from "../lib/storage.js";
import { client, http } from "./connection.js";
import { Store } from "./store.js";

/** A message on its way: shown until the server's own events bring it. */
export interface OutgoingMessage {
  id: string;
  text: string;
  images: InlineImage[];
  /** It is stored, and the agent reads it later: then it comes as an event with a higher `seq` than this. */
  queuedAfter?: number;
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
    const outgoing = readTabJson<OutgoingMessage[]>(queueKey(id)) ?? [];
    store = new Store<OpenSession>({ view: emptySession(id), outgoing, missing: false, deleted: false, fresh: false });
    opened.set(id, store);
  }
  return store;
}

/** How many messages are read of a session's end, and with each look further up; at least, for a turn is read whole. */
const MESSAGES = 80;

/** Follow a session from where we know it, at first from near its end; returns how to stop. */
export function followSession(id: string): () => void {
  if (!followed.has(id)) {
    followed.add(id);
    const { lastSeq } = sessionStore(id).get().view;
    client.subscribe(id, lastSeq === 0 ? { last: MESSAGES } : lastSeq);
  }
  return () => {
    followed.delete(id);
    client.unsubscribe(id);
  };
}

const reading = new Map<string, Promise<void>>();

/** Read what came before what is here of a session, if anything did; once, however often it is asked for meanwhile. */
export function readEarlier(id: string): Promise<void> {
  const read = reading.get(id) ?? earlier(id).finally(() => reading.delete(id));
  reading.set(id, read);
  return read;
}

async function earlier(id: string): Promise<void> {
  const store = sessionStore(id);
  const before = store.get().view.firstSeq;
  if (before === undefined) return;
  const events: SessionEvent[] = [];
  for await (const event of http.events(id, { last: MESSAGES, before })) events.push(event);
  store.set((s) => ({ ...s, view: withEarlier(s.view, foldAll(emptySession(id), events)) }));
}

/** Start a conversation under an id made here. Whoever sends a message follows the session. */
export function startSession(agent: string | undefined, text: string, images: InlineImage[]): { id: string; sent: Promise<void> } {
  const id = randomId();
  followed.add(id);
  sessionStore(id).set((s) => ({ ...s, fresh: true }));
  return { id, sent: sendMessage(id, text, images, { agent }) };
}

export async function sendMessage(sessionId: string, text: string, images: InlineImage[], how: SendOptions = {}): Promise<void> {
  const { agent, onPending } = how;
  const store = sessionStore(sessionId);
  const message: OutgoingMessage = { id: randomId(), text, images };
  const after = store.get().view.lastSeq;
  store.set((s) => ({ ...s, outgoing: [...s.outgoing, message] }));
  const settle = (now: OutgoingMessage[]) => store.set((s) => arrived({ ...s, outgoing: s.outgoing.flatMap((m) => (m.id === message.id ? now : m)) }));
  try {
    await client.sendMessage({
      session_id: sessionId,
      content: contentOf(text, images),
      ...(agent ? { agent } : {}),
      ...(onPending ? { on_pending: onPending } : {}),
    });
    settle(onPending === "queue" ? [{ ...message, queuedAfter: after }] : []);
  } catch (error) {
    settle([]);
    throw error;
  }
}

export interface SendOptions {
  agent?: string | undefined;
  /** What becomes of what is pending. */
  onPending?: MessageCommand["on_pending"] | undefined;
}

const queueKey = (id: string) => `queued:${id}`;

/**
 * Without the queued messages that have come as events. Until then no event tells of them, so this tab keeps their texts;
 * what it could not keep over a reload are only the images.
 */
function arrived(session: OpenSession): OpenSession {
  const queued = session.outgoing.filter((m) => m.queuedAfter !== undefined);
  const id = session.view.sessionId;
  if (queued.length === 0) return session;
  const here = session.view.messages.filter((m) => m.role === "user" && !m.open);
  const taken = new Set<MessageView>();
  const outgoing = session.outgoing.filter(({ queuedAfter, text }) => {
    if (queuedAfter === undefined) return true;
    // What is here begins between two turns, and no message is queued there: it was read before.
    if (queuedAfter + 1 < (session.view.firstSeq ?? 0)) return false;
    const found = here.find((m) => !taken.has(m) && m.seq > queuedAfter && textOf(m) === text);
    if (found) taken.add(found);
    return !found;
  });
  const kept = outgoing.filter((m) => m.queuedAfter !== undefined && m.text !== "").map((m) => ({ ...m, images: [] }));
  writeTab(queueKey(id), JSON.stringify(kept));
  return { ...session, outgoing };
}

const textOf = ({ blocks }: MessageView) => blocks.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("\n");

// ---------------------------------------------------------------- events

/**
 * Events are folded once a frame: a fast stream must not draw more often than the screen. While a past pours in, of which
 * only the end will be looked at, it is drawn once it has come, or each second.
 */
let queue: SessionEvent[] = [];
const MANY = 20;
const POURING = 5;
const LONGEST_MS = 1000;

client.on("event", (event) => {
  if (queue.push(event) > 1) return;
  // A hidden tab gets no frames, and must keep up all the same.
  if (document.hidden) setTimeout(flush, 50);
  else requestAnimationFrame((now) => frame(now, now, 0));
});

function frame(now: number, since: number, before: number): void {
  const pours = queue.length >= MANY && queue.length - before >= POURING && now - since < LONGEST_MS;
  if (!pours) return flush();
  const length = queue.length;
  requestAnimationFrame((next) => frame(next, since, length));
}

document.addEventListener("visibilitychange", () => flush());

function flush(): void {
  const events = queue;
  queue = [];
  const bySession = Map.groupBy(events, (e) => e.session_id);
  for (const [id, list] of bySession) {
    opened.get(id)?.set((s) => arrived({ ...s, missing: false, view: foldAll(s.view, list) }));
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
