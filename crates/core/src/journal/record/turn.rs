//! What begins a turn, and what ends it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::block::{Block, Cut};
use crate::{content::Content, journal::request_id::RequestId, number::is_zero};

/// See [`Record::UserMessage`](super::Record::UserMessage).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The content; at least one part.
    pub content: Content,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The roles its author held then, which the policy may look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The agent it names, which answers from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Arc<str>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// Its number among the session's queued messages, from 1; 0: it was not queued. The message keeps it when it
    /// reaches the conversation, which is how it leaves the queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u32,
    /// It rejects what was pending, and the model answers it in this turn: no result of a call takes that place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
}

/// Why a turn ended (spec W2 `stop_reason`). A failed turn has not ended: see [`Record::TurnFailed`](super::Record::TurnFailed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The model had nothing more to do.
    EndTurn,
    /// It was cancelled.
    Cancelled,
}

/// See [`Record::TurnEnded`](super::Record::TurnEnded).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnEnded {
    /// Why.
    pub reason: EndReason,
    /// The content of the block that the model had begun when it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Block>,
    /// The turn's final output, where that is a tool's result and not the model's (spec S24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why the turn's last answer is incomplete, where the turn ended with such an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// The client's `request_id` of the `cancel`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}
