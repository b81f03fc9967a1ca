//! Typed refusals: what was wrong, by a stable code, changing nothing.

use serde::Serialize;
use serde_json::Value;

use crate::call::plain::made_plain;

/// The machine-readable reason of a refusal, the same on WebSocket and HTTP (SPEC W).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The frame or body is not JSON, or not strict JSON.
    BadJson,
    /// The message's `type` is not known.
    UnknownType,
    /// A field is missing, of the wrong type or out of bounds.
    InvalidMessage,
    /// The session id is not `[A-Za-z0-9._-]{1,128}`.
    InvalidSessionId,
    /// No session of that id, or not yours.
    SessionNotFound,
    /// The session of this id was deleted. No other ever has its id (SPEC R11).
    SessionDeleted,
    /// The id for a new session is taken.
    SessionExists,
    /// No agent of that name.
    UnknownAgent,
    /// `cancel` while no turn is active.
    NothingToCancel,
    /// Nothing in the session's run has failed.
    NothingToRetry,
    /// There is no such graph.
    UnknownGraph,
    /// The answer does not fit the schema of what asks.
    InvalidResume,
    /// A graph waits for a value, not for decisions or answers.
    ResumeRequired,
    /// A message while something waits for a decision (SPEC W9).
    ApprovalPending,
    /// A message while a turn is running (SPEC W9).
    SessionBusy,
    /// The session's queue of messages is full.
    QueueFull,
    /// No interruption of that key.
    ApprovalNotFound,
    /// No standing rule of that id, or not yours.
    RuleNotFound,
    /// Somebody else, or the deadline, was first.
    ApprovalAlreadyResolved,
    /// The decisions cannot be matched with the actions.
    DecisionsMismatch,
    /// `decisions` where `answers` are needed.
    AnswersRequired,
    /// `answers` where `decisions` are needed.
    DecisionsRequired,
    /// The answers do not fit the questions (SPEC Q3).
    InvalidAnswers,
    /// The decision is not one of the action's `allowed_decisions`.
    DecisionNotAllowed,
    /// The edited arguments do not fit the tool's schema, or the other tool may not be chosen.
    InvalidEdit,
    /// The `digest` or `args_digest` is not that of what waits.
    StaleAction,
    /// What is approved cannot run: its agent or its tool is gone. It can be rejected.
    Unresolvable,
    /// Who asks is not known.
    Unauthenticated,
    /// Who asks may not do this.
    Forbidden,
    /// No such page.
    NotFound,
    /// The HTTP method is not one of the resource's.
    MethodNotAllowed,
    /// The frame or body is too large.
    TooLarge,
    /// The store could not keep it; nothing happened.
    StoreUnavailable,
    /// A fault of ours; nothing is acknowledged.
    Internal,
}

impl Code {
    /// The code as it is written on the wire.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(name)) => name,
            _ => "internal".to_owned(),
        }
    }

    /// The HTTP status of the problem document (SPEC W8, RFC 9457).
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Code::BadJson
            | Code::UnknownType
            | Code::InvalidMessage
            | Code::InvalidSessionId
            | Code::DecisionsMismatch
            | Code::AnswersRequired
            | Code::DecisionsRequired
            | Code::InvalidAnswers
            | Code::DecisionNotAllowed
            | Code::InvalidEdit
            | Code::InvalidResume
            | Code::ResumeRequired => 400,
            Code::Unauthenticated => 401,
            Code::Forbidden => 403,
            Code::SessionNotFound
            | Code::UnknownAgent
            | Code::UnknownGraph
            | Code::ApprovalNotFound
            | Code::RuleNotFound
            | Code::NotFound => 404,
            Code::SessionDeleted => 410,
            Code::MethodNotAllowed => 405,
            Code::ApprovalPending
            | Code::SessionBusy
            | Code::SessionExists
            | Code::ApprovalAlreadyResolved
            | Code::StaleAction
            | Code::Unresolvable
            | Code::NothingToCancel
            | Code::NothingToRetry => 409,
            Code::TooLarge => 413,
            Code::QueueFull => 429,
            Code::Internal => 500,
            Code::StoreUnavailable => 503,
        }
    }
}

/// Why an input was not taken. Whatever it was meant for is exactly as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// What is wrong, where, and what would be right; in English.
    pub message: String,
    /// More for programs: pending keys, the winner of a race, schema errors.
    pub details: Option<Box<Value>>,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), details: None }
    }

    /// Whether there is no such session (any more): what works for it stops.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.code, Code::SessionNotFound | Code::SessionDeleted)
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Refusal {
        self.details = Some(Box::new(made_plain(details)));
        self
    }
}
