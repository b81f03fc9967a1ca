/** The fields of an answer, and their errors. */
import { useId } from "react";
import { ANSWER, type AnswerDraft, type FieldsForm } from "../forms/answer.js";
import { problemsAt, type FieldProblem } from "../forms/edits.js";
import { partOf, placeIn, type FieldErrors } from "../forms/form.js";
import { useTexts } from "../labels.js";
import { FormField } from "./FormField.js";

export interface AnswerFieldsProps {
  form: FieldsForm;
  draft: AnswerDraft;
  errors: FieldErrors;
  /** The problems that the server found. */
  problems: FieldProblem[];
  disabled: boolean;
  onDraft: (draft: AnswerDraft) => void;
}

export function AnswerFields({ form, draft, errors, problems, disabled, onDraft }: AnswerFieldsProps) {
  const { t, part } = useTexts();
  const id = useId();
  const fields = form.kind === "object" ? form.fields : [form.field];
  return (
    <div {...part("fields")}>
      {fields.map((field, i) => (
        <FormField
          key={field.name}
          id={`${id}-${i}`}
          field={field}
          words
          label={field.name === ANSWER ? t(field.kind === "json" ? "interrupt.json" : "interrupt.answer") : undefined}
          place={placeIn("", field.name)}
          draft={partOf(draft.texts, field.name)}
          errors={errors}
          disabled={disabled}
          problems={problemsAt(problems, placeIn("", field.name)).filter((p) => p.pointer !== "")}
          onDraft={(next) => onDraft({ ...draft, texts: { ...draft.texts, [field.name]: next } })}
        />
      ))}
    </div>
  );
}

const WRONG = "[aria-invalid], [data-invalid] :is(input, select, textarea, button)";

/** Called once the fields are marked. An error of a whole object or list is fixed inside it. */
export function focusWrong(form: HTMLElement | null): void {
  requestAnimationFrame(() => form?.querySelector<HTMLElement>(WRONG)?.focus());
}
