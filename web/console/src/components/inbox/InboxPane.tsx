import type { ListedApproval } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { inboxHref, type InboxQuery } from "../../lib/inbox.js";
import { Icon } from "../Icon.js";
import { OpenRequest } from "./OpenRequest.js";

/** The latest decision here: on one request, or on many at once, which have no key. */
export interface Stored {
  approvalKey?: string;
  text: string;
}

interface Props {
  query: InboxQuery;
  /** The open request, if it is pending. */
  row: ListedApproval | undefined;
  /** Its place in the list, from 0, and how many there are; -1 if it is not there. */
  place: number;
  of: number;
  putOff: boolean;
  stored: Stored | undefined;
  onStep: (by: 1 | -1) => void;
  onLater: () => void;
  onBack: () => void;
  onSent: (approval: ListedApproval) => void;
}

/** The part beside the list: the open request, and the one decided before it. */
export function InboxPane({ query, row, place, of, putOff, stored, onStep, onLater, onBack, onSent }: Props) {
  const { t } = useI18n();
  const { open } = query;
  return (
    <div className="inbox-pane" role="region" aria-label={t("inbox.pane")}>
      {open !== undefined && (
        <div className="inbox-pane-head">
          <button type="button" className="button quiet small inbox-back" onClick={onBack}>
            <Icon name="back" />
            <span className="words">{t("inbox.back")}</span>
          </button>
          <span className="muted grow">{place >= 0 && t("inbox.place", { n: place + 1, of })}</span>
          <button type="button" className="icon-button" disabled={place <= 0} onClick={() => onStep(-1)} aria-label={t("keys.previous")}>
            <Icon name="up" />
          </button>
          <button type="button" className="icon-button" disabled={place < 0 || place >= of - 1} onClick={() => onStep(1)} aria-label={t("keys.next")}>
            <Icon name="down" />
          </button>
          {row && (
            <button type="button" className="button small" title={t("inbox.laterHint")} onClick={onLater}>
              <Icon name="clock" />
              {t(putOff ? "inbox.bringBack" : "inbox.later")}
            </button>
          )}
        </div>
      )}
      {open === undefined ? (
        <p className="inbox-none muted">{t("inbox.none")}</p>
      ) : (
        <>
          {stored?.approvalKey !== undefined && <StoredNote stored={stored} query={query} />}
          <OpenRequest key={open} approvalKey={open} row={row} onSent={onSent} />
        </>
      )}
    </div>
  );
}

/** The latest decision, and the link back to it. */
export function StoredNote({ stored, query }: { stored: Stored | undefined; query: InboxQuery }) {
  const { t } = useI18n();
  if (!stored || (query.open !== undefined && stored.approvalKey === query.open)) return null;
  return (
    <p className="inbox-stored">
      <Icon name="check" />
      <span className="grow">{stored.text}</span>
      {stored.approvalKey !== undefined && (
        <a className="link" href={inboxHref({ ...query, open: stored.approvalKey })}>
          {t("inbox.show")}
        </a>
      )}
    </p>
  );
}
