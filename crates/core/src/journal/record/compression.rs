//! Conversations that are made shorter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer::Usage;

/// See [`Record::MakeRoom`](super::Record::MakeRoom).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeRoom {
    /// Tokens that the next model call would have.
    pub tokens: u64,
    /// The tokens that it may have.
    pub context_tokens: u64,
    /// How many of the newest turns are kept.
    pub keep_turns: u32,
}

/// See [`Record::Compressed`](super::Record::Compressed).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compressed {
    /// The position of the last append it covers; the next one begins a turn.
    pub through: u64,
    /// The text that replaces all that; absent if it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The configured name of the model that produced a summary, even if the summary was not usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Tokens that the summary took.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// Tokens that the next model call would have had.
    pub tokens_before: u64,
    /// Tokens that it has now: an estimate.
    pub tokens_after: u64,
    /// How many turns have begun after what it covers.
    pub kept_turns: u32,
}
