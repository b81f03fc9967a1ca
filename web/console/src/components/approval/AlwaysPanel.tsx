/** A decision that also applies to later calls. Its meaning is explained before it is made. */
import { useId, useRef, type ReactNode } from "react";
import type { Action } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n, type Translate } from "../../i18n/index.js";
import { endOfDay, readAlways, scopes, type AlwaysChoice, type AlwaysDraft, type Scope } from "../../lib/always.js";
import { useIntoView } from "../../lib/useIntoView.js";
import { dayText } from "../../lib/time.js";
import { serverNow } from "../../state/connection.js";
import { rulesHref } from "../../state/route.js";

interface Props {
  action: Action;
  choices: AlwaysChoice[];
  draft: AlwaysDraft;
  /** Whose sessions it would be for. */
  user: string | undefined;
  disabled: boolean;
  /** The state of sending. */
  sending: ReactNode;
  /** Whether what would run has not been seen completely yet. */
  unseen: boolean;
  /** Whether it is the only action; with several, the decision is only marked here, and sent with the others. */
  single: boolean;
  onChange: (draft: AlwaysDraft) => void;
  onBack: () => void;
  onConfirm: () => void;
}

export function AlwaysPanel({ action, choices, draft, user, disabled, sending, unseen, single, onChange, onBack, onConfirm }: Props) {
  const { t, language } = useI18n();
  const id = useId();
  const box = useRef<HTMLFieldSetElement>(null);
  useIntoView(box);
  const read = readAlways(draft, serverNow());
  const dated = draft.scope !== "session";
  // An empty field is not an error yet.
  const error = !read.ok && draft.until !== "" ? t(read.error) : undefined;
  return (
    <fieldset ref={box} className="always" onKeyDown={(e) => e.key === "Escape" && (e.stopPropagation(), onBack())}>
      <legend className="label">{t("always.heading")}</legend>
      {choices.length > 1 && (
        <div className="segmented" role="group" aria-label={t("always.decision")}>
          {choices.map((choice) => (
            <button
              key={choice}
              type="button"
              aria-pressed={draft.choice === choice}
              disabled={disabled}
              onClick={() => onChange({ ...draft, choice })}
            >
              {t(`decide.${choice}`)}
            </button>
          ))}
        </div>
      )}
      <div className="always-scopes" role="radiogroup" aria-label={t("always.scope")}>
        {scopes.map((scope) => (
          <label key={scope} className="always-scope">
            <input
              type="radio"
              name={`${id}-scope`}
              value={scope}
              checked={draft.scope === scope}
              disabled={disabled}
              onChange={() => onChange({ ...draft, scope })}
            />
            <span>{t(`always.scope.${scope}`)}</span>
          </label>
        ))}
      </div>
      {dated && (
        <div className="field always-until">
          <label className="label" htmlFor={`${id}-until`}>
            {t(draft.scope === "tool" ? "always.until" : "always.untilOptional")}
          </label>
          <input
            id={`${id}-until`}
            className="input"
            type="date"
            required={draft.scope === "tool"}
            value={draft.until}
            disabled={disabled}
            aria-invalid={error ? true : undefined}
            aria-describedby={error ? `${id}-error` : undefined}
            onChange={(e) => onChange({ ...draft, until: e.target.value })}
          />
          {error && (
            <p id={`${id}-error`} className="field-error" role="alert">
              {error}
            </p>
          )}
        </div>
      )}
      <div className="always-means" data-choice={draft.choice} aria-live="polite">
        <p>{meaning(draft.choice, draft.scope, action, user, t)}</p>
        <p>
          {draft.scope === "session"
            ? t("always.endsSession")
            : draft.until === "" || !read.ok
              ? t(draft.scope === "tool" ? "always.pickDate" : "always.endsNever")
              : t("always.endsDate", { date: dayText(endOfDay(draft.until), language) })}
          <a href={rulesHref}>{t("rules.heading")}</a>
        </p>
      </div>
      <div className="buttons">
        <button type="button" className="button quiet" disabled={disabled} onClick={onBack}>
          {t("decide.back")}
        </button>
        <button
          type="button"
          className={draft.choice === "reject" ? "button danger solid" : "button primary"}
          disabled={disabled || !read.ok || (unseen && draft.choice === "approve")}
          title={unseen && draft.choice === "approve" ? t("shown.long") : undefined}
          onClick={onConfirm}
        >
          {t(single ? `always.confirm.${draft.choice}` : `always.mark.${draft.choice}`)}
        </button>
        {sending}
      </div>
    </fieldset>
  );
}

function meaning(choice: AlwaysChoice, scope: Scope, action: Action, user: string | undefined, t: Translate): string {
  return t(`always.${choice}.${scope}`, {
    tool: visibleText(action.name),
    agent: visibleText(action.agent ?? ""),
    user: user === undefined ? t("always.user") : visibleText(user),
  });
}
