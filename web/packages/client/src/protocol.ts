/**
 * The messages of the `countersign.v1` WebSocket protocol, and what HTTP shares with it.
 *
 * Types come from the schemas that the server publishes, see `scripts/generate.mjs`. Here they only get the names of
 * this package, which are less general than those of the documents, and the few facts that no schema contains.
 */
import type * as Wire from "./generated/wire.js";
import { SESSION_EVENTS } from "./generated/wire.js";
import type { Open } from "./open.js";

export const SUBPROTOCOL = "countersign.v1";

/** The close code of a connection whose token is no longer valid. */
export const UNAUTHENTICATED = 4401;

/** The maximum size in bytes of a frame with a message, and of any other; as in `crates/core/src/limits.rs`. */
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

/** The possible decisions about a call. A newer server may allow more: see `allowedOf`. */
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

/**
 * An event of a session. One from a newer server may have another `type`: its `seq` still gives it its place in the
 * order.
 */
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

/**
 * Whether an event belongs to a session, and is folded into its view: also one from a newer server, which has a number
 * in it.
 */
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

/** The kind of a request. This package cannot answer a request of any other kind. */
export type ApprovalKind = Open<Wire.ActionKind | "question">;

/** The subject of a request: a call, with all its facts, or questions, which have fewer. */
export type Action = Wire.QuestionAction & Partial<Wire.RequestedAction>;

/** How it may be decided. Nothing in it is certain: questions have only `action_name` and `allowed_decisions`. */
export type ReviewConfig = Partial<Wire.ReviewConfig>;
