// Generated from docs/wire.schema.json by `npm run generate`. Not to be edited.

import type { JsonObject, JsonValue } from "../json.js";

/**
 * A message from a client. The JSON object's `type` names the variant.
 */
export type ClientMessage =
  | MessageCommand
  | ApprovalCommand
  | CommentCommand
  | ReassignCommand
  | SubscribeCommand
  | UnsubscribeCommand
  | CancelCommand
  | PingCommand;
/**
 * The content of a message.
 */
export type Content = string | InputBlock[];
/**
 * A content block from a client.
 */
export type InputBlock = InputText | InputImage;
/**
 * An image's bytes or address.
 */
export type ImageSourceInput = ImageSourceInputBase64Source | ImageSourceInputUrlSource;
/**
 * The types of images that models take.
 * - `image/png`: PNG
 * - `image/jpeg`: JPEG
 * - `image/gif`: GIF
 * - `image/webp`: WebP
 */
export type MediaType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";
/**
 * What a message does to a session that is running or has pending requests.
 * - `reject`: Reject what is pending, with the message as the reason.
 * - `queue`: Queue the message.
 */
export type OnPending = "reject" | "queue";
/**
 * One reviewer's decision on one action.
 *
 * `{"type":"approve"}`, `{"type":"reject","message"?}`, `{"type":"edit","edited_action":{name,args}}`,
 * `{"type":"defer"}` or `{"type":"respond","output"}`; with `always` on approve and reject, and
 * `args_digest` and `digest` on any.
 */
export type Decision = ApproveDecision | RejectDecision | EditDecision | DeferDecision | RespondDecision;
/**
 * The written form of "always".
 */
export type Always = boolean | WrittenScope;
export type WrittenScope = SessionScope | ArgumentsScope | ToolScope;
/**
 * The arguments of a tool call.
 */
export type Args = JsonObject;
/**
 * A frame from the server that belongs to the connection.
 */
export type ConnectionEvent = HelloEvent | AckEvent | ErrorEvent | PongEvent;
/**
 * The machine-readable reason of a refusal, the same on WebSocket and HTTP.
 * - `bad_json`: The frame or body is not JSON, or not strict JSON.
 * - `unknown_type`: The message's `type` is not known.
 * - `invalid_message`: A field is missing, of the wrong type or out of bounds.
 * - `invalid_session_id`: The session id is not `[A-Za-z0-9._-]{1,128}`, or is `.` or `..`.
 * - `session_not_found`: No session with that id, or not yours; also where a new session was to have it.
 * - `session_deleted`: The session with this id was deleted. Its id is never reused.
 * - `session_exists`: A fork's id is that of another session, which you may see.
 * - `unknown_agent`: No agent with that name.
 * - `nothing_to_cancel`: `cancel` while no turn is active.
 * - `nothing_to_retry`: Nothing in the session has failed.
 * - `max_turns`: The turn has used up its model calls, and the retry adds none.
 * - `unknown_graph`: There is no such graph.
 * - `invalid_resume`: The answer does not fit the question's schema.
 * - `resume_required`: A node of a graph, or a call of a tool, waits for a value, not for decisions or answers.
 * - `images_not_supported`: The message has an image that the model reading it does not take.
 * - `approval_pending`: A message while a request is pending.
 * - `session_busy`: A message while a turn is running; or a run, or a change of its state, while a run is going on.
 * - `session_full`: The session has reached the largest size allowed.
 * - `queue_full`: The session's queue of messages is full.
 * - `too_many_followed`: The connection follows the largest number of sessions allowed.
 * - `request_id_reused`: The `request_id` was used in this session for something else.
 * - `approval_not_found`: No approval request with that key, or not yours.
 * - `rule_not_found`: No standing rule with that id, or not yours.
 * - `webhook_not_found`: No webhook with that name, or not yours; or no failed message with that number.
 * - `approval_already_resolved`: Another person, or the deadline, was first.
 * - `decisions_mismatch`: The decisions cannot be matched with the actions.
 * - `answers_required`: `decisions`, or `resume`, where `answers` are needed.
 * - `decisions_required`: `answers` where `decisions` are needed; `resume` about a call or step whose outcome is unknown.
 * - `invalid_answers`: The answers do not fit the questions.
 * - `decision_not_allowed`: The decision is not one of the action's `allowed_decisions`.
 * - `invalid_edit`: The edited arguments do not fit the tool's schema, or the other tool may not be chosen.
 * - `stale_action`: The `digest` or `args_digest` is not that of the pending request.
 * - `unresolvable`: What was approved or forked cannot run: its agent or its tool no longer exists or cannot be reached.
 * - `unauthenticated`: The caller is not authenticated.
 * - `forbidden`: The caller may not do this.
 * - `not_found`: There is nothing at this path.
 * - `method_not_allowed`: The resource does not support the HTTP method.
 * - `too_busy`: Too many of this person's requests that read a whole session, or preview an edit, are queued already.
 * - `too_large`: The frame or body is too large.
 * - `request_timeout`: The body of a request did not arrive in time.
 * - `unsupported_media_type`: The body of a request is not declared as JSON in UTF-8.
 * - `store_unavailable`: The store could not be written or read; nothing happened.
 * - `outcome_unknown`: The store did not say whether this was stored.
 * - `newer_version_required`: A newer version has stored something in the session that this one does not know; nothing happened.
 * - `shutting_down`: The server is shutting down, and starts nothing new.
 * - `store_closed`: The store was closed after a disk error, or because its database went back to an earlier state; requests in
 * progress may or may not be stored.
 * - `internal`: A fault in the server; nothing is acknowledged.
 */
export type Code =
  | "bad_json"
  | "unknown_type"
  | "invalid_message"
  | "invalid_session_id"
  | "session_not_found"
  | "session_deleted"
  | "session_exists"
  | "unknown_agent"
  | "nothing_to_cancel"
  | "nothing_to_retry"
  | "max_turns"
  | "unknown_graph"
  | "invalid_resume"
  | "resume_required"
  | "images_not_supported"
  | "approval_pending"
  | "session_busy"
  | "session_full"
  | "queue_full"
  | "too_many_followed"
  | "request_id_reused"
  | "approval_not_found"
  | "rule_not_found"
  | "webhook_not_found"
  | "approval_already_resolved"
  | "decisions_mismatch"
  | "answers_required"
  | "decisions_required"
  | "invalid_answers"
  | "decision_not_allowed"
  | "invalid_edit"
  | "stale_action"
  | "unresolvable"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "too_busy"
  | "too_large"
  | "request_timeout"
  | "unsupported_media_type"
  | "store_unavailable"
  | "outcome_unknown"
  | "newer_version_required"
  | "shutting_down"
  | "store_closed"
  | "internal"
  | (string & {});
/**
 * A frame from the server that belongs to a session.
 */
export type SessionEvent =
  | MessageStartEvent
  | ContentBlockStartEvent
  | ContentBlockDeltaEvent
  | ContentBlockStopEvent
  | ContentReplacedEvent
  | GroupStartEvent
  | GroupEndEvent
  | RunStatusEvent
  | ApprovalResolvedEvent
  | ApprovalUpdatedEvent
  | MessageStopEvent;
/**
 * The author's role in a message.
 * - `user`: A person.
 * - `assistant`: The agent.
 */
export type Role = "user" | "assistant" | (string & {});
/**
 * A content block, as its start shows it.
 */
export type ContentBlock =
  | TextBlock
  | ImageBlock
  | ThinkingBlock
  | ToolUseBlock
  | ToolResultBlock
  | ApprovalRequestBlock
  | ApprovalResultBlock
  | ApprovalTimeoutBlock;
/**
 * An image's bytes or address.
 */
export type ImageSource = Base64Source | UrlSource;
/**
 * How a call ended, in the wire's terms.
 * - `success`: It ran, or a person supplied its result.
 * - `error`: It failed, or could not be started.
 * - `rejected`: A person, a standing rule or a deadline refused it.
 */
export type CallStatus = "success" | "error" | "rejected" | (string & {});
/**
 * An approval request, or questions.
 */
export type ApprovalRequestBlock = ActionRequestBlock | QuestionRequestBlock;
/**
 * Kinds of warnings.
 * - `invisible`: Drawn as nothing, or as the same box as others.
 * - `bidirectional`: Changes the order in which characters are drawn; or a line with text in both directions, which reads in
 * another order than it is stored.
 * - `control`: A control character other than a line feed or a tab.
 * - `confusable`: Drawn like another character.
 * - `whitespace`: A space of another width, a long run of spaces, or trailing spaces.
 * - `not_normalized`: Has another spelling that is drawn the same, or marks drawn over each other.
 */
export type WarningKind =
  "invisible" | "bidirectional" | "control" | "confusable" | "whitespace" | "not_normalized" | (string & {});
/**
 * The format of a preview.
 * - `diff`: A unified diff of files.
 * - `text`: A text.
 * - `failed`: Why there is no preview.
 */
export type PreviewKind = "diff" | "text" | "failed" | (string & {});
/**
 * The kinds of requests that have actions.
 */
export type ActionKind = "approval" | "in_doubt" | "interrupt" | "input" | (string & {});
/**
 * What a reviewer may do with a pending call.
 * - `approve`: Run it with the arguments shown.
 * - `reject`: Do not run it; the model gets a rejection.
 * - `edit`: Run it with other arguments.
 * - `respond`: Do not run it; the person supplies its result.
 * - `defer`: Leave it pending under a new approval key.
 */
export type AllowedDecision = "approve" | "reject" | "edit" | "respond" | "defer" | (string & {});
/**
 * How much is at stake, in the operator's judgement. Reviewers see it; nothing follows from it.
 * - `low`: Little.
 * - `medium`: Something.
 * - `high`: Much.
 */
export type Risk = "low" | "medium" | "high" | (string & {});
/**
 * An addition to a block.
 */
export type Delta = TypedDelta | ResultDelta | DecisionsDelta | ResumeDelta | QuestionDelta;
/**
 * The deltas that carry a `type`.
 */
export type TypedDelta = TextDelta | ThinkingDelta | InputJsonDelta;
/**
 * Why a turn is on hold.
 * - `fork`: It was forked, and has not been continued yet.
 * - `crashes`: The server ended in the middle of it, several times in a row.
 * - `restored`: The store was restored from a backup: what happened after the backup is not known here, and may have run.
 */
export type Held = "fork" | "crashes" | "restored" | (string & {});
/**
 * A session's status.
 * - `idle`: No turn has begun.
 * - `running`: A turn is running.
 * - `awaiting_input`: A turn is paused: a person must decide or answer.
 * - `completed`: The last turn ended normally.
 * - `failed`: The last turn failed.
 * - `cancelled`: The last turn was cancelled.
 */
export type Status = "idle" | "running" | "awaiting_input" | "completed" | "failed" | "cancelled" | (string & {});
/**
 * Why an interruption ended without an answer.
 * - `turn_ended`: Its turn ended: it was cancelled, or given up.
 * - `taken_back`: The tool withdrew its question: it no longer waits for an answer, and its call continues with the question's
 * default.
 * - `state_edited`: A person changed the state of the graph that asked. The graph asks again, about the new state.
 * - `call_ended`: Its call, or the agent that works for a call, has ended in another way.
 * - `node_ended`: Its node has ended in another way, or has failed.
 */
export type Withdrawal = "turn_ended" | "taken_back" | "state_edited" | "call_ended" | "node_ended" | (string & {});
/**
 * How an approval request ended.
 * - `decided`: A person decided.
 * - `timeout`: The deadline expired first.
 * - `cancelled`: It was withdrawn without a decision or an answer; `reason` says why.
 */
export type Resolution = "decided" | "timeout" | "cancelled" | (string & {});
/**
 * A comment on, or a change to, an approval request that stays pending.
 */
export type ApprovalUpdatedEvent = CommentUpdate | ReassignedUpdate | ReminderUpdate | ApprovedUpdate;
/**
 * Why a message ended.
 * - `end_turn`: Normally.
 * - `cancelled`: Cancelled.
 * - `error`: Something failed.
 * - `max_turns`: The turn used up its model calls.
 * - `max_tokens`: The last answer reached its token limit: it is incomplete.
 * - `refusal`: The model refused to answer, or to continue.
 * - `content_filter`: The provider's filter stopped the last answer: it is incomplete.
 * - `incomplete`: The provider stopped the last answer early without another reason: it is incomplete.
 */
export type StopReason =
  | "end_turn"
  | "cancelled"
  | "error"
  | "max_turns"
  | "max_tokens"
  | "refusal"
  | "content_filter"
  | "incomplete"
  | (string & {});
/**
 * What a reviewer may do with a pending call.
 * - `approve`: Run it with the arguments shown.
 * - `reject`: Do not run it; the model gets a rejection.
 * - `edit`: Run it with other arguments.
 * - `respond`: Do not run it; the person supplies its result.
 * - `defer`: Leave it pending under a new approval key.
 */
export type DecisionType = "approve" | "reject" | "edit" | "respond" | "defer";

/**
 * The frames of the WebSocket protocol countersign.v1, by direction.
 */
export interface CountersignV1 {
  client?: ClientMessage;
  connection_event?: ConnectionEvent;
  session_event?: SessionEvent;
}
/**
 * Starts a turn.
 */
export interface MessageCommand {
  /**
   * The agent that answers from now on; the default agent if the session is new.
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
   * The session, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; created if it is unknown, with an id from the server if
   * absent.
   */
  session_id?: string;
  type: "message";
}
/**
 * Text.
 */
export interface InputText {
  /**
   * The text.
   */
  text: string;
  type: "text";
}
/**
 * An image, for a model that takes images.
 */
export interface InputImage {
  /**
   * The image's bytes or address.
   */
  source: ImageSourceInput;
  type: "image";
}
/**
 * Inline.
 */
export interface ImageSourceInputBase64Source {
  /**
   * The bytes in standard Base64, with padding and without line breaks.
   */
  data: string;
  /**
   * Their type, which their first bytes must match.
   */
  media_type: MediaType;
  type: "base64";
}
/**
 * At an address, from which the model's provider fetches them. This server never does.
 */
export interface ImageSourceInputUrlSource {
  type: "url";
  /**
   * An http or https URL without a password.
   */
  url: string;
}
/**
 * Decides or answers a pending request.
 */
export interface ApprovalCommand {
  /**
   * For questions: question text → answer.
   */
  answers?: {
    [k: string]: string | string[];
  };
  /**
   * The key of the approval request.
   */
  approval_key: string;
  /**
   * For actions: one decision for each; missing ones take the first.
   */
  decisions?: Decision[];
  /**
   * The `digest` of one of the actions, or of the questions, that were shown; refused as `stale_action` if the
   * pending request has another.
   */
  digest?: string;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * For a question of a graph's node: its answer, any JSON value; `null` is one too. For actions: "yes" or "no", for
   * all of them.
   */
  resume?: JsonValue;
  /**
   * The session.
   */
  session_id: string;
  type: "approval";
  /**
   * The reviewer's message, shown in history and passed to the model; refused beside a reply to a node of a graph.
   */
  user_edit_content?: string;
}
export interface ApproveDecision {
  type: "approve";
  /**
   * For `approve` and `reject`: also for later calls of this tool by this agent, as a rule that is listed and can be
   * revoked.
   */
  always?: Always;
  /**
   * The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
   */
  digest?: string;
  /**
   * The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
   */
  args_digest?: string;
}
/**
 * Later calls of this tool by this agent in this session.
 */
export interface SessionScope {
  scope: "session";
}
/**
 * Later calls with the same arguments, in all sessions of this user.
 */
export interface ArgumentsScope {
  scope: "arguments";
  /**
   * RFC 3339.
   */
  until?: string;
}
/**
 * Later calls of this tool by this agent, in all sessions of this user.
 */
export interface ToolScope {
  scope: "tool";
  /**
   * RFC 3339.
   */
  until: string;
}
export interface RejectDecision {
  type: "reject";
  /**
   * For `reject`: the message to the model instead of the default text.
   */
  message?: string;
  /**
   * For `approve` and `reject`: also for later calls of this tool by this agent, as a rule that is listed and can be
   * revoked.
   */
  always?: Always;
  /**
   * The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
   */
  digest?: string;
  /**
   * The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
   */
  args_digest?: string;
}
export interface EditDecision {
  type: "edit";
  /**
   * For `edit`: the call that runs instead.
   */
  edited_action: EditedAction;
  /**
   * The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
   */
  digest?: string;
  /**
   * The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
   */
  args_digest?: string;
}
/**
 * The call that runs instead of the proposed one.
 */
export interface EditedAction {
  /**
   * Its complete arguments.
   */
  args: Args;
  /**
   * The tool; usually the same.
   */
  name: string;
}
export interface DeferDecision {
  type: "defer";
  /**
   * The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
   */
  digest?: string;
  /**
   * The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
   */
  args_digest?: string;
}
export interface RespondDecision {
  type: "respond";
  /**
   * For `respond`: the call's result.
   */
  output: string;
  /**
   * The `digest` of the action that was shown; refused as `stale_action` if the pending action has another.
   */
  digest?: string;
  /**
   * The digest of the arguments that were shown; refused as `stale_action` if the pending arguments differ.
   */
  args_digest?: string;
}
/**
 * Comments on a pending request, for the other people.
 */
export interface CommentCommand {
  /**
   * The key of the approval request.
   */
  approval_key: string;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The comment; at most 4 KiB. The model does not read it.
   */
  text: string;
  type: "comment";
}
/**
 * Reassigns a pending request.
 */
export interface ReassignCommand {
  /**
   * The key of the approval request.
   */
  approval_key: string;
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The role whose holders decide it from now on: one of the action's `reassign`, or the current one.
   */
  role?: string;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The only person who decides it, who must hold the role too; absent: any holder of the role.
   */
  subject?: string;
  /**
   * Why.
   */
  text?: string;
  type: "reassign";
}
/**
 * Follows a session.
 */
export interface SubscribeCommand {
  /**
   * Replay events after this `seq`; 0: from the start; absent: only new events.
   */
  after?: number;
  /**
   * In place of `after`: replay the end of the session, from the start of the newest turn with at least this many
   * messages from there on; 1 to 1000. The `seq` of the first event tells where the replay begins.
   */
  last?: number;
  /**
   * Echoed if it is refused.
   */
  request_id?: string;
  /**
   * The session.
   */
  session_id: string;
  type: "subscribe";
}
/**
 * Stops following a session.
 */
export interface UnsubscribeCommand {
  /**
   * Echoed if it is refused; nothing else answers it.
   */
  request_id?: string;
  /**
   * The session.
   */
  session_id: string;
  type: "unsubscribe";
}
/**
 * Stops the turn.
 */
export interface CancelCommand {
  /**
   * Makes a retry of the request safe.
   */
  request_id?: string;
  /**
   * The session.
   */
  session_id: string;
  type: "cancel";
}
/**
 * Asks for a `pong`.
 */
export interface PingCommand {
  type: "ping";
}
/**
 * The first frame. It is sent again when the person's roles, tenant or kind have changed.
 */
export interface HelloEvent {
  /**
   * How often the server pings an idle connection, in seconds.
   */
  heartbeat_seconds: number;
  /**
   * The id of the server's event history. If it differs from that of an earlier connection, the store was
   * restored from a backup or replaced, and a `seq` may name another event: read every session again from the
   * start.
   */
  history_id?: string;
  /**
   * `countersign.v1`.
   */
  protocol: string;
  /**
   * The roles it holds now.
   */
  roles?: string[];
  /**
   * Name and version of the server.
   */
  server: string;
  /**
   * The subject of the connection; absent where the server does not authenticate.
   */
  subject?: string;
  /**
   * Its tenant, if it has one: the same name in another tenant is a different person.
   */
  tenant?: string;
  type: "hello";
}
/**
 * The message, decision, comment, reassignment or cancel is stored durably.
 */
export interface AckEvent {
  /**
   * Echoed.
   */
  request_id?: string;
  /**
   * The session, also when the server generated its id.
   */
  session_id: string;
  type: "ack";
}
/**
 * A request was refused, or failed. Nothing changed, except as the code says: `outcome_unknown`, `store_closed`.
 */
export interface ErrorEvent {
  /**
   * The key of the approval request it was about.
   */
  approval_key?: string;
  /**
   * The stable code.
   */
  code: Code;
  /**
   * More detail for programs.
   */
  details?: JsonObject;
  /**
   * What is wrong and how to correct it.
   */
  message: string;
  /**
   * Echoed.
   */
  request_id?: string;
  /**
   * The session it was about.
   */
  session_id?: string;
  type: "error";
}
/**
 * The answer to `ping`.
 */
export interface PongEvent {
  type: "pong";
}
/**
 * A message begins. A turn has one assistant message, which stays open through pauses.
 */
export interface MessageStartEvent {
  /**
   * Who wrote it, if known by name: the owner, or a reviewer who commented on a decision.
   */
  by?: string;
  /**
   * Unique in the session.
   */
  message_id: string;
  /**
   * The author's role.
   */
  role: Role;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "message_start";
}
/**
 * A block begins, or begins again if the index is open.
 */
export interface ContentBlockStartEvent {
  /**
   * The block.
   */
  content_block: ContentBlock;
  /**
   * 0, 1, 2 … within the message.
   */
  index: number;
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "content_block_start";
}
/**
 * Text.
 */
export interface TextBlock {
  type: "text";
}
/**
 * An image in a person's message. It is complete: no delta follows.
 */
export interface ImageBlock {
  /**
   * The image's bytes or address.
   */
  source: ImageSource;
  type: "image";
}
/**
 * Inline.
 */
export interface Base64Source {
  /**
   * The bytes in standard Base64, with padding and without line breaks.
   */
  data: string;
  /**
   * Their type, which their first bytes must match.
   */
  media_type: MediaType;
  type: "base64";
}
/**
 * At an address, from which the model's provider fetches them. This server never does.
 */
export interface UrlSource {
  type: "url";
  /**
   * An http or https URL without a password.
   */
  url: string;
}
/**
 * The model's reasoning.
 */
export interface ThinkingBlock {
  type: "thinking";
}
/**
 * A tool call.
 */
export interface ToolUseBlock {
  /**
   * The call's id.
   */
  id: string;
  /**
   * The tool.
   */
  name: string;
  type: "tool_use";
}
/**
 * A call's result.
 */
export interface ToolResultBlock {
  /**
   * The tool.
   */
  name: string;
  /**
   * How it ended.
   */
  status: CallStatus;
  /**
   * The call's id.
   */
  tool_use_id: string;
  type: "tool_result";
}
/**
 * Of actions: complete.
 */
export interface ActionRequestBlock {
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
  type: "approval_request";
}
/**
 * A pending call.
 */
export interface RequestedAction {
  /**
   * The agent that proposed it.
   */
  agent: string;
  /**
   * What the model says the call is for, in one line, with the escapes of `display`. Unverified.
   */
  agent_says?: string;
  /**
   * The arguments, exactly those that will run.
   */
  args: Args;
  /**
   * Lower-case hexadecimal SHA-256 of the canonical arguments.
   */
  args_digest: string;
  /**
   * The tool's own description.
   */
  description?: string;
  /**
   * Lower-case hexadecimal SHA-256 of the whole request about this call, its permanent identity: session, call,
   * agent, tool, arguments, schema and what is shown.
   */
  digest: string;
  /**
   * The arguments as a reviewer sees them. Derived from `args` each time, never stored.
   */
  display: Shown;
  /**
   * The call's id in the session.
   */
  id: string;
  /**
   * The tool.
   */
  name: string;
  /**
   * The calls that led to it through nested agents, from the session's own agent down; empty for that agent's own
   * calls.
   */
  path?: PathStep[];
  /**
   * A preview of the call's effect, created with the call: a diff of files, or command lines.
   */
  preview?: ShownPreview;
  /**
   * The MCP server that provides the tool, under the name it has here; the description comes from that server.
   */
  server?: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
}
/**
 * A call's arguments as reviewers see them, the same on every screen.
 */
export interface Shown {
  /**
   * Bytes of the canonical arguments, those that will run.
   */
  bytes: number;
  /**
   * Lower-case hexadecimal SHA-256 of `text`.
   */
  digest: string;
  /**
   * The whole arguments, for a fixed-width font, its spaces and line ends kept.
   */
  text: string;
  /**
   * Where the text has escapes that a reviewer should know of; at most 100.
   */
  warnings: Warning[];
}
/**
 * Something unusual in one place of the arguments.
 */
export interface Warning {
  /**
   * How many characters; for a line with text in both directions, how many lines.
   */
  count: number;
  /**
   * What it is.
   */
  kind: WarningKind;
  /**
   * JSON pointer (RFC 6901) of the value or of the member with that name, with the same escapes. Empty: in other
   * places, too many to name each.
   */
  pointer: string;
}
/**
 * One step from a session's own agent down to a nested call.
 */
export interface PathStep {
  /**
   * The agent that made the call.
   */
  agent: string;
  /**
   * The tool, which is another agent.
   */
  tool: string;
  /**
   * The call's id as the model wrote it.
   */
  tool_use_id: string;
}
/**
 * The effect of a call as reviewers see it, the same on every screen. Derived from the record each time.
 */
export interface ShownPreview {
  /**
   * Its format.
   */
  kind: PreviewKind;
  /**
   * How many lines at the end are omitted.
   */
  left_out: number;
  /**
   * The text, for a fixed-width font, its spaces and line ends kept. A character that is drawn as nothing, in
   * another place, or like another one is written as `\\u{HEX}`.
   */
  text: string;
}
/**
 * The question of a graph's node.
 */
export interface GraphQuestion {
  /**
   * The question's name in its node.
   */
  name: string;
  /**
   * The node's path through the graphs it is in: `research/plan`.
   */
  node: string;
  /**
   * What is shown.
   */
  payload: JsonValue;
  /**
   * The JSON Schema that the answer must fit.
   */
  schema?: JsonObject;
}
/**
 * How a call may be decided.
 */
export interface ReviewConfig {
  /**
   * The tool.
   */
  action_name: string;
  /**
   * The decisions that are allowed.
   */
  allowed_decisions: AllowedDecision[];
  /**
   * The JSON Schema that an edit must fit.
   */
  args_schema?: JsonObject;
  /**
   * The current level, from 1, if there are several.
   */
  level?: number;
  /**
   * The roles of all levels, if there are several.
   */
  levels?: string[];
  /**
   * Whether its requesters may not approve it.
   */
  not_self?: boolean;
  /**
   * How many different people must approve it, if more than one.
   */
  quorum?: number;
  /**
   * The rule that requires approval.
   */
  reason?: string;
  /**
   * The roles it may be reassigned to.
   */
  reassign?: string[];
  /**
   * Always true.
   */
  require_approval: boolean;
  /**
   * How much is at stake, if the operator says so.
   */
  risk?: Risk;
  /**
   * The role that decides; absent: the session's owner.
   */
  role?: string;
  /**
   * Seconds until it is rejected without a decision; 0 for no limit.
   */
  timeout: number;
  /**
   * The call in one line, from the operator's template, with the escapes of `display`; absent for an edited call.
   */
  title?: string;
}
/**
 * A step of a node of a graph.
 */
export interface GraphStep {
  /**
   * The step's name in its node.
   */
  name: string;
  /**
   * The node's path through the graphs it is in: `research/plan`.
   */
  node: string;
}
/**
 * Of questions, which follow in a delta.
 */
export interface QuestionRequestBlock {
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
  type: "approval_request";
}
/**
 * The decisions on a request; they follow in a delta.
 */
export interface ApprovalResultBlock {
  /**
   * The key of the approval request.
   */
  approval_key: string;
  type: "approval_result";
}
/**
 * The deadline expired.
 */
export interface ApprovalTimeoutBlock {
  /**
   * The key of the approval request.
   */
  approval_key: string;
  /**
   * The roles it escalates to; absent if the pending actions are rejected.
   */
  escalated_to?: string[];
  type: "approval_timeout";
}
/**
 * More of the block.
 */
export interface ContentBlockDeltaEvent {
  /**
   * The addition.
   */
  delta: Delta;
  /**
   * The block's index.
   */
  index: number;
  /**
   * The message.
   */
  message_id: string;
  /**
   * The session.
   */
  session_id: string;
  type: "content_block_delta";
}
/**
 * More text.
 */
export interface TextDelta {
  /**
   * The text.
   */
  text: string;
  type: "text_delta";
}
/**
 * More thinking.
 */
export interface ThinkingDelta {
  /**
   * The text.
   */
  thinking: string;
  type: "thinking_delta";
}
/**
 * More of a call's arguments, as the model writes them.
 */
export interface InputJsonDelta {
  /**
   * A piece of JSON text.
   */
  partial_json: string;
  type: "input_json_delta";
}
/**
 * Of a result.
 */
export interface ResultDelta {
  /**
   * The result's text.
   */
  content: string;
}
/**
 * Of an `approval_result`.
 */
export interface DecisionsDelta {
  /**
   * The full set, filled in.
   */
  decisions: Decision[];
}
/**
 * Of the `approval_result` of a graph's question.
 */
export interface ResumeDelta {
  /**
   * The answer.
   */
  resume: JsonValue;
}
/**
 * The questions of an `approval_request`.
 */
export interface QuestionDelta {
  /**
   * One call of `ask_user_question`.
   */
  action_requests: QuestionAction[];
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
 * A call of `ask_user_question`.
 */
export interface QuestionAction {
  /**
   * The agent that asks, if it is nested; absent for the session's own.
   */
  agent?: string;
  /**
   * `{questions: […]}`.
   */
  args: Args;
  /**
   * `ask_user_question`.
   */
  name: string;
  /**
   * The calls that led to it through nested agents, from the session's own agent down; absent for that agent's own
   * questions.
   */
  path?: PathStep[];
}
/**
 * The review options of a question. Only answers, or one reject, are accepted.
 */
export interface QuestionReview {
  /**
   * `ask_user_question`.
   */
  action_name: string;
  /**
   * `approve`, `edit`, `reject`.
   */
  allowed_decisions: AllowedDecision[];
}
/**
 * The block is complete.
 */
export interface ContentBlockStopEvent {
  /**
   * The block's index.
   */
  index: number;
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * For a `tool_use`: what the call is for, in one line.
   */
  tool_content_message?: string;
  type: "content_block_stop";
}
/**
 * These blocks belong to an answer that broke off: the model's new answer replaces them in the blocks that follow.
 * After a failed turn's retry these are in the next message, and this event comes before it.
 */
export interface ContentReplacedEvent {
  /**
   * The blocks' indexes.
   */
  indexes: number[];
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "content_replaced";
}
/**
 * Related blocks begin: thinking, calls, their results and approvals.
 */
export interface GroupStartEvent {
  /**
   * Unique in the session.
   */
  group_id: string;
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "group_start";
}
/**
 * The group is complete: what follows is outside it.
 */
export interface GroupEndEvent {
  /**
   * The group.
   */
  group_id: string;
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The newest `tool_content_message` of its calls, if any has one.
   */
  summary?: string;
  type: "group_end";
}
/**
 * The turn's status.
 */
export interface RunStatusEvent {
  /**
   * On `failed`: the reason.
   */
  error?: RunError;
  /**
   * On `running` and `awaiting_input`: the turn is on hold, and no part of it continues until somebody resumes
   * it.
   */
  held?: HeldTurn;
  /**
   * The approval keys that are pending.
   */
  pending: string[];
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * `running`, `awaiting_input`, `completed`, `failed` or `cancelled`.
   */
  status: Status;
  type: "run_status";
}
/**
 * Why a run failed.
 */
export interface RunError {
  /**
   * A stable code, such as `model_error` or `max_turns`.
   */
  code: string;
  /**
   * What failed.
   */
  message: string;
}
/**
 * Why a turn is on hold: a message, a decision or a retry resumes it; a cancel ends it.
 */
export interface HeldTurn {
  /**
   * The reason for people, with what resumes the turn.
   */
  message: string;
  /**
   * The reason.
   */
  reason: Held;
}
/**
 * An approval request was resolved or withdrawn.
 */
export interface ApprovalResolvedEvent {
  /**
   * The answers, if questions were answered.
   */
  answers?: Answers;
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * Who resolved it, if a person did.
   */
  by?: string;
  /**
   * The reject, if questions were declined. While the turn has failed: the decisions, since their block comes with
   * the retry.
   */
  decisions?: Decision[];
  /**
   * If it was `cancelled`: why.
   */
  reason?: Withdrawal;
  /**
   * How it ended.
   */
  resolution: Resolution;
  /**
   * While the turn has failed: the answer to a graph, or to a tool's question.
   */
  resume?: JsonValue;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "approval_resolved";
}
/**
 * Question text → answer text.
 */
export interface Answers {
  [k: string]: string;
}
/**
 * A comment for the other people.
 */
export interface CommentUpdate {
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * Who made it, if a person did.
   */
  by?: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * The comment.
   */
  text: string;
  type: "approval_updated";
  update: "comment";
}
/**
 * It was reassigned to another reviewer.
 */
export interface ReassignedUpdate {
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * Who made it, if a person did.
   */
  by?: string;
  /**
   * The holders of this role, in place of the previous reviewer.
   */
  role?: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * Only this person.
   */
  subject?: string;
  /**
   * Why.
   */
  text?: string;
  type: "approval_updated";
  update: "reassigned";
}
/**
 * It has been pending long enough for a reminder.
 */
export interface ReminderUpdate {
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * Who made it, if a person did.
   */
  by?: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "approval_updated";
  update: "reminder";
}
/**
 * One approval of a quorum; more are needed.
 */
export interface ApprovedUpdate {
  /**
   * Its key.
   */
  approval_key: string;
  /**
   * How many have approved.
   */
  approved: number;
  /**
   * Who made it, if a person did.
   */
  by?: string;
  /**
   * How many must approve.
   */
  quorum: number;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  type: "approval_updated";
  update: "approved";
}
/**
 * The message is complete.
 */
export interface MessageStopEvent {
  /**
   * The message.
   */
  message_id: string;
  /**
   * 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
   */
  seq: number;
  /**
   * The session.
   */
  session_id: string;
  /**
   * Why it ended.
   */
  stop_reason: StopReason;
  type: "message_stop";
}

/** All that a session can be doing. */
export const STATUSES = [
  "idle",
  "running",
  "awaiting_input",
  "completed",
  "failed",
  "cancelled"
] as const satisfies readonly Status[];

/** All codes of refusals. */
export const ERROR_CODES = [
  "bad_json",
  "unknown_type",
  "invalid_message",
  "invalid_session_id",
  "session_not_found",
  "session_deleted",
  "session_exists",
  "unknown_agent",
  "nothing_to_cancel",
  "nothing_to_retry",
  "max_turns",
  "unknown_graph",
  "invalid_resume",
  "resume_required",
  "images_not_supported",
  "approval_pending",
  "session_busy",
  "session_full",
  "queue_full",
  "too_many_followed",
  "request_id_reused",
  "approval_not_found",
  "rule_not_found",
  "webhook_not_found",
  "approval_already_resolved",
  "decisions_mismatch",
  "answers_required",
  "decisions_required",
  "invalid_answers",
  "decision_not_allowed",
  "invalid_edit",
  "stale_action",
  "unresolvable",
  "unauthenticated",
  "forbidden",
  "not_found",
  "method_not_allowed",
  "too_busy",
  "too_large",
  "request_timeout",
  "unsupported_media_type",
  "store_unavailable",
  "outcome_unknown",
  "newer_version_required",
  "shutting_down",
  "store_closed",
  "internal"
] as const satisfies readonly Code[];

/** The types of images that are accepted. */
export const IMAGE_TYPES = [
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp"
] as const satisfies readonly MediaType[];

/** All events of a session. */
export const SESSION_EVENTS = [
  "approval_resolved",
  "approval_updated",
  "content_block_delta",
  "content_block_start",
  "content_block_stop",
  "content_replaced",
  "group_end",
  "group_start",
  "message_start",
  "message_stop",
  "run_status"
] as const satisfies readonly SessionEvent["type"][];
