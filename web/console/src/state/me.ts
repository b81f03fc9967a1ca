/**
 * Who this tab speaks for, as the server said when it connected. What that person may do is the server's to say; this
 * only spares people a button that it would refuse, and tells them what waits for somebody else.
 */
import { useEffect, useMemo } from "react";
import type { ApprovalView, ListedApproval, SessionSummary, SessionView } from "@countersign/client";
import { useSessionState } from "@countersign/react";
import { forgetOldest } from "../lib/bounded.js";
import { barOf, mayHand, type Bar, type Me } from "../lib/people.js";
import { askAgain, useAttempt } from "./again.js";
import { client, http } from "./connection.js";
import { sessionList, waiting } from "./lists.js";
import { Store, useStore } from "./store.js";

const me = new Store<Me>({ name: undefined, roles: [] });

/** Whether the server has said who that is. */
const greeted = new Store(false);

client.on("hello", (hello) => {
  me.set({ name: hello.subject, roles: hello.roles ?? [] });
  greeted.set(true);
});

export function useMe(): Me {
  return useStore(me);
}

/** Whether the server shows this person the audit log, the policy and the webhooks. */
export function useMayAudit(): boolean {
  const { name, roles } = useStore(me);
  const known = useStore(greeted);
  return known && (name === undefined || roles.includes("auditor"));
}

/** Sessions that the list does not have, or not yet; so many of them at most. */
const MOST = 500;
const others = new Store<ReadonlyMap<string, SessionSummary>>(new Map());

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
function useSubjectOf(approval: ApprovalView): string | undefined {
  const known = useSubject(approval.sessionId);
  return known ?? approval.subject;
}

/** Whether the session is known to be this person's own. Without tokens there is only one person. */
export function useOwns(sessionId: string): boolean {
  const { name } = useMe();
  const subject = useSubject(sessionId);
  return name === undefined || name === subject;
}

/** Why this person may not say yes to a request, where that is known. */
export function useBar(approval: ApprovalView): Bar | undefined {
  const person = useMe();
  const subject = useSubjectOf(approval);
  const { view } = useSessionState(approval.sessionId);
  return useMemo(() => barOf(approval, { me: person, subject, view }), [approval, person, subject, view]);
}

/** Whether this person may hand a request to somebody else. */
export function useMayHand(approval: ApprovalView): boolean {
  const person = useMe();
  return mayHand(approval, { me: person, subject: useSubjectOf(approval) });
}

export interface Inbox {
  /** What this person can decide, and what is for others to decide, each the soonest deadline first. */
  mine: ListedApproval[];
  others: ListedApproval[];
  /** There are more, later ones, than are read. */
  more: boolean;
  /** They have been read. */
  loaded: boolean;
}

/** The last one: every row of the session list looks at it. */
let split: { of: unknown; person: Me; inbox: Inbox } | undefined;

export function useInbox(): Inbox {
  return inboxOf(useStore(waiting), useMe());
}

/** Tell whenever the inbox changes; returns how to stop. */
export function watchInbox(listener: (inbox: Inbox) => void): () => void {
  const tell = () => listener(inboxOf(waiting.get(), me.get()));
  const [one, other] = [waiting.subscribe(tell), me.subscribe(tell)];
  return () => {
    one();
    other();
  };
}

function inboxOf(list: ReturnType<typeof waiting.get>, person: Me): Inbox {
  if (split?.of !== list || split.person !== person) {
    const { rows, more, loaded } = list;
    const isMine = (row: ApprovalView) => barOf(row, { me: person, subject: row.subject }) === undefined;
    const { mine = [], others = [] } = Object.groupBy(rows, (row) => (isMine(row) ? "mine" : "others"));
    split = { of: list, person, inbox: { mine, others, more, loaded } };
  }
  return split.inbox;
}

/** How many requests wait for this person, as a badge shows it; nothing where none do, and where it is not known `?`. */
export function useWaits(): string | undefined {
  const { mine, more } = useInbox();
  if (mine.length === 0) return more ? "?" : undefined;
  return more ? `${mine.length}+` : String(mine.length);
}

/** The first of a session's pending requests that is for this person. */
export function useTurnOf(pending: readonly ApprovalView[], subject: string | undefined, view: SessionView): ApprovalView | undefined {
  const person = useMe();
  return pending.find((approval) => barOf(approval, { me: person, subject, view }) === undefined);
}
