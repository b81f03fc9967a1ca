import { useId } from "react";
import type { JsonObject } from "@countersign/client";
import { useI18n, type Translate } from "../../i18n/index.js";
import type { FieldProblem } from "../../lib/decisions.js";
import { argumentOf } from "../../lib/decisions.js";
import {
  newEdit,
  readEdit,
  switchTab,
  WHOLE,
  type EditDraft,
  type Field,
  type FieldError,
} from "../../lib/form.js";
import { hasHidden } from "../../lib/visible.js";
import { Visible } from "../Visible.js";
import { Changes } from "./Changes.js";

interface Props {
  original: JsonObject;
  fields: Field[] | undefined;
  draft: EditDraft;
  onChange: (draft: EditDraft) => void;
  /** What the server found wrong. */
  problems: FieldProblem[];
  disabled: boolean;
}

export function ArgEditor({ original, fields, draft, onChange, problems, disabled }: Props) {
  const { t } = useI18n();
  const id = useId();
  const read = readEdit(draft, fields, original);
  const errors = read.ok ? {} : read.errors;
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
                disabled={draft.tab !== tab && !read.ok}
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
              text={draft.texts[field.name] ?? ""}
              error={errors[field.name]}
              problems={problems.filter((p) => argumentOf(p.pointer) === field.name)}
              onText={(text) =>
                onChange({ ...draft, texts: Object.fromEntries([...Object.entries(draft.texts), [field.name, text]]) })
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
              <p className="hint">{t("edit.valid")}</p>
            ) : (
              <p className="field-error">{fieldErrorText(errors[WHOLE], t)}</p>
            )}
          </div>
          <HiddenNote text={draft.raw} />
        </div>
      )}
      <div className="editor-foot">
        <div className="editor-changes">
          <h4 className="eyebrow">{t("edit.changes")}</h4>
          {read.ok ? <Changes before={original} after={read.args} /> : <p className="hint">{t("edit.fixFirst")}</p>}
        </div>
        <button
          type="button"
          className="button quiet small"
          onClick={() => onChange({ ...newEdit(fields, original), tab: draft.tab })}
        >
          {t("edit.reset")}
        </button>
      </div>
    </fieldset>
  );
}

interface FieldProps {
  id: string;
  field: Field;
  /** In place of the field's name. */
  label?: string | undefined;
  /** Yes and no, where arguments have true and false. */
  words?: boolean;
  disabled?: boolean;
  text: string;
  error: FieldError | undefined;
  problems: FieldProblem[];
  onText: (text: string) => void;
}

export function FormField({ id, field, label, words, disabled, text, error, problems, onText }: FieldProps) {
  const { t } = useI18n();
  const wrong = error !== undefined || problems.length > 0;
  const common = {
    id,
    value: text,
    disabled,
    "aria-invalid": wrong || undefined,
    "aria-required": field.required || undefined,
    "aria-describedby": `${id}-help`,
  };
  const multiline = field.kind === "json" || (field.kind === "string" && (text.length > 60 || text.includes("\n")));
  const choices = field.kind === "enum" ? field.options : field.kind === "boolean" ? ["true", "false"] : undefined;
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {label ?? <code>{field.name}</code>}
        {field.required && label === undefined && <span className="muted"> · {t("edit.required")}</span>}
      </label>
      {choices ? (
        <select {...common} className="select" onChange={(e) => onText(e.target.value)}>
          {(!field.required || text === "") && <option value="">{t("edit.notSet")}</option>}
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {words && field.kind === "boolean"
                ? t(choice === "true" ? "interrupt.yes" : "interrupt.no")
                : choice.startsWith('"')
                  ? choice.slice(1, -1)
                  : choice}
            </option>
          ))}
        </select>
      ) : multiline ? (
        <textarea
          {...common}
          className={field.kind === "json" ? "input mono" : "input"}
          rows={Math.min(10, Math.max(2, text.split("\n").length + (text.length > 160 ? 2 : 0)))}
          spellCheck={false}
          onChange={(e) => onText(e.target.value)}
        />
      ) : (
        <input
          {...common}
          className="input"
          type="text"
          inputMode={field.kind === "number" ? "decimal" : undefined}
          autoComplete="off"
          spellCheck={false}
          onChange={(e) => onText(e.target.value)}
        />
      )}
      <div id={`${id}-help`}>
        {field.description && <p className="hint">{field.description}</p>}
        {error && <p className="field-error">{fieldErrorText(error, t)}</p>}
        {problems.map((p) => (
          <p key={p.message} className="field-error">
            {p.message}
          </p>
        ))}
        <HiddenNote text={text} />
      </div>
    </div>
  );
}

/** A text field cannot mark hidden characters, so they are spelled out below it. */
function HiddenNote({ text }: { text: string }) {
  const { t } = useI18n();
  if (!hasHidden(text)) return null;
  return (
    <p className="hint warn">
      {t("card.hidden")}{" "}
      <code>
        <Visible text={text} />
      </code>
    </p>
  );
}

function fieldErrorText(error: FieldError | undefined, t: Translate): string {
  if (!error) return "";
  return error.key === "edit.error.json" ? t(error.key, { message: error.message }) : t(error.key);
}
