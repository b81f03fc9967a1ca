/**
 * The questions of an agent, one at a time. With several, all answers are looked over before they are sent.
 * What was entered is kept until the request is resolved, whatever happens in between.
 */
import { useEffect, useRef, useState, type RefObject } from "react";
import { questionsOf, stringifyJson, type ApprovalView, type Question } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import {
  answerErrors,
  answersOf,
  emptyAnswer,
  emptyDraft,
  problemOf,
  skippedAnswer,
  type AnswerDraft,
  type QuestionDraft,
} from "../../lib/questions.js";
import { useTabState } from "../../lib/useTabState.js";
import { visibleText } from "../../lib/visible.js";
import { useBar } from "../../state/me.js";
import { AgentPath } from "../approval/AgentPath.js";
import { CardFrame } from "../approval/CardFrame.js";
import { People } from "../approval/People.js";
import type { Submission } from "../approval/useSubmit.js";
import { Visible } from "../Visible.js";
import { Asked } from "./Asked.js";
import { DeclineForm } from "./DeclineForm.js";
import { QuestionStep } from "./QuestionStep.js";
import { Review } from "./Review.js";

interface Props {
  approval: ApprovalView;
  submission: Submission;
}

export function QuestionCard({ approval, submission }: Props) {
  const { t } = useI18n();
  const action = approval.actions[0];
  const questions = questionsOf(action?.args);
  const errors = answerErrors(submission.error?.details);
  const bar = useBar(approval);
  return (
    <CardFrame
      approval={approval}
      submission={submission}
      problems={errors.map((e) => ({ what: visibleText(e.question), message: e.message }))}
    >
      {action?.path && action.path.length > 0 && (
        <div className="facts-line asked-by">
          <span className="fact">
            {t("card.agent")}: <strong>{visibleText(action.agent ?? "")}</strong>
          </span>
          <AgentPath action={action} />
        </div>
      )}
      {bar && <People approval={approval} bar={bar} />}
      {questions && bar ? (
        <Asked questions={questions} />
      ) : questions ? (
        <Steps approval={approval} submission={submission} questions={questions} />
      ) : (
        <div className="action">
          <p>{t("question.unsupported")}</p>
          <pre tabIndex={0}>
            <Visible text={stringifyJson(approval.actions, 2)} />
          </pre>
        </div>
      )}
    </CardFrame>
  );
}

function Steps({ approval, submission, questions }: Props & { questions: Question[] }) {
  const { t } = useI18n();
  const [draft, setDraft] = useTabState<QuestionDraft>(`question:${approval.approvalKey}`, () =>
    emptyDraft(questions.length),
  );
  /** Asked to go on without an answer. */
  const [tried, setTried] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const busy = submission.state !== "no";
  const several = questions.length > 1;
  const at = Math.min(draft.at, several ? questions.length : 0);
  const question = questions[at];
  const answer = draft.answers[at] ?? emptyAnswer;
  useFocusOnStep(form, draft.declining ? -1 : at);

  const send = async (from: AnswerDraft[]) => {
    if (await submission.submit({ answers: answersOf(questions, from) })) setDraft(undefined);
  };
  const goTo = (next: number, answers = draft.answers) => {
    submission.clearError();
    setTried(false);
    setDraft({ ...draft, answers, at: next, reviewed: draft.reviewed || next === questions.length });
  };
  const withAnswer = (next: AnswerDraft) => draft.answers.map((a, i) => (i === at ? next : a));
  /** On to the next question, or, with nothing left to look over, to the agent. */
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
          if (await submission.submit({ decisions: [decision] })) setDraft(undefined);
        }}
      />
    );
  }
  return (
    <form
      ref={form}
      className="questions"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
      onKeyDown={(e) => {
        if (e.key !== "Enter") return;
        // While an input method composes (Telex, Pinyin), Enter belongs to it.
        if (e.nativeEvent.isComposing || e.keyCode === 229) return e.preventDefault();
        // Where a step begins there is no field whose Enter the browser would take for the form's.
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
            submission.clearError();
            setDraft({ ...draft, answers: withAnswer(next) });
          }}
        />
      ) : (
        <Review questions={questions} answers={draft.answers} disabled={busy} onChange={(i) => goTo(i)} />
      )}
      <div className="buttons">
        <button type="button" className="button quiet decline" disabled={busy} onClick={() => setDraft({ ...draft, declining: true })}>
          {t("question.decline")}
        </button>
        {at > 0 && (
          <button type="button" className="button" disabled={busy} onClick={() => goTo(at - 1)}>
            {t("decide.back")}
          </button>
        )}
        {question && (
          <button type="button" className="button" disabled={busy} onClick={() => goOn(withAnswer(skippedAnswer))}>
            {t("question.skip")}
          </button>
        )}
        <button type="submit" className="button primary" disabled={busy}>
          {t(goOnLabel(question, several, draft.reviewed || at === questions.length - 1))}
        </button>
      </div>
    </form>
  );
}

function goOnLabel(question: Question | undefined, several: boolean, last: boolean) {
  if (!several) return "question.send";
  return question ? (last ? "question.review" : "question.next") : "question.sendAll";
}

/**
 * The focus goes to what the next step begins with, but only after a step: a card that has just been drawn
 * must not take the focus.
 */
function useFocusOnStep(form: RefObject<HTMLFormElement | null>, step: number): void {
  const before = useRef(step);
  useEffect(() => {
    if (before.current === step) return;
    before.current = step;
    form.current?.querySelector<HTMLElement>("[data-step-start]")?.focus();
  }, [form, step]);
}
