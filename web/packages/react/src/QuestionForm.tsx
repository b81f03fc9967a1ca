/**
 * The questions of an agent, one at a time. With several, all answers are reviewed before they are sent. The input is
 * kept until the request is resolved, whatever happens in between.
 */
import { useEffect, useRef, useState, type RefObject } from "react";
import type { Question } from "@countersign/client";
import { DeclineForm } from "./DeclineForm.js";
import { useQuestionWords } from "./labels.js";
import { answersOf, emptyAnswer, emptyDraft, problemOf, skippedAnswer, type AnswerDraft, type QuestionDraft } from "./questions.js";
import { QuestionStep } from "./QuestionStep.js";
import { Review } from "./Review.js";
import { useDraft } from "./useDraft.js";
import type { Replying } from "./useReply.js";

export interface QuestionFormProps {
  questions: Question[];
  /** The name under which the tab keeps the input. */
  draftKey: string;
  replying: Replying;
}

/** Questions, step by step, or declining them: without the frame of a card. */
export function QuestionForm({ questions, draftKey, replying }: QuestionFormProps) {
  const { words, part } = useQuestionWords();
  const [draft, setDraft] = useDraft<QuestionDraft>(draftKey, () => emptyDraft(questions.length));
  /** Whether the person tried to continue without an answer. */
  const [tried, setTried] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const busy = replying.state !== "idle";
  const several = questions.length > 1;
  const at = Math.min(draft.at, several ? questions.length : 0);
  const question = questions[at];
  const answer = draft.answers[at] ?? emptyAnswer;
  useFocusOnStep(form, draft.declining ? -1 : at);

  const send = async (from: AnswerDraft[]) => {
    if (await replying.send({ answers: answersOf(questions, from) })) setDraft(undefined);
  };
  const goTo = (next: number, answers = draft.answers) => {
    replying.clearError();
    setTried(false);
    setDraft({ ...draft, answers, at: next, reviewed: draft.reviewed || next === questions.length });
  };
  const withAnswer = (next: AnswerDraft) => draft.answers.map((a, i) => (i === at ? next : a));
  /** Continues with the next question, or, with nothing left to review, sends the answers to the agent. */
  const goOn = (answers: AnswerDraft[]) => {
    if (several && question) return goTo(draft.reviewed ? questions.length : at + 1, answers);
    setDraft({ ...draft, answers });
    void send(answers);
  };
  const submit = () => {
    if (busy) return;
    if (question && problemOf(question, answer)) {
      setTried(true);
      // The mark alone would be easy to miss: back to where something is missing.
      form.current?.querySelector<HTMLElement>("fieldset input")?.focus();
    } else goOn(draft.answers);
  };

  if (draft.declining) {
    return (
      <DeclineForm
        reason={draft.reason}
        disabled={busy}
        onReason={(reason) => setDraft({ ...draft, reason })}
        onBack={() => setDraft({ ...draft, declining: false })}
        onDecline={async () => {
          const message = draft.reason.trim();
          const decision = { type: "reject" as const, ...(message ? { message } : {}) };
          if (await replying.send({ decisions: [decision] })) setDraft(undefined);
        }}
      />
    );
  }
  return (
    <form
      ref={form}
      {...part("questions")}
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
      onKeyDown={(e) => {
        if (e.key !== "Enter") return;
        // While an input method composes (Telex, Pinyin), Enter belongs to it.
        if (e.nativeEvent.isComposing || e.keyCode === 229) return e.preventDefault();
        // At the beginning of a step no field has the focus whose Enter would submit the form.
        if (!e.repeat && (e.target as HTMLElement).matches("[data-step-start]")) submit();
      }}
    >
      {question ? (
        <QuestionStep
          key={at}
          question={question}
          place={several ? { n: at + 1, of: questions.length } : undefined}
          draft={answer}
          problem={tried ? problemOf(question, answer) : undefined}
          disabled={busy}
          onDraft={(next) => {
            replying.clearError();
            setDraft({ ...draft, answers: withAnswer(next) });
          }}
        />
      ) : (
        <Review questions={questions} answers={draft.answers} disabled={busy} onChange={(i) => goTo(i)} />
      )}
      <div {...part("buttons")}>
        <button type="button" {...part("decline")} disabled={busy} onClick={() => setDraft({ ...draft, declining: true })}>
          {words.decline}
        </button>
        {at > 0 && (
          <button type="button" {...part("back")} disabled={busy} onClick={() => goTo(at - 1)}>
            {words.back}
          </button>
        )}
        {question && (
          <button type="button" {...part("skip")} disabled={busy} onClick={() => goOn(withAnswer(skippedAnswer))}>
            {words.skip}
          </button>
        )}
        <button type="submit" {...part("next")} disabled={busy}>
          {words[goOnLabel(question, several, draft.reviewed || at === questions.length - 1)]}
        </button>
      </div>
    </form>
  );
}

function goOnLabel(question: Question | undefined, several: boolean, last: boolean) {
  if (!several) return "send";
  return question ? (last ? "review" : "next") : "sendAll";
}

/**
 * The focus moves to the beginning of the next step, but only after a step: a card that has just been rendered must not
 * take the focus.
 */
function useFocusOnStep(form: RefObject<HTMLFormElement | null>, step: number): void {
  const before = useRef(step);
  useEffect(() => {
    if (before.current === step) return;
    before.current = step;
    form.current?.querySelector<HTMLElement>("[data-step-start]")?.focus();
  }, [form, step]);
}
