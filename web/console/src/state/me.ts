/**
 * The person for whom this tab speaks, as named by the server when it connected. The server decides what that person
 * may do; this only spares people a button that it would refuse, and shows which requests are somebody else's.
 */
import { useEffect, useSyncExternalStore } from "react";
import type { ApprovalView, ListedApproval, SessionSummary } from "@countersign/client";
import { useSessionState, type InboxState } from "@countersign/react";
import { forgetOldest } from "../lib/bounded.js";
import { barOf, mayHand, type Me } from "../lib/people.js";
import { askAgain, useAttempt } from "./again.js";
import { client, http } from "./connection.js";
import { usePutOff } from "./later.js";
import { sessionList, waiting } from "./lists.js";
import { Store, useStore } from "./store.js";

/** Until the server has said who it is. */
const NOBODY: Me = { name: undefined, roles: [] };
const me = new Store(NOBODY);

client.on("hello", ({ subject, roles = [] }) => me.set({ name: subject, roles }));

export function useMe(): Me {
  return useStore(me);
}

/** Whether the server shows this person the audit log, the policy and the webhooks. */
export function useMayAudit(): boolean {
  const person = useStore(me);
  return person !== NOBODY && (person.name === undefined || person.roles.includes("auditor"));
}

/** Sessions that the list does not have, or not yet; at most this many of them. */
const MOST = 500;
const others = new Store<ReadonlyMap<string, SessionSummary>>(new Map());

// The same id may belong to somebody else's session now.
client.on("historyChanged", () => others.set(new Map()));
client.on("restarted", (id) => others.set((all) => new Map([...all].filter(([other]) => other !== id))));

/** Whose session it is. */
export const useSubject = (sessionId: string): string | undefined => useSummary(sessionId)?.subject;

/** The sessions being read: several parts of a page want the same one. */
const asking = new Set<string>();

/** A session's row in the server's list. */
export function useSummary(sessionId: string): SessionSummary | undefined {
  const list = useStore(sessionList);
  const row = list.rows.find((one) => one.session_id === sessionId);
  const known = useStore(others);
  // A session whose first message is on its way, or was refused, does not exist yet.
  const begun = useSessionState(sessionId).view.lastSeq > 0;
  const unknown = begun && list.loaded && row === undefined && !known.has(sessionId);
  const attempt = useAttempt();
  useEffect(() => {
    if (!unknown || attempt === undefined || asking.has(sessionId)) return;
    asking.add(sessionId);
    http.session(sessionId).then(
      (session) =>
        others.set((all) => {
          const next = new Map(all).set(sessionId, session);
          forgetOldest(next, MOST);
          return next;
        }),
      askAgain, // If it does not exist, or is not ours to see, the page says so already.
    ).finally(() => asking.delete(sessionId));
  }, [sessionId, unknown, attempt]);
  return row ?? known.get(sessionId);
}

/** The owner of a request's session: lists have it, events do not. */
export function useSubjectOf(approval: ApprovalView): string | undefined {
  const known = useSubject(approval.sessionId);
  return known ?? approval.subject;
}

/** Whether the session is known to be this person's own. Without tokens there is only one person. */
export function useOwns(sessionId: string): boolean {
  const { name } = useMe();
  const subject = useSubject(sessionId);
  return name === undefined || name === subject;
}

/** Whether this person may hand a request to somebody else. */
export function useMayHand(approval: ApprovalView): boolean {
  const person = useMe();
  return mayHand(approval, { me: person, subject: useSubjectOf(approval) });
}

export interface Shares {
  /** The requests that this person can decide, and those for others, each with the soonest deadline first. */
  mine: ListedApproval[];
  others: ListedApproval[];
}

/** The last ones: every row of the session list looks at them. */
let split: Shares & { of: unknown; person: Me } | undefined;

function sharesOf(requests: InboxState["requests"], person: Me): Shares {
  if (split?.of !== requests || split.person !== person) {
    const isMine = (row: ApprovalView) => barOf(row, { me: person, subject: row.subject }) === undefined;
    const { mine = [], others = [] } = Object.groupBy(requests, (row) => (isMine(row) ? "mine" : "others"));
    split = { mine, others, of: requests, person };
  }
  return split;
}

const NONE: InboxState = { requests: [], loading: true, error: undefined, hasMore: false };

/** The inbox counts only once the person is known: without a name all requests would be theirs. */
const inboxFor = (found: InboxState, person: Me) => (person === NOBODY ? { ...NONE, error: found.error } : found);

/** The inbox, which the page reads from the start, split into this person's requests and others'. */
export function useWaiting() {
  const person = useMe();
  const found = inboxFor(useSyncExternalStore(waiting.watch, waiting.get), person);
  return { ...found, ...sharesOf(found.requests, person) };
}

/**
 * Report the requests that this person can decide, and the whole inbox, once it is read, and whenever it changes;
 * returns how to stop.
 */
export function watchMine(listener: (mine: ListedApproval[], inbox: InboxState) => void): () => void {
  const tell = () => {
    const inbox = inboxFor(waiting.get(), me.get());
    // After a failed reading there is nothing new to report.
    if (!inbox.loading && inbox.error === undefined) listener(sharesOf(inbox.requests, me.get()).mine, inbox);
  };
  const [one, other] = [waiting.watch(tell), me.subscribe(tell)];
  // It may have been read before.
  tell();
  return () => {
    one();
    other();
  };
}

/**
 * The number of this person's pending requests, for a badge; `undefined` if there are none, and `?` if it is not known.
 */
export function useWaits(): string | undefined {
  const { mine, hasMore } = useWaiting();
  const putOff = usePutOff();
  const n = mine.filter((row) => !putOff.has(row.approvalKey)).length;
  if (n === 0) return hasMore ? "?" : undefined;
  return hasMore ? `${n}+` : String(n);
}
