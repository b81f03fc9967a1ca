/** All pending requests, across sessions: the list, its filters, and beside it the open request. */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { CountersignError, type ListedApproval } from "@countersign/client";
import { settlingOf, useCardsSettle } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { fitsBulk, type BulkChoice } from "../../lib/bulk.js";
import type { InboxQuery } from "../../lib/inbox.js";
import { nextAfter, stepFrom } from "../../lib/listing.js";
import { timeText } from "../../lib/time.js";
import { client } from "../../state/connection.js";
import { keysOn } from "../../state/keys.js";
import { bringBack, putOffRequest } from "../../state/later.js";
import { waiting } from "../../state/lists.js";
import { useWaiting } from "../../state/me.js";
import { inboxNow, showInbox } from "../../state/route.js";
import { useStore } from "../../state/store.js";
import { focusCard } from "../approval/focus.js";
import { rowTitle } from "../approval/title.js";
import { Refused } from "../Refusal.js";
import { TopBar } from "../TopBar.js";
import { BulkBar } from "./BulkBar.js";
import { BulkDialog, type Bulk } from "./BulkDialog.js";
import { InboxFilters } from "./InboxFilters.js";
import { InboxList } from "./InboxList.js";
import { InboxPane, StoredNote, type Stored } from "./InboxPane.js";
import { rowId } from "./InboxRow.js";
import { InboxTabs } from "./InboxTabs.js";
import { KeyHelp } from "./KeyHelp.js";
import { Nothing } from "./Nothing.js";
import { useInboxKeys } from "./useInboxKeys.js";
import { useChosen, useListing, type Chosen, type Listing } from "./useListing.js";

export function InboxPage({ query, onMenu }: { query: InboxQuery; onMenu: () => void }) {
  const { t } = useI18n();
  const { open } = query;
  const listing = useListing(query);
  const chosen = useChosen(listing);
  const [bulk, setBulk] = useState<Bulk>();
  const [help, setHelp] = useState(false);
  const head = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const walk = useWalk(query, listing, list);
  const { order, putOff } = listing;
  const change = (changed: (now: InboxQuery) => InboxQuery) => {
    const now = inboxNow();
    if (now) showInbox(changed(now), false);
  };

  const onBulkStored = (done: ListedApproval[]) => {
    const keys = done.map((row) => row.approvalKey);
    // The dialog says why none was stored.
    if (keys.length === 0) return;
    keys.forEach(waiting.forget);
    chosen.chooseAll(keys, false);
    const text = t("bulk.stored", { n: keys.length });
    walk.setStored({ text });
    announce(text);
    const now = opened();
    // If the person has left this page, the request that is open elsewhere stays open.
    if (head.current && now !== undefined && keys.includes(now)) walk.go(undefined);
  };
  // The buttons for the selection disappear with it.
  const keepFocus = () =>
    requestAnimationFrame(() => {
      if (document.activeElement === document.body) list.current?.focus();
    });
  useInboxKeys({
    on: useStore(keysOn),
    open,
    settling: walk.settling,
    press: (key) => {
      if (key === "next" || key === "previous") walk.step(key === "next" ? 1 : -1);
      else if (key === "help") setHelp(true);
      else if (key === "later") walk.later();
      else if (key === "search") head.current?.querySelector("input")?.focus();
      else if (key === "choose" && open !== undefined && chosen.choosable.has(open)) chosen.choose(open, !chosen.chosen.has(open));
      else if (key === "back" && open !== undefined) walk.go(undefined);
    },
  });

  return (
    <>
      <TopBar
        title={t("inbox.heading")}
        onMenu={onMenu}
        actions={
          <button type="button" className="button quiet small desk-only" onClick={() => setHelp(true)}>
            {t("keys.open")} <kbd>?</kbd>
          </button>
        }
      />
      <div className="inbox" data-open={open !== undefined || undefined} data-settling={walk.settling || undefined}>
        <div className="inbox-head" ref={head}>
          <InboxTabs query={query} listing={listing} />
          <InboxFilters query={query} rows={listing.tabs[query.tab]} onChange={change} />
        </div>
        <div className="inbox-side-list">
          {/* Beside an open request, the one decided before it stays in view. */}
          {(open === undefined || walk.stored?.approvalKey === undefined) && <StoredNote stored={walk.stored} query={query} />}
          <div className="inbox-list" ref={list} tabIndex={-1}>
            <ListBody query={query} listing={listing} chosen={chosen} />
          </div>
          <BulkBar
            chosen={chosen.chosen.size}
            onBulk={(choice) => setBulk(bulkOf(choice, listing, chosen))}
            onClear={() => {
              chosen.chooseAll(order, false);
              keepFocus();
            }}
          />
        </div>
        <InboxPane
          query={query}
          row={walk.row}
          place={open === undefined ? -1 : order.indexOf(open)}
          of={order.length}
          putOff={open !== undefined && putOff.has(open)}
          stored={walk.stored}
          onStep={walk.step}
          onLater={walk.later}
          onBack={() => walk.go(undefined)}
          onSent={walk.sent}
        />
      </div>
      {bulk && (
        <BulkDialog
          bulk={bulk}
          onStored={onBulkStored}
          onClose={() => {
            setBulk(undefined);
            keepFocus();
          }}
        />
      )}
      {help && <KeyHelp onClose={() => setHelp(false)} />}
    </>
  );
}

function ListBody({ query, listing, chosen }: { query: InboxQuery; listing: Listing; chosen: Chosen }) {
  const { t } = useI18n();
  const { tabs, found, shown, drawn, others, putOff, read, hasMore, loaded, error } = listing;
  const all = tabs[query.tab].length;
  const some = loaded && found.length > 0;
  return (
    <>
      <p className="inbox-count" role="status">
        {some && (found.length === all ? t("inbox.n", { n: all }) : t("inbox.nOf", { n: found.length, of: all }))}
      </p>
      {error !== undefined && <Refused error={CountersignError.of(error)} onRetry={() => void waiting.refresh()} />}
      {loaded && !some && <Nothing query={query} listing={listing} />}
      <InboxList groups={shown} query={query} chosen={chosen} others={others} putOff={putOff} />
      {found.length > drawn && (
        <button type="button" className="button quiet wide" onClick={listing.drawMore}>
          {t("sessions.more")}
        </button>
      )}
      {hasMore && (
        <div className="inbox-partly">
          <p className="hint">{t("inbox.partly", { n: read })}</p>
          <button type="button" className="link" onClick={() => void waiting.loadMore()}>
            {t("inbox.readMore")}
          </button>
        </div>
      )}
    </>
  );
}

function bulkOf(choice: BulkChoice, { found }: Listing, { chosen }: Chosen): Bulk {
  const all = found.filter((row) => chosen.has(row.approvalKey));
  const rows = all.filter((row) => fitsBulk(row, choice));
  return { choice, rows, leftOut: all.length - rows.length };
}

/** Moving from request to request: by keys and buttons, and automatically once one is decided or put off. */
function useWalk({ open }: InboxQuery, listing: Listing, list: { current: HTMLElement | null }) {
  const { t, language } = useI18n();
  // A decision is stored a while after it was sent: the next request follows from the page at that time.
  const latest = useRef(listing);
  // By then the list may have been read without it: its last place counts.
  const around = useRef(listing.order);
  useLayoutEffect(() => {
    latest.current = listing;
    if (open !== undefined && listing.order.includes(open)) around.current = listing.order;
  });
  const row = useWaiting().requests.find((one) => one.approvalKey === open);
  const [stored, setStored] = useState<Stored>();
  const settling = useCardsSettle(client);
  const { settle } = settlingOf(client);
  useEffect(() => {
    if (open !== undefined) document.getElementById(rowId(open))?.scrollIntoView({ block: "nearest" });
  }, [open]);

  const go = (next: string | undefined) => {
    const inbox = inboxNow();
    if (!inbox) return;
    showInbox({ ...inbox, open: next }, inbox.open === undefined);
    if (next === undefined) focusRow(inbox.open, list.current);
    else focusCard(next);
  };
  const step = (by: 1 | -1) => {
    const next = stepFrom(listing.order, open, by);
    if (next !== undefined && next !== open) go(next);
  };
  /** Moves on from a finished request, and says in words what opens in its place. */
  const goOn = (from: string): string => {
    const next = nextAfter(latest.current.order, from, around.current);
    settle();
    go(next);
    const nextRow = latest.current.found.find((one) => one.approvalKey === next);
    return nextRow ? t("inbox.nextIs", { what: rowTitle(nextRow, t) }) : t("inbox.noneLeft");
  };
  const sent = (request: ListedApproval) => {
    const { approvalKey } = request;
    const title = rowTitle(request, t);
    waiting.forget(approvalKey);
    const said = t("inbox.stored", { what: title });
    setStored({ approvalKey, text: said });
    // A person who has moved on to something else stays there.
    announce(opened() === approvalKey ? `${said} ${goOn(approvalKey)}` : said);
  };
  const later = () => {
    if (!row || settling) return;
    if (listing.putOff.has(row.approvalKey)) {
      bringBack(row.approvalKey);
      settle();
      return announce(t("inbox.broughtBack"));
    }
    const until = timeText(putOffRequest(row), language);
    announce(`${t("inbox.putOff", { time: until })} ${goOn(row.approvalKey)}`);
  };
  return { row, stored, setStored, settling, go, step, sent, later };
}

/** The request that is open in the inbox, if the inbox is open. */
const opened = () => inboxNow()?.open;

/** Moves the focus back to the row that was open, or to the list if it is gone. */
function focusRow(approvalKey: string | undefined, list: HTMLElement | null): void {
  requestAnimationFrame(() => {
    const row = approvalKey === undefined ? null : document.getElementById(rowId(approvalKey));
    (row?.querySelector("a") ?? list)?.focus();
  });
}
