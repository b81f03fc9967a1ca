/** People's edits of a call: the arguments that run, if they are not the ones that the model wrote. */
import { decisionFor, equalJson, type ApprovalView, type BlockView, type JsonObject } from "@countersign/client";

export interface Reviewed {
  name: string;
  args: JsonObject;
  /** Who changed it last, where that is known. */
  by?: string;
}

/** The calls of these blocks that people were asked about, by the `seq` of each, as they were decided last. */
export function reviewedCalls(
  blocks: readonly BlockView[],
  approvals: Readonly<Record<string, ApprovalView>>,
): ReadonlyMap<number, Reviewed> {
  const found = new Map<number, Reviewed>();
  const newest = new Map<string, number>();
  for (const block of blocks) {
    if (block.type === "tool_use" && !block.replaced) newest.set(block.id, block.seq);
    const approval = block.type === "approval_request" ? approvals[block.approvalKey] : undefined;
    if (approval?.kind !== "approval" && approval?.kind !== "in_doubt") continue;
    approval.actions.forEach(({ tool_use_id: id, path, name, args }, i) => {
      // The call of a nested agent does not belong to this message, whatever its id.
      const call = id === undefined || (path && path.length > 0) ? undefined : newest.get(id);
      if (call === undefined) return;
      const decision = decisionFor(approval.decisions, i);
      const before = found.get(call);
      const by = before?.by === undefined ? {} : { by: before.by };
      if (decision?.type !== "edit") found.set(call, { name, args, ...by });
      else found.set(call, { ...decision.edited_action, args: decision.edited_action.args as JsonObject, ...(approval.by ? { by: approval.by } : {}) });
    });
  }
  return found;
}

/** Whether it differs from the proposed call. */
export function isEdited(reviewed: Reviewed | undefined, name: string, proposed: JsonObject | undefined): reviewed is Reviewed {
  return reviewed !== undefined && (reviewed.name !== name || !equalJson(reviewed.args, proposed));
}
