/** The audit log, newest first: who decided what and when, whether the chain holds, and a file of it. */
import { useConnection } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { usePages } from "../../lib/usePages.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";
import { TopBar } from "../TopBar.js";
import { AuditRow } from "./AuditRow.js";
import { Export } from "./Export.js";
import { Verify } from "./Verify.js";

const PAGE = 50;

async function read(cursor: number | undefined, atLeast: number) {
  const limit = Math.max(PAGE, atLeast);
  const { records, next } = await http.audit({ order: "newest", limit, ...(cursor === undefined ? {} : { cursor }) });
  return { rows: records, next };
}

export function AuditPage({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const online = useConnection() === "open";
  const { rows, more, error, retry, reload } = usePages(read, online);
  const closed = error?.code === "forbidden";
  return (
    <>
      <TopBar title={t("audit.heading")} onMenu={onMenu} />
      <div className="rules">
        <div className="rules-inner">
          <p className="muted">{t("audit.intro")}</p>
          <Refused error={error} onRetry={retry} />
          {!closed && (
            <>
              <div className="audit-tools">
                <Verify />
                <Export />
              </div>
              <div className="audit-head">
                <h2>{t("audit.records")}</h2>
                <button type="button" className="button small quiet" onClick={reload}>
                  <Icon name="repeat" />
                  {t("audit.refresh")}
                </button>
              </div>
              {rows?.length === 0 ? (
                <div className="empty">
                  <Icon name="shield" />
                  <p>{t("audit.empty")}</p>
                </div>
              ) : (
                <ol className="audit-list" aria-label={t("audit.records")}>
                  {rows?.map((record) => (
                    <AuditRow key={record.n} record={record} />
                  ))}
                </ol>
              )}
              {more && (
                <button type="button" className="button quiet" onClick={more}>
                  {t("audit.older")}
                </button>
              )}
            </>
          )}
        </div>
      </div>
    </>
  );
}
