import type { Question } from "@countersign/client";
import { Visible } from "@countersign/react";

/** Questions that somebody else answers, with their options. */
export function Asked({ questions }: { questions: Question[] }) {
  return (
    <div className="action">
      {questions.map(({ question, options }, i) => (
        <section key={i}>
          <h3 className="question-text">
            <Visible text={question} />
          </h3>
          <ul className="asked-options">
            {options.map(({ label, description }, at) => (
              <li key={at}>
                <Visible text={label} />
                {description && (
                  <span className="hint">
                    {" "}
                    <Visible text={description} />
                  </span>
                )}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
