import { useId, useMemo, type KeyboardEvent, type ReactNode } from "react";
import type { Display, JsonObject } from "@countersign/client";
import { problemsAt, type FieldProblem } from "../forms/edits.js";
import { errorAt, fitsForm, newEdit, partOf, placeIn, readEdit, switchTab, WHOLE, type EditDraft, type Field } from "../forms/form.js";
import { escapedIn } from "../forms/lookalike.js";
import { useTexts } from "../labels.js";
import { Changes } from "./Changes.js";
import { fieldErrorText, FormField, HiddenNote, idOf } from "./FormField.js";

export interface ArgumentFormProps {
  /** The arguments as they were proposed. */
  original: JsonObject;
  /** `original` as the server shows it. */
  display: Display | undefined;
  /** From `argFields`; without them the arguments are edited as JSON. */
  fields: Field[] | undefined;
  draft: EditDraft;
  onChange: (draft: EditDraft) => void;
  /** The problems that the server found. */
  problems: FieldProblem[];
  disabled: boolean;
}

/** Editing arguments: in a form of their fields, or as JSON. Errors of a field are shown while it is typed. */
export function ArgumentForm({ original, display, fields, draft, onChange, problems, disabled }: ArgumentFormProps) {
  const { t, part } = useTexts();
  const id = useId();
  const read = readEdit(draft, fields, original);
  const errors = read.ok ? {} : read.errors;
  const known = useMemo(() => escapedIn(display), [display]);
  const onForm = draft.tab === "form" && fields !== undefined;
  return (
    <fieldset {...part("editor")} aria-labelledby={`${id}-heading`} disabled={disabled} onKeyDown={keepInside}>
      <div {...part("editor-head")}>
        <p {...part("heading")} id={`${id}-heading`}>
          {t("edit.heading")}
        </p>
        {fields && (
          <div {...part("segmented")}>
            {(["form", "json"] as const).map((tab) => (
              <button
                key={tab}
                type="button"
                aria-pressed={draft.tab === tab}
                disabled={draft.tab !== tab && !(read.ok && (tab === "json" || fitsForm(fields, read.args, original)))}
                onClick={() => draft.tab !== tab && onChange(switchTab(draft, fields, original))}
              >
                {t(tab === "form" ? "edit.form" : "edit.json")}
              </button>
            ))}
          </div>
        )}
      </div>
      {onForm ? (
        <div {...part("fields")}>
          {fields.map((field) => (
            <FormField
              key={field.name}
              id={idOf(id, field.name)}
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
        <div {...part("field")}>
          <label {...part("unseen")} htmlFor={`${id}-raw`}>
            {t("edit.jsonLabel")}
          </label>
          <textarea
            id={`${id}-raw`}
            {...part("code")}
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
              <p {...part("hint")}>{t(fields && !fitsForm(fields, read.args, original) ? "edit.noForm" : "edit.valid")}</p>
            ) : (
              <p {...part("problem")}>{fieldErrorText(errorAt(errors, WHOLE), t)}</p>
            )}
          </div>
          <HiddenNote text={draft.raw} known={known} />
        </div>
      )}
    </fieldset>
  );
}

/** Enter in a field would submit the form around it, with a half-made edit. */
function keepInside(event: KeyboardEvent) {
  if (event.key === "Enter" && (event.target as HTMLElement).matches("input, select")) event.preventDefault();
}

export interface EditChangesProps extends Omit<ArgumentFormProps, "problems"> {
  schema: JsonObject | undefined;
  /** Further content that must be in view. */
  children?: ReactNode;
}

/** The changes so far: in view while the edit is made, however long the form is. */
export function EditChanges({ original, display, fields, draft, schema, disabled, onChange, children }: EditChangesProps) {
  const { t, part } = useTexts();
  const read = readEdit(draft, fields, original);
  return (
    <div {...part("edit-changes")}>
      <div {...part("edit-changes-list")} role="group" aria-label={t("edit.changes")} tabIndex={0}>
        <h4 {...part("heading")}>{t("edit.changes")}</h4>
        {read.ok ? (
          <Changes before={original} after={read.args} display={display} schema={schema} />
        ) : (
          <p {...part("hint")}>{t("edit.fixFirst")}</p>
        )}
      </div>
      <button
        type="button"
        {...part("reset")}
        disabled={disabled}
        onClick={() => onChange({ ...newEdit(fields, original), tab: draft.tab })}
      >
        {t("edit.reset")}
      </button>
      {children}
    </div>
  );
}
