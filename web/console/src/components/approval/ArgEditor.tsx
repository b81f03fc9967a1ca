import { useId, useMemo, type ReactNode } from "react";
import type { Display, JsonObject } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { problemsAt, type FieldProblem } from "../../lib/decisions.js";
import { fitsForm, newEdit, partOf, placeIn, readEdit, switchTab, WHOLE, type EditDraft, type Field } from "../../lib/form.js";
import { escapedIn } from "../../lib/lookalike.js";
import { Changes } from "./Changes.js";
import { fieldErrorText, FormField, HiddenNote } from "./FormField.js";

interface Props {
  original: JsonObject;
  /** `original` as the server shows it. */
  display: Display | undefined;
  fields: Field[] | undefined;
  draft: EditDraft;
  onChange: (draft: EditDraft) => void;
  /** What the server found wrong. */
  problems: FieldProblem[];
  disabled: boolean;
}

export function ArgEditor({ original, display, fields, draft, onChange, problems, disabled }: Props) {
  const { t } = useI18n();
  const id = useId();
  const read = readEdit(draft, fields, original);
  const errors = read.ok ? {} : read.errors;
  const known = useMemo(() => escapedIn(display), [display]);
  const onForm = draft.tab === "form" && fields !== undefined;
  return (
    <fieldset className="editor" disabled={disabled}>
      <div className="editor-head">
        <legend className="eyebrow">{t("edit.heading")}</legend>
        {fields && (
          <div className="segmented">
            {(["form", "json"] as const).map((tab) => (
              <button
                key={tab}
                type="button"
                aria-pressed={draft.tab === tab}
                disabled={draft.tab !== tab && !(read.ok && (tab === "json" || fitsForm(fields, read.args)))}
                onClick={() => draft.tab !== tab && onChange(switchTab(draft, fields, original))}
              >
                {t(tab === "form" ? "edit.form" : "edit.json")}
              </button>
            ))}
          </div>
        )}
      </div>
      {onForm ? (
        <div className="fields">
          {fields.map((field) => (
            <FormField
              key={field.name}
              id={`${id}-${field.name}`}
              field={field}
              place={placeIn("", field.name)}
              draft={partOf(draft.texts, field.name)}
              errors={errors}
              known={known}
              problems={problemsAt(problems, placeIn("", field.name))}
              onDraft={(next) =>
                onChange({ ...draft, texts: Object.fromEntries([...Object.entries(draft.texts), [field.name, next]]) })
              }
            />
          ))}
        </div>
      ) : (
        <div className="field">
          <label className="visually-hidden" htmlFor={`${id}-raw`}>
            {t("edit.jsonLabel")}
          </label>
          <textarea
            id={`${id}-raw`}
            className="input mono"
            rows={Math.min(16, Math.max(4, draft.raw.split("\n").length))}
            spellCheck={false}
            autoCapitalize="off"
            value={draft.raw}
            aria-invalid={!read.ok || undefined}
            aria-describedby={`${id}-raw-state`}
            onChange={(e) => onChange({ ...draft, raw: e.target.value })}
          />
          <div id={`${id}-raw-state`} aria-live="polite">
            {read.ok ? (
              <p className="hint">{t(fields && !fitsForm(fields, read.args) ? "edit.noForm" : "edit.valid")}</p>
            ) : (
              <p className="field-error">{fieldErrorText(errors[WHOLE], t)}</p>
            )}
          </div>
          <HiddenNote text={draft.raw} known={known} />
        </div>
      )}
    </fieldset>
  );
}

interface ChangesProps extends Omit<Props, "problems"> {
  schema: JsonObject | undefined;
  /** What else is to be in view. */
  children?: ReactNode;
}

/** What the edit changes so far: in view while it is made, however long the form is. */
export function EditChanges({ original, display, fields, draft, schema, disabled, onChange, children }: ChangesProps) {
  const { t } = useI18n();
  const read = readEdit(draft, fields, original);
  return (
    <div className="edit-changes">
      <div className="edit-changes-list" role="group" aria-label={t("edit.changes")} tabIndex={0}>
        <h4 className="eyebrow">{t("edit.changes")}</h4>
        {read.ok ? (
          <Changes before={original} after={read.args} display={display} schema={schema} />
        ) : (
          <p className="hint">{t("edit.fixFirst")}</p>
        )}
      </div>
      <button
        type="button"
        className="button quiet small"
        disabled={disabled}
        onClick={() => onChange({ ...newEdit(fields, original), tab: draft.tab })}
      >
        {t("edit.reset")}
      </button>
      {children}
    </div>
  );
}
