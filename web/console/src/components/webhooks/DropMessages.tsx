/** Asks before a webhook's undelivered messages are dropped, and says what is lost. */
import { useEffect, useRef } from "react";
import type { Webhook } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { useRequest } from "../../lib/useRequest.js";
import { undelivered } from "../../lib/webhooks.js";
import { http } from "../../state/connection.js";
import { Dialog } from "../Dialog.js";
import { Refused } from "../Refusal.js";

interface Props {
  webhook: Webhook;
  onClose: () => void;
  /** Called with the number of undelivered messages. */
  onDropped: (n: number) => void;
}

export function DropMessages({ webhook, onClose, onDropped }: Props) {
  const { t } = useI18n();
  const { busy, error, run } = useRequest();
  const back = useRef<HTMLButtonElement>(null);
  // Enter, pressed once too often, drops nothing.
  useEffect(() => back.current?.focus(), []);
  const drop = () => run(async () => onDropped((await http.forgetWebhook(webhook.name)).dropped));
  const { waiting, dead } = webhook;
  return (
    <Dialog heading={t("webhooks.dropHeading", { name: visibleText(webhook.name) })} busy={busy} onClose={onClose}>
      <div className="delete-body">
        <div className="delete-warns">
          <p>{t("webhooks.dropFailed", { n: undelivered(webhook), waiting, dead })}</p>
          <p>{t("webhooks.dropUnsent")}</p>
        </div>
        <p>{t("webhooks.dropStays")}</p>
        {webhook.status === "gone" && <p>{t("webhooks.dropGone")}</p>}
        <Refused error={error} onRetry={() => void drop()} />
        <div className="buttons">
          <button ref={back} type="button" className="button quiet" disabled={busy} onClick={onClose}>
            {t("decide.back")}
          </button>
          <button type="button" className="button danger solid" disabled={busy} onClick={() => void drop()}>
            {t("webhooks.dropConfirm")}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
