/** Calls to decide, one by one, which are sent together. */
import { useId, useRef, useState } from "react";
import { allowedOf, configOf, type Action, type ApprovalView } from "@countersign/client";
import { AgentSays } from "./arguments/AgentSays.js";
import { focusWrong } from "./arguments/AnswerFields.js";
import { Arguments } from "./arguments/Arguments.js";
import { PreviewText } from "./arguments/PreviewText.js";
import type { CallDraft } from "./drafts.js";
import type { FieldProblem } from "./forms/edits.js";
import type { EditDraft } from "./forms/form.js";
import { Form } from "./Frame.js";
import { useLabels, useTexts } from "./labels.js";
import type { PendingProps } from "./Request.js";
import { useArgumentEdit } from "./useArgumentEdit.js";
import { useDecisions, type Lack } from "./useDecisions.js";
import { Visible } from "./Visible.js";

export function DecisionCard({ approval, replying, className, Frame }: PendingProps) {
  const labels = useLabels();
  const { part } = useTexts();
  const deciding = useDecisions({ approval, replying });
  const { calls, comment } = deciding;
  /** Why it could not be sent when that was tried. */
  const [lack, setLack] = useState<Lack>();
  const form = useRef<HTMLFormElement>(null);
  const commentId = useId();

  const submit = () => {
    const missing = calls.map((_, i) => deciding.lacks(i)).find((one) => one !== undefined);
    setLack(missing);
    if (missing === "edit") focusWrong(form.current);
    if (missing === undefined) void deciding.send();
  };
  const onCall = (i: number, next: CallDraft) => {
    if (next.edit !== calls[i]?.edit) setLack(undefined);
    deciding.setCall(i, next);
  };
  const onSeen = (i: number) => {
    setLack(undefined);
    deciding.onSeen(i);
  };
  const problem = lack === "edit" ? labels.texts["edit.fixFirst"] : lack === "sight" ? labels.texts["shown.long"] : lack && labels.choose;
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} problems={deciding.problems}>
      {approval.kind === "in_doubt" && <p {...part("in-doubt")}>{labels.inDoubt}</p>}
      <Form replying={replying} onSubmit={submit} formRef={form}>
        {approval.actions.map((action, i) => (
          <CallFields
            key={action.id ?? i}
            approval={approval}
            index={i}
            action={action}
            draft={calls[i]!}
            problems={deciding.problemsOf(i)}
            seen={deciding.isSeen(i)}
            onSeen={() => onSeen(i)}
            sending={replying.state !== "idle"}
            onDraft={(next) => onCall(i, next)}
          />
        ))}
        <p {...part("comment")}>
          <label htmlFor={commentId}>{labels.comment}</label>
          <textarea id={commentId} value={comment ?? ""} onChange={(e) => deciding.setComment(e.target.value)} />
        </p>
      </Form>
    </Frame>
  );
}

interface CallProps {
  approval: ApprovalView;
  index: number;
  action: Action;
  draft: CallDraft;
  /** The problems that the server found with its edit. */
  problems: FieldProblem[];
  /** Whether everything that would run has been in view; otherwise it cannot be approved. */
  seen: boolean;
  onSeen: () => void;
  sending: boolean;
  onDraft: (next: CallDraft) => void;
}

/** One call: what would run, the texts about it, and the choices. */
function CallFields({ approval, index, action, draft, problems, seen, onSeen, sending, onDraft }: CallProps) {
  const labels = useLabels();
  const { part } = useTexts();
  const id = useId();
  const config = configOf(approval, index);
  const field = (name: "reason" | "output", label: string) => (
    <p {...part(name)}>
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <textarea id={`${id}-${name}`} value={draft[name]} onChange={(e) => onDraft({ ...draft, [name]: e.target.value })} />
    </p>
  );
  const editing = draft.choice === "edit";
  const onDraftEdit = (edit: EditDraft) => onDraft({ ...draft, edit });
  const edit = useArgumentEdit({ approval, index, open: editing, draft: draft.edit, onDraft: onDraftEdit, problems, disabled: sending });
  return (
    <fieldset {...part("call")}>
      <legend>
        <Visible text={action.name} />
      </legend>
      {action.description && (
        <p {...part("description")}>
          <Visible text={action.description} />
        </p>
      )}
      {/* A step of a graph has no schema of its own. */}
      <Arguments action={action} config={approval.step ? undefined : config} seen={seen} onSeen={onSeen} />
      {!editing && <PreviewText preview={edit.preview} />}
      <AgentSays action={action} />
      {allowedOf(config).map((choice) => (
        <label key={choice}>
          <input type="radio" name={id} checked={draft.choice === choice} onChange={() => onDraft({ ...draft, choice })} />
          {labels.choices[choice] ?? choice}
        </label>
      ))}
      {draft.choice === "reject" && field("reason", labels.reason)}
      {edit.form}
      {editing && <PreviewText preview={edit.preview} />}
      {edit.changes}
      {draft.choice === "respond" && field("output", labels.result)}
    </fieldset>
  );
}
