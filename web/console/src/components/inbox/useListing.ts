/** The part of the inbox that the list shows, and its order. */
import { useCallback, useMemo, useState } from "react";
import type { ListedApproval } from "@countersign/client";
import { fitsBulk } from "../../lib/bulk.js";
import type { InboxQuery, Tab } from "../../lib/inbox.js";
import { firstOf, grouped, matching, type RowGroup } from "../../lib/listing.js";
import { usePutOff } from "../../state/later.js";
import { useWaiting } from "../../state/me.js";

/** How many rows are rendered at first, and with each press after that. */
const STEP = 50;

export interface Listing {
  /** The requests of each tab. */
  tabs: Record<Tab, ListedApproval[]>;
  /** Those of this tab that match, and their keys in the order of the list. */
  found: ListedApproval[];
  order: string[];
  /** The part of them that is drawn. */
  shown: RowGroup[];
  drawn: number;
  drawMore: () => void;
  /** The keys of the requests for others to decide. */
  others: ReadonlySet<string>;
  putOff: ReadonlyMap<string, number>;
  /** How many are read, and whether there are more, later ones. */
  read: number;
  hasMore: boolean;
  loaded: boolean;
  /** Why the newest reading failed, if it did. */
  error: unknown;
}

export function useListing({ tab, search, filters, group, open }: InboxQuery): Listing {
  const { requests, mine, others: theirs, hasMore, loading, error } = useWaiting();
  const putOff = usePutOff();
  const tabs = useMemo(() => {
    const isOff = (row: ListedApproval) => putOff.has(row.approvalKey);
    const isNow = (row: ListedApproval) => !isOff(row);
    return { mine: mine.filter(isNow), others: theirs.filter(isNow), later: [...mine, ...theirs].filter(isOff) };
  }, [mine, theirs, putOff]);
  const others = useMemo(() => new Set(theirs.map((row) => row.approvalKey)), [theirs]);
  const rows = tabs[tab];
  const found = useMemo(() => matching(rows, { search, filters }), [rows, search, filters]);
  const groups = useMemo(() => grouped(found, group), [found, group]);
  const order = useMemo(() => groups.flatMap((one) => one.rows.map((row) => row.approvalKey)), [groups]);
  const [most, setMost] = useState(STEP);
  // The open one is always rendered.
  const drawn = Math.max(most, Math.ceil((order.indexOf(open ?? "") + 1) / STEP) * STEP);
  const shown = useMemo(() => firstOf(groups, drawn), [groups, drawn]);
  const drawMore = () => setMost(drawn + STEP);
  const read = requests.length;
  // If nothing could be read, it is not known that nothing is pending.
  const loaded = !loading && (error === undefined || read > 0);
  return { tabs, found, order, shown, drawn, drawMore, others, putOff, read, hasMore, loaded, error };
}

export interface Chosen {
  chosen: ReadonlySet<string>;
  choosable: ReadonlySet<string>;
  choose: (approvalKey: string, on: boolean) => void;
  chooseAll: (approvalKeys: readonly string[], on: boolean) => void;
}

/** The selected rows, of those that are rendered and selectable: nobody decides what they do not see. */
export function useChosen({ shown, others }: Listing): Chosen {
  const [all, setAll] = useState<ReadonlySet<string>>(new Set());
  const choosable = useMemo(() => {
    const rows = shown.flatMap((group) => group.rows);
    const fit = rows.filter((row) => !others.has(row.approvalKey) && (fitsBulk(row, "approve") || fitsBulk(row, "reject")));
    return new Set(fit.map((row) => row.approvalKey));
  }, [shown, others]);
  const chosen = useMemo(() => new Set([...all].filter((key) => choosable.has(key))), [all, choosable]);
  const chooseAll = useCallback((keys: readonly string[], on: boolean) => {
    setAll((before) => {
      const next = new Set(before);
      for (const key of keys) {
        if (on) next.add(key);
        else next.delete(key);
      }
      return next;
    });
  }, []);
  const choose = useCallback((key: string, on: boolean) => chooseAll([key], on), [chooseAll]);
  return { chosen, choosable, choose, chooseAll };
}
