import type { ReactNode } from "react";
import { NO_PREFERENCE, type Question } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { Visible } from "../Visible.js";

interface Props {
  questions: Question[];
  /** Nothing where nobody answered. */
  answerOf: (question: Question, index: number) => string | undefined;
  after?: (question: Question, index: number) => ReactNode;
}

/** Questions and what was answered. */
export function AnswerList({ questions, answerOf, after }: Props) {
  return (
    <dl className="answers">
      {questions.map((q, i) => {
        const answer = answerOf(q, i);
        return (
          <div key={i} className="answer">
            <dt>
              {q.header && (
                <span className="eyebrow">
                  <Visible text={q.header} />
                </span>
              )}
              <span>
                <Visible text={q.question} />
              </span>
            </dt>
            {answer !== undefined && (
              <dd>
                <AnswerText answer={answer} />
              </dd>
            )}
            {after && <dd className="answer-after">{after(q, i)}</dd>}
          </div>
        );
      })}
    </dl>
  );
}

function AnswerText({ answer }: { answer: string }) {
  const { t } = useI18n();
  return answer === NO_PREFERENCE ? <em className="muted">{t("question.noPreference")}</em> : <Visible text={answer} />;
}
