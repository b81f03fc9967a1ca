/** The questions of `ask_user_question`, answered with one text for each. */
import { useId } from "react";
import { isObject, stringifyJson, type ApprovalView, type JsonObject, type JsonValue } from "@countersign/client";
import { useI18n } from "../i18n/index.js";
import { useTabState } from "../lib/useTabState.js";
import { Visible } from "./Visible.js";

interface Props {
  approval: ApprovalView;
  disabled: boolean;
  onAnswers: (answers: Record<string, string>) => void;
  onDecline: () => void;
}

interface Question {
  question: string;
  header: string | undefined;
  multiSelect: boolean;
  options: { label: string; description: string | undefined; input: boolean }[];
}

interface Answer {
  chosen: string[];
  text: string;
}

const none: Answer = { chosen: [], text: "" };

export function QuestionForm({ approval, disabled, onAnswers, onDecline }: Props) {
  const { t } = useI18n();
  const id = useId();
  const questions = questionsOf(approval.actions[0]?.args);
  const [answers, setAnswers] = useTabState<Record<string, Answer>>(`question:${approval.approvalKey}`, () => ({}));
  if (!questions) {
    return (
      <div className="action">
        <p>{t("question.unsupported")}</p>
        <pre tabIndex={0}>
          <Visible text={stringifyJson(approval.actions, 2)} />
        </pre>
      </div>
    );
  }
  const toggle = (q: Question, label: string, on: boolean) => {
    const before = answers[q.question] ?? none;
    const chosen = q.multiSelect ? [...before.chosen.filter((l) => l !== label), ...(on ? [label] : [])] : [label];
    setAnswers({ ...answers, [q.question]: { ...before, chosen } });
  };
  const send = () => onAnswers(Object.fromEntries(questions.map((q) => [q.question, answerText(q, answers[q.question])])));

  return (
    <form
      className="questions"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      {questions.map((q, i) => {
        const answer = answers[q.question] ?? none;
        return (
          <fieldset key={q.question} className="question" disabled={disabled}>
            <legend>
              {q.header && <span className="eyebrow">{q.header}</span>}
              <span className="question-text">
                <Visible text={q.question} />
              </span>
            </legend>
            {q.multiSelect && <p className="hint">{t("question.several")}</p>}
            {q.options.map((option) => {
              const on = answer.chosen.includes(option.label);
              return (
                <div key={option.label} className="option" data-on={on || undefined}>
                  <label>
                    <input
                      type={q.multiSelect ? "checkbox" : "radio"}
                      name={`${id}-${i}`}
                      checked={on}
                      onChange={(e) => toggle(q, option.label, e.target.checked)}
                    />
                    <span>
                      <Visible text={option.label} />
                      {option.description && (
                        <span className="hint">
                          <Visible text={option.description} />
                        </span>
                      )}
                    </span>
                  </label>
                  {option.input && on && (
                    <input
                      className="input"
                      aria-label={t("question.other")}
                      placeholder={t("question.other")}
                      value={answer.text}
                      onChange={(e) =>
                        setAnswers({ ...answers, [q.question]: { ...answer, text: e.target.value } })
                      }
                    />
                  )}
                </div>
              );
            })}
          </fieldset>
        );
      })}
      <div className="buttons">
        <button type="button" className="button" disabled={disabled} onClick={onDecline}>
          {t("question.decline")}
        </button>
        <button type="submit" className="button primary" disabled={disabled}>
          {t("question.send")}
        </button>
      </div>
    </form>
  );
}

/** Chosen labels in the order they are offered, joined as the protocol says; free text stands for its option. */
function answerText(q: Question, answer: Answer = none): string {
  return q.options
    .filter((o) => answer.chosen.includes(o.label))
    .map((o) => (o.input ? answer.text.trim() : o.label))
    .filter(Boolean)
    .join(", ");
}

function questionsOf(args: JsonObject | undefined): Question[] | undefined {
  const list = args?.questions;
  if (!Array.isArray(list) || list.length === 0) return undefined;
  return list.filter(isObject).map((q) => ({
    question: String(q.question ?? ""),
    header: text(q.header),
    multiSelect: q.multiSelect === true,
    options: (Array.isArray(q.options) ? q.options : []).filter(isObject).map((o) => ({
      label: String(o.label ?? ""),
      description: text(o.description),
      input: o.input === true,
    })),
  }));
}

const text = (value: JsonValue | undefined) => (typeof value === "string" ? value : undefined);
