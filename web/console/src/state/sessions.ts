/** The sessions of this tab, and the messages that are on their way to them. */
import { CountersignError, randomId, type MessageCommand, type MessageView } from "@countersign/client";
import { keepDraft, readDraft, sessionsOf } from "@countersign/react";
import { contentOf, type InlineImage } from "../lib/images.js";
import { client, gone } from "./connection.js";
import { Store } from "./store.js";

/** A message on its way: shown until the server's own events bring it. */
export interface OutgoingMessage {
  id: string;
  text: string;
  images: InlineImage[];
  /** It is stored, and the agent reads it later: then it arrives as an event with a higher `seq` than this. */
  queuedAfter?: number;
  /** It is stored, and arrives as an event with a higher `seq` than this. */
  storedAfter?: number;
}

interface Outgoing {
  messages: readonly OutgoingMessage[];
  /** The session was created here a moment ago, so there is nothing to load. */
  fresh: boolean;
  /** Why the last message was refused. */
  refused?: CountersignError | undefined;
}

export const sessions = sessionsOf(client);
const opened = new Map<string, { store: Store<Outgoing>; unwatch: () => void }>();
/** For how many sessions without outgoing messages this is kept. */
const MOST = 500;

function forgetIdle(): void {
  for (const [id, { store, unwatch }] of opened) {
    if (opened.size < MOST) return;
    const { messages, refused } = store.get();
    if (messages.length > 0 || refused) continue;
    unwatch();
    opened.delete(id);
  }
}

/** The part of a session that its events do not have, or not yet. */
export function outgoingOf(id: string): Store<Outgoing> {
  const known = opened.get(id);
  if (known) return known.store;
  const store = new Store<Outgoing>({ messages: readDraft<OutgoingMessage[]>(queueKey(id)) ?? [], fresh: false });
  const unwatch = sessions.watch(id, () => {
    if (sessions.get(id).deleted) store.set({ messages: [], fresh: false });
    else store.set((s) => ({ ...s, messages: waiting(id, s.messages) }));
  });
  forgetIdle();
  opened.set(id, { store, unwatch });
  return store;
}

// The stored messages of a session that starts over are lost, or arrive as events.
client.on("restarted", (id) => {
  keepDraft(queueKey(id), undefined);
  opened.get(id)?.store.set((s) => ({ ...s, messages: s.messages.filter((m) => storedAt(m) === undefined) }));
});

/** The refusal has been shown. */
export function forgetRefusal(id: string): void {
  outgoingOf(id).set((s) => (s.refused ? { ...s, refused: undefined } : s));
}

/** Start a conversation under an id made here. Sending a message follows the session. */
export function startSession(agent: string | undefined, text: string, images: InlineImage[]): { id: string; sent: Promise<void> } {
  const id = randomId();
  sessions.begun(id);
  outgoingOf(id).set((s) => ({ ...s, fresh: true }));
  return { id, sent: sendMessage(id, text, images, { agent }) };
}

export async function sendMessage(sessionId: string, text: string, images: InlineImage[], how: SendOptions = {}): Promise<void> {
  const { agent, onPending } = how;
  const store = outgoingOf(sessionId);
  const message: OutgoingMessage = { id: randomId(), text, images };
  const after = sessions.get(sessionId).view.lastSeq;
  store.set((s) => ({ ...s, messages: [...s.messages, message], refused: undefined }));
  const settle = (now: OutgoingMessage[]) =>
    store.set((s) => ({ ...s, messages: waiting(sessionId, s.messages.flatMap((m) => (m.id === message.id ? now : m))) }));
  try {
    await client.sendMessage({
      session_id: sessionId,
      content: contentOf(text, images),
      ...(agent ? { agent } : {}),
      ...(onPending ? { on_pending: onPending } : {}),
    });
    settle([{ ...message, [onPending === "queue" ? "queuedAfter" : "storedAfter"]: after }]);
  } catch (error) {
    settle([]);
    store.set((s) => ({ ...s, refused: CountersignError.of(error) }));
    throw error;
  }
}

export interface SendOptions {
  agent?: string | undefined;
  /** What happens to pending requests. */
  onPending?: MessageCommand["on_pending"] | undefined;
}

const queueKey = (id: string) => `queued:${id}`;

const storedAt = ({ queuedAfter, storedAfter }: OutgoingMessage) => queuedAfter ?? storedAfter;

/**
 * The outgoing messages without the stored ones that have arrived as events. Until then no event reports queued ones,
 * so this tab keeps their texts; only the images are lost in a reload.
 */
function waiting(id: string, messages: readonly OutgoingMessage[]): readonly OutgoingMessage[] {
  if (messages.every((m) => storedAt(m) === undefined)) return messages;
  const here = sessions.get(id).view.messages.filter((m) => m.role === "user" && !m.open);
  const taken = new Set<MessageView>();
  const left = messages.filter((message) => {
    const after = storedAt(message);
    if (after === undefined) return true;
    // The loaded part begins between two turns, where no message is queued: it was read before. One that was queued
    // before anything was loaded was not.
    if (after > 0 && after + 1 < (sessions.get(id).view.firstSeq ?? 0)) return false;
    const found = here.find((m) => !taken.has(m) && m.seq > after && textOf(m).trim() === message.text.trim());
    if (found) taken.add(found);
    return !found;
  });
  const kept = left.filter((m) => m.queuedAfter !== undefined && m.text !== "").map((m) => ({ ...m, images: [] }));
  if (!gone.get()) keepDraft(queueKey(id), kept.length > 0 ? kept : undefined);
  return left;
}

const textOf = ({ blocks }: MessageView) => blocks.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("\n");
