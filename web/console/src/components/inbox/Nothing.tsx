import { useI18n } from "../../i18n/index.js";
import { inboxHref, type InboxQuery } from "../../lib/inbox.js";
import { Icon } from "../Icon.js";
import type { Listing } from "./useListing.js";

/** Why the list is empty, and where there are requests. */
export function Nothing({ query, listing: { tabs, hasMore } }: { query: InboxQuery; listing: Listing }) {
  const { t } = useI18n();
  if (tabs[query.tab].length > 0) {
    return (
      <div className="empty">
        <p>{t("inbox.noMatch")}</p>
        <a className="link" href={inboxHref({ ...query, search: "", filters: {} })}>
          {t("inbox.clear")}
        </a>
      </div>
    );
  }
  if (query.tab !== "mine") return <p className="empty muted">{t(query.tab === "later" ? "inbox.laterEmpty" : "inbox.othersEmpty")}</p>;
  const others = tabs.others.length;
  return (
    <div className="empty">
      {!hasMore && <Icon name="check" />}
      <p>{t(hasMore ? "inbox.unknown" : "inbox.empty")}</p>
      {others > 0 ? (
        <a className="link" href={inboxHref({ ...query, tab: "others", open: undefined })}>
          {t("inbox.toOthers", { n: others })}
        </a>
      ) : (
        !hasMore && <p className="muted">{t("inbox.emptyHint")}</p>
      )}
    </div>
  );
}
