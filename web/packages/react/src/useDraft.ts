/** Unfinished input is kept in the tab's session storage, so that a reload does not lose it. */
import { useCallback, useState, useSyncExternalStore } from "react";

const PREFIX = "countersign:";

/** The value kept under a key, if any. */
export function readDraft<T>(key: string): T | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key) ?? "") as T;
  } catch {
    return undefined; // Nothing is kept, or storage is switched off.
  }
}

/** Keep a value; `undefined` forgets it. */
export function keepDraft<T>(key: string, value: T | undefined): void {
  try {
    if (value === undefined) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // Nothing to do: the value lives on in memory.
  }
}

/** Forget all drafts whose keys begin with this. */
export function forgetDrafts(prefix: string): void {
  try {
    const keys = Array.from({ length: sessionStorage.length }, (_, i) => sessionStorage.key(i));
    for (const key of keys) if (key?.startsWith(PREFIX + prefix)) sessionStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}

const never = () => () => {};

/** `false` on a server, and while a page hydrates the server's output, which knows nothing of what this tab keeps. */
const useOwnPage = (): boolean => useSyncExternalStore(never, () => true, () => false);

/** State that survives a reload of this tab. `undefined` forgets it. */
export function useDraft<T>(key: string, initial: () => T): [T, (next: T | undefined) => void] {
  const from = useOwnPage() ? key : undefined;
  const read = () => ({ key: from, value: (from === undefined ? undefined : readDraft<T>(from)) ?? initial() });
  const [state, setState] = useState<{ key: string | undefined; value: T }>(read);
  // Another key is another value: read it before anything is rendered with the old one.
  let value = state.value;
  if (state.key !== from) {
    const now = read();
    value = now.value;
    setState(now);
  }
  const set = useCallback(
    (next: T | undefined) => {
      keepDraft(key, next);
      setState((s) => ({ key, value: next ?? s.value }));
    },
    [key],
  );
  return [value, set];
}
