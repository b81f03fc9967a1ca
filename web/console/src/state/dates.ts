/**
 * Who made a request, when, and when it ended. Events do not say this; the server's own list of requests does, so a
 * visible card asks for it, and again when something about the request has changed.
 */
import { useEffect, useState, type RefObject } from "react";
import type { ListedApproval, UpdateView } from "@countersign/client";
import { forgetOldest } from "../lib/bounded.js";
import { askAgain, useAttempt } from "./again.js";
import { http } from "./connection.js";
import { Store, useStore } from "./store.js";

export interface Dates {
  subject?: string;
  createdAt?: string;
  resolvedAt?: string;
  updates: UpdateView[];
}

/** For how many requests, and sessions, that is kept: more than one reading returns. */
const MOST = 1000;
const known = new Store<ReadonlyMap<string, Dates>>(new Map());
/** The state of each request when it was last read, and its session. */
const asked = new Map<string, { state: string; sessionId: string }>();

/** How far the list of a session's resolved requests, newest first, has been read. */
interface Reading {
  waiting: boolean;
  resolved: Set<string>;
  /** The cursor of the next page; `null` at its end. */
  next: string | null | undefined;
  busy: boolean;
}
const sessions = new Map<string, Reading>();
const ROWS = 50;
/** The maximum number of pages per reading. Requests that a fork has from another session are in no list. */
const PAGES = 10;

function want({ sessionId, approvalKey, resolution }: ListedApproval): void {
  const reading = sessions.get(sessionId) ?? { waiting: false, resolved: new Set(), next: undefined, busy: false };
  sessions.set(sessionId, reading);
  forgetOldest(sessions, MOST);
  if (resolution === undefined) reading.waiting = true;
  else reading.resolved.add(approvalKey);
  if (reading.busy) return;
  reading.busy = true;
  // Cards that are rendered together are read together.
  setTimeout(() => void read(sessionId, reading).finally(() => (reading.busy = false)));
}

async function read(session_id: string, reading: Reading): Promise<void> {
  try {
    while (reading.waiting || reading.resolved.size > 0) {
      if (reading.waiting) {
        reading.waiting = false;
        await readWaiting(session_id);
      }
      const keys = new Set(reading.resolved);
      reading.resolved.clear();
      if (keys.size > 0) await readResolved(session_id, reading, keys);
    }
  } catch (error) {
    // The content is here; only its times are missing, until they are requested again.
    reading.waiting = false;
    reading.resolved.clear();
    for (const [key, { sessionId }] of asked) if (sessionId === session_id) asked.delete(key);
    askAgain(error);
  }
}

/** Pages of long requests are short, so that there may be more than one. */
async function readWaiting(session_id: string): Promise<void> {
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES; pages++) {
    const { approvals, next } = await page(session_id, "waiting", cursor);
    keep(approvals);
    if (next === undefined) return;
    cursor = next;
  }
}

function page(session_id: string, status: "waiting" | "resolved", cursor: string | undefined) {
  return http.approvals({ session_id, status, limit: ROWS, ...(cursor === undefined ? {} : { cursor }) });
}

async function readResolved(session_id: string, reading: Reading, keys: Set<string>): Promise<void> {
  const some = async (cursor?: string) => {
    const { approvals, next } = await page(session_id, "resolved", cursor);
    keep(approvals);
    for (const { approvalKey } of approvals) keys.delete(approvalKey);
    return next ?? null;
  };
  const first = await some();
  reading.next = reading.next === undefined ? first : reading.next;
  for (let pages = 0; pages < PAGES && keys.size > 0 && typeof reading.next === "string"; pages++) reading.next = await some(reading.next);
}

function keep(rows: readonly ListedApproval[]): void {
  known.set((all) => {
    const next = new Map(all);
    for (const { approvalKey } of rows) next.delete(approvalKey); // It is among the newest then.
    for (const { approvalKey, subject, createdAt, resolvedAt, updates } of rows) {
      next.set(approvalKey, {
        ...(subject === undefined ? {} : { subject }),
        ...(createdAt === undefined ? {} : { createdAt }),
        ...(resolvedAt === undefined ? {} : { resolvedAt }),
        updates,
      });
    }
    for (const key of forgetOldest(next, MOST)) asked.delete(key);
    return next;
  });
}

/** `wanted`: somebody looks at it. */
export function useDates(approval: ListedApproval, wanted: boolean): Dates {
  const { approvalKey, subject, createdAt, resolvedAt, resolution, updates } = approval;
  const found = useStore(known).get(approvalKey);
  const whole = createdAt !== undefined && (resolution === undefined || resolvedAt !== undefined) && updates.every((u) => u.at);
  const state = `${resolution ?? ""} ${updates.length}`;
  const attempt = useAttempt();
  useEffect(() => {
    if (!wanted || whole || attempt === undefined || asked.get(approvalKey)?.state === state) return;
    asked.set(approvalKey, { state, sessionId: approval.sessionId });
    forgetOldest(asked, MOST);
    want(approval);
    // The request as of its latest change of state is the one to ask about.
  }, [approvalKey, state, wanted, whole, attempt]);
  const own = {
    ...(subject === undefined ? {} : { subject }),
    ...(createdAt === undefined ? {} : { createdAt }),
    ...(resolvedAt === undefined ? {} : { resolvedAt }),
  };
  return { ...found, ...own, updates: updates.map((update, i) => ({ ...found?.updates[i], ...update })) };
}

/** Whether an element has been in view. */
export function useSeen(element: RefObject<Element | null>): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (seen || !element.current || typeof IntersectionObserver === "undefined") return;
    const observer = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && setSeen(true));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [seen, element]);
  return seen;
}
