/** Whether a person's actions in a session keep them from approving a pending request. The server has the last word. */
import { configOf, decisionFor, isAnswered, type ApprovalView, type BlockView, type Decision, type SessionView } from "@countersign/client";
import { barOf, type Bar, type Case } from "./people.js";
import { longTurns } from "./turns.js";

export function barIn(view: SessionView, approval: ApprovalView, who: Case): Bar | undefined {
  const { name } = who.me;
  if (name === undefined) return barOf(approval, who);
  let past: Past[] | undefined;
  const calls = () => (past ??= pastOf(approval, view));
  return barOf(approval, who, {
    approved: () => calls().some(({ approvedBy }) => approvedBy.has(name)),
    edited: () => calls().some(({ editedBy }) => editedBy.has(name)),
    spoke: () => hasSpoken(approval, view, name),
  });
}

/**
 * The server's record of a call: who has approved it since it was last requested from the first level, and everyone who
 * has ever changed it.
 */
interface Past {
  approvedBy: Set<string>;
  editedBy: Set<string>;
}

/** The past of each call of a pending request. */
function pastOf(approval: ApprovalView, { approvals }: SessionView): Past[] {
  const all = Object.values(approvals);
  const at = all.findIndex(({ approvalKey }) => approvalKey === approval.approvalKey);
  return approval.actions.map(({ id }) => {
    const past: Past = { approvedBy: new Set(), editedBy: new Set() };
    let before: Asked | undefined;
    for (const request of [...(at < 0 ? all : all.slice(0, at)), approval]) {
      const asked = askedOf(request, id);
      if (!asked) continue;
      // After a fork, or a change of the tool, people are asked from the first level: no earlier approval counts.
      if (isFromTheStart(asked, before)) past.approvedBy.clear();
      if (request !== approval) addTo(past, asked, request);
      before = asked;
    }
    return past;
  });
}

/** The part of a request that is about one call. */
interface Asked {
  kind: ApprovalView["kind"];
  level: number;
  decision: Decision | undefined;
}

function askedOf(request: ApprovalView, id: string | undefined): Asked | undefined {
  const at = id === undefined || isAnswered(request) ? -1 : request.actions.findIndex((action) => action.id === id);
  const { kind, decisions } = request;
  return at < 0 ? undefined : { kind, level: configOf(request, at).level ?? 1, decision: decisionFor(decisions, at) };
}

/**
 * For a call whose outcome is unknown the last level is asked first; each level that lets it run again passes it to the
 * one below.
 */
function isFromTheStart({ kind, level }: Asked, before: Asked | undefined): boolean {
  if (kind !== "in_doubt") return level === 1;
  if (before?.kind !== kind) return true;
  return before.decision?.type === "approve" ? level >= before.level : level > before.level;
}

function addTo({ approvedBy, editedBy }: Past, { decision }: Asked, { by, updates }: ApprovalView): void {
  const last = by === undefined ? [] : [by];
  if (decision?.type === "approve") {
    const voters = updates.flatMap((u) => (u.update === "approved" ? (u.by ?? []) : []));
    for (const name of [...voters, ...last]) approvedBy.add(name);
  } else if (decision?.type === "edit") {
    // One at the first level counts as its approval, unless that level comes again.
    approvedBy.clear();
    for (const name of last) approvedBy.add(name);
    for (const name of last) editedBy.add(name);
  }
}

/** Whether the model has read words of this person in the turn, before it made the calls. */
function hasSpoken({ approvalKey, actions }: ApprovalView, view: SessionView, name: string): boolean {
  const at = view.messages.findIndex((m) => m.blocks.some((b) => b.type === "approval_request" && b.approvalKey === approvalKey));
  const message = view.messages[at];
  const asked = message?.blocks.find((b) => b.type === "approval_request" && b.approvalKey === approvalKey);
  if (!message || !asked) return false;
  const calls = new Set(actions.map((a) => a.tool_use_id));
  const made = message.blocks.findLast((b) => b.type === "tool_use" && calls.has(b.id) && b.seq < asked.seq) ?? asked;
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
