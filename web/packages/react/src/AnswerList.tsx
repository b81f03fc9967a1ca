import type { ReactNode } from "react";
import { NO_PREFERENCE, type Answers, type Question } from "@countersign/client";
import { useQuestionWords } from "./labels.js";
import { Visible } from "./Visible.js";

export interface AnswerListProps {
  questions: Question[];
  /** By the question's text; absent if nobody answered. */
  answers: Answers | undefined;
  after?: (question: Question, index: number) => ReactNode;
}

/** Questions and their answers. */
export function AnswerList({ questions, answers, after }: AnswerListProps) {
  const { words, part } = useQuestionWords();
  return (
    <dl {...part("answers")}>
      {questions.map((q, i) => {
        const answer = answers && Object.hasOwn(answers, q.question) ? answers[q.question] : undefined;
        return (
          <div key={i} {...part("answer")}>
            <dt>
              {q.header && (
                <span {...part("header")}>
                  <Visible text={q.header} />{" "}
                </span>
              )}
              <span>
                <Visible text={q.question} />
              </span>
            </dt>
            {answer !== undefined && (
              <dd>{answer === NO_PREFERENCE ? <em {...part("none")}>{words.noPreference}</em> : <Visible text={answer} />}</dd>
            )}
            {after && <dd {...part("answer-after")}>{after(q, i)}</dd>}
          </div>
        );
      })}
    </dl>
  );
}
