import { useId, useState } from "react";
import { NO_PREFERENCE, questionsOf, stringifyJson, type Answers, type HistoryStep, type Question } from "@countersign/client";
import { useCountersign } from "./context.js";
import { answerOf, choose, emptyAnswer, type AnswerDraft } from "./drafts.js";
import { Frame, Resolved } from "./Frame.js";
import { useReply, type CardProps } from "./useReply.js";
import { visible } from "./visible.js";

/** Questions of an agent, to be answered or declined; once that is done, what was answered. */
export function QuestionCard({ approval, onReply, className }: CardProps) {
  const { labels } = useCountersign();
  const replying = useReply(approval, onReply);
  const questions = questionsOf(approval.actions[0]?.args);
  const [drafts, setDrafts] = useState<readonly AnswerDraft[]>([]);
  const [problem, setProblem] = useState<string>();

  if (approval.resolution !== undefined) {
    return (
      <Resolved approval={approval} className={className}>
        {questions && <AnswerList questions={questions} answers={approval.answers} />}
      </Resolved>
    );
  }
  if (!approval.complete) return null;
  const draftOf = (i: number) => drafts[i] ?? emptyAnswer;
  const submit = () => {
    if (!questions) return setProblem(labels.unreadable);
    const answers = questions.map((question, i) => [question.question, answerOf(question, draftOf(i))] as const);
    const missing = answers.find(([, answer]) => answer === undefined);
    if (missing) return setProblem(`${labels.write} (${visible(missing[0])})`);
    setProblem(undefined);
    void replying.send({ answers: Object.fromEntries(answers) as Record<string, string | string[]> });
  };
  const decline = (
    <button type="button" onClick={() => void replying.send({ decisions: [{ type: "reject" }] })}>
      {labels.decline}
    </button>
  );
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} onSubmit={submit} buttons={decline}>
      {questions ? (
        questions.map((question, i) => (
          <QuestionFields
            key={question.question}
            question={question}
            draft={draftOf(i)}
            onDraft={(next) => setDrafts(questions.map((_, j) => (j === i ? next : draftOf(j))))}
          />
        ))
      ) : (
        <>
          <p>{labels.unreadable}</p>
          <pre tabIndex={0}>{visible(stringifyJson(approval.actions, 2))}</pre>
        </>
      )}
    </Frame>
  );
}

interface FieldsProps {
  question: Question;
  draft: AnswerDraft;
  onDraft: (next: AnswerDraft) => void;
}

function QuestionFields({ question, draft, onDraft }: FieldsProps) {
  const { labels } = useCountersign();
  const id = useId();
  const option = (label: string, words: string) => (
    <input
      type={question.multiSelect ? "checkbox" : "radio"}
      name={id}
      aria-label={words}
      checked={draft.chosen.includes(label)}
      onChange={(e) => onDraft(choose(question, draft, label, e.target.checked))}
    />
  );
  return (
    <fieldset data-part="question">
      <legend>
        {question.header && <span data-part="header">{visible(question.header)} </span>}
        {visible(question.question)}
      </legend>
      {question.options.map(({ label, description, input }) => (
        <div key={label} data-part="option">
          {option(label, visible(label))} {visible(label)}
          {description && <small> {visible(description)}</small>}
          {input && (
            <input
              type="text"
              aria-label={`${labels.ownAnswer}: ${visible(question.question)}`}
              value={draft.text}
              onChange={(e) => onDraft({ ...choose(question, draft, label, true), text: e.target.value })}
            />
          )}
        </div>
      ))}
      <div data-part="option">
        {option(NO_PREFERENCE, labels.noPreference)} {labels.noPreference}
      </div>
    </fieldset>
  );
}

/** Questions of the history, with what was answered: for a block of `historyOf`, or of the history API. */
export function ResolvedQuestionBlock({ block, className }: { block: HistoryStep; className?: string }) {
  const questions = questionsOf(block.actionRequests[0]?.args as Parameters<typeof questionsOf>[0]) ?? [];
  return (
    <section className={className} data-countersign="resolved" data-resolution={block.resolution ?? "decided"}>
      <AnswerList questions={questions} answers={"submittedAnswers" in block ? block.submittedAnswers : undefined} />
    </section>
  );
}

function AnswerList({ questions, answers }: { questions: Question[]; answers: Answers | undefined }) {
  const { labels } = useCountersign();
  return (
    <dl>
      {questions.map(({ question }) => {
        const answer = answers && Object.hasOwn(answers, question) ? answers[question] : undefined;
        return (
          <div key={question}>
            <dt>{visible(question)}</dt>
            {answer !== undefined && <dd>{answer === NO_PREFERENCE ? labels.noPreference : visible(answer)}</dd>}
          </div>
        );
      })}
    </dl>
  );
}
