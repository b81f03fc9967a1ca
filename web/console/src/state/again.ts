/** What the server could not be asked is asked again: at once when the connection is back, else a while later. */
import { CountersignError } from "@countersign/client";
import { useConnection } from "@countersign/react";
import { Store, useStore } from "./store.js";

const AGAIN_MS = 5_000;
/** To ask again would change nothing. */
const FINAL: readonly (number | undefined)[] = [403, 404, 410];

const attempts = new Store(0);
let timer: ReturnType<typeof setTimeout> | undefined;

/** For the effects that ask: another value each time that it is worth to ask again, and none while the connection is away. */
export function useAttempt(): number | undefined {
  const attempt = useStore(attempts);
  return useConnection() === "open" ? attempt : undefined;
}

/** This is why something could not be asked. */
export function askAgain(error: unknown): void {
  if (FINAL.includes(CountersignError.of(error).status)) return;
  timer ??= setTimeout(() => {
    timer = undefined;
    attempts.set((n) => n + 1);
  }, AGAIN_MS);
}
