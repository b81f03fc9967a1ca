import { useId } from "react";
import type { Question } from "@countersign/client";
import { AnswerList } from "./AnswerList.js";
import { useQuestionWords } from "./labels.js";
import { answersOf, type AnswerDraft } from "./questions.js";
import { visibleText } from "./visible.js";

interface Props {
  questions: Question[];
  answers: AnswerDraft[];
  disabled: boolean;
  /** Go back to this question. */
  onChange: (index: number) => void;
}

/** All answers, before they are sent. */
export function Review({ questions, answers, disabled, onChange }: Props) {
  const { words, part } = useQuestionWords();
  const id = useId();
  return (
    <section {...part("review")} aria-labelledby={id}>
      <h3 id={id} tabIndex={-1} data-step-start>
        {words.reviewHeading}
      </h3>
      <AnswerList
        questions={questions}
        answers={answersOf(questions, answers)}
        after={(q, i) => (
          <button
            type="button"
            {...part("change")}
            disabled={disabled}
            aria-label={words.changeOne(visibleText(q.question))}
            onClick={() => onChange(i)}
          >
            {words.change}
          </button>
        )}
      />
    </section>
  );
}
