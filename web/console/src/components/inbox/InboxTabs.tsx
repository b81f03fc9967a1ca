import { useI18n } from "../../i18n/index.js";
import { inboxHref, TABS, type InboxQuery } from "../../lib/inbox.js";
import type { Listing } from "./useListing.js";

/** For whom: the person here, others, or put off. */
export function InboxTabs({ query, listing: { tabs, hasMore } }: { query: InboxQuery; listing: Listing }) {
  const { t } = useI18n();
  return (
    <nav className="inbox-tabs" aria-label={t("inbox.tabs")}>
      {TABS.map((tab) => (
        <a key={tab} href={inboxHref({ ...query, tab, open: undefined })} aria-current={query.tab === tab ? "page" : undefined}>
          {t(`inbox.tab.${tab}`)} <span className="inbox-tab-count">{hasMore ? `${tabs[tab].length}+` : tabs[tab].length}</span>
        </a>
      ))}
    </nav>
  );
}
