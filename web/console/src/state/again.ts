/** Failed requests are repeated: at once when the connection is back, otherwise a while later. */
import { CountersignError } from "@countersign/client";
import { useConnection } from "@countersign/react";
import { Store, useStore } from "./store.js";

const AGAIN_MS = 5_000;
/** Asking again would change nothing. */
const FINAL: readonly (number | undefined)[] = [403, 404, 410];

const attempts = new Store(0);
let timer: ReturnType<typeof setTimeout> | undefined;

/** For the effects that ask: a new value each time it is worth asking again, and none while there is no connection. */
export function useAttempt(): number | undefined {
  const attempt = useStore(attempts);
  return useConnection() === "open" ? attempt : undefined;
}

/** Report why a request failed. */
export function askAgain(error: unknown): void {
  if (FINAL.includes(CountersignError.of(error).status)) return;
  timer ??= setTimeout(() => {
    timer = undefined;
    attempts.set((n) => n + 1);
  }, AGAIN_MS);
}
