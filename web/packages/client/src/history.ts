/**
 * A session's history: the messages that `GET /v1/sessions/{id}/history` returns.
 *
 * `historyOf` makes the same messages from a folded session, so a client that follows the events can use the same code
 * as for the history.
 */
import { toolArgs } from "./args.js";
import type {
  ActionKind,
  HistoryActionStep,
  HistoryBlock,
  HistoryCall,
  HistoryMessage,
  HistoryQuestionAction,
  HistoryQuestionStep,
  HistoryStep,
} from "./generated/http.js";
import type { CallStatus, RequestedAction, Resolution, ReviewConfig } from "./generated/wire.js";
import { ASK_USER_QUESTION, type Answers, type StopReason } from "./protocol.js";
import { assigned, type ApprovalView, type BlockView, type GroupView, type MessageView, type SessionView } from "./view.js";

export type {
  History as HistoryPage,
  HistoryActionStep,
  HistoryBlock,
  HistoryCall,
  HistoryMessage,
  HistoryQuestionStep,
  HistoryStep,
} from "./generated/http.js";

export function historyOf(view: SessionView): HistoryMessage[] {
  const steps = view.messages.flatMap((m) => (m.role === "user" ? userSteps(m) : assistantSteps(m, view)));
  // People also speak in the middle of the agent's message: everything stays where it was said.
  steps.sort((a, b) => a.seq - b.seq);
  return grouped(steps);
}

/** A message, and where it belongs. */
interface Step {
  seq: number;
  message: HistoryMessage;
  /** One object for each group, so that its steps know each other. */
  group?: GroupView;
}

function userSteps(message: MessageView): Step[] {
  if (message.open) return [];
  const content = message.blocks.flatMap((b): HistoryBlock[] => {
    if (b.type === "text") return [{ type: "text", text: b.text }];
    return b.type === "image" ? [{ type: "image", source: b.source }] : [];
  });
  const by = message.by === undefined ? {} : { by: message.by };
  return [{ seq: message.seq, message: { role: "user", ...by, content, display_type: "content" } }];
}

function assistantSteps(message: MessageView, view: SessionView): Step[] {
  const steps: Step[] = [];
  const groups = new Map(Object.entries(message.groups).map(([id, group]) => [id, { ...group }]));
  /** The calls that the next one joins, if it follows directly. */
  let calls: { list: HistoryCall[]; groupId: string | undefined; index: number; seq: number; replaced: boolean } | undefined;
  const spoken = (after: number, before: number) => view.messages.some((one) => one.role === "user" && after < one.seq && one.seq < before);
  let lastText: Extract<HistoryBlock, { type: "text" }> | undefined;

  for (const block of message.blocks) {
    // A block that is still streaming is not stored yet. A request is stored whole.
    if (block.open) continue;
    const group = groups.get(block.groupId ?? "");
    if (block.type === "tool_use" && group?.open && block.toolContentMessage !== undefined) {
      group.summary = block.toolContentMessage;
    }
    const replaced = block.replaced === true;
    const follows = calls && calls.groupId === block.groupId && calls.index === block.index - 1 && !spoken(calls.seq, block.seq);
    if (block.type === "tool_use" && calls && follows && calls.replaced === replaced) {
      calls.list.push(callOf(block));
      calls.index = block.index;
      calls.seq = block.seq;
      continue;
    }
    const made = messageOf(block, view);
    if (!made) continue;
    if (replaced) made.replaced = true;
    steps.push({ seq: block.seq, message: made, ...(group ? { group } : {}) });
    if (made.tool_calls) calls = { list: made.tool_calls, groupId: block.groupId, index: block.index, seq: block.seq, replaced };
    const first = made.content[0];
    if (block.type === "text" && first?.type === "text" && !replaced) lastText = first;
  }
  if (lastText && message.stopReason === "end_turn") lastText.is_final = true;
  else if (lastText && isCut(message.stopReason)) lastText.stop_reason = message.stopReason;
  return steps;
}

/** Whether a turn ended with an incomplete answer. */
export function isCut(reason: StopReason | undefined): reason is CutReason {
  return reason !== undefined && CUT.has(reason);
}

export type CutReason = "max_tokens" | "refusal" | "content_filter" | "incomplete";

const CUT: ReadonlySet<StopReason> = new Set<CutReason>(["max_tokens", "refusal", "content_filter", "incomplete"]);

function messageOf(block: BlockView, view: SessionView): HistoryMessage | undefined {
  const message = (content: HistoryBlock[]): HistoryMessage => ({ role: "assistant", content, display_type: "content" });
  switch (block.type) {
    case "text":
      return block.text === "" ? undefined : message([{ type: "text", text: block.text }]);
    case "thinking":
      return block.thinking === "" ? undefined : message([{ type: "thinking", thinking: block.thinking }]);
    case "tool_use":
      return { ...message([]), tool_calls: [callOf(block)] };
    case "tool_result":
      return {
        ...message([{ type: "text", text: block.content }]),
        role: "tool",
        tool_call_id: block.toolUseId,
        name: block.name,
        status: block.status as CallStatus,
      };
    case "approval_request": {
      const approval = view.approvals[block.approvalKey];
      return approval && { ...message([approvalBlock(approval)]), message_type: "step" };
    }
    default:
      return undefined; // Results and time-outs of a request are part of the request.
  }
}

function callOf(use: Extract<BlockView, { type: "tool_use" }>): HistoryCall {
  const args = toolArgs(use);
  return {
    id: use.id,
    name: use.name,
    ...(args ? { args } : {}),
    ...(use.toolContentMessage === undefined ? {} : { tool_content_message: use.toolContentMessage }),
  };
}

function approvalBlock(approval: ApprovalView): HistoryStep {
  return approval.kind === "question" ? questionStep(approval) : actionStep(approval);
}

function questionStep({ resolution, actions, answers, decisions, ...approval }: ApprovalView): HistoryQuestionStep {
  const actionRequests = actions as unknown as HistoryQuestionAction[]; // As the agent asked them.
  const head = { type: "approval_request", isResolved: resolution !== undefined } as const;
  if (resolution === undefined) {
    const digest = approval.digest === undefined ? {} : { digest: approval.digest };
    return { ...head, ...waiting(approval), ...digest, actionRequests };
  }
  if (!answers) {
    return { ...head, actionRequests, resolution: resolution as Resolution, ...(decisions ? { submittedDecisions: decisions } : {}) };
  }
  return { ...head, actionRequests: actionRequests.map((action) => answered(action, answers)), submittedAnswers: answers };
}

function actionStep({ resolution, ...approval }: ApprovalView): HistoryActionStep {
  const handedTo = assigned(approval).role;
  const reviewed = approval.reviewConfigs.map((config) => (handedTo === undefined ? config : { ...config, role: handedTo }));
  return {
    type: "approval_request",
    isResolved: resolution !== undefined,
    ...(approval.kind === "approval" ? {} : { kind: approval.kind as ActionKind }),
    ...(approval.step ? { step: approval.step } : {}),
    ...waiting(approval, resolution === undefined),
    ...(resolution === undefined ? {} : { resolution: resolution as Resolution }),
    // Requests about calls have all fields of both; only questions have fewer.
    actionRequests: approval.actions as RequestedAction[],
    reviewConfigs: reviewed as ReviewConfig[],
    ...(approval.decisions ? { submittedDecisions: approval.decisions } : {}),
    ...(approval.interrupt ? { interrupt: approval.interrupt } : {}),
    ...(approval.resume === undefined ? {} : { submittedResume: approval.resume }),
  };
}

const waiting = ({ approvalKey, expiresAt }: Pick<ApprovalView, "approvalKey" | "expiresAt">, until = true) => ({
  approval_key: approvalKey,
  ...(until && expiresAt !== undefined ? { expires_at: expiresAt } : {}),
});

const answered = (action: HistoryQuestionAction, answers: Answers): HistoryQuestionAction =>
  action.name === ASK_USER_QUESTION ? { ...action, args: { ...action.args, answers } } : action;

/** A group that is still open is shown as if it ended now. */
function grouped(steps: Step[]): HistoryMessage[] {
  return steps.map(({ message, group }, i) => {
    if (!group) return message;
    const first = steps[i - 1]?.group !== group;
    const last = steps[i + 1]?.group !== group;
    const display_type = first ? "group_start" : last ? "group_end" : "group_item";
    const summary = (first || last) && group.summary !== undefined ? { summary: group.summary } : {};
    return { ...message, display_type, ...summary };
  });
}
