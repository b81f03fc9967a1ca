//! Whether a message, or what a model writes, can come next.

use super::super::{
    illegal::Illegal,
    record::{ModelResponded, Record, UserMessage},
    state::{State, Status},
};
use crate::number::RunNo;

/// `false`: it cannot, or is no such record.
pub(super) fn fits(state: &State, record: &Record) -> Result<bool, Illegal> {
    Ok(match record {
        Record::UserMessage(message) => {
            // The message of a fork may replace the one that was queued first.
            let replaces = |first: &UserMessage| {
                first.queued == message.queued
                    && state.forked_from.as_ref().is_some_and(|from| from.checkpoint + 1 == state.pos)
            };
            let is_first = state.queued.front().is_some_and(|first| first == message || replaces(first));
            !state.is_stopped_short() && (message.queued == 0 || is_first)
        }
        Record::ReviewerSaid(message) => state.status == Status::Failed && message.queued == 0,
        Record::MessageQueued(message) => {
            state.status.is_open() && Some(message.queued) == state.queued_count.checked_add(1)
        }
        Record::BlockBegan(block) => {
            state.wants_answer(RunNo::ROOT) && state.begun.is_none() && *block == block.begun() && block.is_streamed()
        }
        Record::BlockShown(_) => state.status.is_active(),
        Record::Replaced { blocks } => {
            let shown = state.shown.iter().filter(|block| block.shown_as().is_some()).count();
            *blocks > 0 && *blocks as usize == shown
        }
        Record::ModelResponded(answer) => answers(state, answer)?,
        Record::AnswersDiscarded(discarded) => discarded.calls > 0 && state.wants_answer(discarded.run),
        _ => false,
    })
}

/// Whether a model can answer like this.
fn answers(state: &State, answer: &ModelResponded) -> Result<bool, Illegal> {
    if answer.first_call != state.first_call(answer) {
        return Err(Illegal("its calls do not have the next numbers"));
    }
    Ok(if answer.run.is_root() {
        state.status.is_active() && answer.shown as usize <= state.shown.len()
    } else {
        answer.shown == 0 && state.asking().any(|nested| nested.call.run() == answer.run)
    })
}
