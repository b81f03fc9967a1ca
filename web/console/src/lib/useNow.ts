import { useSyncExternalStore } from "react";
import { serverNow } from "../state/connection.js";

interface Clock {
  read: () => number;
  subscribe: (listener: () => void) => () => void;
}

/** One timer for all components that are rendered at the same interval: a long list has hundreds of them. */
const clocks = new Map<number, Clock>();

function newClock(everyMs: number): Clock {
  const listeners = new Set<() => void>();
  let now = serverNow();
  let timer: ReturnType<typeof setInterval> | undefined;
  const tick = () => {
    now = serverNow();
    for (const listener of [...listeners]) listener();
  };
  return {
    read: () => {
      // It had no listeners for a while, so it stood still.
      if (listeners.size === 0 && Math.abs(serverNow() - now) > everyMs) now = serverNow();
      return now;
    },
    subscribe: (listener) => {
      if (listeners.size === 0) timer = setInterval(tick, everyMs);
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) clearInterval(timer);
      };
    },
  };
}

/** The server's time, updated every `everyMs`. */
export function useNow(everyMs: number): number {
  const clock = clocks.get(everyMs) ?? newClock(everyMs);
  clocks.set(everyMs, clock);
  return useSyncExternalStore(clock.subscribe, clock.read);
}
