import { stringifyJson, type AuditRecord } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { tell } from "../../lib/audit.js";
import { momentText } from "../../lib/time.js";
import { sessionHref } from "../../state/route.js";
import { shortId } from "../Sidebar.js";

/** A record in one line, and in full. */
export function AuditRow({ record }: { record: AuditRecord }) {
  const { t, language } = useI18n();
  const { what, by, at, session, request, tools, bad } = tell(record);
  return (
    <li className="audit-row" data-bad={bad || undefined}>
      <span className="audit-n muted">{t("audit.n", { n: record.n })}</span>
      <div className="audit-told">
        <p>
          <strong>{"key" in what ? t(what.key) : visibleText(what.event)}</strong>
          {tools.map((tool) => (
            <code key={tool}>
              <Visible text={tool} />
            </code>
          ))}
        </p>
        <p className="audit-facts muted">
          {by !== undefined && <span>{t("resolved.by", { name: visibleText(by) })}</span>}
          <time dateTime={at} title={at}>
            {momentText(at, language)}
          </time>
          {session !== undefined && (
            <a href={sessionHref(session)} title={session}>
              {t("audit.session", { id: visibleText(shortId(session)) })}
            </a>
          )}
        </p>
        <details>
          <summary>{t("audit.details", { n: record.n })}</summary>
          <dl>
            {request !== undefined && (
              <div>
                <dt>{t("audit.request")}</dt>
                <dd>
                  <code>{request}</code>
                </dd>
              </div>
            )}
            <div>
              <dt>{t("audit.hash")}</dt>
              <dd>
                <code>{record.hash}</code>
              </dd>
            </div>
            <div>
              <dt>{t("audit.prev")}</dt>
              <dd>
                <code>{record.prev}</code>
              </dd>
            </div>
          </dl>
          <pre className="rule-args" tabIndex={0} aria-label={t("audit.body")} dir="ltr">
            <Visible text={stringifyJson(record.body, 2)} />
          </pre>
        </details>
      </div>
    </li>
  );
}
