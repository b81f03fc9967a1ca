/**
 * What a node of a graph asks: what it shows, and the answer to it, in a form made from its schema.
 * What was entered is kept until the request is resolved, whatever happens in between.
 */
import { useId, useMemo, useRef, useState, type FormEvent } from "react";
import { parseJson, type ApprovalView, type JsonValue } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { ANSWER, answerForm, choiceText, emptyAnswer, readAnswer, type AnswerDraft } from "../../lib/answer.js";
import { argumentOf, problemsOf } from "../../lib/decisions.js";
import { useTabState } from "../../lib/useTabState.js";
import { visibleText } from "../../lib/visible.js";
import { CardFrame } from "../approval/CardFrame.js";
import { FormField } from "../approval/ArgEditor.js";
import { People } from "../approval/People.js";
import type { Submission } from "../approval/useSubmit.js";
import { Icon } from "../Icon.js";
import { Visible } from "../Visible.js";
import { Payload } from "./Payload.js";

interface Props {
  approval: ApprovalView;
  submission: Submission;
}

export function InterruptCard({ approval, submission }: Props) {
  const { t } = useI18n();
  const action = approval.actions[0];
  const node = approval.interrupt?.node ?? "";
  const wrong = submission.error?.code === "invalid_resume" ? problemsOf(submission.error.details) : [];
  return (
    <CardFrame
      approval={approval}
      submission={submission}
      // Those of a field stand at the field.
      problems={wrong.filter((p) => p.pointer === "").map((p) => ({ what: "", message: p.message }))}
    >
      <People approval={approval} bar={undefined} />
      <div className="action interrupt">
        <div className="facts-line">
          <span className="tool-chip">
            <Icon name={approval.kind === "input" ? "tool" : "graph"} />
            <span className="visually-hidden">{t("interrupt.node")}: </span>
            <code>
              <Visible text={node} />
            </code>
          </span>
          {action?.agent && (
            <span className="fact">
              {t("interrupt.graph")}: <strong>{visibleText(action.agent)}</strong>
            </span>
          )}
        </div>
        {action && <Payload action={action} payload={approval.interrupt?.payload} />}
        <AnswerForm approval={approval} submission={submission} />
      </div>
    </CardFrame>
  );
}

function AnswerForm({ approval, submission }: Props) {
  const { t } = useI18n();
  const id = useId();
  const schema = approval.interrupt?.schema;
  const form = useMemo(() => answerForm(schema), [schema]);
  const [draft, setDraft] = useTabState<AnswerDraft>(`resume:${approval.approvalKey}`, () => emptyAnswer(form));
  /** Asked to send what could not be read. */
  const [tried, setTried] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  const busy = submission.state !== "no";

  const send = async (resume: JsonValue) => {
    if (busy) return;
    if (await submission.submit({ resume })) setDraft(undefined);
  };

  if (form.kind === "boolean" || form.kind === "buttons") {
    const options =
      form.kind === "boolean"
        ? [
            { value: "true", text: t("interrupt.yes") },
            { value: "false", text: t("interrupt.no") },
          ]
        : form.options.map((value) => ({ value, text: visibleText(choiceText(value)) }));
    return (
      <div className="buttons" role="group" aria-label={t("interrupt.answer")}>
        {options.map(({ value, text }, i) => (
          <button
            key={value}
            type="button"
            className={form.kind === "boolean" && i === 0 ? "button primary" : "button"}
            disabled={busy}
            onClick={() => void send(parseJson(value))}
          >
            {text}
          </button>
        ))}
      </div>
    );
  }

  const read = readAnswer(form, draft);
  const errors = tried && !read.ok ? read.errors : {};
  const wrong = submission.error?.code === "invalid_resume" ? problemsOf(submission.error.details) : [];
  const fields = form.kind === "object" ? form.fields : [form.field];
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (read.ok) return void send(read.value);
    setTried(true);
    // After the fields are marked.
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus());
  };
  return (
    <form ref={box} className="interrupt-form" noValidate onSubmit={submit}>
      <div className="fields">
        {fields.map((field) => (
          <FormField
            key={field.name}
            id={`${id}-${field.name}`}
            field={field}
            words
            label={field.name === ANSWER ? t(field.kind === "json" ? "interrupt.json" : "interrupt.answer") : undefined}
            text={draft.texts[field.name] ?? ""}
            error={errors[field.name]}
            disabled={busy}
            problems={wrong.filter((p) => p.pointer !== "" && (form.kind === "field" || argumentOf(p.pointer) === field.name))}
            onText={(text) => {
              submission.clearError();
              setDraft({ ...draft, texts: { ...draft.texts, [field.name]: text } });
            }}
          />
        ))}
      </div>
      <div className="buttons">
        <button type="submit" className="button primary" disabled={busy}>
          {t("interrupt.send")}
        </button>
      </div>
    </form>
  );
}
