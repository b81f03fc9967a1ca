/** Calls to decide, one by one, which are sent together. */
import { useId, useRef, useState } from "react";
import { allowedOf, configOf, decisionOf, progress, type Action, type ApprovalView, type Decision } from "@countersign/client";
import { AgentSays } from "./arguments/AgentSays.js";
import { focusWrong } from "./arguments/AnswerFields.js";
import { Arguments } from "./arguments/Arguments.js";
import { fieldErrorText } from "./arguments/FormField.js";
import { PreviewText } from "./arguments/PreviewText.js";
import { draftKey, emptyCall, shownArgs, type CallDraft } from "./drafts.js";
import { argumentOf, editedArgs, needsSight, refusedEdits, type FieldProblem } from "./forms/edits.js";
import type { EditDraft } from "./forms/form.js";
import { isLongText } from "./forms/shown.js";
import { Form, Frame } from "./Frame.js";
import { useLabels, useTexts } from "./labels.js";
import { useArgumentEdit } from "./useArgumentEdit.js";
import { useDraft } from "./useDraft.js";
import { useReply, type CardProps } from "./useReply.js";
import { Visible } from "./Visible.js";

export function DecisionCard({ approval, onReply, className }: CardProps) {
  const labels = useLabels();
  const { t } = useTexts();
  const replying = useReply(approval, onReply);
  const empty = () => ({ calls: approval.actions.map(() => emptyCall), comment: "" });
  const [draft, setDraft] = useDraft(draftKey(approval), empty);
  const [problem, setProblem] = useState<string>();
  // Not kept over a reload: whoever comes back looks again.
  const [seen, setSeen] = useState<ReadonlySet<number>>(new Set());
  const isSeen = (i: number) => seen.has(i) || !isLongText(shownArgs(approval.actions[i]!));
  const onSeen = (i: number) => {
    setProblem(undefined);
    setSeen((before) => (before.has(i) ? before : new Set([...before, i])));
  };
  const form = useRef<HTMLFormElement>(null);
  const commentId = useId();
  const callAt = (i: number) => draft.calls[i] ?? emptyCall;

  const submit = async () => {
    const decisions: Decision[] = [];
    for (const [i, action] of approval.actions.entries()) {
      const decision = decisionFrom(approval, i, action, callAt(i));
      if (!decision && callAt(i).choice !== "edit") return setProblem(labels.choose);
      if (!decision) {
        setProblem(labels.texts["edit.fixFirst"]);
        return focusWrong(form.current);
      }
      if (needsSight(decision.type) && !isSeen(i)) return setProblem(labels.texts["shown.long"]);
      decisions.push(decision);
    }
    setProblem(undefined);
    const words = draft.comment.trim();
    if (!(await replying.send({ decisions, ...(words ? { user_edit_content: words } : {}) }))) return;
    // Once it is stored, nothing is left to restore; where more people must approve, the card begins anew.
    setDraft(progress(approval) ? empty() : undefined);
  };
  const onCall = (i: number, next: CallDraft) => {
    // What is wrong is about what was sent.
    if (next.edit !== callAt(i).edit) {
      setProblem(undefined);
      if (replying.error?.code === "invalid_edit") replying.clearError();
    }
    setDraft({ ...draft, calls: approval.actions.map((_, j) => (j === i ? next : callAt(j))) });
  };
  const problems = refusedEdits(replying.error, approval, (i) => editedArgs(approval.actions[i]!, configOf(approval, i), callAt(i).edit));
  // Here too where a field says it: there may be no such field, or the arguments are edited as JSON.
  const found = problems.map((p) => ({ what: argumentOf(p.pointer), message: p.message, own: p.error && fieldErrorText(p.error, t) }));
  return (
    <Frame approval={approval} replying={replying} className={className} problem={problem} problems={found}>
      {approval.kind === "in_doubt" && <p data-part="in-doubt">{labels.inDoubt}</p>}
      <Form replying={replying} onSubmit={() => void submit()} formRef={form}>
        {approval.actions.map((action, i) => (
          <CallFields
            key={action.id ?? i}
            approval={approval}
            index={i}
            action={action}
            draft={callAt(i)}
            problems={problems.filter(({ index }) => index === undefined || index === i)}
            seen={isSeen(i)}
            onSeen={() => onSeen(i)}
            sending={replying.state !== "no"}
            onDraft={(next) => onCall(i, next)}
          />
        ))}
        <p data-part="comment">
          <label htmlFor={commentId}>{labels.comment}</label>
          <textarea id={commentId} value={draft.comment} onChange={(e) => setDraft({ ...draft, comment: e.target.value })} />
        </p>
      </Form>
    </Frame>
  );
}

/** The decision about a call; nothing while there is none, or its edit cannot be read. */
function decisionFrom(approval: ApprovalView, index: number, action: Action, draft: CallDraft): Decision | undefined {
  const config = configOf(approval, index);
  return decisionOf(action, config, { ...draft, args: draft.choice === "edit" ? editedArgs(action, config, draft.edit) : undefined });
}

interface CallProps {
  approval: ApprovalView;
  index: number;
  action: Action;
  draft: CallDraft;
  /** What the server found wrong with its edit. */
  problems: FieldProblem[];
  /** Whether all that would run has been in view; what has not is not approved. */
  seen: boolean;
  onSeen: () => void;
  sending: boolean;
  onDraft: (next: CallDraft) => void;
}

/** One call: what would run, what is said about it, and the choices. */
function CallFields({ approval, index, action, draft, problems, seen, onSeen, sending, onDraft }: CallProps) {
  const labels = useLabels();
  const id = useId();
  const config = configOf(approval, index);
  const field = (name: "reason" | "output", label: string) => (
    <p data-part={name}>
      <label htmlFor={`${id}-${name}`}>{label}</label>
      <textarea id={`${id}-${name}`} value={draft[name]} onChange={(e) => onDraft({ ...draft, [name]: e.target.value })} />
    </p>
  );
  const editing = draft.choice === "edit";
  const onDraftEdit = (edit: EditDraft) => onDraft({ ...draft, edit });
  const edit = useArgumentEdit({ approval, index, open: editing, draft: draft.edit, onDraft: onDraftEdit, problems, disabled: sending });
  return (
    <fieldset data-part="call">
      <legend>
        <Visible text={action.name} />
      </legend>
      {action.description && (
        <p data-part="description">
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
          {labels.choices[choice]}
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
