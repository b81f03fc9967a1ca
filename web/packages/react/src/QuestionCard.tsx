import { isObject, questionsOf, stringifyJson, type ApprovalView, type HistoryStep, type JsonValue } from "@countersign/client";
import { AnswerList } from "./AnswerList.js";
import { draftKey } from "./draftKey.js";
import { useQuestionWords, useLabels } from "./labels.js";
import { QuestionForm } from "./QuestionForm.js";
import { answerProblems } from "./questions.js";
import { Request, type CardProps, type PendingProps } from "./Request.js";
import { Visible } from "./Visible.js";

/** Questions of an agent, to be answered or declined; once that is done, the answers. */
export function QuestionCard(props: CardProps) {
  const { approval } = props;
  return <Request key={approval.approvalKey} {...props} Waiting={Questions} Outcome={Answered} />;
}

export function Questions({ approval, replying, className, Frame }: PendingProps) {
  const questions = questionsOf(approval.actions[0]?.args);
  const frame = { approval, replying, className };
  if (!questions) {
    return (
      <Frame {...frame} asked={<Unreadable approval={approval} />}>
        <Declining disabled={replying.state !== "idle"} onDecline={() => void replying.send({ decisions: [{ type: "reject" }] })} />
      </Frame>
    );
  }
  return (
    <Frame {...frame} problems={answerProblems(replying.error)}>
      <QuestionForm questions={questions} draftKey={draftKey(approval)} replying={replying} />
    </Frame>
  );
}

function Unreadable({ approval }: { approval: ApprovalView }) {
  const labels = useLabels();
  return (
    <>
      <p>{labels.unreadable}</p>
      <pre tabIndex={0}>
        <Visible text={stringifyJson(approval.actions, 2)} />
      </pre>
    </>
  );
}

function Declining({ disabled, onDecline }: { disabled: boolean; onDecline: () => void }) {
  const { words, part } = useQuestionWords();
  return (
    <p {...part("buttons")}>
      <button type="button" {...part("decline")} disabled={disabled} onClick={onDecline}>
        {words.decline}
      </button>
    </p>
  );
}

/** The answers. */
export function Answered({ approval }: { approval: ApprovalView }) {
  const questions = questionsOf(approval.actions[0]?.args);
  return questions ? <AnswerList questions={questions} answers={approval.answers} /> : null;
}

/** Questions from the history, with their answers: for a block of `historyOf`, or of the history API. */
export function ResolvedQuestionBlock({ block, className }: { block: HistoryStep; className?: string }) {
  const args: JsonValue | undefined = block.actionRequests[0]?.args as JsonValue | undefined;
  const answers = "submittedAnswers" in block ? block.submittedAnswers : undefined;
  return (
    <section className={className} data-countersign="resolved" data-resolution={block.resolution ?? "decided"}>
      <AnswerList questions={(isObject(args) && questionsOf(args)) || []} answers={answers} />
    </section>
  );
}
