/**
 * The messages of the `countersign.v1` WebSocket protocol, and what HTTP shares with it.
 *
 * Types come from the schemas that the server publishes, see `scripts/generate.mjs`. Here they only get the names of
 * this package, which are less general than those of the documents, and the little that no schema says.
 */
import type * as Wire from "./generated/wire.js";
import { SESSION_EVENTS } from "./generated/wire.js";
import type { Open } from "./open.js";

export const SUBPROTOCOL = "countersign.v1";

/** The close code of a connection whose token is valid no longer. */
export const UNAUTHENTICATED = 4401;

/** The most bytes that the server takes in a frame with a message, and in any other; as in `crates/core/src/limits.rs`. */
export const MESSAGE_FRAME_BYTES = 9 * 1024 * 1024;
export const FRAME_BYTES = 1024 * 1024;

export { ERROR_CODES, IMAGE_TYPES, STATUSES } from "./generated/wire.js";

// ---------------------------------------------------------------- client → server

export type {
  ApprovalCommand,
  CancelCommand,
  ClientMessage as ClientCommand,
  CommentCommand,
  ImageSource,
  InputBlock as InputContent,
  InputImage as ImageContent,
  InputText as TextContent,
  MediaType as ImageType,
  MessageCommand,
  PingCommand,
  ReassignCommand,
  SubscribeCommand,
  UnsubscribeCommand,
} from "./generated/wire.js";

// ---------------------------------------------------------------- questions and decisions

export type { Choice as QuestionOption, Question, Todo, TodoStatus } from "./generated/http.js";
export type { Always, Answers, Decision } from "./generated/wire.js";

/** What can be decided about a call. A newer server may allow more: see `allowedOf`. */
export type DecisionType = Wire.Decision["type"];

export const ASK_USER_QUESTION = "ask_user_question";

/** The answer to a question that was skipped. */
export const NO_PREFERENCE = "[No preference]";

// ---------------------------------------------------------------- server → client

export type {
  AckEvent,
  ApprovalResolvedEvent,
  ApprovalUpdatedEvent,
  Code as ErrorCode,
  ContentBlockDeltaEvent,
  ContentBlockStartEvent,
  ContentBlockStopEvent,
  ContentReplacedEvent,
  ErrorEvent,
  GroupEndEvent,
  GroupStartEvent,
  HelloEvent,
  MessageStartEvent,
  MessageStopEvent,
  PongEvent,
  HeldTurn,
  RunError,
  RunStatusEvent,
} from "./generated/wire.js";

/** An event of a session. One of a newer server may have another `type`: it has its place in the order, by its `seq`. */
export type SessionEvent = Wire.SessionEvent;

/** What a session is doing. */
export type RunStatus = Open<Wire.Status>;

/** How a request ended. */
export type Resolution = Open<Wire.Resolution>;

/** Why a request ended without an answer. */
export type Withdrawal = Wire.Withdrawal;

/** Why a message ended. */
export type StopReason = Open<Wire.StopReason>;

export type ServerEvent = Wire.ConnectionEvent | Wire.SessionEvent;

const NAMES: ReadonlySet<string> = new Set(SESSION_EVENTS);

/** Whether an event belongs to a session, and is folded into its view: also one of a newer server, which has a number in it. */
export function isSessionEvent(event: { type: string; session_id?: unknown; seq?: unknown }): event is SessionEvent {
  return NAMES.has(event.type) || (typeof event.seq === "number" && typeof event.session_id === "string");
}

// ---------------------------------------------------------------- content blocks

export type {
  ApprovalRequestBlock,
  ContentBlock,
  Delta,
  GraphQuestion,
  GraphStep,
  PathStep,
  Shown as Display,
  ShownPreview as Preview,
  Warning as DisplayWarning,
  WarningKind as DisplayWarningKind,
} from "./generated/wire.js";

/** How a call ended. */
export type ToolResultStatus = Open<Wire.CallStatus>;

/** What people are asked. What is of none of these kinds cannot be answered by this package. */
export type ApprovalKind = Open<Wire.ActionKind | "question">;

/** What a person is asked about: a call, with everything about it, or questions, of which there is less to say. */
export type Action = Wire.QuestionAction & Partial<Wire.RequestedAction>;

/** How it may be decided. Nothing in it is certain: questions have only `action_name` and `allowed_decisions`. */
export type ReviewConfig = Partial<Wire.ReviewConfig>;
