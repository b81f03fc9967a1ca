import { useCallback, useState } from "react";
import { readTabJson, writeTab } from "./storage.js";

/** State that survives a reload of this tab. `undefined` forgets it. */
export function useTabState<T>(key: string, initial: () => T): [T, (next: T | undefined) => void] {
  const [state, setState] = useState<{ key: string; value: T }>(() => ({
    key,
    value: readTabJson<T>(key) ?? initial(),
  }));
  // Another key is another value: read it before anything is drawn with the old one.
  let value = state.value;
  if (state.key !== key) {
    value = readTabJson<T>(key) ?? initial();
    setState({ key, value });
  }
  const set = useCallback(
    (next: T | undefined) => {
      writeTab(key, next === undefined ? null : JSON.stringify(next));
      setState((s) => ({ key, value: next ?? s.value }));
    },
    [key],
  );
  return [value, set];
}
