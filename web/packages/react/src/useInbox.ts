import { useCallback, useEffect, useRef, useState } from "react";
import type { ApprovalQuery, ApprovalView } from "@countersign/client";
import { useCountersign } from "./context.js";

export interface InboxOptions {
  /** Filters, and the rows of a page. */
  query?: Omit<ApprovalQuery, "status" | "cursor">;
  /** How often the pages that are shown are read again while the page is visible; 0: only when told to. */
  everyMs?: number;
}

/** What waits for a person, across sessions. */
export interface Inbox {
  /** The soonest deadline first. */
  requests: ApprovalView[];
  /** Before the first page has come. */
  loading: boolean;
  /** Why the newest reading failed, if it did; the requests are those of the one before. */
  error: unknown;
  /** Whether there may be more: of a list with filters the rest can turn out to have none. */
  more: boolean;
  loadMore: () => Promise<void>;
  /** Read what is shown again, for example after a decision. */
  refresh: () => Promise<void>;
}

interface Read {
  requests: ApprovalView[];
  pages: number;
  next: string | undefined;
}

/** A server looks at a bounded number of rows for a page, so with filters some have no requests: so many in a row count as one page. */
const EMPTY = 5;

/** Reads the inbox page by page, and again from time to time. */
export function useInbox({ query = {}, everyMs = 10_000 }: InboxOptions = {}): Inbox {
  const { http } = useCountersign();
  const [read, setRead] = useState<Read>();
  const [error, setError] = useState<unknown>();
  /** Only the newest reading counts. */
  const newest = useRef(0);
  const shown = useRef(1);
  const reading = useRef(false);
  const asked = JSON.stringify(query);

  const load = useCallback(
    async (pages: number) => {
      const turn = ++newest.current;
      reading.current = true;
      try {
        const found: Read = { requests: [], pages: 0, next: undefined };
        let empty = 0;
        do {
          const cursor = found.next === undefined ? {} : { cursor: found.next };
          const page = await http.waiting({ ...(JSON.parse(asked) as typeof query), ...cursor });
          found.requests.push(...page.approvals);
          found.next = page.next;
          empty = page.approvals.length > 0 ? 0 : empty + 1;
          if (empty > 0 && empty < EMPTY && page.next !== undefined) continue;
          found.pages++;
          empty = 0;
        } while (found.pages < pages && found.next !== undefined && turn === newest.current);
        if (turn !== newest.current) return;
        shown.current = found.pages;
        setRead(found);
        setError(undefined);
      } catch (reason) {
        if (turn === newest.current) setError(reason);
      } finally {
        if (turn === newest.current) reading.current = false;
      }
    },
    [http, asked],
  );
  const refresh = useCallback(() => load(shown.current), [load]);
  const loadMore = useCallback(() => load(shown.current + 1), [load]);

  useEffect(() => {
    shown.current = 1;
    setRead(undefined);
    void load(1);
    // A slow server is not asked again before it has answered.
    const look = () => document.visibilityState !== "hidden" && !reading.current && void load(shown.current);
    const timer = everyMs > 0 ? setInterval(look, everyMs) : undefined;
    return () => {
      clearInterval(timer);
      newest.current++;
    };
  }, [load, everyMs]);

  return {
    requests: read?.requests ?? NONE,
    loading: read === undefined && error === undefined,
    error,
    more: read?.next !== undefined,
    loadMore,
    refresh,
  };
}

const NONE: ApprovalView[] = [];
