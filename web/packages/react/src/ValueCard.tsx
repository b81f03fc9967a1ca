/**
 * The question of a graph's node, or of a tool: the answer is a value, entered in a form made from its schema if there
 * is one.
 */
import { useMemo } from "react";
import { configOf } from "@countersign/client";
import { Arguments } from "./arguments/Arguments.js";
import { Asked } from "./arguments/Asked.js";
import { draftKey } from "./draftKey.js";
import { answerFields } from "./forms/answer.js";
import { elicitationForm, elicitationOf, formProblems, type Elicitation } from "./forms/elicitation.js";
import { Form } from "./Frame.js";
import { useLabels, useTexts } from "./labels.js";
import type { PendingProps } from "./Request.js";
import { useAnswer } from "./useAnswer.js";

export function ValueCard(props: PendingProps) {
  const asked = elicitationOf(props.approval);
  return asked ? <ElicitationCard {...props} asked={asked} /> : <NodeCard {...props} />;
}

function NodeCard({ approval, replying, className, Frame }: PendingProps) {
  const { texts } = useLabels();
  const schema = approval.interrupt?.schema;
  const form = useMemo(() => answerFields(schema), [schema]);
  const { formRef, fields, problems, submit, wrong } = useAnswer({ form, draftKey: draftKey(approval), replying });
  const asked = approval.actions.map((action, i) => <Arguments key={i} action={action} config={configOf(approval, i)} />);
  const problem = wrong ? texts["edit.fixFirst"] : undefined;
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} problems={problems} asked={asked}>
      <Form replying={replying} onSubmit={() => submit()} formRef={formRef}>
        {fields}
      </Form>
    </Frame>
  );
}

/** A form of an MCP server to fill in, or an address to open; both can be declined, or left without an answer. */
function ElicitationCard({ approval, replying, className, Frame, asked }: PendingProps & { asked: Elicitation }) {
  const { texts } = useLabels();
  const { part } = useTexts();
  const form = useMemo(() => elicitationForm(asked), [approval.approvalKey]);
  const { formRef, fields, problems, send, submit, wrong } = useAnswer({ form, draftKey: draftKey(approval), replying, problemsIn: formProblems });
  const { address } = asked;
  const buttons = (
    <>
      <button type="submit" {...part("send")}>
        {texts[address ? "elicit.done" : "elicit.accept"]}
      </button>
      <button type="button" {...part("refuse-answer")} onClick={() => void send({ action: "decline" })}>
        {texts["elicit.decline"]}
      </button>
      <button type="button" {...part("leave-answer")} onClick={() => void send({ action: "cancel" })}>
        {texts["elicit.cancel"]}
      </button>
    </>
  );
  const accept = () => (address ? void send({ action: "accept" }) : submit((content) => ({ action: "accept", content })));
  const empty = form.kind === "object" && form.fields.length === 0;
  return (
    <Frame
      approval={approval}
      replying={replying}
      className={className}
      problem={wrong ? texts["edit.fixFirst"] : undefined}
      problems={problems}
      asked={<Asked approval={approval} asked={asked} />}
    >
      <Form replying={replying} onSubmit={accept} formRef={formRef} buttons={buttons}>
        {!address && !empty && fields}
      </Form>
      <p {...part("hint")}>{texts["elicit.hint"]}</p>
    </Frame>
  );
}
