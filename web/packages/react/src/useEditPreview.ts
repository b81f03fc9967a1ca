import { useEffect, useState } from "react";
import { CountersignError, stringifyJson, type ApprovalView, type CountersignHttp, type Edit, type EditPreview } from "@countersign/client";
import { useCountersign } from "./context.js";

/** How long to wait after the last keystroke before the server is asked. */
const PAUSE_MS = 400;

export interface EditPreviewing {
  /** `idle`: nothing is edited. `known`: the server's answer for exactly this edit. */
  state: "idle" | "asking" | "known" | "failed";
  found?: EditPreview;
  /** Why it cannot be known. */
  error?: CountersignError;
  retry: () => void;
}

type Found = Pick<EditPreviewing, "found" | "error">;

/**
 * The outcome of an edit of one action, while it is made: the policy's verdict, and what the call would do. It is never
 * that of other arguments. `idle` while `edited` is absent. The server is not asked while a decision is `sending`,
 * which ends the request.
 */
export function useEditPreview(
  approval: ApprovalView,
  index: number,
  edited: Edit["edited_action"] | undefined,
  sending = false,
): EditPreviewing {
  const { http } = useCountersign();
  const { approvalKey } = approval;
  const digest = approval.actions[index]?.digest;
  const asked = edited && stringifyJson([approvalKey, digest ?? null, index, edited]);
  const [newest, setNewest] = useState<Found & { asked: string; http: CountersignHttp }>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!edited || asked === undefined || sending) return;
    const stop = new AbortController();
    const tell = (found: Found) => {
      if (!stop.signal.aborted) setNewest({ asked, http, ...found });
    };
    const timer = setTimeout(() => {
      const edit = { action: index, edited_action: edited, ...(digest === undefined ? {} : { digest }) };
      http.previewEdit(approvalKey, edit, stop.signal).then(
        (found) => tell({ found }),
        (reason: unknown) => tell({ error: CountersignError.of(reason) }),
      );
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
    // `asked` has everything that is asked.
  }, [http, asked, tries, sending]);
  const retry = () => {
    setNewest(undefined);
    setTries((n) => n + 1);
  };
  if (asked === undefined) return { state: "idle", retry };
  // Another person may be told something else.
  if (!newest || newest.asked !== asked || newest.http !== http) return { state: "asking", retry };
  const { found, error } = newest;
  return found ? { state: "known", found, retry } : { state: "failed", ...(error ? { error } : {}), retry };
}
