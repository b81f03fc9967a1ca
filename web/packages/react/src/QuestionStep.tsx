import { useId, useRef, type CSSProperties, type KeyboardEvent, type RefObject } from "react";
import type { Question, QuestionOption } from "@countersign/client";
import { useQuestionWords } from "./labels.js";
import { choose, lacksWords, write, writtenIn, type AnswerDraft, type AnswerProblem } from "./questions.js";
import { visibleText } from "./visibleText.js";
import { Visible } from "./Visible.js";

interface Props {
  question: Question;
  /** Its position among several questions. */
  place: { n: number; of: number } | undefined;
  draft: AnswerDraft;
  problem: AnswerProblem | undefined;
  disabled: boolean;
  onDraft: (draft: AnswerDraft) => void;
}

/** One question and its options. */
export function QuestionStep({ question, place, draft, problem, disabled, onDraft }: Props) {
  const { words, part } = useQuestionWords();
  const id = useId();
  const walking = useRef(false);
  return (
    <fieldset
      {...part("question")}
      disabled={disabled}
      aria-describedby={`${id}-help`}
      onKeyDownCapture={(e) => (walking.current = e.key.startsWith("Arrow"))}
      onPointerDownCapture={() => (walking.current = false)}
    >
      <legend tabIndex={-1} data-step-start>
        {place && (
          <span {...part("place")}>
            <span aria-hidden="true">
              {place.n} / {place.of}
            </span>
            <span style={SPOKEN}>{words.place(place.n, place.of)}</span>
          </span>
        )}
        {question.header && (
          <span {...part("header")}>
            <Visible text={question.header} />{" "}
          </span>
        )}
        <span {...part("text")}>
          <Visible text={question.question} />
        </span>
      </legend>
      <div id={`${id}-help`}>
        {question.multiSelect && <p {...part("hint")}>{words.several}</p>}
        {draft.skipped && <p {...part("hint")}>{words.skipped}</p>}
      </div>
      {question.options.map((option) => (
        <Option
          key={option.label}
          option={option}
          question={question}
          group={id}
          draft={draft}
          missing={problem === "write" && lacksWords(option, draft)}
          problemId={`${id}-problem`}
          walking={walking}
          onDraft={onDraft}
        />
      ))}
      {problem && (
        <p id={`${id}-problem`} {...part("problem")} role="alert">
          {words[problem]}
        </p>
      )}
    </fieldset>
  );
}

/** For screen readers only, even without style sheets. */
const SPOKEN: CSSProperties = { position: "absolute", width: 1, height: 1, overflow: "hidden", clipPath: "inset(50%)", whiteSpace: "nowrap" };

interface OptionProps {
  option: QuestionOption;
  question: Question;
  /** The radio buttons of a question are one group. */
  group: string;
  draft: AnswerDraft;
  missing: boolean;
  problemId: string;
  /** Arrow keys walk through the options, and must not get stuck in the text field. */
  walking: RefObject<boolean>;
  onDraft: (draft: AnswerDraft) => void;
}

function Option({ option, question, group, draft, missing, problemId, walking, onDraft }: OptionProps) {
  const { words, part } = useQuestionWords();
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const on = draft.chosen.includes(option.label);
  const onKeyDown = (e: KeyboardEvent) => {
    // A person who has walked to the option and begins to type means the field.
    if (option.input && e.key.length === 1 && e.key !== " " && !e.ctrlKey && !e.metaKey && !e.altKey) field.current?.focus();
  };
  return (
    <div {...part("option")} data-on={on || undefined}>
      <label>
        <input
          type={question.multiSelect ? "checkbox" : "radio"}
          name={group}
          checked={on}
          aria-labelledby={`${id}-label`}
          aria-describedby={option.description ? `${id}-description` : undefined}
          onKeyDown={onKeyDown}
          onChange={(e) => {
            onDraft(choose(question, draft, option.label, e.target.checked));
            if (option.input && e.target.checked && !walking.current) field.current?.focus();
          }}
        />
        <span {...part("option-text")}>
          <span id={`${id}-label`}>
            <Visible text={option.label} />
          </span>
          {option.description && (
            <span id={`${id}-description`} {...part("hint")}>
              <Visible text={option.description} />
            </span>
          )}
        </span>
      </label>
      {option.input && (
        <input
          ref={field}
          {...part("input")}
          type="text"
          autoComplete="off"
          aria-label={words.ownFor(visibleText(option.label))}
          placeholder={words.own}
          aria-invalid={missing || undefined}
          aria-describedby={missing ? problemId : undefined}
          value={writtenIn(draft, option.label)}
          onChange={(e) => onDraft(write(question, draft, option.label, e.target.value))}
        />
      )}
    </div>
  );
}
