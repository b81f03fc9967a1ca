/**
 * Requests that a person has put off, in this browser only: the server knows nothing of it, and deadlines keep running.
 */
import { useEffect, useMemo, useState } from "react";
import type { ApprovalView } from "@countersign/client";
import { readLocal, writeLocal } from "../lib/storage.js";
import { client, laterKey, serverNow } from "./connection.js";
import { Store, useStore } from "./store.js";

/** Until when, by the request's key. */
type PutOff = Readonly<Record<string, number>>;

const HOUR_MS = 3_600_000;
/** Older ones come back first. */
const MOST = 500;

function read(): PutOff {
  try {
    const stored: unknown = JSON.parse(readLocal(laterKey()) ?? "{}");
    const entries = Object.entries(stored as object).filter(([, until]) => typeof until === "number");
    return Object.fromEntries(entries) as PutOff;
  } catch {
    return {};
  }
}

const putOff = new Store<PutOff>(read());

// Now their owner is known.
client.on("hello", () => putOff.set(read()));
// Another tab of this browser.
window.addEventListener("storage", () => putOff.set(read()));

function write(change: (all: PutOff) => PutOff): void {
  const now = serverNow();
  const left = Object.entries(change(read())).filter(([, until]) => until > now);
  const kept = Object.fromEntries(left.slice(-MOST));
  writeLocal(laterKey(), left.length > 0 ? JSON.stringify(kept) : null);
  putOff.set(kept);
}

/** For an hour, but no longer than half of the time that is left to decide. Returns until when. */
export function putOffRequest({ approvalKey, expiresAt }: ApprovalView): number {
  const now = serverNow();
  const left = expiresAt === undefined ? Number.NaN : Date.parse(expiresAt) - now;
  const until = now + (Number.isNaN(left) ? HOUR_MS : Math.min(HOUR_MS, left / 2));
  write(({ [approvalKey]: _, ...rest }) => ({ ...rest, [approvalKey]: until }));
  return until;
}

export function bringBack(approvalKey: string): void {
  write(({ [approvalKey]: _, ...rest }) => rest);
}

/** The requests that are put off now, and until when. */
export function usePutOff(): ReadonlyMap<string, number> {
  const all = useStore(putOff);
  const [now, setNow] = useState(serverNow);
  const current = useMemo(() => new Map(Object.entries(all).filter(([, until]) => until > now)), [all, now]);
  const soonest = Math.min(...current.values());
  useEffect(() => {
    if (!Number.isFinite(soonest)) return;
    const timer = setTimeout(() => setNow(serverNow()), Math.max(0, soonest - serverNow()) + 50);
    return () => clearTimeout(timer);
    // If the clock was corrected meanwhile it may still be too early: then only `now` has changed.
  }, [soonest, now]);
  return current;
}
