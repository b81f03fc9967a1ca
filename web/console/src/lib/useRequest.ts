import { useState } from "react";
import type { CountersignError } from "@countersign/client";
import { asRefusal } from "../state/sessions.js";

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
      setError(asRefusal(e));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { busy, error, run };
}
