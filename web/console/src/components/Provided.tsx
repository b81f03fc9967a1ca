/** What the shared hooks and components work with: the connection, and the words and classes of this page. */
import { useMemo, type ReactNode } from "react";
import { BareProvider, type Labels } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { client, http } from "../state/connection.js";
import { Refusal } from "./Refusal.js";

export function Provided({ children }: { children: ReactNode }) {
  const { t, labels: shared } = useI18n();
  const labels = useMemo<Labels>(
    () => ({
      ...shared,
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

/** By the parts of questions, and of arguments: their table, form and changes. */
const classNames = {
  "agent-says": "agent-says",
  "agent-words": "agent-words",
  address: "address",
  "address-foot": "address-foot",
  "address-text": "address-text",
  answer: "answer",
  "answer-after": "answer-after",
  answers: "answers",
  arg: "arg",
  "arg-rows": "arg-rows",
  "arg-value": "arg-value",
  "arg-words": "muted arg-words",
  args: "args",
  "args-unset": "hint args-unset",
  arguments: "shown",
  arrow: "arrow",
  back: "button",
  "back-quiet": "button quiet",
  buttons: "buttons",
  caution: "hint warn",
  change: "link",
  "change-path": "change-path",
  "change-values": "change-values",
  changes: "changes",
  choice: "choice",
  choices: "field choices",
  code: "input mono",
  decline: "button quiet decline",
  digits: "digits",
  "edit-changes": "edit-changes",
  "edit-changes-list": "edit-changes-list",
  editor: "editor",
  "editor-head": "editor-head",
  entries: "entries",
  entry: "entry",
  "entry-name": "entry-name",
  fact: "fact",
  field: "field",
  fields: "fields",
  header: "eyebrow",
  heading: "eyebrow",
  hidden: "hidden-char",
  hint: "hint",
  icon: "icon",
  input: "input",
  label: "label",
  "leads-to": "edit-verdict",
  link: "link",
  more: "link nested-more",
  muted: "muted",
  nested: "field nested",
  next: "button primary",
  none: "muted",
  note: "people-note",
  open: "button small",
  option: "option",
  "option-text": "option-text",
  place: "question-place",
  preview: "preview",
  "preview-line": "preview-line",
  "preview-text": "preview-text",
  problem: "field-error",
  question: "question",
  questions: "questions",
  "raw-name": "raw-name",
  refuse: "button danger solid",
  remove: "icon-button",
  reset: "button quiet small",
  review: "review",
  segmented: "segmented",
  select: "select",
  "server-says": "agent-says server-says",
  "server-words": "server-words",
  shown: "shown-text",
  "shown-break": "shown-break",
  "shown-foot": "shown-foot",
  "shown-more": "shown-more",
  "shown-size": "shown-size",
  "shown-warning": "shown-warning",
  skip: "button",
  text: "question-text",
  unseen: "visually-hidden",
};
