/**
 * Who this tab speaks for, as the server said when it connected. What that person may do is the server's to say; this
 * only spares people a button that it would refuse, and tells them what waits for somebody else.
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

/** Sessions that the list does not have, or not yet; so many of them at most. */
const MOST = 500;
const others = new Store<ReadonlyMap<string, SessionSummary>>(new Map());

// Under the same id there may be somebody else's now.
client.on("historyChanged", () => others.set(new Map()));
client.on("restarted", (id) => others.set((all) => new Map([...all].filter(([other]) => other !== id))));

/** Whose session it is. */
export const useSubject = (sessionId: string): string | undefined => useSummary(sessionId)?.subject;

/** Those that are being asked about: several parts of a page want the same. */
const asking = new Set<string>();

/** What the server's list says of a session. */
export function useSummary(sessionId: string): SessionSummary | undefined {
  const list = useStore(sessionList);
  const row = list.rows.find((one) => one.session_id === sessionId);
  const known = useStore(others);
  // One whose first message is on its way, or was refused, is not there.
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
      askAgain, // Where it is not there, or not ours to see, the page says so already.
    ).finally(() => asking.delete(sessionId));
  }, [sessionId, unknown, attempt]);
  return row ?? known.get(sessionId);
}

/** Whose session a request is of: lists say it, events do not. */
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
  /** What this person can decide, and what is for others to decide, each the soonest deadline first. */
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

/** What is read of it counts once it is known for whom: without a name all of it would be theirs. */
const inboxFor = (found: InboxState, person: Me) => (person === NOBODY ? { ...NONE, error: found.error } : found);

/** The inbox, which the page reads from its beginning on, and whose what of it is. */
export function useWaiting() {
  const person = useMe();
  const found = inboxFor(useSyncExternalStore(waiting.watch, waiting.get), person);
  return { ...found, ...sharesOf(found.requests, person) };
}

/** Tell what this person can decide, and the inbox that it is of, once that is read, and whenever it changes; returns how to stop. */
export function watchMine(listener: (mine: ListedApproval[], inbox: InboxState) => void): () => void {
  const tell = () => {
    const inbox = inboxFor(waiting.get(), me.get());
    // After a reading that failed there is nothing new to tell.
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

/** How many requests wait for this person now, as a badge shows it; nothing where none do, and where it is not known `?`. */
export function useWaits(): string | undefined {
  const { mine, hasMore } = useWaiting();
  const putOff = usePutOff();
  const n = mine.filter((row) => !putOff.has(row.approvalKey)).length;
  if (n === 0) return hasMore ? "?" : undefined;
  return hasMore ? `${n}+` : String(n);
}
