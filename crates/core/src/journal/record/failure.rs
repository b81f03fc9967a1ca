//! How a turn fails, and what its retry records.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{block::Block, call::CallFinished, turn::UserMessage};
use crate::{
    approval::decision::Decision,
    call::reviewer::Reviewer,
    journal::{request_id::RequestId, run::Raw},
    number::{InterruptionNo, is_zero},
};

/// See [`Record::TurnFailed`](super::Record::TurnFailed).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnFailed {
    /// Why.
    pub failure: Arc<Failure>,
    /// The numbers of the interruptions that stay pending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<InterruptionNo>,
    /// The block that the model has begun, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Block>,
}

/// Why a turn has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub why: Why,
    /// For people, without secrets.
    pub message: String,
}

/// See [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It used up its model calls (spec S24).
    MaxTurns,
    /// Something else, by a stable code such as `model_error`.
    Error(String),
}

impl Failure {
    /// Its code on the wire.
    #[must_use]
    pub fn code(&self) -> &str {
        match &self.why {
            Why::MaxTurns => "max_turns",
            Why::Error(code) => code,
        }
    }
}

/// See [`Record::Retried`](super::Record::Retried).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Retried {
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// How many more model calls the turn may make from here on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_calls: u32,
    /// How many of the last blocks of the failed message belong to an answer that broke off: the model is called again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replaced: u32,
    /// Events since the turn failed that have a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Arc<Unshown>>,
    /// The client's `request_id`.
    #[serde(rename = "request", default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
}

/// An event with a block in the stream, from the time when the turn had failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unshown {
    /// People decided.
    Decided {
        /// The interruption's number.
        n: InterruptionNo,
        /// One for each action.
        decisions: Vec<Decision>,
    },
    /// A person answered a graph, or a tool that asked.
    Resumed {
        /// The interruption's number.
        n: InterruptionNo,
        /// The answer.
        value: Raw,
    },
    /// The deadline expired first.
    TimedOut {
        /// The interruption's number.
        n: InterruptionNo,
        /// The reviewers it escalates to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        escalated: Vec<Reviewer>,
    },
    /// A reviewer's message with a decision. It follows the retry as a separate message.
    Said(UserMessage),
    /// A call has its result.
    Finished(CallFinished),
}
