/** The second press of a double click must not decide what has taken the place of what was pressed. */
import { useState, useSyncExternalStore } from "react";
import type { CountersignClient } from "@countersign/client";

/** For this long a key or a press may still have been meant for what was there before. */
const SETTLES_MS = 500;

/** Whether something has just taken the place of something else, and a function that says that it has. */
export interface Settling {
  /** Whether it has just happened. */
  get: () => boolean;
  /** Be told when that changes; returns how to stop. */
  watch: (listener: () => void) => () => void;
  /** It happens now. */
  settle: () => void;
}

function newSettling(): Settling {
  const listeners = new Set<() => void>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const set = (next: typeof timer) => {
    clearTimeout(timer);
    timer = next;
    listeners.forEach((listener) => listener());
  };
  return {
    get: () => timer !== undefined,
    watch: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    settle: () => set(setTimeout(() => set(undefined), SETTLES_MS)),
  };
}

const known = new WeakMap<CountersignClient, Settling>();

/** That of all cards of a connection: they move when a reply to one of them is stored, or comes too late. */
export function settlingOf(client: CountersignClient): Settling {
  let settling = known.get(client);
  if (!settling) known.set(client, (settling = newSettling()));
  return settling;
}

/** Whether it has just happened. */
export const useSettles = ({ watch, get }: Settling): boolean => useSyncExternalStore(watch, get, () => false);

/** The same for one part of a page. */
export function useSettling(): [boolean, () => void] {
  const [own] = useState(newSettling);
  return [useSettles(own), own.settle];
}
