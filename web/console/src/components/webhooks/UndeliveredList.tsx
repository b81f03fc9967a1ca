/** The undelivered messages of a webhook, in the order of their records. */
import { useEffect, useEffectEvent, useMemo, useRef } from "react";
import { useConnection, Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { everything, inboxHref } from "../../lib/inbox.js";
import { momentText } from "../../lib/time.js";
import { useKeptFocus } from "../../lib/useKeptFocus.js";
import { useNow } from "../../lib/useNow.js";
import { usePages } from "../../lib/usePages.js";
import { nextOf, reader, type Undelivered } from "../../lib/webhooks.js";
import { http } from "../../state/connection.js";
import { sessionHref } from "../../state/route.js";
import { Refused } from "../Refusal.js";
import { shortId } from "../Sidebar.js";

interface Props {
  name: string;
  /** The receiver wants no more messages. */
  isGone: boolean;
  /** When this changes, the list is read again. */
  at: string;
  busy: boolean;
  onSend: (n: number) => void;
}

export function UndeliveredList({ name, isGone, at, busy, onSend }: Props) {
  const { t } = useI18n();
  const online = useConnection() === "open";
  const read = useMemo(() => reader(http, name), [name]);
  const { rows, more, error, retry, reload } = usePages(read, online);
  const kept = useKeptFocus<HTMLDivElement>();
  const before = useRef(at);
  const again = useEffectEvent(reload);
  useEffect(() => {
    if (before.current === at) return;
    before.current = at;
    again();
  }, [at]);
  return (
    <div {...kept} className="webhook-list">
      <Refused error={error} onRetry={retry} />
      {rows?.length === 0 && <p className="muted">{t("webhooks.none")}</p>}
      {rows !== undefined && rows.length > 0 && (
        <ol className="audit-list">
          {rows.map((message) => (
            <Message key={message.n} message={message} isGone={isGone} busy={busy} onSend={onSend} />
          ))}
        </ol>
      )}
      {more && (
        <button type="button" className="button small quiet" onClick={more}>
          {t("sessions.more")}
        </button>
      )}
    </div>
  );
}

interface MessageProps extends Pick<Props, "isGone" | "busy" | "onSend"> {
  message: Undelivered;
}

function Message({ message, isGone, busy, onSend }: MessageProps) {
  const { t, language } = useI18n();
  const now = useNow(5_000);
  const { n, about, next_at, tried_at } = message;
  const next = nextOf(message, isGone, now);
  return (
    <li className="audit-row" data-bad={next_at === undefined || undefined}>
      <span className="audit-n muted">{t("audit.n", { n })}</span>
      <div className="audit-told">
        <p>
          <strong>{about === undefined ? t("webhooks.record") : "key" in about.what ? t(about.what.key) : visibleText(about.what.event)}</strong>
          {about?.tools.map((tool) => (
            <code key={tool}>
              <Visible text={tool} />
            </code>
          ))}
        </p>
        {about && (
          <p className="audit-facts muted">
            <time dateTime={about.at}>{momentText(about.at, language)}</time>
            {about.session !== undefined && (
              <a href={sessionHref(about.session)} title={about.session}>
                {t("audit.session", { id: visibleText(shortId(about.session)) })}
              </a>
            )}
            {about.request !== undefined && (
              <a href={inboxHref({ ...everything, open: about.request })}>{t("webhooks.request", { key: visibleText(about.request) })}</a>
            )}
          </p>
        )}
        <p className="audit-facts muted">
          <span>{t("webhooks.attempts", { n: message.attempts })}</span>
          <span>{t("webhooks.tried", { time: momentText(tried_at, language) })}</span>
          <span>{t(next, next_at === undefined ? {} : { time: momentText(next_at, language) })}</span>
        </p>
        <p className="webhook-why" lang="en">
          <Visible text={message.message} />
        </p>
        <div className="buttons">
          <button type="button" className="button small" aria-disabled={busy} aria-label={t("webhooks.sendFor", { n })} onClick={() => onSend(n)}>
            {t("webhooks.send")}
          </button>
        </div>
      </div>
    </li>
  );
}
