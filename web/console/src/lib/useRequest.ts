import { useRef, useState } from "react";
import { CountersignError } from "@countersign/client";
import { useFocusBack } from "./useFocusBack.js";

export interface Requested {
  busy: boolean;
  error: CountersignError | undefined;
  /** Resolves to whether it succeeded; a second request meanwhile is not sent. */
  run: (request: () => Promise<unknown>) => Promise<boolean>;
}

/** One request at a time, and its outcome. */
export function useRequest(): Requested {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<CountersignError>();
  // A button can be pressed again before it is rendered as disabled.
  const going = useRef(false);
  useFocusBack(busy);
  const run = async (request: () => Promise<unknown>) => {
    if (going.current) return false;
    going.current = true;
    setBusy(true);
    setError(undefined);
    try {
      await request();
      return true;
    } catch (e) {
      setError(CountersignError.of(e));
      return false;
    } finally {
      going.current = false;
      setBusy(false);
    }
  };
  return { busy, error, run };
}
