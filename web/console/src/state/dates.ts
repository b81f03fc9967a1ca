/**
 * Who asked for a request, when, and when it ended. Events do not say it; the server's own list of requests does, so a
 * card that is in view asks for it, and again when something about the request has changed.
 */
import { useEffect, useState, type RefObject } from "react";
import type { ListedApproval, UpdateView } from "@countersign/client";
import { http } from "./connection.js";
import { Store, useStore } from "./store.js";

export interface Dates {
  subject?: string;
  createdAt?: string;
  resolvedAt?: string;
  updates: UpdateView[];
}

const known = new Store<ReadonlyMap<string, Dates>>(new Map());
/** What was asked for last: how far each request was then. */
const asked = new Map<string, string>();

const AT_ONCE = 4;
const queue: string[] = [];
let running = 0;

function next(): void {
  const key = running < AT_ONCE ? queue.shift() : undefined;
  if (key === undefined) return;
  running += 1;
  void http
    .approval(key)
    .then(
      ({ subject, createdAt, resolvedAt, updates }) =>
        known.set((all) =>
          new Map(all).set(key, {
            ...(subject === undefined ? {} : { subject }),
            ...(createdAt === undefined ? {} : { createdAt }),
            ...(resolvedAt === undefined ? {} : { resolvedAt }),
            updates,
          }),
        ),
      () => asked.delete(key), // What happened is here; only its times are missing.
    )
    .finally(() => {
      running -= 1;
      next();
    });
}

/** `wanted`: somebody looks at it. */
export function useDates(approval: ListedApproval, wanted: boolean): Dates {
  const { approvalKey, subject, createdAt, resolvedAt, resolution, updates } = approval;
  const found = useStore(known).get(approvalKey);
  const whole = createdAt !== undefined && (resolution === undefined || resolvedAt !== undefined) && updates.every((u) => u.at);
  const state = `${resolution ?? ""} ${updates.length}`;
  useEffect(() => {
    if (!wanted || whole || asked.get(approvalKey) === state) return;
    asked.set(approvalKey, state);
    queue.push(approvalKey);
    next();
  }, [approvalKey, state, wanted, whole]);
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
