/**
 * What a node of a graph or a tool asks: what it shows, and the answer to it, in a form made from its schema.
 * What was entered is kept until the request is resolved, whatever happens in between.
 */
import { useMemo, type FormEvent } from "react";
import { parseJson, type ApprovalView } from "@countersign/client";
import { useAnswer, visibleText, type Replying } from "@countersign/react";
import { answerFields, answerForm, choiceText, elicitationOf, problemsOf } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { draftKeys } from "../../lib/unsent.js";
import { useBar } from "../../state/me.js";
import { CardFrame } from "../approval/CardFrame.js";
import { People } from "../approval/People.js";
import { AskedBy } from "./AskedBy.js";
import { ElicitationCard } from "./ElicitationCard.js";
import { Payload } from "./Payload.js";

interface Props {
  approval: ApprovalView;
  submission: Replying;
}

export function InterruptCard(props: Props) {
  const asked = elicitationOf(props.approval);
  return asked ? <ElicitationCard {...props} asked={asked} /> : <NodeCard {...props} />;
}

function NodeCard({ approval, submission }: Props) {
  const action = approval.actions[0];
  const bar = useBar(approval);
  const wrong = submission.error?.code === "invalid_resume" ? problemsOf(submission.error.details) : [];
  return (
    <CardFrame
      approval={approval}
      submission={submission}
      // Those of a field stand at the field.
      problems={wrong.filter((p) => p.pointer === "").map((p) => ({ what: "", message: p.message }))}
    >
      <People approval={approval} bar={bar} />
      <div className="action interrupt">
        <AskedBy approval={approval} />
        {action && <Payload action={action} payload={approval.interrupt?.payload} />}
        {!bar && <AnswerForm approval={approval} submission={submission} />}
      </div>
    </CardFrame>
  );
}

function AnswerForm({ approval, submission }: Props) {
  const { t } = useI18n();
  const schema = approval.interrupt?.schema;
  const form = useMemo(() => answerForm(schema), [schema]);
  const inFields = useMemo(() => answerFields(schema), [schema]);
  const { formRef, fields, send, submit } = useAnswer({ form: inFields, draftKey: draftKeys(approval).reply, replying: submission });
  const busy = submission.state !== "no";

  if (form.kind === "boolean" || form.kind === "buttons") {
    const options =
      form.kind === "boolean"
        ? [
            { value: "true", text: t("interrupt.yes") },
            { value: "false", text: t("interrupt.no") },
          ]
        : form.options.map((value, i) => ({ value, text: visibleText(form.labels?.[i] ?? choiceText(value)) }));
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

  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    submit();
  };
  return (
    <form ref={formRef} className="interrupt-form" noValidate onSubmit={onSubmit}>
      {fields}
      <div className="buttons">
        <button type="submit" className="button primary" disabled={busy}>
          {t("interrupt.send")}
        </button>
      </div>
    </form>
  );
}
