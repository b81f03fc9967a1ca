import { isObject, questionsOf, stringifyJson, type HistoryStep, type JsonValue } from "@countersign/client";
import { AnswerList } from "./AnswerList.js";
import { draftKey } from "./drafts.js";
import { Frame, Resolved } from "./Frame.js";
import { useLabels } from "./labels.js";
import { QuestionForm } from "./QuestionForm.js";
import { useReply, type CardProps } from "./useReply.js";
import { Visible } from "./Visible.js";

/** Questions of an agent, to be answered or declined; once that is done, what was answered. */
export function QuestionCard({ approval, onReply, className }: CardProps) {
  const labels = useLabels();
  const replying = useReply(approval, onReply);
  const questions = questionsOf(approval.actions[0]?.args);
  if (approval.resolution !== undefined) {
    return (
      <Resolved approval={approval} className={className}>
        {questions && <AnswerList questions={questions} answers={approval.answers} />}
      </Resolved>
    );
  }
  if (!approval.complete) return null;
  return (
    <Frame approval={approval} replying={replying} className={className}>
      {questions ? (
        <QuestionForm questions={questions} draftKey={draftKey(approval)} replying={replying} />
      ) : (
        <>
          <p>{labels.unreadable}</p>
          <pre tabIndex={0}>
            <Visible text={stringifyJson(approval.actions, 2)} />
          </pre>
          <p data-part="buttons">
            <button type="button" disabled={replying.state !== "no"} onClick={() => void replying.send({ decisions: [{ type: "reject" }] })}>
              {labels.questions.decline}
            </button>
          </p>
        </>
      )}
    </Frame>
  );
}

/** Questions of the history, with what was answered: for a block of `historyOf`, or of the history API. */
export function ResolvedQuestionBlock({ block, className }: { block: HistoryStep; className?: string }) {
  const args: JsonValue | undefined = block.actionRequests[0]?.args as JsonValue | undefined;
  const answers = "submittedAnswers" in block ? block.submittedAnswers : undefined;
  return (
    <section className={className} data-countersign="resolved" data-resolution={block.resolution ?? "decided"}>
      <AnswerList questions={(isObject(args) && questionsOf(args)) || []} answers={answers} />
    </section>
  );
}
