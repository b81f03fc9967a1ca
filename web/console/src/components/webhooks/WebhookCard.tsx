/** A webhook: its address, its progress, its undelivered messages, and the actions on them. */
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import type { Webhook } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { momentText } from "../../lib/time.js";
import { useKeptFocus } from "../../lib/useKeptFocus.js";
import { useRequest } from "../../lib/useRequest.js";
import { positionOf, stateOf, undelivered } from "../../lib/webhooks.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";
import { DropMessages } from "./DropMessages.js";
import { UndeliveredList } from "./UndeliveredList.js";

interface Props {
  webhook: Webhook;
  /** The number of the newest record that this person may read. */
  newest: number | undefined;
  onChanged: () => void;
}

export function WebhookCard({ webhook, newest, onChanged }: Props) {
  const { t, language } = useI18n();
  const { busy, error, run } = useRequest();
  const [open, setOpen] = useState(false);
  const [dropping, setDropping] = useState(false);
  const [said, setSaid] = useState("");
  /** Counts the actions here: after each one the list is read again. */
  const [done, setDone] = useState(0);
  const retry = useRef<() => void>(undefined);
  const kept = useKeptFocus<HTMLElement>();
  const id = useId();
  const { last_failed: last } = webhook;
  const name = visibleText(webhook.name);
  const left = undelivered(webhook);

  const tell = (text: string) => {
    setSaid(text);
    announce(text);
  };
  const changed = () => {
    setDone((n) => n + 1);
    onChanged();
  };
  const send = async (n?: number) => {
    retry.current = () => void send(n);
    await run(async () => {
      const { retried } = await (n === undefined ? http.retryFailedMessages(webhook.name) : http.retryFailedMessage(webhook.name, n));
      tell(t("webhooks.sent", { name, n: retried }));
    });
    // A refused message may have been delivered meanwhile.
    changed();
  };
  const before = useRef(left);
  useEffect(() => {
    if (before.current > 0 && left === 0) tell(t("webhooks.arrived", { name }));
    before.current = left;
  }, [left]);
  const dropped = (n: number) => {
    tell(t("webhooks.dropped", { name, n }));
    before.current = 0; // The announcement above says that they are gone.
    setDropping(false);
    changed();
  };

  const position = positionOf(webhook, newest);
  const facts: [string, ReactNode][] = [
    [t("webhooks.host"), <Code key="host" text={webhook.host} />],
    [t("webhooks.format"), <Code key="format" text={webhook.format} />],
    ...(webhook.tenant === undefined ? [] : [[t("webhooks.tenant"), <Visible key="tenant" text={webhook.tenant} />] as [string, ReactNode]]),
    [t("webhooks.cursor"), t(position.key, position.params)],
    [t("webhooks.waiting"), webhook.waiting],
    [t("webhooks.dead"), webhook.dead],
    [t("webhooks.events"), <span key="events" className="webhook-events">{webhook.events.map((event) => <Code key={event} text={event} />)}</span>],
  ];
  return (
    <section {...kept} className="rule webhook" aria-labelledby={`${id}-name`}>
      <h2 id={`${id}-name`}>
        <Visible text={webhook.name} />
      </h2>
      {webhook.status === "gone" && (
        <p className="webhook-gone">
          <Icon name="warning" />
          <span>{t("webhooks.gone")}</span>
        </p>
      )}
      <dl>
        {facts.map(([fact, value]) => (
          <div key={fact}>
            <dt>{fact}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {last && (
        <p className="webhook-why">
          <span className="muted">
            {t("webhooks.last")}
            {t("text.colon")}
            <time dateTime={last.tried_at}>{momentText(last.tried_at, language)}</time>
          </span>{" "}
          <span lang="en">
            <Visible text={last.message} />
          </span>
        </p>
      )}
      <div className="buttons">
        {(left > 0 || open) && (
          <button type="button" className="button small" aria-expanded={open} aria-controls={`${id}-list`} onClick={() => setOpen(!open)}>
            {t("webhooks.show", { n: left })}
          </button>
        )}
        {webhook.dead > 0 && (
          <button type="button" className="button small" aria-disabled={busy} aria-label={t("webhooks.sendAllFor", { name })} onClick={() => void send()}>
            {t("webhooks.sendAll")}
          </button>
        )}
        {(left > 0 || position.key === "webhooks.cursorOf" || webhook.status === "gone") && (
          <button type="button" className="button small danger" aria-label={t("webhooks.dropFor", { name })} onClick={() => setDropping(true)}>
            {t("webhooks.drop")}
          </button>
        )}
      </div>
      {said && <p className="muted">{said}</p>}
      <Refused error={error} onRetry={() => retry.current?.()} />
      <div id={`${id}-list`}>
        {open && (
          <UndeliveredList
            name={webhook.name}
            isGone={webhook.status === "gone"}
            at={`${done} ${stateOf(webhook)}`}
            busy={busy}
            onSend={(n) => void send(n)}
          />
        )}
      </div>
      {dropping && <DropMessages webhook={webhook} onClose={() => setDropping(false)} onDropped={dropped} />}
    </section>
  );
}

function Code({ text }: { text: string }) {
  return (
    <code dir="ltr">
      <Visible text={text} />
    </code>
  );
}
