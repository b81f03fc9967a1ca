import { useMemo, type ReactNode } from "react";
import { configOf, decidingRole, decisionOf, type ApprovalView, type Decision, type EditPreview, type JsonObject, type Preview } from "@countersign/client";
import { ArgumentForm, EditChanges } from "./arguments/ArgumentForm.js";
import { EditAsks, LeadsTo } from "./arguments/LeadsTo.js";
import { argFields, editApproves, editedArgs, editProblems, type FieldProblem } from "./forms/edits.js";
import { newEdit, type EditDraft } from "./forms/form.js";
import { useEditPreview } from "./useEditPreview.js";

export interface ArgumentEditOptions {
  approval: ApprovalView;
  /** The index of the call in it. */
  index: number;
  /** Whether it is being edited. */
  open: boolean;
  /** The input so far; absent at the beginning. */
  draft: EditDraft | undefined;
  onDraft: (draft: EditDraft) => void;
  /** The problems that the server found with it when it was sent, from `refusedEdits`. */
  problems?: FieldProblem[];
  /** While it is sent. */
  disabled?: boolean;
}

export interface ArgumentEdit {
  /** The form of the arguments, and the outcome of the edit if it is not an approval. */
  form: ReactNode;
  /** The changes so far, and their outcome: keep this in view during the edit. */
  changes: ReactNode;
  /** What the call would do with the current arguments, if known. */
  preview: Preview | undefined;
  /** The resulting decision; `undefined` while it is not open, or cannot be read. */
  decision: Decision | undefined;
  /** The outcome according to the server, once it has answered. */
  found: EditPreview | undefined;
}

/**
 * Editing the arguments of one call; `undefined` if there is no such call, or not yet. The card places the parts, and
 * keeps the input.
 */
export function useArgumentEdit({ approval, index, open, draft, onDraft, problems = [], disabled = false }: ArgumentEditOptions): ArgumentEdit {
  const action = approval.actions[index];
  const config = configOf(approval, index);
  const fields = useMemo(() => action && argFields(action, config), [action, config]);
  const args = open && action ? editedArgs(action, config, draft) : undefined;
  const decision = open && action ? decisionOf(action, config, { choice: "edit", reason: "", output: "", args }) : undefined;
  const edited = decision?.type === "edit" ? decision.edited_action : undefined;
  const editing = useEditPreview(approval, index, edited, disabled);
  const refusals = edited ? editProblems(editing.found?.error, config, edited.args as JsonObject) : [];
  if (!action) return { form: null, changes: null, preview: undefined, decision: undefined, found: undefined };
  const shared = {
    original: action.args,
    display: action.display,
    fields,
    draft: draft ?? newEdit(fields, action.args),
    disabled,
    onChange: onDraft,
  };
  return {
    form: open && (
      <>
        {!editApproves(config) && <EditAsks config={config} role={decidingRole(approval)} />}
        <ArgumentForm {...shared} problems={problems.length > 0 ? problems : refusals} />
      </>
    ),
    changes: open && (
      <EditChanges {...shared} schema={config.args_schema}>
        <LeadsTo editing={editing} problems={refusals} />
      </EditChanges>
    ),
    // The preview of the proposed call is not shown beside other arguments.
    preview: !open || decision?.type === "approve" ? action.preview : editing.found?.preview,
    decision,
    found: editing.found,
  };
}
