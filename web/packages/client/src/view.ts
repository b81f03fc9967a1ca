/** A session after folding its events. Values are never changed in place. */
import type { UpdateView as DatedUpdate } from "./generated/http.js";
import type {
  Action,
  Answers,
  ApprovalKind,
  Decision,
  GraphQuestion,
  GraphStep,
  ImageSource,
  Resolution,
  ReviewConfig,
  HeldTurn,
  RunError,
  RunStatus,
  StopReason,
  ToolResultStatus,
  Withdrawal,
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
  /** It belongs to an answer that broke off; the model's new answer follows. */
  replaced?: boolean;
}

export type BlockView = BlockBase &
  (
    | { type: "text"; text: string }
    | { type: "image"; source: ImageSource }
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
  /** The author of a user's message, if people have names. */
  by?: string;
  /** The `seq` of its start. */
  seq: number;
  /** In the order of their index. */
  blocks: BlockView[];
  /** By their id. */
  groups: Record<string, GroupView>;
  open: boolean;
  stopReason?: StopReason;
}

/** A request that is or was pending. */
export interface ApprovalView {
  approvalKey: string;
  sessionId: string;
  /** The owner of its session; lists have it, events do not. */
  subject?: string;
  kind: ApprovalKind;
  actions: Action[];
  reviewConfigs: ReviewConfig[];
  /**
   * The digest that names it permanently: for questions their own, otherwise that of its first action. Replies send it
   * back.
   */
  digest?: string;
  expiresAt?: string;
  timeoutSeconds?: number;
  /** All of the request has arrived, so it can be decided. */
  complete: boolean;
  /** Absent while it is pending. */
  resolution?: Resolution;
  /** Why it was `cancelled`, if it was. */
  reason?: Withdrawal;
  /** For a question: the rejection that declined it. */
  decisions?: Decision[];
  /** For an answered question. */
  answers?: Answers;
  /** The question of a graph's node, if it is one. */
  interrupt?: GraphQuestion;
  /** The step of a graph's node whose outcome is unknown, if it is about one. */
  step?: GraphStep;
  /** The answer to a graph's node; `null` is an answer. */
  resume?: JsonValue;
  by?: string;
  /** The comments and changes while it was pending, oldest first. */
  updates: UpdateView[];
  /** The roles that were asked instead, under another key, since nobody decided in time. */
  escalatedTo?: string[];
  /** The key of the earlier request that nobody decided in time. */
  escalatedFrom?: string;
}

/** A comment on a request, or a change, while it was pending. Lists have the time, events do not. */
export type UpdateView = Undated<DatedUpdate>;

type Undated<T> = T extends { at: string } ? Omit<T, "at"> & Partial<Pick<T, "at">> : never;

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
  /** The `seq` of the first event folded, if that is not the session's first: see `withEarlier`. */
  firstSeq?: number;
  /** Absent until the first `run_status`. */
  status?: RunStatus;
  /** Why the newest turn has failed, if it has. */
  error?: RunError;
  /** Why it is held, if it is: it does not continue until somebody says so. */
  held?: HeldTurn;
  messages: MessageView[];
  approvals: Record<string, ApprovalView>;
  /** The group that new blocks fall into. */
  openGroup?: string;
}

export function emptySession(sessionId: string): SessionView {
  return { sessionId, lastSeq: 0, messages: [], approvals: {} };
}

/**
 * The view with the part before it: `earlier` is the fold of the events up to the view's beginning, which must be
 * between two turns. If it does not end there, as after a stream that broke off, the view is returned as it is.
 */
export function withEarlier(view: SessionView, earlier: SessionView): SessionView {
  const { firstSeq, ...rest } = view;
  if (firstSeq === undefined || earlier.sessionId !== view.sessionId || earlier.lastSeq !== firstSeq - 1) return view;
  return {
    ...rest,
    ...(earlier.firstSeq === undefined ? {} : { firstSeq: earlier.firstSeq }),
    messages: [...earlier.messages, ...view.messages],
    approvals: { ...earlier.approvals, ...view.approvals },
  };
}

/** The pending requests, in the order they were made. */
export function pendingApprovals(view: SessionView): ApprovalView[] {
  return Object.values(view.approvals).filter((a) => a.complete && a.resolution === undefined);
}

/** The assignee, if it was reassigned: holders of `role` in place of those who were asked, and only `subject`. */
export function assigned({ updates }: Pick<ApprovalView, "updates">): { role?: string; subject?: string } {
  let now: { role?: string; subject?: string } = {};
  for (const update of updates) {
    if (update.update !== "reassigned") continue;
    const role = update.role ?? now.role;
    now = { ...(role === undefined ? {} : { role }), ...(update.subject === undefined ? {} : { subject: update.subject }) };
  }
  return now;
}

/** The role that decides it now; `undefined` is the session's owner. */
export function decidingRole(approval: ApprovalView): string | undefined {
  const role = assigned(approval).role ?? approval.reviewConfigs[0]?.role;
  return role === "user" ? undefined : role;
}

/** The progress of a request that more than one person must approve. */
export interface Progress {
  approved: number;
  quorum: number;
  /** The approvers, as far as they have names. */
  by: string[];
}

export function progress({ reviewConfigs, updates }: ApprovalView): Progress | undefined {
  const votes = updates.filter((u) => u.update === "approved");
  const quorum = votes.at(-1)?.quorum ?? Math.max(1, ...reviewConfigs.map((c) => c.quorum ?? 1));
  if (quorum <= 1) return undefined;
  return { approved: votes.at(-1)?.approved ?? 0, quorum, by: votes.flatMap((u) => u.by ?? []) };
}
