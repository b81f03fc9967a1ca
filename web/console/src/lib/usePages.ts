/** A list that is read in pages. */
import { useCallback, useEffect, useRef, useState } from "react";
import { CountersignError } from "@countersign/client";

interface Page<Row, Cursor> {
  rows: Row[];
  next: Cursor | undefined;
}

interface Pages<Row, Cursor> extends Page<Row, Cursor> {
  /** The `read` function with which they were read. */
  of: unknown;
  loaded: boolean;
  failed?: { error: CountersignError; cursor: Cursor | undefined };
}

interface Listed<Row> {
  /** The rows so far; absent before the first page has arrived. */
  rows: Row[] | undefined;
  /** Reads the next page, if there is one. */
  more: (() => void) | undefined;
  /** Why the last requested page could not be read. */
  error: CountersignError | undefined;
  /** Requests that page again. */
  retry: () => void;
  /** Reads it from its beginning. */
  reload: () => void;
  /** Removes rows that no longer exist. */
  keep: (which: (row: Row) => boolean) => void;
}

/** The largest page of most lists; that of the audit log is larger. */
const MOST = 200;

/**
 * `read` returns the page at a cursor, with at least so many rows (0 to 200): a list that is read again keeps its length.
 * Another function is another list. `when`: whether it can be read now.
 */
export function usePages<Row, Cursor extends string | number>(
  read: (cursor: Cursor | undefined, atLeast: number) => Promise<Page<Row, Cursor>>,
  when = true,
): Listed<Row> {
  const none: Pages<Row, Cursor> = { of: read, rows: [], next: undefined, loaded: false };
  const [state, setState] = useState(none);
  const mine = (pages: Pages<Row, Cursor>) => (pages.of === read ? pages : none);
  const { rows, next, loaded, failed } = mine(state);
  /** Identifies the latest request among several answers. */
  const asked = useRef(0);
  const length = useRef(0);
  useEffect(() => {
    length.current = rows.length;
  }, [rows]);

  const load = useCallback(
    async (cursor?: Cursor) => {
      const turn = ++asked.current;
      const change = (make: (before: Pages<Row, Cursor>) => Pages<Row, Cursor>) => turn === asked.current && setState((before) => make(mine(before)));
      try {
        const page = await read(cursor, cursor === undefined ? Math.min(length.current, MOST) : 0);
        change((before) => {
          if (cursor === undefined) return { of: read, loaded: true, ...page };
          // A page that has already arrived is not appended to itself.
          return before.next === cursor ? { of: read, loaded: true, rows: [...before.rows, ...page.rows], next: page.next } : before;
        });
      } catch (e) {
        change((before) => ({ ...before, failed: { error: CountersignError.of(e), cursor } }));
      }
    },
    [read],
  );
  useEffect(() => {
    if (when) void load();
  }, [when, load]);

  return {
    rows: loaded ? rows : undefined,
    more: next === undefined ? undefined : () => void load(next),
    error: failed?.error,
    retry: () => void load(failed?.cursor),
    reload: () => void load(),
    keep: (which) => setState((before) => ({ ...before, rows: before.rows.filter(which) })),
  };
}
