/** What the shared hooks and components work with: the connection, and the words and classes of this page. */
import { useMemo, type ReactNode } from "react";
import { CountersignProvider, type QuestionLabels } from "@countersign/react";
import { useI18n, type Translate } from "../i18n/index.js";
import { client, http } from "../state/connection.js";

export function Provided({ children }: { children: ReactNode }) {
  const { t } = useI18n();
  const labels = useMemo(() => ({ questions: questionsIn(t) }), [t]);
  return (
    <CountersignProvider client={client} http={http} labels={labels} classNames={classNames}>
      {children}
    </CountersignProvider>
  );
}

const questionsIn = (t: Translate): QuestionLabels => ({
  place: (n, of) => t("question.place", { n, of }),
  several: t("question.several"),
  skipped: t("question.skipped"),
  noPreference: t("question.noPreference"),
  own: t("question.other"),
  ownFor: (option) => t("question.otherFor", { option }),
  choose: t("question.choose"),
  write: t("question.write"),
  next: t("question.next"),
  review: t("question.review"),
  send: t("question.send"),
  sendAll: t("question.sendAll"),
  back: t("decide.back"),
  skip: t("question.skip"),
  decline: t("question.decline"),
  reason: t("decide.reason"),
  reasonPlaceholder: t("question.reasonPlaceholder"),
  reviewHeading: t("question.reviewHeading"),
  change: t("question.change"),
  changeOne: (question) => t("question.changeOne", { question }),
});

const classNames = {
  answer: "answer",
  "answer-after": "answer-after",
  answers: "answers",
  back: "button",
  "back-quiet": "button quiet",
  buttons: "buttons",
  change: "link",
  decline: "button quiet decline",
  field: "field",
  header: "eyebrow",
  hidden: "hidden-char",
  hint: "hint",
  input: "input",
  label: "label",
  next: "button primary",
  none: "muted",
  option: "option",
  "option-text": "option-text",
  place: "question-place",
  problem: "field-error",
  question: "question",
  questions: "questions",
  refuse: "button danger solid",
  review: "review",
  skip: "button",
  text: "question-text",
};
