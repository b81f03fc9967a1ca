import { useState } from "react";
import { CountersignError } from "@countersign/client";

export interface Requested {
  busy: boolean;
  error: CountersignError | undefined;
  /** Resolves to whether it was done. */
  run: (request: () => Promise<unknown>) => Promise<boolean>;
}

/** One request at a time, and what came of it. */
export function useRequest(): Requested {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<CountersignError>();
  const run = async (request: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await request();
      return true;
    } catch (e) {
      setError(CountersignError.of(e));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, run };
}
