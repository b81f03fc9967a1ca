import { useId, useState, type FormEvent } from "react";
import type { AuditVerification } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { announce } from "../../lib/announce.js";
import { useRequest } from "../../lib/useRequest.js";
import { timeText } from "../../lib/time.js";
import { http } from "../../state/connection.js";
import { Icon } from "../Icon.js";
import { Refused } from "../Refusal.js";

interface Found extends AuditVerification {
  /** By our own clock. */
  at: number;
  against: string | undefined;
}

/** Has the server verify the chain, and explains the result. */
export function Verify() {
  const { t, language } = useI18n();
  const { busy, error, run } = useRequest();
  const [anchor, setAnchor] = useState("");
  const [found, setFound] = useState<Found>();
  const id = useId();

  const verify = async (e: FormEvent) => {
    e.preventDefault();
    const against = anchor.trim() || undefined;
    setFound(undefined);
    await run(async () => {
      const answer = await http.verifyAudit(against);
      setFound({ ...answer, at: Date.now(), against });
      // A fault is an alert, which is read by itself.
      if (answer.intact) announce(t("audit.intact", { n: answer.checked }));
    });
  };

  return (
    <section className="audit-tool" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{t("audit.verifyHeading")}</h2>
      <form onSubmit={(e) => void verify(e)}>
        <div className="field">
          <label htmlFor={`${id}-anchor`}>{t("audit.anchorLabel")}</label>
          <input
            id={`${id}-anchor`}
            className="input"
            value={anchor}
            placeholder="3:51c3…"
            autoComplete="off"
            spellCheck={false}
            onChange={(e) => setAnchor(e.target.value)}
          />
        </div>
        <button type="submit" className="button" disabled={busy}>
          <Icon name="shield" />
          {t(busy ? "audit.verifying" : "audit.verify")}
        </button>
      </form>
      <Refused error={error} />
      {found &&
        (found.intact ? (
          <div className="audit-found">
            <p className="audit-good">
              <Icon name="check" />
              <span>{t("audit.intact", { n: found.checked })}</span>
            </p>
            <p className="muted">
              {t("audit.verifiedWhere", { time: timeText(found.at, language) })}
              {found.readable < found.checked && ` ${t("audit.others", { n: found.readable, all: found.checked })}`}
              {found.against !== undefined && ` ${t("audit.anchorHeld")}`}
            </p>
            <p>{t("audit.anchor")}</p>
            <pre className="rule-args" tabIndex={0} aria-label={t("audit.anchor")} dir="ltr">
              {found.anchor}
            </pre>
            <p className="muted">{t("audit.anchorHint")}</p>
          </div>
        ) : (
          <div className="audit-found" role="alert">
            <p className="audit-bad">
              <Icon name="warning" />
              <span>{t("audit.broken", { n: found.fault?.n ?? 0 })}</span>
            </p>
            <p className="refusal-reason">
              {t("refusal.reason")}<span lang="en">{found.fault?.message}</span>
            </p>
          </div>
        ))}
    </section>
  );
}
