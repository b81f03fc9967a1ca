/** What a node of a graph, or a tool, asks: the answer is a value, in a form of its schema where there is one. */
import { useMemo, useRef, useState } from "react";
import { configOf } from "@countersign/client";
import { AnswerFields, focusWrong } from "./arguments/AnswerFields.js";
import { Arguments } from "./arguments/Arguments.js";
import { draftKey } from "./drafts.js";
import { answerFields, emptyAnswer, readAnswer, type AnswerDraft } from "./forms/answer.js";
import { problemsOf } from "./forms/edits.js";
import { Form, Frame } from "./Frame.js";
import { useLabels } from "./labels.js";
import { useDraft } from "./useDraft.js";
import { useReply, type CardProps } from "./useReply.js";

export function ValueCard({ approval, onReply, className }: CardProps) {
  const { texts } = useLabels();
  const replying = useReply(approval, onReply);
  const schema = approval.interrupt?.schema;
  const form = useMemo(() => answerFields(schema), [schema]);
  const [draft, setDraft] = useDraft<AnswerDraft>(draftKey(approval), () => emptyAnswer(form));
  /** Asked to send what could not be read. */
  const [tried, setTried] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  const read = readAnswer(form, draft);
  const problems = replying.error?.code === "invalid_resume" ? problemsOf(replying.error.details) : [];
  const submit = async () => {
    setTried(true);
    if (!read.ok) return focusWrong(box.current);
    if (await replying.send({ resume: read.value })) setDraft(undefined);
  };
  return (
    <Frame approval={approval} replying={replying} className={className} problem={tried && !read.ok ? texts["edit.fixFirst"] : undefined}>
      <Form replying={replying} onSubmit={() => void submit()} formRef={box}>
        {approval.actions.map((action, i) => (
          <Arguments key={i} action={action} config={configOf(approval, i)} />
        ))}
        <AnswerFields
          form={form}
          draft={draft}
          errors={tried && !read.ok ? read.errors : {}}
          problems={problems}
          disabled={replying.state !== "no"}
          onDraft={(next) => {
            replying.clearError();
            setDraft(next);
          }}
        />
      </Form>
    </Frame>
  );
}
