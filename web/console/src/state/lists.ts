/**
 * What is known across sessions: agents, the session list, the inbox.
 *
 * The protocol pushes the events of followed sessions only, so lists are read again every second or few
 * and at once when this tab or another tab of the same browser sees something change.
 */
import { CountersignError, type AgentSummary, type ListedApproval, type SessionSummary } from "@countersign/client";
import { client, http } from "./connection.js";
import { Store } from "./store.js";

export const agents = new Store<AgentSummary[] | undefined>(undefined);

/** What waits for people, the soonest deadline first. */
interface Waiting {
  rows: ListedApproval[];
  /** There are more, later ones, than are read. */
  more: boolean;
  loaded: boolean;
}
export const waiting = new Store<Waiting>({ rows: [], more: false, loaded: false });

/** A page is as large as the server makes them; who has this many to decide needs no exact number. */
const [PAGE, MANY] = [200, 500];
let mostWaiting = MANY;

interface SessionList {
  rows: SessionSummary[];
  next: string | undefined;
  loaded: boolean;
}
export const sessionList = new Store<SessionList>({ rows: [], next: undefined, loaded: false });
/** Pages beyond the first; they are kept while the first is read again. */
let older: SessionSummary[] = [];
let olderNext: string | undefined;

/** How soon a page that somebody looks at is told what happens elsewhere; more slowly where much has to be read for that. */
const [SOON_MS, FEW] = [1_000, 50];
const VISIBLE_MS = 4_000;
const HIDDEN_MS = 15_000;

const channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel("countersign");
if (channel) {
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (typeof data === "object" && data !== null && "deleted" in data) dropSession(String(data.deleted));
    refreshSoon();
  };
}

let timer: ReturnType<typeof setTimeout> | undefined;
let busy = false;
let again = false;

async function refresh(): Promise<void> {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  clearTimeout(timer);
  decided.clear();
  try {
    const [list, approvals] = await Promise.all([http.sessions(), allWaiting()]);
    if (agents.get() === undefined) agents.set(await http.agents());
    const known = new Set(list.sessions.map((s) => s.session_id));
    older = older.filter((s) => !known.has(s.session_id));
    sessionList.set({
      rows: [...list.sessions, ...older],
      next: older.length > 0 ? olderNext : list.next,
      loaded: true,
    });
    waiting.set((before) => sameAs(before, { ...approvals, rows: approvals.rows.filter((row) => !decided.has(row.approvalKey)) }));
  } catch (error) {
    // The connection indicator tells; 401 is noticed by the connection itself.
    if (!(error instanceof CountersignError) && !(error instanceof TypeError)) console.error(error);
  } finally {
    busy = false;
    clearTimeout(timer);
    const visible = waiting.get().rows.length <= FEW ? SOON_MS : VISIBLE_MS;
    const pause = again ? 50 : document.hidden ? HIDDEN_MS : visible;
    again = false;
    // While the server is away, the connection's own attempts are enough.
    if (client.state === "open") timer = setTimeout(() => void refresh(), pause);
  }
}

/** Requests that this tab has decided since the lists were last asked for: an answer on its way may still have them. */
const decided = new Set<string>();

/** Take a request that was decided here from the list before the server says so. */
export function forgetWaiting(approvalKey: string): void {
  decided.add(approvalKey);
  waiting.set((before) => ({ ...before, rows: before.rows.filter((row) => row.approvalKey !== approvalKey) }));
  refreshSoon();
}

/** Show the title that a session was given here in the lists of all tabs. */
export function keepTitle(session: SessionSummary): void {
  sessionList.set((list) => ({ ...list, rows: list.rows.map((row) => (row.session_id === session.session_id ? session : row)) }));
  channel?.postMessage("changed");
  refreshSoon();
}

/** Take a session that was deleted here from the lists of all tabs, also from pages that are not read again. */
export function forgetSession(sessionId: string): void {
  dropSession(sessionId);
  channel?.postMessage({ deleted: sessionId });
  refreshSoon();
}

function dropSession(sessionId: string): void {
  older = older.filter((row) => row.session_id !== sessionId);
  sessionList.set((list) => ({ ...list, rows: list.rows.filter((row) => row.session_id !== sessionId) }));
  waiting.set((before) => ({ ...before, rows: before.rows.filter((row) => row.sessionId !== sessionId) }));
}

/** Rows that have not changed stay the same objects, so that only others are drawn again. */
function sameAs(before: Waiting, now: Waiting): Waiting {
  const known = new Map(before.rows.map((row) => [row.approvalKey, row]));
  const rows = now.rows.map((row) => {
    const old = known.get(row.approvalKey);
    // Whatever changes about a request while it waits is one more update.
    return old && old.digest === row.digest && old.updates.length === row.updates.length ? old : row;
  });
  const same = before.loaded && before.more === now.more && rows.length === before.rows.length && rows.every((row, i) => row === before.rows[i]);
  return same ? before : { ...now, rows };
}

async function allWaiting(): Promise<Waiting> {
  const rows: ListedApproval[] = [];
  let cursor: string | undefined;
  do {
    const page = await http.waiting({ limit: Math.min(PAGE, mostWaiting - rows.length), ...(cursor === undefined ? {} : { cursor }) });
    rows.push(...page.approvals);
    cursor = page.next;
  } while (cursor !== undefined && rows.length < mostWaiting);
  return { rows, more: cursor !== undefined, loaded: true };
}

/** Read more of what waits than until now. */
export function readMoreWaiting(): void {
  mostWaiting += MANY;
  refreshSoon();
}

let soon: ReturnType<typeof setTimeout> | undefined;
function refreshSoon(): void {
  clearTimeout(soon);
  soon = setTimeout(() => void refresh(), 120);
}

export async function loadMoreSessions(): Promise<void> {
  const { next } = sessionList.get();
  if (!next) return;
  const page = await http.sessions(next);
  older = [...older, ...page.sessions];
  olderNext = page.next;
  sessionList.set((list) => ({ ...list, rows: [...list.rows, ...page.sessions], next: page.next }));
}

export function startLists(): void {
  client.on("hello", () => void refresh());
  client.on("event", (event) => {
    if (event.type === "run_status" || event.type === "approval_resolved" || event.type === "approval_updated") {
      refreshSoon();
      channel?.postMessage("changed");
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && client.state === "open") void refresh();
  });
}
