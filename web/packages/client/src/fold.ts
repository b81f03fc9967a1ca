/**
 * The fold from a session's events to its view.
 *
 * Pure: it returns a new view and shares every part that did not change. Events may come again after a
 * reconnect, so the fold drops those it has already seen: an event with an old `seq` counts only if it restarts a block
 * that is still open, because that is how the server resumes inside a block.
 */
import type { ActionRequestBlock, QuestionRequestBlock } from "./generated/wire.js";
import type { QuestionApprovalView } from "./generated/http.js";
import type {
  Action,
  ApprovalKind,
  ApprovalUpdatedEvent,
  ContentBlock,
  ContentBlockDeltaEvent,
  ContentBlockStartEvent,
  ContentBlockStopEvent,
  Delta,
  ReviewConfig,
  SessionEvent,
} from "./protocol.js";
import type { ApprovalView, BlockView, GroupView, MessageView, SessionView, UpdateView } from "./view.js";

/**
 * Fold many events at once, as after a replay. The same as folding one by one, but the lists of the view
 * are copied once for all of them and not once for each, which would be quadratic in a long session.
 */
export function foldAll(view: SessionView, events: Iterable<SessionEvent>): SessionView {
  ours = new WeakSet();
  try {
    let next = view;
    for (const event of events) next = fold(next, event);
    return next;
  } finally {
    ours = undefined; // From here on the view is the caller's, and is not changed again.
  }
}

/** Within `foldAll`: the lists that were made by it, which nobody else has seen yet. */
let ours: WeakSet<object> | undefined;

/** A list that may be written to: a copy, unless it is already one of ours. */
function writable<T extends unknown[] | Record<string, unknown>>(list: T): T {
  if (ours?.has(list)) return list;
  const copy = (Array.isArray(list) ? list.slice() : { ...list }) as T;
  ours?.add(copy);
  return copy;
}

export function fold(view: SessionView, event: SessionEvent): SessionView {
  if (event.session_id !== view.sessionId) return view;
  if (event.type === "content_block_delta") return foldDelta(view, event);

  const seen = event.seq <= view.lastSeq;
  if (event.type === "content_block_start") {
    const open = findBlock(view, event.message_id, event.index)?.open;
    return seen && !open ? view : startBlock(advance(view, event.seq), event);
  }
  if (seen) return view;
  const next = advance(view, event.seq);

  switch (event.type) {
    case "message_start": {
      if (next.messages.at(-1)?.id === event.message_id) return next;
      const messages = writable(next.messages);
      const by = event.by === undefined ? {} : { by: event.by };
      messages.push({ id: event.message_id, role: event.role === "user" ? "user" : "assistant", ...by, seq: event.seq, blocks: [], groups: {}, open: true });
      return { ...next, messages };
    }
    case "message_stop":
      return withMessage(next, event.message_id, (m) => ({
        ...m,
        open: false,
        stopReason: event.stop_reason,
        // A turn can end in the middle of a block (cancelled, failed): nothing more will come for it.
        blocks: m.blocks.some((b) => b.open) ? m.blocks.map(close) : m.blocks,
      }));
    case "content_block_stop":
      return stopBlock(next, event);
    case "content_replaced":
      return withMessage(next, event.message_id, (m) => ({
        ...m,
        blocks: m.blocks.map((b) => (event.indexes.includes(b.index) ? { ...b, replaced: true } : b)),
      }));
    case "run_status":
      return { ...next, status: event.status, error: event.error, held: event.held };
    case "approval_resolved":
      return withApproval(next, event.approval_key, (a) => ({
        ...a,
        resolution: event.resolution,
        ...(event.reason === undefined ? {} : { reason: event.reason }),
        by: event.by ?? a.by,
        answers: event.answers,
        decisions: event.decisions ?? a.decisions,
        ...(event.resume === undefined ? {} : { resume: event.resume }),
      }));
    case "approval_updated":
      return withApproval(next, event.approval_key, (a) => ({ ...a, updates: [...a.updates, updateOf(event)] }));
    case "group_start":
      return putGroup({ ...next, openGroup: event.group_id }, event.message_id, { id: event.group_id, open: true });
    case "group_end": {
      const openGroup = next.openGroup === event.group_id ? undefined : next.openGroup;
      const group = { id: event.group_id, summary: event.summary, open: false };
      return putGroup({ ...next, openGroup }, event.message_id, group);
    }
    default:
      return next; // An event of a newer server: its seq counts, its content does not.
  }
}

// ---------------------------------------------------------------- blocks

function startBlock(view: SessionView, event: ContentBlockStartEvent): SessionView {
  const before = findBlock(view, event.message_id, event.index);
  // A block that starts over keeps its place, and stays in the group it was first streamed in.
  const block = newBlock(event.content_block, event.index, before?.seq ?? event.seq);
  const groupId = before ? before.groupId : view.openGroup;
  if (groupId !== undefined) block.groupId = groupId;

  const next = withMessage(view, event.message_id, (m) => ({ ...m, blocks: putBlock(m.blocks, block) }));
  const content = event.content_block;
  if (content.type === "approval_request") {
    return addApproval(next, content);
  }
  if (content.type === "approval_timeout") {
    const escalated = content.escalated_to?.length ? { escalatedTo: content.escalated_to } : {};
    return withApproval(next, content.approval_key, (a) => ({ ...a, resolution: "timeout", ...escalated }));
  }
  return next;
}

function newBlock(content: ContentBlock, index: number, seq: number): BlockView {
  const base = { index, seq, open: true };
  switch (content.type) {
    case "text":
      return { ...base, type: "text", text: "" };
    case "image":
      return { ...base, type: "image", source: content.source };
    case "thinking":
      return { ...base, type: "thinking", thinking: "" };
    case "tool_use":
      return { ...base, type: "tool_use", id: content.id, name: content.name, json: "" };
    case "tool_result":
      return {
        ...base,
        type: "tool_result",
        toolUseId: content.tool_use_id,
        name: content.name,
        status: content.status,
        content: "",
      };
    case "approval_request":
      return { ...base, type: "approval_request", approvalKey: content.approval_key };
    case "approval_result":
      return { ...base, type: "approval_result", approvalKey: content.approval_key, decisions: [] };
    case "approval_timeout":
      return { ...base, type: "approval_timeout", approvalKey: content.approval_key };
    default:
      return { ...base, type: "unknown", blockType: (content as { type: string }).type };
  }
}

function foldDelta(view: SessionView, event: ContentBlockDeltaEvent): SessionView {
  const block = findBlock(view, event.message_id, event.index);
  if (!block?.open) return view; // A delta of a block that is already complete: a replay.
  const { delta } = event;
  const grown = grow(block, delta);
  const next =
    grown === block
      ? view
      : withMessage(view, event.message_id, (m) => ({ ...m, blocks: putBlock(m.blocks, grown) }));

  if (block.type === "approval_result" && "decisions" in delta) {
    const decisions = delta.decisions;
    return withApproval(next, block.approvalKey, (a) => ({
      ...a,
      resolution: a.resolution ?? "decided",
      decisions,
    }));
  }
  if (block.type === "approval_result" && "resume" in delta) {
    const { resume } = delta;
    return withApproval(next, block.approvalKey, (a) => ({ ...a, resolution: a.resolution ?? "decided", resume }));
  }
  if (block.type === "approval_request" && "action_requests" in delta) {
    return withApproval(next, block.approvalKey, (a) => ({
      ...a,
      kind: "question",
      actions: delta.action_requests,
      reviewConfigs: delta.review_configs,
      timeoutSeconds: delta.timeout_seconds,
    }));
  }
  return next;
}

/** A delta of an unknown type adds nothing, whatever it contains. */
function grow(block: BlockView, delta: Delta): BlockView {
  if ("type" in delta) {
    if (block.type === "text" && delta.type === "text_delta") return { ...block, text: block.text + delta.text };
    if (block.type === "thinking" && delta.type === "thinking_delta") return { ...block, thinking: block.thinking + delta.thinking };
    if (block.type === "tool_use" && delta.type === "input_json_delta") return { ...block, json: block.json + delta.partial_json };
    return block;
  }
  if (block.type === "tool_result" && "content" in delta) {
    return { ...block, content: block.content + delta.content };
  }
  if (block.type === "approval_result" && "decisions" in delta) {
    return { ...block, decisions: delta.decisions };
  }
  return block;
}

function stopBlock(view: SessionView, event: ContentBlockStopEvent): SessionView {
  const block = findBlock(view, event.message_id, event.index);
  if (!block) return view;
  const closed = { ...block, open: false };
  if (closed.type === "tool_use" && event.tool_content_message !== undefined) {
    closed.toolContentMessage = event.tool_content_message;
  }
  const next = withMessage(view, event.message_id, (m) => ({ ...m, blocks: putBlock(m.blocks, closed) }));
  if (block.type !== "approval_request") return next;
  return withApproval(next, block.approvalKey, (a) => ({ ...a, complete: true }));
}

function putGroup(view: SessionView, messageId: string, group: GroupView): SessionView {
  return withMessage(view, messageId, (m) => ({ ...m, groups: { ...m.groups, [group.id]: group } }));
}

// ---------------------------------------------------------------- approvals

/** A request in any of its forms: in the stream, where questions follow in a delta, and whole, as lists and answers have it. */
export type AnyRequest = Omit<QuestionRequestBlock, "type"> &
  Partial<Pick<QuestionRequestBlock, "type">> &
  Partial<Pick<ActionRequestBlock, "interrupt" | "step">> &
  Partial<Pick<QuestionApprovalView, "timeout_seconds">> & {
    kind?: ApprovalKind;
    actions?: Action[];
    action_requests?: Action[];
    review_configs?: ReviewConfig[];
    updates?: UpdateView[];
  };

export function approvalFromBlock(block: AnyRequest, sessionId: string): ApprovalView {
  return {
    approvalKey: block.approval_key,
    sessionId,
    kind: block.kind ?? (block.actions ? "approval" : "question"),
    actions: block.actions ?? block.action_requests ?? [],
    reviewConfigs: block.review_configs ?? [],
    ...digestOf(block),
    expiresAt: block.expires_at,
    timeoutSeconds: block.timeout_seconds,
    complete: false,
    updates: block.updates ?? [],
    ...(block.interrupt ? { interrupt: block.interrupt } : {}),
    ...(block.step ? { step: block.step } : {}),
  };
}

function digestOf(block: AnyRequest): { digest?: string } {
  const digest = block.digest ?? block.actions?.[0]?.digest;
  return digest === undefined ? {} : { digest };
}

function addApproval(view: SessionView, block: AnyRequest): SessionView {
  const before = view.approvals[block.approval_key];
  const fresh = approvalFromBlock(block, view.sessionId);
  const { resolution, by, decisions, answers } = before ?? {};
  const answered = before?.resume === undefined ? {} : { resume: before.resume };
  const withdrawn = before?.reason === undefined ? {} : { reason: before.reason };
  const kept = { resolution, ...withdrawn, by, decisions, answers, ...answered, updates: before?.updates ?? [] };
  const from = before?.escalatedFrom ?? escalatedFrom(view, fresh);
  const escalated = {
    ...(before?.escalatedTo ? { escalatedTo: before.escalatedTo } : {}),
    ...(from === undefined ? {} : { escalatedFrom: from }),
  };
  return putApproval(view, { ...fresh, ...kept, ...escalated });
}

/** The newest request for one of the same calls, if nobody decided that one in time. */
function escalatedFrom(view: SessionView, fresh: ApprovalView): string | undefined {
  const calls = new Set(fresh.actions.flatMap((a) => a.id ?? []));
  const before = Object.values(view.approvals).findLast(
    (a) => a.approvalKey !== fresh.approvalKey && a.actions.some((action) => action.id !== undefined && calls.has(action.id)),
  );
  return before?.escalatedTo ? before.approvalKey : undefined;
}

/** Its content, without the fields that make it an event. */
function updateOf(event: ApprovalUpdatedEvent): UpdateView {
  const { type: _type, session_id: _session, seq: _seq, approval_key: _key, ...update } = event;
  return update as UpdateView;
}

function withApproval(
  view: SessionView,
  key: string,
  change: (approval: ApprovalView) => ApprovalView,
): SessionView {
  const approval = view.approvals[key];
  if (!approval) return view;
  return putApproval(view, change(approval));
}

function putApproval(view: SessionView, approval: ApprovalView): SessionView {
  const approvals = writable(view.approvals);
  approvals[approval.approvalKey] = approval;
  return { ...view, approvals };
}

// ---------------------------------------------------------------- small parts

function advance(view: SessionView, seq: number): SessionView {
  if (seq <= view.lastSeq) return view;
  return view.lastSeq === 0 && seq > 1 ? { ...view, firstSeq: seq, lastSeq: seq } : { ...view, lastSeq: seq };
}

function close(block: BlockView): BlockView {
  return block.open ? { ...block, open: false } : block;
}

function findBlock(view: SessionView, messageId: string, index: number): BlockView | undefined {
  return findMessage(view, messageId)?.blocks.find((b) => b.index === index);
}

/** Almost always the last message, so look from the end; without an id it is the last message. */
function findMessage(view: SessionView, messageId: string | undefined): MessageView | undefined {
  if (messageId === undefined) return view.messages.at(-1);
  for (let i = view.messages.length - 1; i >= 0; i--) {
    if (view.messages[i]?.id === messageId) return view.messages[i];
  }
  return undefined;
}

function withMessage(
  view: SessionView,
  messageId: string,
  change: (message: MessageView) => MessageView,
): SessionView {
  const message = findMessage(view, messageId);
  if (!message) return view;
  const messages = writable(view.messages);
  messages[messages.lastIndexOf(message)] = change(message);
  return { ...view, messages };
}

function putBlock(blocks: BlockView[], block: BlockView): BlockView[] {
  // Almost always at or near the end.
  const at = blocks.findLastIndex((b) => b.index < block.index) + 1;
  const next = writable(blocks);
  if (at === next.length) next.push(block);
  else if (next[at]?.index === block.index) next[at] = block;
  else next.splice(at, 0, block);
  return next;
}
