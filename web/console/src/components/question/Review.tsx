import { useId } from "react";
import type { Question } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { answerText, emptyAnswer, type AnswerDraft } from "../../lib/questions.js";
import { visibleText } from "../../lib/visible.js";
import { AnswerList } from "./AnswerList.js";

interface Props {
  questions: Question[];
  answers: AnswerDraft[];
  disabled: boolean;
  /** Go back to this question. */
  onChange: (index: number) => void;
}

/** All answers, before they are sent. */
export function Review({ questions, answers, disabled, onChange }: Props) {
  const { t } = useI18n();
  const id = useId();
  return (
    <section className="review" aria-labelledby={id}>
      <h3 id={id} tabIndex={-1} data-step-start>
        {t("question.reviewHeading")}
      </h3>
      <AnswerList
        questions={questions}
        answerOf={(q, i) => answerText(q, answers[i] ?? emptyAnswer)}
        after={(q, i) => (
          <button
            type="button"
            className="link"
            disabled={disabled}
            aria-label={t("question.changeOne", { question: visibleText(q.question) })}
            onClick={() => onChange(i)}
          >
            {t("question.change")}
          </button>
        )}
      />
    </section>
  );
}
