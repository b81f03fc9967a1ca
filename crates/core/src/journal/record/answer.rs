//! Models' answers, and the tokens that they take.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use serde_json::value::RawValue;

use super::block::{Block, Cut};
use crate::{
    number::{CallNo, RunNo, is_zero},
    shared,
};

/// See [`Record::ModelResponded`](super::Record::ModelResponded).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelResponded {
    /// The configured name of the model that answered.
    #[serde(deserialize_with = "shared::string")]
    pub model: Arc<str>,
    /// How many of the latest `BlockShown` records belong to this answer; a `MessageQueued` may come between them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shown: u32,
    /// The blocks after those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Block>,
    /// The number of its first call in the session; the others follow. 0: it has none. The journal sets it.
    #[serde(default, skip_serializing_if = "CallNo::is_none")]
    pub first_call: CallNo,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// What the provider needs back unchanged with this answer (reasoning signatures and the like).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Box<RawValue>>,
    /// The run of the agent that answers.
    #[serde(default, skip_serializing_if = "RunNo::is_root")]
    pub run: RunNo,
    /// Why it is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// How many further model calls it took, each continuing where the previous one was cut.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub continued: u32,
    /// If it has calls: a random number, which distinguishes them from those of any other answer. A store that was restored
    /// from a backup, and every copy of a saved state, gives the same numbers to calls of different answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Arc<str>>,
}

/// See [`Record::AnswersDiscarded`](super::Record::AnswersDiscarded).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswersDiscarded {
    /// The configured name of the model that gave them.
    pub model: Arc<str>,
    /// The run that they were given for.
    #[serde(default, skip_serializing_if = "RunNo::is_root")]
    pub run: RunNo,
    /// The model calls that they took; at least 1.
    pub calls: u32,
    /// Tokens, as far as they are known.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

/// Tokens of one model call, or of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// How many of the tokens read came from the provider's cache.
    #[serde(default, skip_serializing_if = "zero")]
    pub cached_input_tokens: u64,
    /// How many of the tokens written were reasoning, where the provider says so.
    #[serde(default, skip_serializing_if = "zero")]
    pub reasoning_tokens: u64,
}

fn zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// Counts more tokens. What a provider reports is input: a sum that is too large stays at the largest number.
    pub fn add(&mut self, more: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(more.cached_input_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(more.reasoning_tokens);
    }

    /// Tokens read and written.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Usage::default()
    }
}
