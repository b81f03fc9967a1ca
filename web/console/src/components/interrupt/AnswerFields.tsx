/** The fields of an answer, and what is wrong with each. */
import { useId } from "react";
import { useI18n } from "../../i18n/index.js";
import { ANSWER, type AnswerDraft, type FieldsForm } from "../../lib/answer.js";
import { problemsAt, type FieldProblem } from "../../lib/decisions.js";
import { partOf, placeIn, type FieldErrors } from "../../lib/form.js";
import { FormField } from "../approval/FormField.js";

interface Props {
  form: FieldsForm;
  draft: AnswerDraft;
  errors: FieldErrors;
  /** What the server found wrong. */
  problems: FieldProblem[];
  disabled: boolean;
  onDraft: (draft: AnswerDraft) => void;
}

export function AnswerFields({ form, draft, errors, problems, disabled, onDraft }: Props) {
  const { t } = useI18n();
  const id = useId();
  const fields = form.kind === "object" ? form.fields : [form.field];
  return (
    <div className="fields">
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

/** Once the fields are marked. */
export function focusWrong(form: HTMLElement | null): void {
  requestAnimationFrame(() => form?.querySelector<HTMLElement>("[aria-invalid]")?.focus());
}
