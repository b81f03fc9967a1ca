/** One field of a form: of a call's arguments, or of what somebody asks people to fill in. */
import { useI18n, type Translate } from "../../i18n/index.js";
import { choiceText } from "../../lib/answer.js";
import type { FieldProblem } from "../../lib/decisions.js";
import { chosenOf, type Field, type FieldError } from "../../lib/form.js";
import { fitsFormat, isLocalMoment, limitsOf } from "../../lib/rules.js";
import { lookalikes } from "../../lib/lookalike.js";
import { hasHidden, visibleText } from "../../lib/visible.js";
import { Visible } from "../Visible.js";

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
  /** Letters to mark since they are drawn like others; absent where the text is nobody's but the person's. */
  known?: ReadonlySet<string> | undefined;
  onText: (text: string) => void;
}

export function FormField({ id, field, label, words, disabled, text, error, problems, known, onText }: FieldProps) {
  const { t } = useI18n();
  const wrong = error !== undefined || problems.length > 0;
  const options = optionsOf(field, words ? t : undefined);
  const limits = field.rules ? limitsOf(field.rules) : [];
  const common = {
    id,
    value: text,
    disabled,
    "aria-invalid": wrong || undefined,
    "aria-required": field.required || undefined,
    "aria-describedby": `${id}-help`,
  };
  const multiline = field.kind === "json" || (field.kind === "string" && (text.length > 60 || text.includes("\n")));
  const name = label ?? (field.title ? <Visible text={field.title} /> : <code><Visible text={field.name} strict={known} /></code>);
  const required = field.required && label === undefined && <span className="muted"> · {t("edit.required")}</span>;
  const help = (
    <div id={`${id}-help`}>
      {field.description && (
        <p className="hint">
          <Visible text={field.description} />
        </p>
      )}
      {limits.length > 0 && <p className="hint">{limits.filter(({ key }) => key !== error?.key).map((limit) => fieldErrorText(limit, t)).join(" ")}</p>}
      {error && <p className="field-error">{fieldErrorText(error, t)}</p>}
      {problems.map((p) => (
        <p key={p.message} className="field-error">
          {p.error ? fieldErrorText(p.error, t) : <ServersWords text={p.message} />}
        </p>
      ))}
      <HiddenNote text={text} known={known} />
    </div>
  );
  if (field.kind === "choices") {
    const chosen = chosenOf(text);
    const pick = (value: string, on: boolean) => {
      const next = on ? [...chosen, value] : chosen.filter((one) => one !== value);
      onText(`[${next.join(",")}]`);
    };
    return (
      <fieldset className="field choices" disabled={disabled} aria-describedby={`${id}-help`}>
        <legend className="label">
          {name}
          {required}
        </legend>
        {options?.map((option) => (
          <label key={option.value} className="choice">
            <input
              type="checkbox"
              checked={chosen.includes(option.value)}
              aria-invalid={wrong || undefined}
              onChange={(e) => pick(option.value, e.target.checked)}
            />
            <span>{option.text}</span>
          </label>
        ))}
        {help}
      </fieldset>
    );
  }
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        {name}
        {required}
      </label>
      {options ? (
        <select {...common} className="select" onChange={(e) => onText(e.target.value)}>
          {(!field.required || text === "") && <option value="">{t("edit.notSet")}</option>}
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.text}
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
          {...typeOf(field, text)}
          autoComplete="off"
          spellCheck={false}
          onChange={(e) => onText(e.target.value)}
        />
      )}
      {help}
    </div>
  );
}

/** The choices of a field that has some; with `t`, in the words of people. */
function optionsOf({ kind, options, labels }: Field, t: Translate | undefined): { value: string; text: string }[] | undefined {
  if (kind === "boolean") {
    const said = (value: string) => (t ? t(value === "true" ? "interrupt.yes" : "interrupt.no") : value);
    return ["true", "false"].map((value) => ({ value, text: said(value) }));
  }
  if (kind !== "enum" && kind !== "choices") return undefined;
  return options?.map((value, i) => ({ value, text: visibleText(labels?.[i] ?? choiceText(value)) }));
}

/** The browser's own field for a day or a moment, as long as it can show what stands there; the keys that fit for others. */
function typeOf({ kind, rules }: Field, text: string): { type: string; inputMode?: "decimal" | "numeric" | "email" | "url" } {
  if (kind === "number") return { type: "text", inputMode: "decimal" };
  switch (rules?.format) {
    case "date":
      return { type: text === "" || fitsFormat("date", text) ? "date" : "text" };
    case "date-time":
      return { type: text === "" || isLocalMoment(text) ? "datetime-local" : "text" };
    case "email":
      return { type: "text", inputMode: "email" };
    case "uri":
      return { type: "text", inputMode: "url" };
    default:
      return { type: "text" };
  }
}

/** A text field cannot mark characters, so what misleads is spelled out below it. */
export function HiddenNote({ text, known }: { text: string; known: ReadonlySet<string> | undefined }) {
  const { t } = useI18n();
  const alike = known !== undefined && lookalikes(text, known).size > 0;
  if (!alike && !hasHidden(text)) return null;
  return (
    <p className="hint warn">
      {t(alike ? "card.lookalike" : "card.hidden")}{" "}
      <code>
        <Visible text={text} strict={known} />
      </code>
    </p>
  );
}

/** What the server has found wrong with a value, in its English. */
export function ServersWords({ text }: { text: string }) {
  const { t } = useI18n();
  return (
    <>
      {t("edit.error.refused")} {t("refusal.reason")} <span lang="en">{text}</span>
    </>
  );
}

export function fieldErrorText(error: FieldError | undefined, t: Translate): string {
  if (!error) return "";
  const { key, ...params } = error;
  return t(key, params);
}
