/** One field of a form: of a call's arguments, or of a form that people are asked to fill in. */
import { useState, type ReactNode } from "react";
import { zonedText } from "../forms/dates.js";
import type { FieldProblem } from "../forms/edits.js";
import { chosenOf, errorAt, textOfDraft, type Field, type FieldDraft, type FieldError, type FieldErrors } from "../forms/form.js";
import { lookalikes } from "../forms/lookalike.js";
import { fitsFormat, isLocalMoment, limitsOf, momentOf } from "../forms/rules.js";
import { choiceText } from "../forms/values.js";
import { useTexts, type Tell } from "../labels.js";
import { Visible } from "../Visible.js";
import { hasHidden, visibleText } from "../visibleText.js";
import { ListField, ObjectField } from "./NestedField.js";

export interface FieldProps {
  id: string;
  field: Field;
  /** Its place in the form. */
  place: string;
  /** In place of the field's name. */
  label?: ReactNode;
  /** Whether it is an answer, not an argument: yes and no, and titles without the names that only programs know. */
  words?: boolean;
  disabled?: boolean;
  draft: FieldDraft;
  /** The errors of the whole form, each at its place. */
  errors: FieldErrors;
  /** The problems that the server found at this place, or inside it. */
  problems: FieldProblem[];
  /** Lookalike letters to mark; absent if the text is entirely the person's own. */
  known?: ReadonlySet<string> | undefined;
  onDraft: (draft: FieldDraft) => void;
}

export function FormField(props: FieldProps) {
  const { kind } = props.field;
  if (kind === "object") return <ObjectField {...props} />;
  return kind === "list" ? <ListField {...props} /> : <PlainField {...props} />;
}

/**
 * The id of a part. A list of ids has spaces between them, so none may have one inside; and no two parts have the same: the
 * label or the error of one would be read for the other.
 */
export function idOf(id: string, part: string | number): string {
  return `${id}-${String(part).replaceAll(/[\s%-]/g, (c) => `%${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}`;
}

function PlainField(props: FieldProps) {
  const { id, field, place, words, disabled, draft, errors, problems, onDraft } = props;
  const { t, part } = useTexts();
  const text = textOfDraft(draft);
  // As it was when the field was drawn: another element in the middle of typing would lose the focus.
  const [isLong, setLong] = useState(text.length > 60);
  if (!isLong && text.includes("\n")) setLong(true);
  // Browsers turn every line end into `\n`: an edited text gets its own line ends back.
  const [lastEnd, setLastEnd] = useState("\n");
  const lineEnd = /\r?\n/.exec(text)?.[0] ?? lastEnd;
  if (lineEnd !== lastEnd) setLastEnd(lineEnd);
  const wrong = errorAt(errors, place) !== undefined || problems.length > 0;
  const options = optionsOf(field, words ? t : undefined);
  const common = {
    id,
    value: text,
    disabled,
    "aria-invalid": wrong || undefined,
    "aria-required": field.required || undefined,
    "aria-describedby": `${id}-help`,
  };
  const multiline = field.kind === "json" || (field.kind === "string" && isLong);
  const help = <Help {...props} text={text} />;
  if (field.kind === "choices") return <Choices {...props} options={options ?? []} wrong={wrong} help={help} />;
  return (
    <div {...part("field")}>
      <label {...part("label")} htmlFor={id}>
        <FieldName {...props} />
      </label>
      {options ? (
        <select {...common} {...part("select")} onChange={(e) => onDraft(e.target.value)}>
          {(!field.required || text === "") && <option value="">{t("edit.notSet")}</option>}
          {/* Such as `null`: without an option of its own a browser would show the first choice in its place. */}
          {text !== "" && !options.some(({ value }) => value === text) && <option value={text}>{visibleText(text)}</option>}
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.text}
            </option>
          ))}
        </select>
      ) : multiline ? (
        <textarea
          {...common}
          {...part(field.kind === "json" ? "code" : "input")}
          rows={Math.min(10, Math.max(2, text.split("\n").length + (text.length > 160 ? 2 : 0)))}
          spellCheck={false}
          onChange={(e) => onDraft(e.target.value.replaceAll("\n", lineEnd))}
        />
      ) : (
        <input
          {...common}
          {...part("input")}
          {...typeOf(field, text)}
          autoComplete="off"
          spellCheck={false}
          onChange={(e) => onDraft(e.target.value)}
        />
      )}
      {help}
    </div>
  );
}

/** Any of a list's options. */
function Choices(props: FieldProps & { options: { value: string; text: string }[]; wrong: boolean; help: ReactNode }) {
  const { id, disabled, draft, options, wrong, help, onDraft } = props;
  const { part } = useTexts();
  const chosen = chosenOf(textOfDraft(draft));
  const pick = (value: string, on: boolean) => {
    const next = on ? [...chosen, value] : chosen.filter((one) => one !== value);
    onDraft(`[${next.join(",")}]`);
  };
  return (
    <fieldset {...part("choices")} disabled={disabled} aria-describedby={`${id}-help`}>
      <legend {...part("label")}>
        <FieldName {...props} />
      </legend>
      {options.map((option) => (
        <label key={option.value} {...part("choice")}>
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

/** The name that people use, and beside it the name in the JSON. */
export function FieldName({ field, label, words, known }: Pick<FieldProps, "field" | "label" | "words" | "known">) {
  const { t, part } = useTexts();
  if (label !== undefined) return label;
  const raw = (
    <code {...(field.title ? part("raw-name") : {})}>
      <Visible text={field.name} strict={known} />
    </code>
  );
  return (
    <>
      {field.title ? <Visible text={field.title} /> : raw}
      {field.unit && <span {...part("muted")}> ({visibleText(field.unit)})</span>}
      {field.title && !words && <> {raw}</>}
      {field.required && <span {...part("muted")}> · {t("edit.required")}</span>}
    </>
  );
}

/** Its purpose, its rules, and its errors. */
export function Help({ id, field, place, errors, problems, known, text }: FieldProps & { text: string }) {
  const { t, part, language } = useTexts();
  const error = errorAt(errors, place);
  const limits = field.rules ? limitsOf(field.rules) : [];
  return (
    <div id={`${id}-help`}>
      {field.description && (
        <p {...part("hint")}>
          <Visible text={field.description} />
        </p>
      )}
      {limits.length > 0 && <p {...part("hint")}>{limits.filter(({ key }) => key !== error?.key).map((limit) => fieldErrorText(limit, t)).join(" ")}</p>}
      {/* A browser's field says no zone, and not which hour is meant where the clocks change. */}
      {field.format === "date-time" && isLocalMoment(text) && <p {...part("hint")}>{zonedText(momentOf(text), language)}</p>}
      {error && <p {...part("problem")}>{fieldErrorText(error, t)}</p>}
      {problems.map((p) => (
        <p key={p.message} {...part("problem")}>
          {p.error ? fieldErrorText(p.error, t) : <ServersWords text={p.message} />}
        </p>
      ))}
      <HiddenNote text={text} known={known} />
    </div>
  );
}

/** The choices of a field, if it has any; with `t`, in people's words. */
function optionsOf({ kind, options, labels }: Field, t: Tell | undefined): { value: string; text: string }[] | undefined {
  if (kind === "boolean") {
    const said = (value: string) => (t ? t(value === "true" ? "interrupt.yes" : "interrupt.no") : value);
    return ["true", "false"].map((value) => ({ value, text: said(value) }));
  }
  if (kind !== "enum" && kind !== "choices") return undefined;
  return options?.map((value, i) => ({ value, text: visibleText(labels?.[i] ?? choiceText(value)) }));
}

/** The browser's own field for a day or a moment, as long as it can show the text; for others the fitting keyboard. */
function typeOf({ kind, format }: Field, text: string): { type: string; inputMode?: "decimal" | "numeric" | "email" | "url" } {
  if (kind === "number") return { type: "text", inputMode: "decimal" };
  switch (format) {
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

/** A text field cannot mark characters, so misleading ones are spelled out below it. */
export function HiddenNote({ text, known }: { text: string; known: ReadonlySet<string> | undefined }) {
  const { t, part } = useTexts();
  const alike = known !== undefined && lookalikes(text, known).size > 0;
  if (!alike && !hasHidden(text)) return null;
  return (
    <p {...part("caution")}>
      {t(alike ? "card.lookalike" : "card.hidden")}{" "}
      <code>
        <Visible text={text} strict={known} />
      </code>
    </p>
  );
}

/** The problem that the server found with a value, in its own English. */
export function ServersWords({ text }: { text: string }) {
  const { t } = useTexts();
  return (
    <>
      {t("edit.error.refused")} {t("refusal.reason")}<span lang="en"><Visible text={text} /></span>
    </>
  );
}

export function fieldErrorText(error: FieldError | undefined, t: Tell): string {
  if (!error) return "";
  const { key, ...params } = error;
  return t(key, params);
}
