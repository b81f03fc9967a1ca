import { useEffect, useMemo, useSyncExternalStore } from "react";
import type { ListedApproval } from "@countersign/client";
import { useCountersign } from "./context.js";
import { draftKey } from "./draftKey.js";
import { ended } from "./ended.js";
import { inboxOf, queryKey, UNREAD, type Following, type InboxQuery, type InboxState, type SharedInbox } from "./inbox.js";
import { useLate, type AllLate } from "./late.js";

export interface InboxOptions extends Partial<Following> {
  query?: InboxQuery;
}

/** The pending requests, across sessions. */
export interface Inbox extends InboxState {
  /**
   * The soonest deadline first. This includes requests for which a reply from here came too late, with how they ended,
   * until that is marked as read on the card. A request that has not changed since the last reading is the same object.
   */
  requests: ListedApproval[];
  loadMore: () => Promise<void>;
  /** Read the shown requests again. */
  refresh: () => Promise<void>;
  /** Take a request that was decided here from the list before the server says so. */
  forget: (approvalKey: string) => void;
}

/** Follows the inbox while the component is shown. Components with the same query share the readings. */
export function useInbox({ query = {}, everyMs = 10_000, pages = 1 }: InboxOptions = {}): Inbox {
  const { client, http } = useCountersign();
  const inbox = useMemo(() => inboxOf(client, http, query), [client, http, queryKey(query)]);
  useEffect(() => inbox.follow({ everyMs, pages }), [inbox, everyMs, pages]);
  // The server's rendering: when a page hydrates part by part, another part may have read it already.
  const state = useSyncExternalStore(inbox.watch, inbox.get, () => UNREAD);
  const late = useLate(client);
  const requests = useMemo(() => withLate(state.requests, late, inbox), [state.requests, late, inbox]);
  const { loadMore, refresh, forget } = inbox;
  return { ...state, requests, loadMore, refresh, forget };
}

function withLate(waiting: ListedApproval[], late: AllLate, inbox: SharedInbox): ListedApproval[] {
  if (late.size === 0) return waiting;
  const all = waiting.filter((one) => !late.has(draftKey(one)));
  for (const { approval, error, read } of late.values()) {
    if (read || !inbox.had(approval)) continue;
    const row = ended<ListedApproval>(approval, error);
    const after = all.findIndex((one) => deadline(one) > deadline(row));
    all.splice(after < 0 ? all.length : after, 0, row);
  }
  return all;
}

const deadline = ({ expiresAt }: ListedApproval) => (expiresAt === undefined ? Infinity : Date.parse(expiresAt));
