/** What a session looks like after folding its events. Values are never changed in place. */
import type {
  Action,
  Answers,
  ApprovalKind,
  Decision,
  Resolution,
  ReviewConfig,
  RunStatus,
  ToolResultStatus,
} from "./protocol.js";
import type { JsonValue } from "./json.js";

interface BlockBase {
  index: number;
  /** The `seq` of its first start: its place among everything in the session. */
  seq: number;
  /** Still streaming: its `content_block_stop` has not come. */
  open: boolean;
  /** The group it was streamed in, if any. */
  groupId?: string;
}

export type BlockView = BlockBase &
  (
    | { type: "text"; text: string }
    | { type: "thinking"; thinking: string }
    /** `json` is the arguments' text as streamed, possibly incomplete while open: see `toolArgs`. */
    | { type: "tool_use"; id: string; name: string; json: string; toolContentMessage?: string }
    | { type: "tool_result"; toolUseId: string; name: string; status: ToolResultStatus; content: string }
    /** The request itself is in `SessionView.approvals`. */
    | { type: "approval_request"; approvalKey: string }
    | { type: "approval_result"; approvalKey: string; decisions: Decision[] }
    | { type: "approval_timeout"; approvalKey: string }
    /** A block type this client does not know. */
    | { type: "unknown"; blockType: string }
  );

export interface MessageView {
  id: string;
  role: "user" | "assistant";
  /** The `seq` of its start. */
  seq: number;
  /** In the order of their index. */
  blocks: BlockView[];
  /** By their id. */
  groups: Record<string, GroupView>;
  open: boolean;
  stopReason?: string;
}

/** Something that waits, or waited, for a person. */
export interface ApprovalView {
  approvalKey: string;
  sessionId: string;
  kind: ApprovalKind;
  actions: Action[];
  reviewConfigs: ReviewConfig[];
  expiresAt?: string;
  timeoutSeconds?: number;
  /** All of the request has arrived, so it can be decided. */
  complete: boolean;
  /** Absent while it waits. */
  resolution?: Resolution;
  /** Of a question: the reject that declined it. */
  decisions?: Decision[];
  /** Of a question that was answered. */
  answers?: Answers;
  by?: string;
}

/** A run of steps that belong together. */
export interface GroupView {
  id: string;
  /** Known when it has ended. */
  summary?: string;
  open: boolean;
}

export interface SessionView {
  sessionId: string;
  /** The highest `seq` folded so far: where to resume. */
  lastSeq: number;
  /** Absent until the first `run_status`. */
  status?: RunStatus;
  error?: JsonValue;
  messages: MessageView[];
  approvals: Record<string, ApprovalView>;
  /** The group that new blocks fall into. */
  openGroup?: string;
}

export function emptySession(sessionId: string): SessionView {
  return { sessionId, lastSeq: 0, messages: [], approvals: {} };
}

/** What waits for a person now, in the order it was asked. */
export function pendingApprovals(view: SessionView): ApprovalView[] {
  return Object.values(view.approvals).filter((a) => a.complete && a.resolution === undefined);
}
