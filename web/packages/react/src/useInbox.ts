import { useEffect, useMemo, useSyncExternalStore } from "react";
import { useCountersign } from "./context.js";
import { inboxOf, queryKey, type Following, type InboxQuery, type InboxState } from "./inbox.js";

export interface InboxOptions extends Partial<Following> {
  query?: InboxQuery;
}

/** What waits for a person, across sessions. */
export interface Inbox extends InboxState {
  loadMore: () => Promise<void>;
  /** Read what is shown again. */
  refresh: () => Promise<void>;
  /** Take a request that was decided here from the list before the server says so. */
  forget: (approvalKey: string) => void;
}

/** Follows the inbox while the component is shown. Components with the same query share what is read. */
export function useInbox({ query = {}, everyMs = 10_000, pages = 1 }: InboxOptions = {}): Inbox {
  const { client, http } = useCountersign();
  const inbox = useMemo(() => inboxOf(client, http, query), [client, http, queryKey(query)]);
  useEffect(() => inbox.follow({ everyMs, pages }), [inbox, everyMs, pages]);
  const state = useSyncExternalStore(inbox.watch, inbox.get, inbox.get);
  const { loadMore, refresh, forget } = inbox;
  return { ...state, loadMore, refresh, forget };
}
