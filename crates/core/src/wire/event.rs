//! Server → client: the events of spec W2 and the content blocks of W3 and W4.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use super::request::{
    ApprovalRequest, GraphQuestion, GraphStep, QuestionAction, QuestionDelta, QuestionRequest, QuestionReview, Request,
    RequestBlock, RequestedAction, ReviewConfig,
};
use crate::{
    approval::{decision::Decision, question::Answers},
    content::{Image, ImageSource},
    journal::{
        record::{CallStatus, Cut, Failure, Held, Hold, Withdrawal},
        run::Raw,
        state::{State, Status},
    },
    refusal::{Code, Details},
    wire::schema::AnyObject,
};

/// A frame from the server that belongs to a session.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionEvent {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// The session.
    pub session_id: Arc<str>,
    /// 1, 2, 3 … without gaps for the session's whole life; absent on deltas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// What happened, as clients see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A message begins. A turn has one assistant message, which stays open through pauses.
    #[schemars(title = "MessageStartEvent")]
    MessageStart {
        /// Unique in the session.
        message_id: String,
        /// The author's role.
        role: Role,
        /// Who wrote it, if known by name: the owner, or a reviewer who commented on a decision.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A block begins, or begins again if the index is open.
    #[schemars(title = "ContentBlockStartEvent")]
    ContentBlockStart {
        /// The message.
        message_id: String,
        /// 0, 1, 2 … within the message.
        index: u32,
        /// The block.
        content_block: ContentBlock,
    },
    /// More of the block.
    #[schemars(title = "ContentBlockDeltaEvent")]
    ContentBlockDelta {
        /// The message.
        message_id: String,
        /// The block's index.
        index: u32,
        /// The addition.
        delta: Delta,
    },
    /// The block is complete.
    #[schemars(title = "ContentBlockStopEvent")]
    ContentBlockStop {
        /// The message.
        message_id: String,
        /// The block's index.
        index: u32,
        /// For a `tool_use`: what the call is for, in one line.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_content_message: Option<Arc<str>>,
    },
    /// These blocks belong to an answer that broke off: the model's new answer replaces them in the blocks that follow.
    /// After a failed turn's retry these are in the next message, and this event comes before it.
    #[schemars(title = "ContentReplacedEvent")]
    ContentReplaced {
        /// The message.
        message_id: String,
        /// The blocks' indexes.
        indexes: Vec<u32>,
    },
    /// Related blocks begin: thinking, calls, their results and approvals.
    #[schemars(title = "GroupStartEvent")]
    GroupStart {
        /// The message.
        message_id: String,
        /// Unique in the session.
        group_id: String,
    },
    /// The group is complete: what follows is outside it.
    #[schemars(title = "GroupEndEvent")]
    GroupEnd {
        /// The message.
        message_id: String,
        /// The group.
        group_id: String,
        /// The newest `tool_content_message` of its calls, if any has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<Arc<str>>,
    },
    /// The turn's status.
    #[schemars(title = "RunStatusEvent")]
    RunStatus {
        /// `running`, `awaiting_input`, `completed`, `failed` or `cancelled`.
        status: Status,
        /// The approval keys that are pending.
        pending: Vec<String>,
        /// On `failed`: the reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RunFailure>,
        /// On `running` and `awaiting_input`: the turn is on hold, and no part of it continues until somebody resumes
        /// it.
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<HeldTurn>,
    },
    /// An approval request was resolved or withdrawn.
    #[schemars(title = "ApprovalResolvedEvent")]
    ApprovalResolved {
        /// Its key.
        approval_key: String,
        /// How it ended.
        resolution: Resolution,
        /// If it was `cancelled`: why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Withdrawal>,
        /// Who resolved it, if a person did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The answers, if questions were answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        answers: Option<Answers>,
        /// The reject, if questions were declined. While the turn has failed: the decisions, since their block comes with
        /// the retry.
        #[serde(skip_serializing_if = "Option::is_none")]
        decisions: Option<Vec<Decision>>,
        /// While the turn has failed: the answer to a graph, or to a tool's question.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Value")]
        resume: Option<Raw>,
    },
    /// A comment on, or a change to, an approval request that stays pending.
    #[schemars(title = "ApprovalUpdatedEvent")]
    ApprovalUpdated {
        /// Its key.
        approval_key: String,
        /// The comment or change.
        #[serde(flatten)]
        update: ApprovalUpdate,
        /// Who made it, if a person did.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The message is complete.
    #[schemars(title = "MessageStopEvent")]
    MessageStop {
        /// The message.
        message_id: String,
        /// Why it ended.
        stop_reason: StopReason,
    },
}

impl Event {
    /// The `type` of its frame.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Event::MessageStart { .. } => "message_start",
            Event::ContentBlockStart { .. } => "content_block_start",
            Event::ContentBlockDelta { .. } => "content_block_delta",
            Event::ContentBlockStop { .. } => "content_block_stop",
            Event::ContentReplaced { .. } => "content_replaced",
            Event::GroupStart { .. } => "group_start",
            Event::GroupEnd { .. } => "group_end",
            Event::RunStatus { .. } => "run_status",
            Event::ApprovalResolved { .. } => "approval_resolved",
            Event::ApprovalUpdated { .. } => "approval_updated",
            Event::MessageStop { .. } => "message_stop",
        }
    }
}

/// A frame from the server that belongs to the connection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConnectionEvent {
    /// The first frame. It is sent again when the person's roles, tenant or kind have changed.
    #[schemars(title = "HelloEvent")]
    Hello {
        /// `countersign.v1`.
        protocol: String,
        /// Name and version of the server.
        server: String,
        /// How often the server pings an idle connection, in seconds.
        heartbeat_seconds: u32,
        /// The id of the server's event history. If it differs from that of an earlier connection, the store was
        /// restored from a backup or replaced, and a `seq` may name another event: read every session again from the
        /// start.
        #[serde(skip_serializing_if = "Option::is_none")]
        history_id: Option<Arc<str>>,
        /// The subject of the connection; absent where the server does not authenticate.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Arc<str>>,
        /// Its tenant, if it has one: the same name in another tenant is a different person.
        #[serde(skip_serializing_if = "Option::is_none")]
        tenant: Option<Arc<str>>,
        /// The roles it holds now.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        roles: Vec<String>,
    },
    /// The message, decision, comment, reassignment or cancel is stored durably.
    #[schemars(title = "AckEvent")]
    Ack {
        /// Echoed.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The session, also when the server generated its id.
        session_id: String,
    },
    /// A request was refused, or failed. Nothing changed, except as the code says: `outcome_unknown`, `store_closed`.
    #[schemars(title = "ErrorEvent")]
    Error {
        /// The stable code.
        code: Code,
        /// What is wrong and how to correct it.
        message: String,
        /// Echoed.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The session it was about.
        #[serde(skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
        /// The key of the approval request it was about.
        #[serde(skip_serializing_if = "Option::is_none")]
        approval_key: Option<String>,
        /// More detail for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<AnyObject>")]
        details: Option<Details>,
    },
    /// The answer to `ping`.
    #[schemars(title = "PongEvent")]
    Pong,
}

/// The author's role in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// The agent.
    Assistant,
}

/// What can happen to an approval request that stays pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "update", rename_all = "snake_case")]
pub enum ApprovalUpdate {
    /// A comment for the other people.
    #[schemars(title = "CommentUpdate")]
    Comment {
        /// The comment.
        text: Arc<str>,
    },
    /// It was reassigned to another reviewer.
    #[schemars(title = "ReassignedUpdate")]
    Reassigned {
        /// The holders of this role, in place of the previous reviewer.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Only this person.
        #[serde(skip_serializing_if = "Option::is_none")]
        subject: Option<Arc<str>>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<Arc<str>>,
    },
    /// It has been pending long enough for a reminder.
    #[schemars(title = "ReminderUpdate")]
    Reminder,
    /// One approval of a quorum; more are needed.
    #[schemars(title = "ApprovedUpdate")]
    Approved {
        /// How many have approved.
        approved: u32,
        /// How many must approve.
        quorum: u32,
    },
}

/// How an approval request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// A person decided.
    Decided,
    /// The deadline expired first.
    Timeout,
    /// It was withdrawn without a decision or an answer; `reason` says why.
    Cancelled,
}

/// Why a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// Normally.
    EndTurn,
    /// Cancelled.
    Cancelled,
    /// Something failed.
    Error,
    /// The turn used up its model calls.
    MaxTurns,
    /// The last answer reached its token limit: it is incomplete.
    MaxTokens,
    /// The model refused to answer, or to continue.
    Refusal,
    /// The provider's filter stopped the last answer: it is incomplete.
    ContentFilter,
    /// The provider stopped the last answer early without another reason: it is incomplete.
    Incomplete,
}

impl From<Cut> for StopReason {
    fn from(cut: Cut) -> StopReason {
        match cut {
            Cut::MaxTokens => StopReason::MaxTokens,
            Cut::Refusal => StopReason::Refusal,
            Cut::ContentFilter => StopReason::ContentFilter,
            Cut::Incomplete => StopReason::Incomplete,
        }
    }
}

/// Why a turn is on hold: a message, a decision or a retry resumes it; a cancel ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct HeldTurn {
    /// The reason.
    pub reason: Held,
    /// The reason for people, with what resumes the turn.
    pub message: String,
}

impl HeldTurn {
    /// A hold as clients see it; `pending`: whether there is something to decide.
    #[must_use]
    pub fn of(hold: Hold, pending: bool) -> HeldTurn {
        HeldTurn { reason: hold.why, message: hold.message(pending) }
    }

    /// What reviewers of a session's pending requests are told, if anything: see [`State::hold_of_requests`].
    #[must_use]
    pub fn of_requests(state: &State) -> Option<HeldTurn> {
        let hold = state.hold_of_requests()?;
        if state.status == Status::Failed {
            return Some(HeldTurn { reason: hold.why, message: hold.message_of_failed() });
        }
        HeldTurn::of_state(state)
    }

    /// Why the turn of a session is on hold, if it is.
    #[must_use]
    pub fn of_state(state: &State) -> Option<HeldTurn> {
        state.hold().map(|hold| HeldTurn::of(hold, !state.open.is_empty()))
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RunError")]
#[non_exhaustive]
pub struct RunFailure {
    /// A stable code, such as `model_error` or `max_turns`.
    pub code: String,
    /// What failed.
    pub message: String,
}

impl From<&Failure> for RunFailure {
    fn from(failure: &Failure) -> RunFailure {
        RunFailure { code: failure.code().to_owned(), message: failure.message.clone() }
    }
}

/// A content block, as its start shows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    #[schemars(title = "TextBlock")]
    Text,
    /// An image in a person's message. It is complete: no delta follows.
    #[schemars(title = "ImageBlock")]
    Image {
        /// The image's bytes or address.
        #[schemars(with = "ImageSource")]
        source: Image,
    },
    /// The model's reasoning.
    #[schemars(title = "ThinkingBlock")]
    Thinking,
    /// A tool call.
    #[schemars(title = "ToolUseBlock")]
    ToolUse {
        /// The call's id.
        id: Arc<str>,
        /// The tool.
        name: Arc<str>,
    },
    /// A call's result.
    #[schemars(title = "ToolResultBlock")]
    ToolResult {
        /// The call's id.
        tool_use_id: Arc<str>,
        /// The tool.
        name: Arc<str>,
        /// How it ended.
        status: CallStatus,
    },
    /// An approval request, or questions.
    #[schemars(title = "ApprovalRequestBlock")]
    ApprovalRequest(RequestBlock),
    /// The decisions on a request; they follow in a delta.
    #[schemars(title = "ApprovalResultBlock")]
    ApprovalResult {
        /// The key of the approval request.
        approval_key: String,
    },
    /// The deadline expired.
    #[schemars(title = "ApprovalTimeoutBlock")]
    ApprovalTimeout {
        /// The key of the approval request.
        approval_key: String,
        /// The roles it escalates to; absent if the pending actions are rejected.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        escalated_to: Vec<String>,
    },
}

/// An addition to a block.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Delta {
    /// Of text, thinking and tool calls.
    Typed(TypedDelta),
    /// Of a result.
    #[schemars(title = "ResultDelta")]
    Content {
        /// The result's text.
        content: String,
    },
    /// Of an `approval_result`.
    #[schemars(title = "DecisionsDelta")]
    Decisions {
        /// The full set, filled in.
        decisions: Vec<Decision>,
    },
    /// Of the `approval_result` of a graph's question.
    #[schemars(title = "ResumeDelta")]
    Resume {
        /// The answer.
        #[schemars(with = "Value")]
        resume: Raw,
    },
    /// Of an `approval_request` with questions.
    Questions(QuestionDelta),
}

/// The deltas that carry a `type`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TypedDelta {
    /// More text.
    #[schemars(title = "TextDelta")]
    TextDelta {
        /// The text.
        text: String,
    },
    /// More thinking.
    #[schemars(title = "ThinkingDelta")]
    ThinkingDelta {
        /// The text.
        thinking: String,
    },
    /// More of a call's arguments, as the model writes them.
    #[schemars(title = "InputJsonDelta")]
    InputJsonDelta {
        /// A piece of JSON text.
        partial_json: String,
    },
}
