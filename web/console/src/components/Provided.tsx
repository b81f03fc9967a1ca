/** The context of the shared hooks and components: the connection, and the words and classes of this page. */
import { useMemo, type ReactNode } from "react";
import { BareProvider, type ClassNames, type Labels, type PartName } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { client, http } from "../state/connection.js";
import { Refusal } from "./Refusal.js";

export function Provided({ children }: { children: ReactNode }) {
  const { t, labels: shared } = useI18n();
  const labels = useMemo<Labels>(
    () => ({
      ...shared,
      send: t("interrupt.send"),
      again: t("app.retry"),
      questions: { ...shared.questions, reason: t("decide.reason") },
      error: (error) => <Refusal error={error} />,
    }),
    [t, shared],
  );
  return (
    <BareProvider client={client} http={http} labels={labels} classNames={classNames}>
      {children}
    </BareProvider>
  );
}

/** The parts of questions and of arguments (their table, form and changes) whose class has their own name. */
const own: readonly PartName[] = [
  "agent-says", "agent-words", "address", "address-foot", "address-text", "answer", "answer-after", "answers", "arg",
  "arg-rows", "arg-value", "args", "arrow", "buttons", "change-path", "change-values", "changes", "choice", "digits",
  "edit-changes", "edit-changes-list", "editor", "editor-head", "entries", "entry", "entry-name", "fact", "field",
  "fields", "hint", "icon", "input", "label", "link", "muted", "option", "option-text", "preview", "preview-line",
  "preview-text", "question", "questions", "raw-name", "review", "segmented", "select", "server-words", "shown-break",
  "shown-foot", "shown-more", "shown-size", "shown-warning",
];

/** The class of each part. */
const classNames: ClassNames = {
  ...Object.fromEntries(own.map((name) => [name, name])),
  "arg-words": "muted arg-words",
  "args-unset": "hint args-unset",
  arguments: "shown",
  back: "button",
  "back-quiet": "button quiet",
  caution: "hint warn",
  change: "link",
  choices: "field choices",
  code: "input mono",
  decline: "button quiet decline",
  form: "interrupt-form",
  header: "eyebrow",
  heading: "eyebrow",
  hidden: "hidden-char",
  "leave-answer": "button quiet",
  "leads-to": "edit-verdict",
  more: "link nested-more",
  nested: "field nested",
  next: "button primary",
  none: "muted",
  note: "people-note",
  open: "button small",
  place: "question-place",
  problem: "field-error",
  refuse: "button danger solid",
  "refuse-answer": "button",
  remove: "icon-button",
  reset: "button quiet small",
  send: "button primary",
  "server-says": "agent-says server-says",
  shown: "shown-text",
  skip: "button",
  text: "question-text",
  unseen: "visually-hidden",
};
