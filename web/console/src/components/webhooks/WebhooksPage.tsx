/** Webhooks, for auditors: the state of deliveries, and undelivered messages, which can be sent again or dropped. */
import { useEffect, useEffectEvent } from "react";
import { useConnection } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { usePages } from "../../lib/usePages.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";
import { TopBar } from "../TopBar.js";
import { WebhookCard } from "./WebhookCard.js";

/** How long until it is read again: messages arrive, or fail, by themselves. */
const EVERY_MS = 5_000;

async function read() {
  const [webhooks, { records }] = await Promise.all([http.webhooks(), http.audit({ order: "newest", limit: 1 })]);
  const newest = records[0]?.n;
  return { rows: webhooks.map((webhook) => ({ webhook, newest })), next: undefined };
}

export function WebhooksPage({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const online = useConnection() === "open";
  const { rows, error, retry, reload } = usePages(read, online);
  const closed = error?.code === "forbidden";
  const again = useEffectEvent(reload);
  // Counted from each answer, so that a slow server is not asked while it works.
  useEffect(() => {
    if (!online || closed || !(rows || error)) return;
    const timer = setTimeout(again, EVERY_MS);
    return () => clearTimeout(timer);
  }, [online, closed, rows, error]);
  return (
    <>
      <TopBar title={t("webhooks.heading")} onMenu={onMenu} />
      <div className="rules">
        <div className="rules-inner">
          <p className="muted">{t("webhooks.intro")}</p>
          <Refused error={error} onRetry={retry} />
          {!closed &&
            (rows?.length === 0 ? (
              <div className="empty">
                <Icon name="outside" />
                <p>{t("webhooks.empty")}</p>
                <p className="muted">{t("webhooks.emptyHint")}</p>
              </div>
            ) : (
              rows?.map(({ webhook, newest }) => (
                <WebhookCard key={webhook.name} webhook={webhook} newest={newest} onChanged={reload} />
              ))
            ))}
        </div>
      </div>
    </>
  );
}
