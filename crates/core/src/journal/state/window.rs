//! The part of a session's conversation that its models still read, and its size.

use serde::{Deserialize, Serialize};

use crate::{
    journal::record::{Block, MakeRoom, ModelResponded, Record, Usage},
    tokens,
};

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
    pub(in crate::journal) fn take(&mut self, record: &Record, pos: u64, active: bool, shown: &[Block]) {
        match record {
            Record::UserMessage(message) => {
                self.turns += u32::from(!active);
                self.count(tokens::MESSAGE + tokens::of_content(&message.content));
            }
            // Messages between agents are in their own conversations.
            Record::ModelResponded(answer) if answer.run.is_nested() => {}
            Record::CallFinished(finished) if finished.run.is_nested() => {}
            Record::ModelResponded(answer) if answer.usage.input_tokens > 0 => {
                self.tokens = counted(answer);
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

/// The tokens of the conversation with an answer, as its provider counts them. Each call of an answer that was continued
/// has read the whole conversation, which is there once; the average of what they read is no less than that.
fn counted(answer: &ModelResponded) -> u64 {
    let Usage { input_tokens, output_tokens, .. } = answer.usage;
    input_tokens.div_ceil(u64::from(answer.continued) + 1).saturating_add(output_tokens)
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
