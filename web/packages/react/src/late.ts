/**
 * Replies that came too late: each is shown until its sender has read that, even if its request is no longer pending.
 */
import { useSyncExternalStore } from "react";
import type { ApprovalView, CountersignClient, CountersignError } from "@countersign/client";
import { draftKey } from "./draftKey.js";

export interface Late {
  /** The request as it was shown to its sender. */
  approval: ApprovalView;
  /** With the code `approval_already_resolved`: who was first is in its details. */
  error: CountersignError;
  /** Whether that has been read. */
  read: boolean;
}

/** By the request's `draftKey`. */
export type AllLate = ReadonlyMap<string, Late>;

/** How many are kept. */
const MOST = 20;

const NONE: AllLate = new Map();

export class LateReplies {
  #all = NONE;
  readonly #listeners = new Set<() => void>();

  constructor(client: CountersignClient) {
    // In that history the same request may be pending again.
    client.on("historyChanged", () => this.#set([]));
    client.on("restarted", (id) => this.#set([...this.#all].filter(([, { approval }]) => approval.sessionId !== id)));
  }

  /** It stays the same object until something changes. */
  readonly get = (): AllLate => this.#all;

  /** Be told when it changes; returns how to stop. */
  readonly watch = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  add(approval: ApprovalView, error: CountersignError): void {
    this.#set([...this.#all, [draftKey(approval), { approval, error, read: false }] as const].slice(-MOST));
  }

  /** Somebody has read that a reply to this request came too late, if one did. */
  read(approval: ApprovalView): void {
    const key = draftKey(approval);
    if (this.#all.get(key)?.read === false) this.#set([...this.#all].map(([other, late]) => [other, other === key ? { ...late, read: true } : late]));
  }

  #set(all: (readonly [string, Late])[]): void {
    this.#all = new Map(all);
    for (const listener of [...this.#listeners]) listener();
  }
}

const known = new WeakMap<CountersignClient, LateReplies>();

/** The late replies of a connection. */
export function lateOf(client: CountersignClient): LateReplies {
  let late = known.get(client);
  if (!late) known.set(client, (late = new LateReplies(client)));
  return late;
}

export function useLate(client: CountersignClient): AllLate {
  const { watch, get } = lateOf(client);
  return useSyncExternalStore(watch, get, () => NONE);
}
