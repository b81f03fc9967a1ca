// Generated from docs/openapi.json by `npm run generate`. Not to be edited.

import type { JsonObject, JsonValue } from "../json.js";
import type * as Wire from "./wire.js";

/**
 * The kind of a node.
 * - `start`: Where a run begins.
 * - `end`: Where it ends.
 * - `node`: An ordinary node.
 * - `graph`: A graph of its own: drawn as a frame around the nodes that name it as their parent, or as one box without any.
 */
export type NodeKind = "start" | "end" | "node" | "graph" | (string & {});
/**
 * An approval request in the inbox, with its resolution.
 */
export type ApprovalView = ActionApprovalView | QuestionApprovalView;
export type RequestedAction = Wire.RequestedAction;
export type Answers = Wire.Answers;
export type Decision = Wire.Decision;
export type HeldTurn = Wire.HeldTurn;
export type GraphQuestion = Wire.GraphQuestion;
/**
 * The kinds of requests that have actions.
 */
export type ActionKind = "approval" | "in_doubt" | "interrupt" | "input";
export type Withdrawal = Wire.Withdrawal;
export type Resolution = Wire.Resolution;
export type ReviewConfig = Wire.ReviewConfig;
/**
 * Whether an approval request is pending.
 * - `waiting`: It is pending.
 * - `resolved`: It is resolved.
 */
export type ApprovalStatus = "waiting" | "resolved" | (string & {});
export type GraphStep = Wire.GraphStep;
/**
 * A comment on a pending approval request, or a change to it.
 */
export type UpdateView = CommentUpdate | ReassignedUpdate | ReminderUpdate | ApprovedUpdate;
export type QuestionAction = Wire.QuestionAction;
/**
 * The kind of requests that have questions.
 */
export type QuestionKind = "question";
export type QuestionReview = Wire.QuestionReview;
/**
 * The `type` of a frame that decides.
 */
export type ApprovalFrame = "approval";
export type RunError = Wire.RunError;
/**
 * A pending request, complete, wherever it is not streamed.
 */
export type Request = ApprovalRequest | QuestionRequest;
export type Status = Wire.Status;
export type StopReason = Wire.StopReason;
export type EditedAction = Wire.EditedAction;
/**
 * The outcome of an edit.
 * - `approves`: It approves the edited call.
 * - `asks`: People are asked about the edited call.
 * - `refused`: The decision would be refused.
 */
export type EditOutcomeView = "approves" | "asks" | "refused" | (string & {});
export type ShownPreview = Wire.ShownPreview;
export type Code = Wire.Code;
/**
 * What a record says. Members and events may be added.
 */
export type AuditBody =
  | AuditRequested
  | AuditDecided
  | AuditVoted
  | AuditAnswered
  | AuditResumed
  | AuditTimedOut
  | AuditWithdrawn
  | AuditCommented
  | AuditReassigned
  | AuditReminded
  | AuditDecidedUnasked
  | AuditRuleRevoked
  | AuditSessionDeleted
  | AuditFinished
  | AuditOutcomeUnknown
  | AuditToolChanged
  | AuditRetried
  | AuditStateEdited
  | AuditForked;
export type Args = Wire.Args;
/**
 * The kind of answer that an approval request needs.
 * - `approval`: Calls that need a decision.
 * - `in_doubt`: A call whose outcome is unknown.
 * - `question`: Questions that need answers.
 * - `interrupt`: A question of a graph's node.
 * - `input`: A question that a tool asks in the middle of its call.
 */
export type Kind = "approval" | "in_doubt" | "question" | "interrupt" | "input" | (string & {});
/**
 * Who or what decided in a person's place.
 */
export type AuditDecidedBy = DecidedByRule | DecidedByProgram;
/**
 * A verdict on a call.
 * - `allow`: It may run.
 * - `ask`: People are asked.
 * - `deny`: It does not run.
 */
export type AuditVerdict = "allow" | "ask" | "deny" | (string & {});
/**
 * Why a session was deleted.
 * - `requested`: Somebody asked for it.
 * - `expired`: It had been unused for as long as sessions are kept.
 */
export type AuditDeleted = "requested" | "expired" | (string & {});
export type CallStatus = Wire.CallStatus;
/**
 * Why the outcome of a call is unknown.
 * - `interrupted`: What ran it ended midway, or the connection over which it had asked people something was given up.
 * - `questions_gone`: People answered what it had asked, but its attempt cannot resume with their answers.
 */
export type Loss = "interrupted" | "questions_gone" | (string & {});
export type AllowedDecision = Wire.AllowedDecision;
export type Risk = Wire.Risk;
/**
 * What a rule leads to.
 * - `allow`: It asks for no approval; in a rule, the tool's own approval still counts.
 * - `ask`: People are asked, always or under a condition.
 * - `deny`: It does not run.
 */
export type Effect = "allow" | "ask" | "deny" | (string & {});
/**
 * What a standing rule decides.
 * - `approve`: It approves the calls that it covers.
 * - `reject`: It rejects them.
 */
export type RuleDecision = "approve" | "reject" | (string & {});
/**
 * The scope of a standing rule.
 * - `session`: Its session.
 * - `arguments`: Calls with its arguments, in all sessions of the user.
 * - `tool`: All calls of the tool, in all sessions of the user.
 */
export type RuleScope = "session" | "arguments" | "tool" | (string & {});
/**
 * Whether a standing rule applies.
 * - `active`: It applies.
 * - `suspended`: It does not apply for now, since its maker may not decide any more.
 * - `ended`: It was revoked, or has expired.
 */
export type RuleState = "active" | "suspended" | "ended" | (string & {});
/**
 * What keeps a standing rule from applying for now.
 * - `maker_unknown`: It is not on record who made it.
 * - `no_token`: Its maker has no token any more.
 * - `no_role`: Its maker has a token, and none with the role.
 * - `not_seen`: Its maker was not seen, with the role where the rule acts for one, for `standing_seconds`.
 * - `not_seen_yet`: The same since the server started.
 * - `other`: Another reason; only its text says which.
 */
export type SuspensionCode =
  "maker_unknown" | "no_token" | "no_role" | "not_seen" | "not_seen_yet" | "other" | (string & {});
/**
 * A session's language, fixed at its creation.
 * - `en`: English
 * - `vi`: Vietnamese
 * - `zh`: Chinese
 */
export type Locale = "en" | "vi" | "zh";
export type Content = Wire.Content;
/**
 * A block of a history message.
 */
export type HistoryBlock = HistoryText | HistoryImage | HistoryThinking | HistoryStep;
export type ImageSource = Wire.ImageSource;
/**
 * An approval or questions, pending or resolved.
 */
export type HistoryStep = HistoryActionStep | HistoryQuestionStep;
/**
 * Where a history message is displayed.
 * - `content`: Outside groups.
 * - `group_start`: The first of a group, or the only one.
 * - `group_item`: Within a group.
 * - `group_end`: The last of a group.
 */
export type DisplayType = "content" | "group_start" | "group_item" | "group_end" | (string & {});
/**
 * What kind of message it is.
 * - `step`: An approval, or questions.
 */
export type MessageType = "step";
/**
 * The author's role in a history message.
 * - `user`: A person.
 * - `assistant`: The agent.
 * - `tool`: A tool.
 */
export type HistoryRole = "user" | "assistant" | "tool" | (string & {});
export type OnPending = Wire.OnPending;
/**
 * The `type` of a frame with a message.
 */
export type MessageFrame = "message";
/**
 * The progress of a to-do.
 * - `pending`: Not begun.
 * - `in_progress`: Being done now.
 * - `completed`: Done.
 */
export type TodoStatus = "pending" | "in_progress" | "completed" | (string & {});
export type Always = Wire.Always;
export type ArgumentsScope = Wire.ArgumentsScope;
export type Base64Source = Wire.Base64Source;
export type DecisionType = Wire.DecisionType;
export type Held = Wire.Held;
export type ImageSourceInput = Wire.ImageSourceInput;
export type ImageSourceInputBase64Source = Wire.ImageSourceInputBase64Source;
export type ImageSourceInputUrlSource = Wire.ImageSourceInputUrlSource;
export type InputBlock = Wire.InputBlock;
export type InputImage = Wire.InputImage;
export type InputText = Wire.InputText;
export type MediaType = Wire.MediaType;
export type PathStep = Wire.PathStep;
export type PreviewKind = Wire.PreviewKind;
export type SessionScope = Wire.SessionScope;
export type Shown = Wire.Shown;
export type ToolScope = Wire.ToolScope;
export type UrlSource = Wire.UrlSource;
export type Warning = Wire.Warning;
export type WarningKind = Wire.WarningKind;
export type WrittenScope = Wire.WrittenScope;

export interface Operations {
  /**
   * The WebSocket's frames.
   */
  asyncapi: {
    answer: JsonObject;
  };
  /**
   * Whether the process is alive.
   */
  healthz: {
    answer: Health;
  };
  /**
   * Metrics for Prometheus.
   */
  metrics: {
    answer: string;
  };
  /**
   * This document.
   */
  openapi: {
    answer: JsonObject;
  };
  /**
   * Whether the server takes work: its runtime has started and is not shutting down, and the store can be written to.
   */
  readyz: {
    answer: Health;
  };
  /**
   * The agents, the default one first.
   */
  listAgents: {
    answer: AgentsList;
  };
  /**
   * The graph an agent runs on.
   */
  getAgentGraph: {
    path: {
      name: string;
    };
    query?: {
      /**
       * Mark this session's position.
       */
      session_id?: string;
      /**
       * The language of the answer: JSON by default, a Mermaid flow chart, or DOT for Graphviz.
       */
      format?: "json" | "mermaid" | "dot";
    };
    answer: AgentGraph;
  };
  /**
   * The inbox: pending and resolved requests across sessions, soonest deadline first.
   */
  listApprovals: {
    query?: {
      /**
       * Only pending requests, or only resolved ones.
       */
      status?: "waiting" | "resolved";
      /**
       * Only what this role decides.
       */
      role?: string;
      /**
       * Only what this agent asks.
       */
      agent?: string;
      /**
       * Only requests about this tool.
       */
      tool?: string;
      /**
       * Only this session.
       */
      session_id?: string;
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Rows per page, from 1 to 200; 50 by default.
       */
      limit?: number;
    };
    answer: Approvals;
  };
  /**
   * An approval: what is asked, and how it ended.
   */
  getApproval: {
    path: {
      approval_key: string;
    };
    answer: ApprovalView;
  };
  /**
   * Decides a pending request. The answer comes when it is stored, or with wait when the turn pauses or ends.
   */
  decideApproval: {
    path: {
      approval_key: string;
    };
    query?: {
      /**
       * Answer with the outcome, when the turn pauses or ends.
       */
      wait?: boolean;
    };
    body: Decide;
    answer: ApprovalView | Outcome;
  };
  /**
   * Comments on a pending request, for the other people; the model is not told.
   */
  commentApproval: {
    path: {
      approval_key: string;
    };
    body: Comment;
    answer: ApprovalView;
  };
  /**
   * The outcome of an edit of a pending call if it were decided now, with its tool's preview. Nothing changes.
   */
  previewEdit: {
    path: {
      approval_key: string;
    };
    body: PreviewEdit;
    answer: EditPreviewView;
  };
  /**
   * Reassigns a pending request to one person, or to holders of another role that the policy allows.
   */
  reassignApproval: {
    path: {
      approval_key: string;
    };
    body: Reassign;
    answer: ApprovalView;
  };
  /**
   * The audit log: without tokens, for everybody; with them, for the role auditor, of its tenant.
   */
  readAudit: {
    query?: {
      /**
       * Which records come first; the oldest by default.
       */
      order?: "oldest" | "newest";
      /**
       * Only records after the one with this number, in the requested order.
       */
      cursor?: number;
      /**
       * JSON by default, or one record per line, as in exports.
       */
      format?: "json" | "jsonl";
      /**
       * Records per page, from 1 to 1000; 100 by default.
       */
      limit?: number;
    };
    answer: AuditLog;
  };
  /**
   * Verifies the whole chain of the audit log, for callers who may read all or part of it.
   */
  verifyAudit: {
    query?: {
      /**
       * NUMBER:HASH of an earlier verification: the log must have this record.
       */
      anchor?: string;
    };
    answer: AuditVerification;
  };
  /**
   * The graphs of the program that embeds the server, which sessions can run.
   */
  listGraphs: {
    answer: GraphList;
  };
  /**
   * A graph of the program.
   */
  getGraph: {
    path: {
      name: string;
    };
    query?: {
      /**
       * The language of the answer: JSON by default, a Mermaid flow chart, or DOT for Graphviz.
       */
      format?: "json" | "mermaid" | "dot";
    };
    answer: Graph;
  };
  /**
   * Starts a graph run in a session; it continues in the background.
   */
  startRun: {
    path: {
      name: string;
    };
    body: StartRun;
    answer: SessionView;
  };
  /**
   * The policy in force: the operator's rules, and each tool's own approval; with tokens, for the role auditor.
   */
  getPolicy: {
    answer: PolicyView;
  };
  /**
   * Standing rules ("always") of the caller's sessions, made by the caller, or for the caller's roles.
   */
  listRules: {
    query?: {
      /**
       * Only rules in these states.
       */
      state?: ("active" | "suspended" | "ended")[];
      /**
       * Only those made in this session.
       */
      session_id?: string;
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Rows per page, from 1 to 200; 50 by default.
       */
      limit?: number;
    };
    answer: Rules;
  };
  /**
   * Revokes a standing rule: from the next call on people are asked again.
   */
  revokeRule: {
    path: {
      rule_id: string;
    };
    answer: RuleView;
  };
  /**
   * The sessions the caller may see, most recently used first.
   */
  listSessions: {
    query?: {
      /**
       * Only sessions of this status.
       */
      status?: "idle" | "running" | "awaiting_input" | "completed" | "failed" | "cancelled";
      /**
       * Only sessions of this agent.
       */
      agent?: string;
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Rows per page, from 1 to 200; 50 by default.
       */
      limit?: number;
    };
    answer: Sessions;
  };
  /**
   * Creates a session. If one of the caller's own has its id already, answers with that as it is; with an idempotency key only if it was created with the same content.
   */
  createSession: {
    body: CreateSession;
    answer: SessionView;
  };
  /**
   * Stops a session and deletes all its data.
   */
  deleteSession: {
    path: {
      session_id: string;
    };
    answer: undefined;
  };
  /**
   * A session.
   */
  getSession: {
    path: {
      session_id: string;
    };
    answer: SessionView;
  };
  /**
   * Gives a session a title, or restores its automatic one. The last change wins.
   */
  changeSession: {
    path: {
      session_id: string;
    };
    body: ChangeSession;
    answer: SessionView;
  };
  /**
   * Cancels the turn; pending requests are resolved as cancelled.
   */
  cancelTurn: {
    path: {
      session_id: string;
    };
    body: CancelTurn;
    answer: SessionView;
  };
  /**
   * The session's checkpoints, newest first.
   */
  listCheckpoints: {
    path: {
      session_id: string;
    };
    query?: {
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Rows per page, from 1 to 200; 50 by default.
       */
      limit?: number;
    };
    answer: CheckpointList;
  };
  /**
   * The session's events: those after a seq, or those at its end, then live.
   */
  followSession: {
    path: {
      session_id: string;
    };
    query?: {
      /**
       * Replay events after this seq; 0: from the start; absent: only new events.
       */
      after?: number;
      /**
       * In place of after: replay the end of the session, from the start of the newest turn with at least this many messages from there on; 1 to 1000.
       */
      last?: number;
      /**
       * With after or last: only events before this seq. The stream ends there; last counts back from there.
       */
      before?: number;
    };
    answer: string;
  };
  /**
   * Creates a new session with this one's past up to a checkpoint. This one is not changed.
   */
  forkSession: {
    path: {
      session_id: string;
    };
    body: ForkSession;
    answer: SessionView;
  };
  /**
   * The session's graph, with its current position.
   */
  getSessionGraph: {
    path: {
      session_id: string;
    };
    query?: {
      /**
       * The language of the answer: JSON by default, a Mermaid flow chart, or DOT for Graphviz.
       */
      format?: "json" | "mermaid" | "dot";
    };
    answer: GraphView;
  };
  /**
   * The session's messages, oldest first.
   */
  readHistory: {
    path: {
      session_id: string;
    };
    query?: {
      /**
       * Which way pages follow: from the first message (the default), or from the newest.
       */
      direction?: "forward" | "backward";
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Messages per page, from 1 to 1000; 100 by default.
       */
      limit?: number;
    };
    answer: History;
  };
  /**
   * Sends a message, and answers when the turn pauses or ends; or streams its events.
   */
  sendMessage: {
    path: {
      session_id: string;
    };
    body: PostMessage;
    answer: Outcome;
  };
  /**
   * Retries a failed turn or graph run: what failed runs again, what is done stays done.
   */
  retrySession: {
    path: {
      session_id: string;
    };
    body: Retry;
    answer: SessionView;
  };
  /**
   * The session's state: status, pending requests and usage, now or at a checkpoint.
   */
  getState: {
    path: {
      session_id: string;
    };
    query?: {
      /**
       * The state at this checkpoint.
       */
      checkpoint?: number;
    };
    answer: StateView;
  };
  /**
   * Edits the state of a paused, failed or finished graph run, as a node's update would.
   */
  editState: {
    path: {
      session_id: string;
    };
    body: EditState;
    answer: StateView;
  };
  /**
   * The webhooks and their deliveries: for callers who may read the audit log, of their tenant.
   */
  listWebhooks: {
    answer: WebhookList;
  };
  /**
   * The messages of a webhook that did not arrive, in the order of their records in the audit log.
   */
  listFailedMessages: {
    path: {
      name: string;
    };
    query?: {
      /**
       * The next_cursor of the previous page.
       */
      cursor?: string;
      /**
       * Rows per page, from 1 to 200; 50 by default.
       */
      limit?: number;
    };
    answer: FailedMessages;
  };
  /**
   * Sends a message that did not arrive again now, with the full number of attempts. Takes no `Idempotency-Key`.
   */
  retryFailedMessage: {
    path: {
      name: string;
      n: string;
    };
    body: Nothing;
    answer: Retried;
  };
  /**
   * Drops a webhook's undelivered messages and restarts it at the end of the audit log; works for removed webhooks too. Takes no `Idempotency-Key`: repeated, it drops what came in between.
   */
  forgetWebhook: {
    path: {
      name: string;
    };
    body: Nothing;
    answer: Forgotten;
  };
  /**
   * Sends all dead letters of a webhook again. Takes no `Idempotency-Key`.
   */
  retryFailedMessages: {
    path: {
      name: string;
    };
    body: Nothing;
    answer: Retried;
  };
  /**
   * Sends a webhook one test message, and answers with the outcome. Takes no `Idempotency-Key`: repeated, it sends another.
   */
  testWebhook: {
    path: {
      name: string;
    };
    body: Nothing;
    answer: Tested;
  };
  /**
   * The WebSocket, subprotocol countersign.v1; /asyncapi.json describes its frames.
   */
  connect: {
    answer: undefined;
  };
  /**
   * The WebSocket's frames, and the events of event streams.
   */
  wireSchema: {
    answer: JsonObject;
  };
}
/**
 * The answer of `/healthz` and `/readyz`.
 */
export interface Health {
  /**
   * `ok`.
   */
  status: string;
}
/**
 * The agents of the server.
 */
export interface AgentsList {
  /**
   * The agents, the default one first.
   */
  agents: AgentView[];
  /**
   * Always null: all agents are on one page.
   */
  next_cursor: string | null;
}
/**
 * An agent, as clients see it.
 */
export interface AgentView {
  /**
   * Its purpose, for people.
   */
  description?: string;
  /**
   * The maximum number of model calls in one turn.
   */
  max_turns: number;
  /**
   * The configured name of its model.
   */
  model: string;
  /**
   * Its name.
   */
  name: string;
  /**
   * Whether its model takes images: if not, a message with one is refused.
   */
  takes_images: boolean;
  /**
   * Its tools.
   */
  tools: string[];
}
/**
 * The graph an agent runs on.
 */
export interface AgentGraph {
  /**
   * The agent.
   */
  agent: string;
  /**
   * The graph, with the session's positions if a session was requested.
   */
  drawing: Drawing;
}
/**
 * A graph to be drawn. Any value can be drawn: a node that is only named by an edge or a position is drawn under its
 * id, the first of two nodes with the same id counts, and a `parent` that does not exist, or is circular, is ignored.
 */
export interface Drawing {
  /**
   * The session's current nodes; empty without a session.
   */
  current: Position[];
  /**
   * The edges.
   */
  edges: DrawnEdge[];
  /**
   * The nodes, those of sub-graphs among them, in drawing order.
   */
  nodes: DrawnNode[];
}
/**
 * A current node of a session. It may have no tasks: at the end, for example.
 */
export interface Position {
  /**
   * The id of the node.
   */
  node: string;
  /**
   * Tasks that run there.
   */
  running: number;
  /**
   * Tasks that wait there for a person.
   */
  waiting: number;
}
/**
 * An edge of a drawing.
 */
export interface DrawnEdge {
  /**
   * One of several that the node before may choose; drawn dashed.
   */
  conditional: boolean;
  /**
   * The id of the node where it begins.
   */
  from: string;
  /**
   * When it is taken; may be empty.
   */
  label: string;
  /**
   * The id of the node where it ends.
   */
  to: string;
}
/**
 * A node of a drawing.
 */
export interface DrawnNode {
  /**
   * Its id, unique in the drawing. It may contain any character.
   */
  id: string;
  /**
   * Its kind.
   */
  kind: NodeKind;
  /**
   * Its text; several lines are possible. If empty, the id is used.
   */
  label: string;
  /**
   * The id of the sub-graph it is in, to any depth; none at the top.
   */
  parent?: string;
}
/**
 * A page of approvals: pending ones by their deadlines, the soonest first; then those without one and resolved ones,
 * the newest first.
 */
export interface Approvals {
  /**
   * The approvals.
   */
  approvals: ApprovalView[];
  /**
   * Where the next page begins; null on the last.
   */
  next_cursor: string | null;
}
/**
 * Actions.
 */
export interface ActionApprovalView {
  /**
   * The pending actions, in the model's order.
   */
  actions: RequestedAction[];
  /**
   * To questions.
   */
  answers?: Answers;
  /**
   * `{session_id}_{n}`.
   */
  approval_key: string;
  /**
   * Who has approved it so far, if it has a quorum. Never in the block of the stream.
   */
  approved_by?: string[];
  /**
   * The only person who may decide it, if it was reassigned to one. Never in the block of the stream, which shows
   * the original request.
   */
  assignee?: string;
  /**
   * Who resolved it.
   */
  by?: string;
  /**
   * When it was requested (RFC 3339).
   */
  created_at: string;
  /**
   * To actions, one for each; to declined questions, one reject.
   */
  decisions?: Decision[];
  /**
   * When it times out (RFC 3339); absent if never.
   */
  expires_at?: string;
  /**
   * Why the session's turn is on hold, while this is pending; `message` says what resumes it. If `restored`, it may
   * have been decided and carried out after the backup: check outside before you decide.
   */
  held?: HeldTurn;
  /**
   * The question, if a graph's node asks it: it is answered with `resume`.
   */
  interrupt?: GraphQuestion;
  /**
   * The kind of answer it needs.
   */
  kind: ActionKind;
  /**
   * If it was `cancelled`: why.
   */
  reason?: Withdrawal;
  /**
   * How it was resolved.
   */
  resolution?: Resolution;
  /**
   * When it was resolved (RFC 3339).
   */
  resolved_at?: string;
  /**
   * To a node of a graph.
   */
  resume?: JsonValue;
  /**
   * One for each action, in the same order.
   */
  review_configs: ReviewConfig[];
  /**
   * The session.
   */
  session_id: string;
  /**
   * `waiting` or `resolved`.
   */
  status: ApprovalStatus;
  /**
   * The graph's step whose outcome is unknown, if the request is about a step and not a call.
   */
  step?: GraphStep;
  /**
   * The session's owner.
   */
  subject?: string;
  /**
   * Comments and changes while it was pending, oldest first.
   */
  updates?: UpdateView[];
}
/**
 * A comment for the other people.
 */
export interface CommentUpdate {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who, if a person.
   */
  by?: string;
  /**
   * The comment.
   */
  text: string;
  update: "comment";
}
/**
 * It was reassigned to another reviewer.
 */
export interface ReassignedUpdate {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who, if a person.
   */
  by?: string;
  /**
   * The holders of this role, in place of the previous reviewer.
   */
  role?: string;
  /**
   * Only this person.
   */
  subject?: string;
  /**
   * Why.
   */
  text?: string;
  update: "reassigned";
}
/**
 * It has been pending long enough for a reminder.
 */
export interface ReminderUpdate {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who, if a person.
   */
  by?: string;
  update: "reminder";
}
/**
 * One approval of a quorum; more are needed.
 */
export interface ApprovedUpdate {
  /**
   * How many have approved.
   */
  approved: number;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who, if a person.
   */
  by?: string;
  /**
   * How many must approve.
   */
  quorum: number;
  update: "approved";
}
/**
 * Questions.
 */
export interface QuestionApprovalView {
  /**
   * One call of `ask_user_question`.
   */
  action_requests: QuestionAction[];
  /**
   * To questions.
   */
  answers?: Answers;
  /**
   * `{session_id}_{n}`.
   */
  approval_key: string;
  /**
   * Who resolved it.
   */
  by?: string;
  /**
   * When it was requested (RFC 3339).
   */
  created_at: string;
  /**
   * To actions, one for each; to declined questions, one reject.
   */
  decisions?: Decision[];
  /**
   * The permanent identity of the questions, like the `digest` of an action.
   */
  digest?: string;
  /**
   * When it times out (RFC 3339); absent if never.
   */
  expires_at?: string;
  /**
   * Why the session's turn is on hold, while this is pending; `message` says what resumes it. If `restored`, it may
   * have been decided and carried out after the backup: check outside before you decide.
   */
  held?: HeldTurn;
  /**
   * `question`.
   */
  kind: QuestionKind;
  /**
   * If it was `cancelled`: why.
   */
  reason?: Withdrawal;
  /**
   * How it was resolved.
   */
  resolution?: Resolution;
  /**
   * When it was resolved (RFC 3339).
   */
  resolved_at?: string;
  /**
   * To a node of a graph.
   */
  resume?: JsonValue;
  /**
   * One for each action.
   */
  review_configs: QuestionReview[];
  /**
   * The session.
   */
  session_id: string;
  /**
   * `waiting` or `resolved`.
   */
  status: ApprovalStatus;
  /**
   * The session's owner.
   */
  subject?: string;
  /**
   * Seconds to answer; 0 for no limit.
   */
  timeout_seconds: number;
  /**
   * Comments and changes while it was pending, oldest first.
   */
  updates?: UpdateView[];
}
/**
 * The body of `POST /v1/approvals/{approval_key}`: one of `decisions`, `answers` and `resume`.
 */
export interface Decide {
  /**
   * For questions: question text → answer.
   */
  answers?: {
    [k: string]: string | string[];
  };
  /**
   * May repeat the path's key.
   */
  approval_key?: string;
  /**
   * For actions: one decision each; missing ones repeat the first.
   */
  decisions?: Decision[];
  /**
   * The `digest` of one of the actions, or of the questions, as shown; refused as `stale_action` if it does not
   * match.
   */
  digest?: string;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * For a question of a graph's node: its answer, any JSON value, including `null`. For actions: "yes" or "no", for
   * all of them.
   */
  resume?: JsonValue;
  /**
   * May repeat the session that the path names.
   */
  session_id?: string;
  /**
   * May be sent, as in the WebSocket's frame.
   */
  type?: ApprovalFrame;
  /**
   * The reviewer's message, shown in history and passed to the model; refused beside a reply to a node of a graph.
   */
  user_edit_content?: string;
}
/**
 * The state of a turn once nothing more happens automatically.
 */
export interface Outcome {
  /**
   * Why the turn failed, if it did.
   */
  error?: RunError;
  /**
   * The pending requests.
   */
  interruptions: Request[];
  /**
   * The pending approval keys.
   */
  pending: string[];
  /**
   * The session.
   */
  session_id: string;
  /**
   * Its status. `running` if this node was shutting down: another one continues the turn, so ask again.
   */
  status: Status;
  /**
   * Why the turn ended, if it has; an incomplete answer is reported here too.
   */
  stop_reason?: StopReason;
  /**
   * The text of the latest answer.
   */
  text: string;
}
/**
 * The `approval_request` block of actions.
 */
export interface ApprovalRequest {
  /**
   * The pending actions, in the model's order.
   */
  actions: RequestedAction[];
  /**
   * `{session_id}_{n}`.
   */
  approval_key: string;
  /**
   * Who has approved it so far, if it has a quorum. Never in the block of the stream.
   */
  approved_by?: string[];
  /**
   * The only person who may decide it, if it was reassigned to one. Never in the block of the stream, which shows
   * the original request.
   */
  assignee?: string;
  /**
   * When it times out (RFC 3339); absent if never.
   */
  expires_at?: string;
  /**
   * The question, if a graph's node asks it: it is answered with `resume`.
   */
  interrupt?: GraphQuestion;
  /**
   * The kind of answer it needs.
   */
  kind: ActionKind;
  /**
   * One for each action, in the same order.
   */
  review_configs: ReviewConfig[];
  /**
   * The graph's step whose outcome is unknown, if the request is about a step and not a call.
   */
  step?: GraphStep;
}
/**
 * Pending questions, complete.
 */
export interface QuestionRequest {
  /**
   * One call of `ask_user_question`.
   */
  action_requests: QuestionAction[];
  /**
   * `{session_id}_{n}`.
   */
  approval_key: string;
  /**
   * The permanent identity of the questions, like the `digest` of an action.
   */
  digest?: string;
  /**
   * When it times out (RFC 3339); absent if never.
   */
  expires_at?: string;
  /**
   * `question`.
   */
  kind: QuestionKind;
  /**
   * One for each action.
   */
  review_configs: QuestionReview[];
  /**
   * Seconds to answer; 0 for no limit.
   */
  timeout_seconds: number;
}
/**
 * The body of `POST /v1/approvals/{approval_key}/comments`.
 */
export interface Comment {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The comment; at most 4 KiB. The model does not see it.
   */
  text: string;
}
/**
 * The body of `POST /v1/approvals/{approval_key}/preview`.
 */
export interface PreviewEdit {
  /**
   * Which of the request's actions would be edited, from 0; the first if absent.
   */
  action?: number;
  /**
   * The `digest` of one of the actions, as shown; refused as `stale_action` if it does not match.
   */
  digest?: string;
  /**
   * The call that would run instead.
   */
  edited_action: EditedAction;
}
/**
 * The outcome of an edit if it were decided now. The decision is judged again.
 */
export interface EditPreviewView {
  /**
   * The outcome of the edit.
   */
  outcome: EditOutcomeView;
  /**
   * What the edited call would do now; absent if its tool has no preview, and with `refused`.
   */
  preview?: ShownPreview;
  /**
   * With `refused`: the error that would answer the decision.
   */
  problem?: Problem;
  /**
   * With `asks`: how people would be asked, at once, or after other calls or a retry.
   */
  review_config?: ReviewConfig;
}
/**
 * An RFC 9457 problem document.
 */
export interface Problem {
  /**
   * The stable code, the same as in an `error` frame.
   */
  code: Code;
  /**
   * What is wrong, where, and what would be right.
   */
  detail: string;
  /**
   * Machine-readable details.
   */
  details?: JsonObject;
  /**
   * The HTTP status.
   */
  status: number;
  /**
   * The status in words.
   */
  title: string;
  /**
   * `about:blank`: the status and the code identify the problem.
   */
  type: string;
}
/**
 * The body of `POST /v1/approvals/{approval_key}/reassign`.
 */
export interface Reassign {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * Holders of this role decide it from now on: one of the action's `reassign`, or the role that decides already.
   */
  role?: string;
  /**
   * Only this person decides it, who must also hold the role; absent: any holder.
   */
  subject?: string;
  /**
   * The reason.
   */
  text?: string;
}
/**
 * A page of the audit log.
 */
export interface AuditLog {
  /**
   * The `cursor` of the next page: the `n` of the last record; null on the last page. With the oldest first,
   * later records also come after that `n`.
   */
  next_cursor: string | null;
  /**
   * The records.
   */
  records: AuditRecord[];
}
/**
 * A record of the log. Nothing else can stand beside its members: no hash would cover it.
 */
export interface AuditRecord {
  /**
   * What happened, as JSON.
   */
  body: AuditBody;
  /**
   * Lower-case hexadecimal SHA-256 of `prev`, LF, `n`, LF and the canonical body: RFC 8785 with numbers as written.
   */
  hash: string;
  /**
   * Its number, from 1 without gaps, over all sessions of a store.
   */
  n: number;
  /**
   * The hash of the record before it; 64 zeros before the first.
   */
  prev: string;
}
/**
 * People are asked.
 */
export interface AuditRequested {
  /**
   * What the person was shown.
   */
  actions: AuditAction[];
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  event: "requested";
  /**
   * The kind of answer it needs.
   */
  kind: Kind;
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The role that decides, if one is configured.
   */
  role?: string;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * An action of a request, as its reviewer was shown it.
 */
export interface AuditAction {
  /**
   * The agent that proposed it.
   */
  agent: string;
  /**
   * The arguments.
   */
  args: Args;
  /**
   * The SHA-256 of their canonical form.
   */
  args_digest: string;
  /**
   * The permanent identity of the request about this call, which decisions may name.
   */
  digest: string;
  /**
   * The digest of the text that a reviewer is shown (`display`).
   */
  display_digest: string;
  /**
   * From 1, where there are several levels.
   */
  level?: number;
  /**
   * The tool; for a graph the question's or the step's name.
   */
  name: string;
  /**
   * Whether its requesters may not approve it.
   */
  not_self?: boolean;
  /**
   * The version of the policy that asks about it.
   */
  policy?: string;
  /**
   * How many different people must approve, if more than one.
   */
  quorum?: number;
  /**
   * The rule that requires approval, in the operator's words.
   */
  reason?: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
}
/**
 * A person decided.
 */
export interface AuditDecided {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  /**
   * One for each action.
   */
  decisions: Decision[];
  event: "decided";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A person approved, and more people must.
 */
export interface AuditVoted {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  /**
   * One for each action.
   */
  decisions: Decision[];
  event: "voted";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A person answered questions.
 */
export interface AuditAnswered {
  /**
   * The answers.
   */
  answers: Answers;
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  event: "answered";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A person answered a node of a graph, or a tool.
 */
export interface AuditResumed {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  event: "resumed";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The answer.
   */
  resume: JsonValue;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The deadline expired first.
 */
export interface AuditTimedOut {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * The roles that are asked next; absent if nobody is.
   */
  escalated_to?: string[];
  event: "timed_out";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The request ended without an answer.
 */
export interface AuditWithdrawn {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * The person who did it, if one did.
   */
  by?: string;
  event: "withdrawn";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * Why.
   */
  reason: Withdrawal;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A person commented on a pending request.
 */
export interface AuditCommented {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  event: "commented";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * The comment.
   */
  text: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A pending request was reassigned.
 */
export interface AuditReassigned {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who did it.
   */
  by?: string;
  event: "reassigned";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The role that decides from now on, if that has changed.
   */
  role?: string;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The only person who decides, if one was named.
   */
  subject?: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * Why.
   */
  text?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The reviewers were reminded of a pending request.
 */
export interface AuditReminded {
  /**
   * The key of the request.
   */
  approval_key: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * How many of its reminders are due, including this one.
   */
  count: number;
  event: "reminded";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A standing rule, or the program, decided a call in a person's place.
 */
export interface AuditDecidedUnasked {
  /**
   * The SHA-256 of the canonical form of its arguments; absent if they are no JSON object.
   */
  args_digest?: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * How often it was started.
   */
  attempts?: number;
  /**
   * Who or what.
   */
  decided_by: AuditDecidedBy;
  event: "decided_unasked";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
  /**
   * `allow` or `deny`.
   */
  verdict: AuditVerdict;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A standing rule.
 */
export interface DecidedByRule {
  /**
   * Its id.
   */
  id: string;
  type: "rule";
}
/**
 * The program in which the agent runs.
 */
export interface DecidedByProgram {
  type: "program";
}
/**
 * A person ended a standing rule.
 */
export interface AuditRuleRevoked {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  event: "rule_revoked";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The rule.
   */
  rule_id: string;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The session was deleted, with its journal. Nothing about it follows.
 */
export interface AuditSessionDeleted {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who asked for it.
   */
  by?: string;
  event: "session_deleted";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * Why.
   */
  reason: AuditDeleted;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A call that people had decided about has its result.
 */
export interface AuditFinished {
  /**
   * The SHA-256 of the canonical form of its arguments; absent if they are no JSON object.
   */
  args_digest?: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * How often it was started.
   */
  attempts?: number;
  event: "finished";
  /**
   * The SHA-256 of the result's UTF-8 text.
   */
  output_digest: string;
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * How it ended.
   */
  status: CallStatus;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The outcome of such a call is unknown.
 */
export interface AuditOutcomeUnknown {
  /**
   * The SHA-256 of the canonical form of its arguments; absent if they are no JSON object.
   */
  args_digest?: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * How often it was started.
   */
  attempts?: number;
  event: "outcome_unknown";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * Why.
   */
  reason: Loss;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * An approved call did not begin, since its tool is not the one that was shown; it is requested again.
 */
export interface AuditToolChanged {
  /**
   * The SHA-256 of the canonical form of its arguments; absent if they are no JSON object.
   */
  args_digest?: string;
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * How often it was started.
   */
  attempts?: number;
  event: "tool_changed";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * The tool.
   */
  tool: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A failed turn continues.
 */
export interface AuditRetried {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who continued it.
   */
  by?: string;
  event: "retried";
  /**
   * How many more model calls it may make.
   */
  more_calls?: number;
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * A person changed the state of a graph.
 */
export interface AuditStateEdited {
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who.
   */
  by?: string;
  event: "state_edited";
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * What changed, as a node would have changed it.
   */
  state_update: JsonValue;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The session was forked from another, whose records are not repeated.
 */
export interface AuditForked {
  /**
   * The other session's keys of the requests that were pending at the checkpoint: the fork makes them again.
   */
  asked_again?: string[];
  /**
   * When (RFC 3339).
   */
  at: string;
  /**
   * Who forked it.
   */
  by?: string;
  event: "forked";
  /**
   * The other session, and the checkpoint.
   */
  forked_from: ForkedFrom;
  /**
   * The calls that were judged again.
   */
  judged?: AuditJudged[];
  /**
   * The position of the append in the session's journal; of a deletion, that of the last append.
   */
  pos: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The session's tenant.
   */
  tenant?: string;
  /**
   * How it came into the store, if that is stated. `store`: a program such as `countersign chat` had itself opened the
   * store, and took somebody's word for who acts.
   */
  via?: string;
}
/**
 * The origin of a fork: the session and the checkpoint.
 */
export interface ForkedFrom {
  /**
   * The checkpoint: the position of the last append that both sessions share.
   */
  checkpoint: number;
  /**
   * The session.
   */
  session_id: string;
}
/**
 * A call of a fork that was judged again.
 */
export interface AuditJudged {
  /**
   * The standing rule that rejects it.
   */
  decided_by?: AuditDecidedBy;
  /**
   * What it is changed to; absent if it is unchanged.
   */
  edited?: EditedAction;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
  /**
   * The new verdict on it.
   */
  verdict: AuditVerdict;
}
/**
 * The result of a verification.
 */
export interface AuditVerification {
  /**
   * The end of the log as `NUMBER:HASH`, if it is intact. Kept elsewhere, it later reveals whether the log was
   * truncated or rewritten.
   */
  anchor?: string;
  /**
   * How many records were read, from the first: those of all tenants, since the chain goes through all.
   */
  checked: number;
  /**
   * The first fault.
   */
  fault?: AuditFault;
  /**
   * Whether every record is the one that was written, in its place.
   */
  intact: boolean;
  /**
   * How many of them belong to the caller's tenant: those that the caller may read.
   */
  readable: number;
}
/**
 * What is wrong with an audit log.
 */
export interface AuditFault {
  /**
   * What is wrong with it, in English.
   */
  message: string;
  /**
   * The number of the record, or of the one that was expected there.
   */
  n: number;
}
/**
 * The graphs that sessions can run.
 */
export interface GraphList {
  /**
   * By name.
   */
  graphs: GraphRow[];
  /**
   * Where the next page begins; null on the last, which for now is the first.
   */
  next_cursor: string | null;
}
/**
 * A graph of the program.
 */
export interface GraphRow {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A graph of the program.
 */
export interface Graph {
  /**
   * The graph.
   */
  drawing: Drawing;
  /**
   * Its name.
   */
  name: string;
}
/**
 * The body of `POST /v1/graphs/{name}/runs`.
 */
export interface StartRun {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The session, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent, created if unknown.
   */
  session_id?: string;
  /**
   * The initial state: a JSON object, as the graph's type reads it.
   */
  state: JsonValue;
}
/**
 * A session.
 */
export interface SessionView {
  /**
   * The agent that answers.
   */
  agent: string;
  /**
   * When it was created (RFC 3339).
   */
  created_at: string;
  /**
   * Why its turn failed, if it did.
   */
  error?: RunError;
  /**
   * The session and the checkpoint from which it was forked, if any.
   */
  forked_from?: ForkedFrom;
  /**
   * Why its turn is on hold, if it is.
   */
  held?: HeldTurn;
  /**
   * The pending approval keys.
   */
  pending: string[];
  /**
   * Its id.
   */
  session_id: string;
  /**
   * Its status.
   */
  status: Status;
  /**
   * Its owner.
   */
  subject?: string;
  /**
   * The title that its owner gave it, or the beginning of its first message.
   */
  title?: string;
  /**
   * When it last changed (RFC 3339).
   */
  updated_at: string;
}
/**
 * The policy that is in force.
 */
export interface PolicyView {
  /**
   * How people are asked where neither a rule nor the tool says it.
   */
  defaults: AskView;
  /**
   * The operator's rules, in order. The first one that matches a call applies together with the tool's own approval;
   * the stricter of the two wins.
   */
  rules: PolicyRuleView[];
  /**
   * The agents' tools with their own approval, as far as they are known now.
   */
  tools: ToolApprovalView[];
  /**
   * Its version, as named in requests and in the audit log.
   */
  version: string;
}
/**
 * How people are asked, as far as this rule or tool says it. For what is absent, the other of the two counts, and where
 * that does not say it either, the defaults.
 */
export interface AskView {
  /**
   * What a reviewer may do.
   */
  allowed_decisions?: AllowedDecision[];
  /**
   * Who is asked in turn when the deadline expires.
   */
  escalate: string[];
  /**
   * Who must approve, one after the other; `user` is the session's owner.
   */
  levels?: string[];
  /**
   * Whether those who requested it may not approve it.
   */
  not_self: boolean;
  /**
   * How many different people must approve at each level.
   */
  quorum: number;
  /**
   * The roles to which it may be reassigned.
   */
  reassign: string[];
  /**
   * When its reviewers are reminded: seconds after they were asked.
   */
  reminders: number[];
  /**
   * How much is at stake.
   */
  risk?: Risk;
  /**
   * Seconds until it is rejected or escalated; 0: it waits forever.
   */
  timeout?: number;
}
/**
 * A rule of the policy. It matches a call that fits all of its members.
 */
export interface PolicyRuleView {
  /**
   * The agents it matches, in the same form; empty: all.
   */
  agents: string[];
  /**
   * How people are asked.
   */
  ask?: AskView;
  /**
   * People are asked only if this condition holds. If a program decides it: its description, or an empty text.
   */
  condition?: string;
  /**
   * Whether it runs without approval, people are asked, or it is denied.
   */
  effect: Effect;
  /**
   * What must be declared about the tool.
   */
  hints?: HintView[];
  /**
   * The message to the model, if the operator's policy denies the call with one.
   */
  message?: string;
  /**
   * Its name, which reviewers see as the reason.
   */
  name?: string;
  /**
   * The requester must hold one of these roles; empty: anybody.
   */
  roles: string[];
  /**
   * The tools it matches, with `*` for any text; empty: all.
   */
  tools: string[];
  /**
   * The condition that must hold for it to match.
   */
  when?: string;
}
/**
 * What must be declared about a tool.
 */
export interface HintView {
  /**
   * `read_only`, `destructive`, `open_world` or `idempotent`.
   */
  name: string;
  /**
   * Whether it must be true or false; where nothing is declared, the default counts.
   */
  value: boolean;
}
/**
 * A tool of an agent, with its own approval.
 */
export interface ToolApprovalView {
  /**
   * The agent.
   */
  agent: string;
  /**
   * How people are asked.
   */
  ask?: AskView;
  /**
   * People are asked only if this condition holds. If a program decides it: its description, or an empty text.
   */
  condition?: string;
  /**
   * Whether it runs without approval, people are asked, or it is denied.
   */
  effect: Effect;
  /**
   * The message to the model, if the operator's policy denies the call with one.
   */
  message?: string;
  /**
   * Its tool.
   */
  tool: string;
}
/**
 * A page of standing rules, newest first.
 */
export interface Rules {
  /**
   * Where the next page begins; null on the last.
   */
  next_cursor: string | null;
  /**
   * The rules.
   */
  rules: RuleView[];
}
/**
 * A standing rule, as lists show it.
 */
export interface RuleView {
  /**
   * The agent it applies to.
   */
  agent: string;
  /**
   * The arguments it applies to, if it is limited to them.
   */
  args?: Args;
  /**
   * Who made it.
   */
  by?: string;
  /**
   * When it was made (RFC 3339).
   */
  created_at: string;
  /**
   * Whether it approves or rejects.
   */
  decision: RuleDecision;
  /**
   * `{approval_key}.{action}`: the approval request and the action in which it was made.
   */
  id: string;
  /**
   * Whether the caller may revoke it: one that rejects takes the role it acts in.
   */
  may_revoke: boolean;
  /**
   * The message to the model, if it rejects.
   */
  message?: string;
  /**
   * When it was revoked or replaced (RFC 3339).
   */
  revoked_at?: string;
  /**
   * Who revoked it.
   */
  revoked_by?: string;
  /**
   * The role its maker acted in; absent: the session's owner.
   */
  role?: string;
  /**
   * The scope: `session`, `arguments` or `tool`.
   */
  scope: RuleScope;
  /**
   * The session it was made in.
   */
  session_id: string;
  /**
   * Whether it applies now.
   */
  state: RuleState;
  /**
   * Whose sessions it applies to.
   */
  subject?: string;
  /**
   * Why it is suspended, if it is.
   */
  suspension?: Suspension;
  /**
   * The tool it applies to.
   */
  tool: string;
  /**
   * When it expires (RFC 3339); absent if it never expires.
   */
  until?: string;
}
/**
 * Why a standing rule is suspended.
 */
export interface Suspension {
  /**
   * For programs, which show it in the user's language.
   */
  code: SuspensionCode;
  /**
   * In English.
   */
  message: string;
}
/**
 * A page of sessions, most recently used first.
 */
export interface Sessions {
  /**
   * Where the next page begins; null on the last.
   */
  next_cursor: string | null;
  /**
   * The sessions.
   */
  sessions: SessionRow[];
}
/**
 * A session, as lists show it.
 */
export interface SessionRow {
  /**
   * The agent that answers.
   */
  agent: string;
  /**
   * When it was created (RFC 3339).
   */
  created_at: string;
  /**
   * The pending approval keys.
   */
  pending: string[];
  /**
   * Its id.
   */
  session_id: string;
  /**
   * Its status.
   */
  status: Status;
  /**
   * Its owner.
   */
  subject?: string;
  /**
   * The title that its owner gave it, or the beginning of its first message.
   */
  title?: string;
  /**
   * When it last changed (RFC 3339).
   */
  updated_at: string;
}
/**
 * The body of `POST /v1/sessions`.
 */
export interface CreateSession {
  /**
   * The agent that answers; the first one if absent.
   */
  agent?: string;
  /**
   * The application's own data, a JSON object.
   */
  context?: JsonObject;
  /**
   * The language of the server's own texts.
   */
  locale?: Locale;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * Its id, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent.
   */
  session_id?: string;
}
/**
 * The body of `PATCH /v1/sessions/{session_id}`.
 */
export interface ChangeSession {
  /**
   * Its title in lists: one line of at most 200 characters. An empty text restores the automatic one.
   */
  title: string;
}
/**
 * The body of `POST /v1/sessions/{session_id}/cancel`; may be absent.
 */
export interface CancelTurn {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
}
/**
 * A page of checkpoints, newest first.
 */
export interface CheckpointList {
  /**
   * The checkpoints.
   */
  checkpoints: CheckpointView[];
  /**
   * Where the next page begins; null on the last.
   */
  next_cursor: string | null;
}
/**
 * A checkpoint of a session, as lists show it.
 */
export interface CheckpointView {
  /**
   * What led there: `created`, `message`, `queued`, `answer` (the model's), `asked`, `decision` (a person's, also
   * answers to questions), `timeout`, `approval_updated`, `rule_revoked`, `renamed`, `call_started`, `handoff`,
   * `result`, `input`, `outcome_unknown` and `tool_changed` (of calls), `approval_sent`, `approval_not_sent`, `end` (of a turn),
   * `restart`, `status`, `fork`, `compression`; of graphs `run`, `graph`, `node`, `pause`, `step`, `resume`, `failure`, `retry`,
   * `edit`, `states`.
   */
  after: string;
  /**
   * When the session reached it (RFC 3339).
   */
  at: string;
  /**
   * Who did that, if a person did and is known.
   */
  by?: string;
  /**
   * Its position in the session's journal, which names it.
   */
  checkpoint: number;
  /**
   * The graph's nodes that the session was at.
   */
  nodes: string[];
  /**
   * The approval keys that were pending there.
   */
  pending: string[];
  /**
   * The `seq` of the last event up to the checkpoint. A client that has folded the events up to this one sees the
   * session as it was there.
   */
  seq: number;
  /**
   * The session's status there.
   */
  status: Status;
}
/**
 * The body of `POST /v1/sessions/{session_id}/fork`; may be absent.
 */
export interface ForkSession {
  /**
   * The checkpoint to fork from; the newest if absent.
   */
  checkpoint?: number;
  /**
   * What to change in the fork.
   */
  edit?: Edit;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * Whether the new session continues automatically; otherwise nothing runs, not even after a deadline, until a
   * pending request is decided or answered, a message is sent, or it is retried.
   */
  run?: boolean;
  /**
   * The new session's id, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent.
   */
  session_id?: string;
}
/**
 * A change in a fork: one of the two.
 */
export interface Edit {
  /**
   * Calls of the latest answer that have not begun there, and what runs in their place. The policy applies to each
   * again.
   */
  calls?: EditCall[];
  /**
   * Another user message, in place of the one there or as the next one: at a checkpoint before or right after a
   * message that begins a turn.
   */
  message?: Content;
}
/**
 * An edited call.
 */
export interface EditCall {
  /**
   * The arguments.
   */
  args: Args;
  /**
   * The tool; the call's own if absent.
   */
  name?: string;
  /**
   * The id of the call, as the model gave it.
   */
  tool_use_id: string;
}
/**
 * The graph of a session, with its positions.
 */
export interface GraphView {
  /**
   * The agent that answers.
   */
  agent: string;
  /**
   * The graph, with the session's positions.
   */
  drawing: Drawing;
  /**
   * The `seq` of the last event that the drawing includes.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * What the session is doing.
   */
  status: Status;
}
/**
 * A page of history, oldest first.
 */
export interface History {
  /**
   * Whether there are more in that direction.
   */
  has_more: boolean;
  /**
   * The messages, oldest first in either paging direction.
   */
  messages: HistoryMessage[];
  /**
   * Where the next page begins, and where paging the other way continues; null on the last.
   */
  next_cursor: string | null;
}
/**
 * One message of the history.
 */
export interface HistoryMessage {
  /**
   * Who wrote it, if known by name.
   */
  by?: string;
  /**
   * The blocks.
   */
  content: HistoryBlock[];
  /**
   * Where it is displayed.
   */
  display_type: DisplayType;
  /**
   * `step` for approvals and questions.
   */
  message_type?: MessageType;
  /**
   * For a result: the tool.
   */
  name?: string;
  /**
   * It belongs to an interrupted answer of the model: the new answer follows. Absent means no.
   */
  replaced?: boolean;
  /**
   * The author's role.
   */
  role: HistoryRole;
  /**
   * For a result: how the call ended.
   */
  status?: CallStatus;
  /**
   * On the first and the last message of a group: the newest `tool_content_message` of its calls.
   */
  summary?: string;
  /**
   * For a result: the call's id.
   */
  tool_call_id?: string;
  /**
   * The calls of one answer.
   */
  tool_calls?: HistoryCall[];
}
/**
 * Text.
 */
export interface HistoryText {
  /**
   * The last text of a turn.
   */
  is_final?: boolean;
  /**
   * On the last text of a turn whose answer is incomplete: the reason. Such a text is not final.
   */
  stop_reason?: StopReason;
  /**
   * The text.
   */
  text: string;
  type: "text";
}
/**
 * An image in a person's message.
 */
export interface HistoryImage {
  /**
   * The image's bytes or address.
   */
  source: ImageSource;
  type: "image";
}
/**
 * The model's reasoning.
 */
export interface HistoryThinking {
  /**
   * The text.
   */
  thinking: string;
  type: "thinking";
}
/**
 * Actions.
 */
export interface HistoryActionStep {
  /**
   * The calls.
   */
  actionRequests: RequestedAction[];
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * When it times out (RFC 3339), while it is pending.
   */
  expires_at?: string;
  /**
   * The question, if a graph's node asked it.
   */
  interrupt?: GraphQuestion;
  /**
   * Whether it is resolved.
   */
  isResolved: boolean;
  /**
   * The kind of answer it needs; absent if it is a plain approval.
   */
  kind?: ActionKind;
  /**
   * How it was resolved; absent while it is pending.
   */
  resolution?: Resolution;
  /**
   * How they could be decided.
   */
  reviewConfigs: ReviewConfig[];
  /**
   * The graph's step whose outcome is unknown, if the request is about a step and not a call.
   */
  step?: GraphStep;
  /**
   * The decisions, one for each call.
   */
  submittedDecisions?: Decision[];
  /**
   * The answer to the question.
   */
  submittedResume?: JsonValue;
  type: "approval_request";
}
/**
 * Questions.
 */
export interface HistoryQuestionStep {
  /**
   * One call of `ask_user_question`.
   */
  actionRequests: HistoryQuestionAction[];
  /**
   * Its key, while it is pending.
   */
  approval_key?: string;
  /**
   * Its permanent identity, while it is pending.
   */
  digest?: string;
  /**
   * When it times out (RFC 3339), while it is pending.
   */
  expires_at?: string;
  /**
   * Whether it is resolved.
   */
  isResolved: boolean;
  /**
   * How it was resolved, if not by answers; `decided` means declined.
   */
  resolution?: Resolution;
  /**
   * The answers.
   */
  submittedAnswers?: Answers;
  /**
   * The reject that declined them.
   */
  submittedDecisions?: Decision[];
  type: "approval_request";
}
/**
 * A call of `ask_user_question` in history.
 */
export interface HistoryQuestionAction {
  /**
   * The questions and, once there are some, the answers.
   */
  args: HistoryQuestionArgs;
  /**
   * `ask_user_question`.
   */
  name: string;
}
/**
 * The questions and, once there are some, the answers.
 */
export interface HistoryQuestionArgs {
  /**
   * Question text → answer.
   */
  answers?: Answers;
  /**
   * As they were asked.
   */
  questions: Question[];
}
/**
 * One question.
 */
export interface Question {
  /**
   * A title above it.
   */
  header?: string;
  /**
   * Whether several options may be chosen.
   */
  multiSelect: boolean;
  /**
   * 1 to 20 options with different labels, plus the free-text option that the server adds.
   */
  options: Choice[];
  /**
   * The question itself; answers name it by this text.
   */
  question: string;
}
/**
 * An option of a question.
 */
export interface Choice {
  /**
   * More about it.
   */
  description?: string;
  /**
   * Whether the user writes the answer.
   */
  input?: boolean;
  /**
   * Its text; the answer if it is chosen.
   */
  label: string;
}
/**
 * A call in a history message.
 */
export interface HistoryCall {
  /**
   * The arguments the model gave; absent if they are not a JSON object.
   */
  args?: Args;
  /**
   * The call's id.
   */
  id: string;
  /**
   * The tool.
   */
  name: string;
  /**
   * What the call is for, in one line.
   */
  tool_content_message?: string;
}
/**
 * The body of `POST /v1/sessions/{session_id}/messages`.
 */
export interface PostMessage {
  /**
   * The agent that answers from now on.
   */
  agent?: string;
  /**
   * The text, or blocks of text and images.
   */
  content: Content;
  /**
   * What to do if the session is running or has pending requests.
   */
  on_pending?: OnPending;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * May repeat the session that the path names.
   */
  session_id?: string;
  /**
   * May be sent, as in the WebSocket's frame.
   */
  type?: MessageFrame;
}
/**
 * The body of `POST /v1/sessions/{session_id}/retry`; may be absent.
 */
export interface Retry {
  /**
   * How many more model calls the turn may make, where it has exhausted its limit: 1 to the number that its agent
   * allows for a turn.
   */
  more_calls?: number;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
}
/**
 * The state of a session, for inspection.
 */
export interface StateView {
  /**
   * The agent that answers.
   */
  agent: string;
  /**
   * When it was created (RFC 3339).
   */
  created_at: string;
  /**
   * Why its turn failed, if it did.
   */
  error?: RunError;
  /**
   * The session and the checkpoint from which it was forked, if any.
   */
  forked_from?: ForkedFrom;
  /**
   * Why its turn is on hold, if it is.
   */
  held?: HeldTurn;
  /**
   * The pending requests.
   */
  interruptions: Request[];
  /**
   * The language of the server's own texts.
   */
  locale: Locale;
  /**
   * The nodes it is at: of the agent's loop, or of a graph.
   */
  nodes: string[];
  /**
   * The pending approval keys.
   */
  pending: string[];
  /**
   * The `seq` of the last event.
   */
  seq: number;
  /**
   * Its id.
   */
  session_id: string;
  /**
   * Its status.
   */
  status: Status;
  /**
   * Its owner.
   */
  subject?: string;
  /**
   * The title that its owner gave it, or the beginning of its first message.
   */
  title?: string;
  /**
   * The agent's to-do list.
   */
  todos: Todo[];
  /**
   * Model calls of the current turn.
   */
  turn_calls: number;
  /**
   * Turns so far.
   */
  turns: number;
  /**
   * When it last changed (RFC 3339).
   */
  updated_at: string;
  /**
   * Tokens so far.
   */
  usage: Usage;
  /**
   * The state of the graph that the session runs, as JSON, with all finished rounds. Absent for agents' sessions,
   * and if the program does not have the graph.
   */
  values?: JsonValue;
}
/**
 * One thing to do.
 */
export interface Todo {
  /**
   * What is to be done.
   */
  content: string;
  /**
   * Its progress.
   */
  status: TodoStatus;
}
/**
 * Tokens of one model call, or of a session.
 */
export interface Usage {
  /**
   * How many of the tokens read came from the provider's cache.
   */
  cached_input_tokens?: number;
  /**
   * Tokens read.
   */
  input_tokens: number;
  /**
   * Tokens written.
   */
  output_tokens: number;
  /**
   * How many of the tokens written were reasoning, where the provider says so.
   */
  reasoning_tokens?: number;
}
/**
 * The body of `POST /v1/sessions/{session_id}/state`.
 */
export interface EditState {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The update, a JSON object as a node would return it: the fields, and for those with a reducer `{"add": …}` or
   * `{"replace": …}`.
   */
  update: JsonValue;
}
/**
 * Who is notified.
 */
export interface WebhookList {
  /**
   * Where the next page begins; null on the last, which for now is the first.
   */
  next_cursor: string | null;
  /**
   * The webhooks.
   */
  webhooks: WebhookView[];
}
/**
 * A webhook.
 */
export interface WebhookView {
  /**
   * The number of the last audit record that was handled; absent before the first.
   */
  cursor?: number;
  /**
   * How many were not delivered, and will not be retried.
   */
  dead: number;
  /**
   * The types of the messages it gets.
   */
  events: string[];
  /**
   * The form of its messages: `standard`, `slack`, `teams`, `feishu` or `email`.
   */
  format: string;
  /**
   * The host that messages go to.
   */
  host: string;
  /**
   * The failed message that was attempted last.
   */
  last_failed?: FailedMessage;
  /**
   * Its name.
   */
  name: string;
  /**
   * `active`; or `gone`: the receiver asked for no more messages, so nothing is sent until a server starts.
   */
  status: string;
  /**
   * It gets only messages about this tenant's sessions.
   */
  tenant?: string;
  /**
   * How many messages were not delivered, and will be retried.
   */
  waiting: number;
}
/**
 * A message that did not arrive.
 */
export interface FailedMessage {
  /**
   * How many attempts there were.
   */
  attempts: number;
  /**
   * Why it did not arrive then.
   */
  message: string;
  /**
   * The number of its record in the audit log.
   */
  n: number;
  /**
   * When the next attempt is; absent if there is none.
   */
  next_at?: string;
  /**
   * When the last attempt was.
   */
  tried_at: string;
}
/**
 * Messages that did not arrive.
 */
export interface FailedMessages {
  /**
   * The messages.
   */
  failed: FailedMessage[];
  /**
   * The cursor of the next page; null on the last.
   */
  next_cursor: string | null;
}
/**
 * A body without members.
 */
export interface Nothing {}
/**
 * How many messages are sent again.
 */
export interface Retried {
  /**
   * How many.
   */
  retried: number;
}
/**
 * How many messages were dropped.
 */
export interface Forgotten {
  /**
   * How many of them had not arrived.
   */
  dropped: number;
}
/**
 * The outcome of a test.
 */
export interface Tested {
  /**
   * Whether it arrived.
   */
  delivered: boolean;
  /**
   * Why not.
   */
  message?: string;
}

/** How each operation is asked for. */
export const OPERATIONS = {
  asyncapi: { method: "GET", path: "/asyncapi.json" },
  healthz: { method: "GET", path: "/healthz" },
  metrics: { method: "GET", path: "/metrics" },
  openapi: { method: "GET", path: "/openapi.json" },
  readyz: { method: "GET", path: "/readyz" },
  listAgents: { method: "GET", path: "/v1/agents" },
  getAgentGraph: { method: "GET", path: "/v1/agents/{name}/graph" },
  listApprovals: { method: "GET", path: "/v1/approvals" },
  getApproval: { method: "GET", path: "/v1/approvals/{approval_key}" },
  decideApproval: { method: "POST", path: "/v1/approvals/{approval_key}" },
  commentApproval: { method: "POST", path: "/v1/approvals/{approval_key}/comments" },
  previewEdit: { method: "POST", path: "/v1/approvals/{approval_key}/preview" },
  reassignApproval: { method: "POST", path: "/v1/approvals/{approval_key}/reassign" },
  readAudit: { method: "GET", path: "/v1/audit" },
  verifyAudit: { method: "GET", path: "/v1/audit/verify" },
  listGraphs: { method: "GET", path: "/v1/graphs" },
  getGraph: { method: "GET", path: "/v1/graphs/{name}/graph" },
  startRun: { method: "POST", path: "/v1/graphs/{name}/runs" },
  getPolicy: { method: "GET", path: "/v1/policy" },
  listRules: { method: "GET", path: "/v1/rules" },
  revokeRule: { method: "DELETE", path: "/v1/rules/{rule_id}" },
  listSessions: { method: "GET", path: "/v1/sessions" },
  createSession: { method: "POST", path: "/v1/sessions" },
  deleteSession: { method: "DELETE", path: "/v1/sessions/{session_id}" },
  getSession: { method: "GET", path: "/v1/sessions/{session_id}" },
  changeSession: { method: "PATCH", path: "/v1/sessions/{session_id}" },
  cancelTurn: { method: "POST", path: "/v1/sessions/{session_id}/cancel" },
  listCheckpoints: { method: "GET", path: "/v1/sessions/{session_id}/checkpoints" },
  followSession: { method: "GET", path: "/v1/sessions/{session_id}/events" },
  forkSession: { method: "POST", path: "/v1/sessions/{session_id}/fork" },
  getSessionGraph: { method: "GET", path: "/v1/sessions/{session_id}/graph" },
  readHistory: { method: "GET", path: "/v1/sessions/{session_id}/history" },
  sendMessage: { method: "POST", path: "/v1/sessions/{session_id}/messages" },
  retrySession: { method: "POST", path: "/v1/sessions/{session_id}/retry" },
  getState: { method: "GET", path: "/v1/sessions/{session_id}/state" },
  editState: { method: "POST", path: "/v1/sessions/{session_id}/state" },
  listWebhooks: { method: "GET", path: "/v1/webhooks" },
  listFailedMessages: { method: "GET", path: "/v1/webhooks/{name}/failed" },
  retryFailedMessage: { method: "POST", path: "/v1/webhooks/{name}/failed/{n}/retry" },
  forgetWebhook: { method: "POST", path: "/v1/webhooks/{name}/forget" },
  retryFailedMessages: { method: "POST", path: "/v1/webhooks/{name}/retry" },
  testWebhook: { method: "POST", path: "/v1/webhooks/{name}/test" },
  connect: { method: "GET", path: "/v1/ws" },
  wireSchema: { method: "GET", path: "/wire.schema.json" },
} as const satisfies { [K in keyof Operations]: object };
