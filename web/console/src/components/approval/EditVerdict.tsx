import { useEffect, useRef } from "react";
import type { CountersignError, ReviewConfig } from "@countersign/client";
import { visibleText, type EditPreviewing } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { argumentOf, asksFromTheStart, type FieldProblem } from "../../lib/decisions.js";
import { roleName } from "../../lib/people.js";
import { Icon } from "../Icon.js";
import { Refusal } from "../Refusal.js";
import { fieldErrorText } from "./FormField.js";
import { Problems } from "./Problems.js";

/** Of what the server finds wrong; each field says its own. */
const MOST = 3;

/** What an edit would lead to, while it is made. */
export function EditVerdict({ editing, problems }: { editing: EditPreviewing; problems: FieldProblem[] }) {
  const { t } = useI18n();
  const { state, found, error, retry } = editing;
  const box = useRef<HTMLDivElement>(null);
  // It grows over the form: what is being typed in stays in view.
  useEffect(() => {
    const field = document.activeElement;
    if (field?.matches(".input") && box.current?.closest(".action")?.contains(field)) field.scrollIntoView({ block: "nearest" });
  }, [state]);
  return (
    <div ref={box} className="edit-verdict" data-state={state} aria-live="polite" aria-busy={state === "asking"}>
      {state === "asking" && <p className="hint">{t("edit.checking")}</p>}
      {error ? (
        <div className="field-error">
          <Refusal error={error} />
        </div>
      ) : found?.error ? (
        <Refused error={found.error} problems={problems} />
      ) : found && asksFromTheStart(found) ? (
        <NeedsApproval asked={found.reviewConfig ?? {}} />
      ) : (
        found && <p className="hint">{t("edit.accepted")}</p>
      )}
      {found?.preview?.kind === "failed" && <p className="hint warn">{t("preview.failed")}</p>}
      {state === "failed" && (
        <button type="button" className="link" onClick={retry}>
          {t("app.retry")}
        </button>
      )}
    </div>
  );
}

function Refused({ error, problems }: { error: CountersignError; problems: FieldProblem[] }) {
  const { t } = useI18n();
  const wrong = problems.slice(0, MOST).map((p) => ({ what: argumentOf(p.pointer), message: p.message, own: p.error && fieldErrorText(p.error, t) }));
  return (
    <div className="field-error">
      <p>{t("edit.refused")}</p>
      {wrong.length > 0 ? <Problems problems={wrong} /> : <Refusal error={error} />}
    </div>
  );
}

function NeedsApproval({ asked: { role, reason } }: { asked: ReviewConfig }) {
  const { t } = useI18n();
  return (
    <p className="people-note" data-bar="edit">
      <Icon name="shield" />
      <span>
        {t("edit.needsApproval", { role: roleName(role, t) })}
        {reason && t("text.paren", { text: visibleText(reason) })}
      </span>
    </p>
  );
}
