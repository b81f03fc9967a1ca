/**
 * The data across sessions: agents, the session list, the inbox.
 *
 * The protocol pushes the events of followed sessions only, so lists are read again every second or few
 * and at once when this tab or another tab of the same browser sees something change: whenever the inbox is.
 */
import { CountersignError, type AgentSummary, type SessionSummary } from "@countersign/client";
import { inboxOf, type InboxOptions } from "@countersign/react";
import { client, http } from "./connection.js";
import { Store } from "./store.js";

export const agents = new Store<AgentSummary[] | undefined>(undefined);

/** How soon a visible page shows changes made elsewhere. */
const SOON_MS = 1_000;

/**
 * The pending requests: the 500 nearest their deadline, since people with more to decide need no exact number. The
 * whole page follows them with these settings.
 */
export const WAITING = { query: { limit: 125 }, pages: 4, everyMs: SOON_MS } satisfies InboxOptions;
export const waiting = inboxOf(client, http, WAITING.query);

interface SessionList {
  rows: SessionSummary[];
  next: string | undefined;
  loaded: boolean;
}
export const sessionList = new Store<SessionList>({ rows: [], next: undefined, loaded: false });
/** Pages beyond the first; they are kept while the first is read again. */
let older: SessionSummary[] = [];
let olderNext: string | undefined;

const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("countersign");
if (channel) {
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (typeof data === "object" && data !== null && "deleted" in data) dropSession(String(data.deleted));
    // Without a connection nothing is read, and without a token there is nothing to read.
    if (client.state !== "open") return;
    waiting.changed();
  };
}

/** After this time without an answer the lists are read again: an answer that never comes must not stop them. */
const LOST_MS = 15_000;

/** When the reading that is under way began, and which one counts. */
let since = -Infinity;
let turn = 0;
/** Agents change only while the server is away. */
let agentsKnown = false;

async function refresh(): Promise<void> {
  // While the server is away, the connection's own attempts are enough.
  if (client.state !== "open" || performance.now() - since < LOST_MS) return;
  since = performance.now();
  const mine = ++turn;
  try {
    const [list, known] = await Promise.all([http.sessions(), agentsKnown ? undefined : http.agents()]);
    if (mine !== turn) return;
    if (known) agents.set(known);
    agentsKnown = true;
    keepOlder(list.sessions);
    sessionList.set({
      rows: [...list.sessions, ...older],
      next: older.length > 0 ? olderNext : list.next,
      loaded: true,
    });
  } catch (error) {
    // The connection indicator shows it; the connection itself notices a 401.
    if (!(error instanceof CountersignError)) console.error(error);
  } finally {
    if (mine === turn) since = -Infinity;
  }
}

/**
 * Rows that have fallen off the first page since the pages below were read are in none of them; they are kept in
 * between.
 */
function keepOlder(first: readonly SessionSummary[]): void {
  const last = first.at(-1);
  const ids = (rows: readonly SessionSummary[]) => rows.map((row) => row.session_id);
  // Also while the first of them is being read, from where the first page ended before.
  if ((older.length > 0 || loading) && last) {
    const there = new Set([...ids(first), ...ids(older)]);
    const end = Date.parse(last.updated_at);
    older = [...sessionList.get().rows.filter((row) => !there.has(row.session_id) && Date.parse(row.updated_at) <= end), ...older];
  }
  const known = new Set(ids(first));
  older = older.filter((row) => !known.has(row.session_id));
}

/** Show the title that a session was given here in the lists of all tabs. */
export function keepTitle(session: SessionSummary): void {
  sessionList.set((list) => ({ ...list, rows: list.rows.map((row) => (row.session_id === session.session_id ? session : row)) }));
  channel?.postMessage("changed");
  waiting.changed();
}

/** Take a session that was deleted here from the lists of all tabs, also from pages that are not read again. */
export function forgetSession(sessionId: string): void {
  dropSession(sessionId);
  channel?.postMessage({ deleted: sessionId });
  waiting.changed();
}

function dropSession(sessionId: string): void {
  older = older.filter((row) => row.session_id !== sessionId);
  sessionList.set((list) => ({ ...list, rows: list.rows.filter((row) => row.session_id !== sessionId) }));
  for (const one of waiting.get().requests) if (one.sessionId === sessionId) waiting.forget(one.approvalKey);
}

let loading: Promise<void> | undefined;

/** Read the next page of sessions; once, however often it is requested meanwhile. */
export function loadMoreSessions(): Promise<void> {
  loading ??= readMoreSessions().finally(() => (loading = undefined));
  return loading;
}

async function readMoreSessions(): Promise<void> {
  const { next } = sessionList.get();
  if (!next) return;
  olderNext = next;
  const page = await http.sessions(next);
  olderNext = page.next;
  // A session that has moved to the first page meanwhile is already there.
  const known = new Set(sessionList.get().rows.map((row) => row.session_id));
  const rows = page.sessions.filter((row) => !known.has(row.session_id));
  older = [...older, ...rows];
  sessionList.set((list) => ({ ...list, rows: [...list.rows, ...rows], next: page.next }));
}

export function startLists(): void {
  client.on("hello", () => {
    agentsKnown = false;
    // A request over the previous connection may never be answered.
    since = -Infinity;
  });
  waiting.along(() => void refresh());
  waiting.follow(WAITING);
  client.on("event", (event) => {
    if (event.type === "run_status" || event.type === "approval_resolved" || event.type === "approval_updated") channel?.postMessage("changed");
  });
}
