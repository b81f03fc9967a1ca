import type { CountersignError } from "@countersign/client";
import { Visible } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { errorText } from "./errorText.js";

/** The page explains these better than the server's reason does. */
const SAID = new Set(["offline", "closed", "unreachable", "stale_action", "invalid_edit", "unauthenticated", "bad_json", "approval_already_resolved"]);

/** A refusal in the page's language, and the server's own reason, which is English. */
export function Refusal({ error }: { error: CountersignError }) {
  const { t, labels } = useI18n();
  const reason = SAID.has(error.textCode) ? "" : error.message || error.code;
  return (
    <>
      <p>{errorText(error, t, labels.resolved)}</p>
      {reason && (
        <p className="refusal-reason">
          {t("refusal.reason")}
          <span lang="en">
            <Visible text={reason} />
          </span>
        </p>
      )}
    </>
  );
}

/**
 * The same below the action that failed, announced at once to screen readers; nothing on success. `onRetry` tries it
 * again, and is not offered to a person who may not do it.
 */
export function Refused({ error, onRetry }: { error: CountersignError | undefined; onRetry?: (() => void) | undefined }) {
  const { t } = useI18n();
  return (
    error && (
      <div className="field-error" role="alert">
        <Refusal error={error} />
        {onRetry && error.code !== "forbidden" && (
          <button type="button" className="link" onClick={onRetry}>
            {t("app.retry")}
          </button>
        )}
      </div>
    )
  );
}
