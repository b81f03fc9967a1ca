/** Who has to decide, in words, and whether the person at this tab may. The server says it in the end. */
import { assigned, decidingRole, decisionFor, progress, type ApprovalView, type BlockView, type Decision, type DecisionType, type SessionView } from "@countersign/client";
import { roleName, visibleText } from "@countersign/react";
import type { Translate } from "../i18n/index.js";
import { longTurns } from "./turns.js";

export { roleName };

export function personName(name: string | undefined, t: Translate): string {
  return name === undefined ? t("people.somebody") : visibleText(name);
}

/** Who decides a request now, in words. */
export function deciderName(approval: ApprovalView, t: Translate): string {
  const { subject } = assigned(approval);
  return subject === undefined ? roleName(decidingRole(approval), t) : visibleText(subject);
}

/** Who uses this tab. Without a name nobody has to say who they are, and anybody may do anything. */
export interface Me {
  name: string | undefined;
  roles: readonly string[];
}

/**
 * Why a person may not say yes to a request. `role`: others decide it now, so they may not say no either. They asked
 * for it, spoke before it was asked, or changed it, and so may not approve it; or they have approved it already, now
 * or at a step before.
 */
export type Bar = "role" | "asked" | "spoke" | "edited" | "voted" | "step";

/** Whether a bar is in the way of a choice: but for who may not decide at all, only of those that let a call run. */
export function isBarred(bar: Bar | undefined, choice: DecisionType): boolean {
  if (bar === undefined || bar === "role") return bar !== undefined;
  if (bar === "voted") return choice === "approve";
  return choice === "approve" || choice === "respond" || (choice === "edit" && bar !== "edited");
}

/** Whether this person may hand a request to somebody else: whoever holds the role may, even if it is now one other's. */
export function mayHand(approval: ApprovalView, { me, subject }: Case): boolean {
  const role = decidingRole(approval);
  return me.name === undefined || (role === undefined ? me.name === subject : me.roles.includes(role));
}

/** What the rules look at. */
interface Case {
  me: Me;
  /** Whose session it is. */
  subject: string | undefined;
  /** Where that is known: all that happened in it. */
  view?: SessionView | undefined;
}

export function barOf(approval: ApprovalView, { me, subject, view }: Case): Bar | undefined {
  const role = decidingRole(approval);
  const person = assigned(approval).subject;
  const named = me.name !== undefined;
  const owns = !named || me.name === subject;
  if (!mayHand(approval, { me, subject }) || (named && person !== undefined && person !== me.name)) return "role";
  const votes = progress(approval);
  if (named && votes?.by.includes(me.name!)) return "voted";
  const past = named && view ? pastOf(approval, view) : [];
  if (approval.kind === "approval" && past.some((call) => call.approvedBy.has(me.name!))) return "step";
  if (role === undefined || !approval.reviewConfigs.some((c) => c.not_self)) return undefined;
  if (owns) return "asked";
  if (past.some((call) => call.editedBy === me.name)) return "edited";
  return named && view && hasSpoken(approval, view, me.name!) ? "spoke" : undefined;
}

/** Who has approved each of the calls at steps before, and who has changed it. */
function pastOf(approval: ApprovalView, { approvals }: SessionView) {
  return approval.actions.map(({ id }) => {
    const past = { approvedBy: new Set<string>(), editedBy: undefined as string | undefined };
    const requests = Object.values(approvals).filter((a) => id !== undefined && a.actions.some((action) => action.id === id));
    requests.forEach((request, n) => {
      const at = request.actions.findIndex((action) => action.id === id);
      const decision = request.approvalKey === approval.approvalKey ? undefined : decisionFor(request.decisions, at);
      if (decision?.type === "edit") {
        past.approvedBy.clear();
        past.editedBy = request.by;
        // One at the first step counts as its approval, unless the first step comes again.
        const next = requests[n + 1];
        const level = next?.reviewConfigs[next.actions.findIndex((action) => action.id === id)]?.level ?? 1;
        if (level > 1 && request.by !== undefined) past.approvedBy.add(request.by);
      } else if (decision?.type === "approve") {
        const voters = request.updates.flatMap((u) => (u.update === "approved" ? (u.by ?? []) : []));
        for (const by of [...voters, ...(request.by === undefined ? [] : [request.by])]) past.approvedBy.add(by);
      }
    });
    return past;
  });
}

/** Whether the model has read words of this person in the turn, before it made the calls. */
function hasSpoken({ approvalKey, actions }: ApprovalView, view: SessionView, name: string): boolean {
  const at = view.messages.findIndex((m) => m.blocks.some((b) => b.type === "approval_request" && b.approvalKey === approvalKey));
  const message = view.messages[at];
  const asked = message?.blocks.find((b) => b.type === "approval_request" && b.approvalKey === approvalKey);
  if (!message || !asked) return false;
  const calls = new Set(actions.map((a) => a.tool_use_id));
  const made = message.blocks.find((b) => b.type === "tool_use" && calls.has(b.id)) ?? asked;
  const turn = longTurns(view.messages).get(message.id) ?? [message];
  const begun = view.messages.findLastIndex((m, i) => i < at && m.role === "assistant" && !turn.includes(m));
  const before = view.messages.filter((m, i) => i > begun && m.seq < made.seq);
  const decided = before.flatMap((m) => m.blocks).filter((b) => b.seq < made.seq);
  return before.some((m) => m.role === "user" && m.by === name) || decided.some((b) => saysWords(b, view, name));
}

/** Whether a block is where the model read words of this person in a decision or an answer. */
function saysWords(block: BlockView, { approvals }: SessionView, name: string): boolean {
  if (block.type !== "approval_result" && block.type !== "approval_request") return false;
  const approval = approvals[block.approvalKey];
  // No result follows a question, and nothing comes after it until it is answered.
  if (approval?.by !== name || (block.type === "approval_request") !== (approval.kind === "question")) return false;
  const words = (d: Decision) => d.type === "edit" || d.type === "respond" || (d.type === "reject" && d.message !== undefined);
  return approval.answers !== undefined || approval.resume !== undefined || (approval.decisions ?? []).some(words);
}
