//! The part of a session's conversation that its models still read, and its size (spec G5).
//!
//! When the next model call would exceed the agent's `context_tokens`, [`Record::MakeRoom`] is recorded; models no
//! longer read what [`Record::Compressed`] covers. Cuts are made between turns only: there every call has its result
//! and nothing is pending. Events, history and the audit log are unaffected and keep everything.
//!
//! Two records and no event: `MakeRoom` keeps the session's current node a function of its state, `Compressed` has the
//! summary and the position through which it covers. A conversation is folded from there on, so a model call costs the
//! same however long the session has become, and a fold can begin at a cut with only the number of calls so far.
//! Followers see nothing of it, since nothing they were shown has changed. A single turn that exceeds them is not
//! cut.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    draft::{Catalog, Draft, Transition},
    parts::Phase,
    record::{Block, Record, Usage},
    state::State,
};
use crate::tokens;

/// How large the model calls of an agent may be, and what is kept when they exceed that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimit {
    /// The maximum tokens of a model call.
    pub context_tokens: u64,
    /// How many of the newest turns are kept as they are, the current one included; at least 1.
    pub keep_turns: u32,
    /// Tokens of every call of the agent besides the conversation: instructions and tools.
    pub overhead: u64,
}

/// See [`Record::MakeRoom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeRoom {
    /// Tokens that the next model call would have.
    pub tokens: u64,
    /// The tokens that it may have.
    pub context_tokens: u64,
    /// How many of the newest turns are kept.
    pub keep_turns: u32,
}

/// See [`Record::Compressed`].
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

/// The part of the conversation that models still read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// It begins after the append at this position.
    pub from: u64,
    /// The position of the compression's append, with the summary of the earlier conversation; 0 if nothing was cut
    /// yet.
    pub checkpoint: u64,
    /// How many turns have begun in it.
    pub turns: u32,
    /// Its tokens: the provider's count of the latest answer where it gave one, and an estimate of what came since.
    pub tokens: u64,
    /// Whether `tokens` includes the agent's instructions and tools, as a provider's count does.
    pub whole: bool,
    /// It must be made smaller before the next model call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<MakeRoom>,
}

impl Window {
    /// The count may be added to a provider's, which can be any number.
    fn count(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Applies the next record, of the append at `pos`; `active` and `shown` are the state's before it.
    pub(super) fn take(&mut self, record: &Record, pos: u64, active: bool, shown: &[Block]) {
        match record {
            Record::UserMessage(message) => {
                self.turns += u32::from(!active);
                self.count(tokens::MESSAGE + tokens::of_content(&message.content));
            }
            // Messages between agents are in their own conversations.
            Record::ModelResponded(answer) if answer.run.is_nested() => {}
            Record::CallFinished(finished) if finished.run.is_nested() => {}
            Record::ModelResponded(answer) if answer.usage.input_tokens > 0 => {
                self.tokens = answer.usage.total();
                self.whole = true;
            }
            Record::ModelResponded(answer) => {
                let kept = shown.len().saturating_sub(answer.shown as usize);
                let blocks = shown.iter().skip(kept).chain(&answer.blocks);
                self.count(tokens::MESSAGE + blocks.map(of_block).sum::<u64>());
            }
            Record::CallFinished(finished) => {
                self.count(tokens::MESSAGE + tokens::of_result(&finished.name, &finished.output))
            }
            Record::TurnEnded(ended) => {
                self.count(ended.partial.as_ref().map_or(0, of_block));
                self.due = None;
            }
            Record::TurnFailed(failed) => {
                self.count(failed.partial.as_ref().map_or(0, of_block));
                self.due = None;
            }
            Record::MakeRoom(room) => self.due = Some(*room),
            Record::Compressed(compressed) => {
                self.from = compressed.through;
                self.checkpoint = pos;
                self.turns = compressed.kept_turns;
                self.tokens = compressed.tokens_after;
                self.whole = true;
                self.due = None;
            }
            _ => {}
        }
    }
}

impl State {
    /// The size to compress before the next model call, if it is the model's turn and something may be cut. `None` also
    /// if it is recorded already.
    fn wants_room(&self, catalog: &dyn Catalog) -> Option<MakeRoom> {
        let ContextLimit { context_tokens, keep_turns, overhead } = catalog.context_limit(&self.agent)?;
        let window = &self.window;
        let asks_next = self.status.is_active()
            && !self.answered
            && self.open.is_empty()
            && self.calls.iter().all(|call| call.phase == Phase::Finished);
        if !asks_next || window.due.is_some() {
            return None;
        }
        let (keep_turns, overhead) = (keep_turns.max(1), if window.whole { 0 } else { overhead });
        let tokens = window.tokens.saturating_add(overhead);
        (tokens > context_tokens && window.turns > keep_turns).then_some(MakeRoom {
            tokens,
            context_tokens,
            keep_turns,
        })
    }
}

impl Draft {
    /// Records that the conversation must be compressed before the next model call, if the session's agent exceeds its
    /// budget and something may be cut.
    pub(super) fn ask_for_room(&mut self, catalog: &dyn Catalog) {
        if let Some(room) = self.state.wants_room(catalog) {
            self.push(Record::MakeRoom(room));
        }
    }

    /// The conversation was compressed. `None` if that is no longer required.
    #[must_use]
    pub fn compressed(mut self, compressed: Compressed) -> Option<Transition> {
        self.state.window.due?;
        self.push(Record::Compressed(compressed));
        Some(self.finish())
    }
}

/// The tokens of a block of a model's answer. Reasoning is hardly ever sent back to a model, so it counts nothing.
#[must_use]
pub fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } => tokens::of(text),
        Block::Thinking { .. } => 0,
        Block::ToolUse(call) => tokens::of(&call.name) + tokens::of(&call.input) + tokens::MESSAGE,
    }
}
