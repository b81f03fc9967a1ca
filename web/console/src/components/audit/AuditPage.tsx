/** The audit log, newest first: who decided what and when, whether the chain holds, and a file of it. */
import { useCallback, useEffect, useRef, useState } from "react";
import { CountersignError, type AuditRecord } from "@countersign/client";
import { useConnection } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refusal } from "../Refusal.js";
import { TopBar } from "../TopBar.js";
import { AuditRow } from "./AuditRow.js";
import { Export } from "./Export.js";
import { Verify } from "./Verify.js";

const PAGE = 50;

interface Log {
  rows: AuditRecord[];
  next: number | undefined;
}

export function AuditPage({ onMenu }: { onMenu: () => void }) {
  const { t } = useI18n();
  const [log, setLog] = useState<Log>();
  const [error, setError] = useState<CountersignError>();
  const online = useConnection() === "open";
  /** Which of several answers is the one that was asked for last. */
  const asked = useRef(0);

  const load = useCallback(async (before?: number) => {
    const mine = ++asked.current;
    try {
      const { records, next } = await http.audit({ order: "newest", limit: PAGE, ...(before === undefined ? {} : { before }) });
      if (mine !== asked.current) return;
      setLog((now) => ({ rows: before === undefined ? records : [...(now?.rows ?? []), ...records], next }));
      setError(undefined);
    } catch (e) {
      if (mine === asked.current) setError(CountersignError.of(e));
    }
  }, []);
  useEffect(() => {
    if (online) void load();
  }, [online, load]);

  const closed = error?.code === "forbidden";
  return (
    <>
      <TopBar title={t("audit.heading")} onMenu={onMenu} />
      <div className="rules">
        <div className="rules-inner">
          <p className="muted">{t("audit.intro")}</p>
          {error && (
            <div className="field-error" role="alert">
              <Refusal error={error} />
              {!closed && (
                <button type="button" className="link" onClick={() => void load()}>
                  {t("app.retry")}
                </button>
              )}
            </div>
          )}
          {!closed && (
            <>
              <div className="audit-tools">
                <Verify />
                <Export />
              </div>
              <div className="audit-head">
                <h2>{t("audit.records")}</h2>
                <button type="button" className="button small quiet" onClick={() => void load()}>
                  <Icon name="repeat" />
                  {t("audit.refresh")}
                </button>
              </div>
              {log?.rows.length === 0 ? (
                <div className="empty">
                  <Icon name="shield" />
                  <p>{t("audit.empty")}</p>
                </div>
              ) : (
                <ol className="audit-list" aria-label={t("audit.records")}>
                  {log?.rows.map((record) => (
                    <AuditRow key={record.n} record={record} />
                  ))}
                </ol>
              )}
              {log?.next !== undefined && (
                <button type="button" className="button quiet" onClick={() => void load(log.next)}>
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
