/**
 * The messages of the `countersign.v1` WebSocket protocol.
 *
 * Written by hand for now; a version generated from the server's JSON Schema will replace this file.
 */
import type { JsonObject, JsonValue } from "./json.js";

export const SUBPROTOCOL = "countersign.v1";

/** The close code of a connection whose token is valid no longer. */
export const UNAUTHENTICATED = 4401;

// ---------------------------------------------------------------- client → server

/** Start a turn. A session that does not exist yet is created under the given id. */
export interface MessageCommand {
  type: "message";
  session_id?: string;
  agent?: string;
  content: string | InputContent[];
  request_id?: string;
  /** What to do when something waits or a turn runs: reject what waits, or queue this message. */
  on_pending?: "reject" | "queue";
}

export interface TextContent {
  type: "text";
  text: string;
}

/** An image, for an agent whose model takes images. Refused with `images_not_supported` where it does not. */
export interface ImageContent {
  type: "image";
  source: ImageSource;
}

export type InputContent = TextContent | ImageContent;

/** The types of images that are accepted. */
export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/**
 * The bytes of an image, or an address from which the model's provider gets them. Do not load such an address by itself:
 * whoever wrote the message would learn who reads it.
 */
export type ImageSource = { type: "base64"; media_type: ImageType; data: string } | { type: "url"; url: string };

/** Decide the actions of one approval request, or answer one question request: and what a node of a graph asks: one of `decisions`, `answers` and `resume`. */
export interface ApprovalCommand {
  type: "approval";
  session_id: string;
  approval_key: string;
  /** For a question only a lone reject, which declines it. */
  decisions?: Decision[];
  /** Question → answer; several choices may be an array. What is left out has no preference. */
  answers?: Record<string, string | string[]>;
  /** The answer to what a node of a graph asks: any value, also `null`. For actions "yes" or "no", for all of them. */
  resume?: JsonValue;
  /** The digest of one of the actions, or of the questions: the server refuses this if something else was asked. */
  digest?: string;
  /** The reviewer's own words; the model reads them after the tool results. */
  user_edit_content?: string;
  request_id?: string;
}

/** Say something about what waits, to the other people. The model is not told. */
export interface CommentCommand {
  type: "comment";
  session_id: string;
  approval_key: string;
  /** At most 4 KiB. */
  text: string;
  request_id?: string;
}

/** Hand what waits to somebody else. */
export interface ReassignCommand {
  type: "reassign";
  session_id: string;
  approval_key: string;
  /** One of the action's `reassign`, or the role that decides already; absent: that role. */
  role?: string;
  /** Only this person, who must hold the role too; absent: whoever holds it. */
  subject?: string;
  /** Why. */
  text?: string;
  request_id?: string;
}

export interface SubscribeCommand {
  type: "subscribe";
  session_id: string;
  /** Replay what came after this `seq` (0: from the start), then go on live. */
  after?: number;
}

export interface UnsubscribeCommand {
  type: "unsubscribe";
  session_id: string;
}

/** Stop the turn; what waits is resolved as cancelled. */
export interface CancelCommand {
  type: "cancel";
  session_id: string;
  request_id?: string;
}

export interface PingCommand {
  type: "ping";
}

export type ClientCommand =
  | MessageCommand
  | ApprovalCommand
  | CommentCommand
  | ReassignCommand
  | SubscribeCommand
  | UnsubscribeCommand
  | CancelCommand
  | PingCommand;

// ---------------------------------------------------------------- questions

export const ASK_USER_QUESTION = "ask_user_question";

/** The answer to a question that was skipped. */
export const NO_PREFERENCE = "[No preference]";

/** Question → answer. Several choices are joined by `", "`. */
export type Answers = Record<string, string>;

export interface Question {
  question: string;
  header?: string;
  multiSelect: boolean;
  options: QuestionOption[];
}

export interface QuestionOption {
  label: string;
  description?: string;
  /** A person may write their own answer instead. */
  input?: boolean;
}

// ---------------------------------------------------------------- decisions

interface DecisionBase {
  /** Digest of the arguments that were shown; the server refuses the decision if they are not what waits. */
  args_digest?: string;
  /** `Action.digest` of what was shown; the server refuses the decision if that is not what waits. */
  digest?: string;
}

/**
 * How far a decision reaches: a rule is made of it, which decides later calls without asking.
 *
 * `true` and `session`: calls of this tool by this agent in this session. `arguments`: calls with exactly these
 * arguments, in all sessions of this user. `tool`: all calls of this tool by this agent, in all of them.
 * `until` is RFC 3339.
 */
export type Always =
  | boolean
  | { scope: "session" }
  | { scope: "arguments"; until?: string }
  | { scope: "tool"; until: string };

export type Decision = DecisionBase &
  (
    | { type: "approve"; always?: Always }
    | { type: "reject"; message?: string; always?: Always }
    | { type: "edit"; edited_action: { name: string; args: JsonValue } }
    | { type: "defer" }
    /** The call does not run; the person supplies its result. */
    | { type: "respond"; output: JsonValue }
  );

export type DecisionType = Decision["type"];

// ---------------------------------------------------------------- server → client

export interface HelloEvent {
  type: "hello";
  protocol: string;
  server: string;
  heartbeat_seconds: number;
  /** Who the connection speaks for; absent where nobody has to say who they are. */
  subject?: string;
  /** The roles it holds now. */
  roles?: string[];
}

/** The `message`, `approval` or `cancel` is stored durably. */
export interface AckEvent {
  type: "ack";
  request_id?: string;
  session_id: string;
}

export interface PongEvent {
  type: "pong";
}

export interface ErrorEvent {
  type: "error";
  code: string;
  message: string;
  request_id?: string;
  session_id?: string;
  approval_key?: string;
  details?: JsonObject;
}

interface SessionEventBase {
  session_id: string;
}

/** Everything but a delta is numbered 1, 2, 3 … without gaps for the session's whole life. */
interface NumberedEvent extends SessionEventBase {
  seq: number;
}

export interface MessageStartEvent extends NumberedEvent {
  type: "message_start";
  message_id: string;
  role: "user" | "assistant";
  /** Who wrote it, of a user's: the session's owner, or a reviewer who commented on a decision. */
  by?: string;
}

export interface ContentBlockStartEvent extends NumberedEvent {
  type: "content_block_start";
  message_id: string;
  index: number;
  content_block: ContentBlock;
}

/** A delta has no `seq`. */
export interface ContentBlockDeltaEvent extends SessionEventBase {
  type: "content_block_delta";
  message_id: string;
  index: number;
  delta: Delta;
}

export interface ContentBlockStopEvent extends NumberedEvent {
  type: "content_block_stop";
  message_id: string;
  index: number;
  /** Of a `tool_use`: what the call does, in words for people. */
  tool_content_message?: string;
}

/** The blocks that start until the group ends belong together: steps, which are shown folded away. */
export interface GroupStartEvent extends NumberedEvent {
  type: "group_start";
  message_id: string;
  group_id: string;
}

export interface GroupEndEvent extends NumberedEvent {
  type: "group_end";
  message_id: string;
  group_id: string;
  /** The newest `tool_content_message` of the group's calls; absent where no call has one. */
  summary?: string;
}

/** All that a session can be doing; `idle`: no turn has begun. A test compares them with the server's schema. */
export const STATUSES = ["idle", "running", "awaiting_input", "completed", "failed", "cancelled"] as const;
export type RunStatus = (typeof STATUSES)[number];

export interface RunStatusEvent extends NumberedEvent {
  type: "run_status";
  status: RunStatus;
  pending?: string[];
  error?: JsonValue;
}

export type Resolution = "decided" | "timeout" | "cancelled";

export interface ApprovalResolvedEvent extends NumberedEvent {
  type: "approval_resolved";
  approval_key: string;
  resolution: Resolution;
  /** Nobody, when time ran out. */
  by?: string | null;
  /** Of a question that was answered: all its answers. */
  answers?: Answers;
  /** Of a question that was declined: the reject, with its message if there is one. While the turn has failed: what was decided. */
  decisions?: Decision[];
  /** While the turn has failed: what a node of a graph, or a tool that asked, was answered; `null` is an answer. */
  resume?: JsonValue;
}

/** What can happen to a request that goes on waiting. */
export type ApprovalUpdate =
  | { update: "comment"; text: string }
  /** It is somebody else's to decide: holders of `role` in place of those who were asked, or only `subject`. */
  | { update: "reassigned"; role?: string; subject?: string; text?: string }
  /** It has waited for so long that it is said again. */
  | { update: "reminder" }
  /** One of the people who must approve did, and more must. */
  | { update: "approved"; approved: number; quorum: number };

export type ApprovalUpdatedEvent = NumberedEvent & {
  type: "approval_updated";
  approval_key: string;
  /** Who, if it was somebody. */
  by?: string;
} & ApprovalUpdate;

export interface MessageStopEvent extends NumberedEvent {
  type: "message_stop";
  message_id: string;
  stop_reason: StopReason;
}

/** The last four: the turn's last answer is not whole, and this is why. */
export type StopReason =
  | "end_turn"
  | "cancelled"
  | "error"
  | "max_turns"
  | "max_tokens"
  | "refusal"
  | "content_filter"
  | "incomplete";

/** These blocks are of an answer that broke off; the model says something else instead, in the blocks that come. */
export interface ContentReplacedEvent extends NumberedEvent {
  type: "content_replaced";
  message_id: string;
  indexes: number[];
}

/** An event that belongs to a session and is folded into its view. */
export type SessionEvent =
  | MessageStartEvent
  | ContentBlockStartEvent
  | ContentBlockDeltaEvent
  | ContentBlockStopEvent
  | GroupStartEvent
  | GroupEndEvent
  | RunStatusEvent
  | ApprovalResolvedEvent
  | ApprovalUpdatedEvent
  | ContentReplacedEvent
  | MessageStopEvent;

export type ServerEvent = HelloEvent | AckEvent | PongEvent | ErrorEvent | SessionEvent;

const SESSION_EVENTS: ReadonlySet<string> = new Set<SessionEvent["type"]>([
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "content_replaced",
  "group_start",
  "group_end",
  "run_status",
  "approval_resolved",
  "approval_updated",
  "message_stop",
]);

export function isSessionEvent(event: { type: string }): event is SessionEvent {
  return SESSION_EVENTS.has(event.type);
}

// ---------------------------------------------------------------- content blocks

export type ContentBlock =
  | { type: "text"; text?: string }
  /** Only in what a person said. It is whole: no delta follows. */
  | { type: "image"; source: ImageSource }
  | { type: "thinking"; thinking?: string }
  | { type: "tool_use"; id: string; name: string }
  | { type: "tool_result"; tool_use_id: string; name: string; status: ToolResultStatus; content?: string }
  | ApprovalRequestBlock
  | { type: "approval_result"; approval_key: string }
  /** `escalated_to`: the roles that are asked now instead; absent if what waited is rejected. */
  | { type: "approval_timeout"; approval_key: string; escalated_to?: string[] };

export type ToolResultStatus = "success" | "error" | "rejected";

export type ApprovalKind = "approval" | "in_doubt" | "question" | "interrupt" | "input";

export interface ApprovalRequestBlock {
  type: "approval_request";
  approval_key: string;
  kind?: ApprovalKind;
  /** Absent for questions, whose content comes in a delta. */
  actions?: Action[];
  /** The same under the name that questions use. */
  action_requests?: Action[];
  /** One for each action, in the same order. */
  review_configs?: ReviewConfig[];
  /** RFC 3339; absent: waits for ever. */
  expires_at?: string;
  /** Of questions: what names this request for ever, as `Action.digest` does that of a call. */
  digest?: string;
  /** Of a question in a list, where no delta follows. */
  timeout_seconds?: number;
  /** Of `interrupt`: what a node of a graph asks, which is answered with `resume`. */
  interrupt?: GraphQuestion;
  /** Of `in_doubt`: the step of a graph's node whose outcome is unknown, where it is no tool call. */
  step?: GraphStep;
}

/** What a node of a graph asks. */
export interface GraphQuestion {
  /** The node, with the nodes of the graphs it is in before it: `research/plan`. */
  node: string;
  /** The question's name in its node. */
  name: string;
  /** What is shown. `display` of the action is the same, made fit to be looked at. */
  payload: JsonValue;
  /** The JSON Schema that the answer must fit. */
  schema?: JsonValue;
}

/** A step of a node of a graph. */
export interface GraphStep {
  node: string;
  name: string;
}

/** A tool call that waits for a person. */
export interface Action {
  name: string;
  args: JsonObject;
  tool_use_id?: string;
  id?: string;
  agent?: string;
  /** SHA-256 of the canonical arguments, lower-case hex. */
  args_digest?: string;
  /** What names this request about this call for ever, lower-case hex. Decisions send it back. */
  digest?: string;
  description?: string;
  /** The MCP server that the tool is of; the description is that server's word. */
  server?: string;
  /** The arguments as a reviewer is to see them, made by the server from those that will run. Questions have none. */
  display?: Display;
  /** What the model says the call is for, in one line. Nobody has checked it: show it apart from the facts. */
  agent_says?: string;
  /** The calls of other agents that led to it, from the session's own agent down; absent for that one's own calls. */
  path?: PathStep[];
  /** What the call would do, as it was when it was made. */
  preview?: Preview;
}

/** One step from a session's own agent down to a nested call: the agent that made a call of another agent. */
export interface PathStep {
  agent: string;
  /** The tool, which is another agent. */
  tool: string;
  tool_use_id: string;
}

/** What a call would do, as text for a fixed-width font. What a screen would not show is written `\u{HEX}`. */
export interface Preview {
  /** A unified diff of files, a text such as command lines, or why there is none. */
  kind: "diff" | "text" | "failed";
  text: string;
  /** How many lines at the end there was no room for. */
  left_out: number;
}

/** Arguments as text for a fixed-width font that reads back to them in one way only. */
export interface Display {
  /** The whole arguments. What a screen would not show, or show like something else, is written `\u{HEX}`. */
  text: string;
  /** SHA-256 of `text`, lower-case hex. */
  digest: string;
  /** Bytes of the canonical arguments. */
  bytes: number;
  /** Where there are escapes to know of; at most 100. */
  warnings: DisplayWarning[];
}

export type DisplayWarningKind =
  | "invisible"
  | "bidirectional"
  | "control"
  | "confusable"
  | "whitespace"
  | "not_normalized";

export interface DisplayWarning {
  kind: DisplayWarningKind;
  /** JSON pointer of the place; empty for places that are too many to name. */
  pointer: string;
  count: number;
}

export interface ReviewConfig {
  require_approval?: boolean;
  /** Seconds until what waits is rejected by itself; 0 waits for ever. */
  timeout?: number;
  action_name?: string;
  allowed_decisions?: DecisionType[];
  /** The role that decides; absent: the session's own subject. */
  role?: string;
  /** The level that decides now, from 1, where there are several. */
  level?: number;
  /** The roles of all levels, where there are several. */
  levels?: string[];
  /** How many different people must approve, where one is not enough. */
  quorum?: number;
  /** Who asked for it may not approve it. */
  not_self?: boolean;
  /** The roles it may be handed to. */
  reassign?: string[];
  /** The JSON Schema of the tool's arguments. */
  args_schema?: JsonObject;
  /** The rule that asked. */
  reason?: string;
  title?: string;
  risk?: string;
}

export type Delta =
  | { type: "text_delta"; text: string }
  | { type: "thinking_delta"; thinking: string }
  | { type: "input_json_delta"; partial_json: string }
  | UntypedDelta;

/** The deltas of results, decisions and questions carry no `type`. */
export interface UntypedDelta {
  type?: undefined;
  content?: string;
  decisions?: Decision[];
  /** The answer to what a node of a graph asked. */
  resume?: JsonValue;
  action_requests?: Action[];
  review_configs?: ReviewConfig[];
  timeout_seconds?: number;
  expires_at?: string;
}
