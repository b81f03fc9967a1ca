//! The approximate size of a session: the bytes of its records.
//!
//! It is counted with each record and bounds a session's growth, so it must be cheap: texts and images from people,
//! models, tools and graphs are counted by their length, and everything else by a constant.

use super::{
    record::{Block, Record, Unshown},
    run::Raw,
};

/// The size of a record without the texts that are counted.
const RECORD: usize = 256;

/// The approximate size of a record in bytes.
pub(super) fn of(record: &Record) -> u64 {
    let texts = match record {
        Record::Renamed(renamed) => renamed.title.as_ref().map_or(0, |title| title.len()),
        Record::SessionCreated(created) => created.context.as_ref().map_or(0, |context| context.get().len()),
        Record::UserMessage(message) | Record::MessageQueued(message) | Record::ReviewerSaid(message) => {
            message.content.stored_bytes()
        }
        Record::BlockBegan(shown) | Record::BlockShown(shown) => block(shown),
        Record::ModelResponded(answer) => {
            answer.blocks.iter().map(block).sum::<usize>() + answer.opaque.as_ref().map_or(0, |kept| kept.get().len())
        }
        Record::Interrupted(asked) => {
            let args: usize = asked.actions.iter().map(|action| action.args.text().len() + RECORD).sum();
            args + asked.question.as_ref().map_or(0, |at| at.payload.get().len())
        }
        Record::Decided(decided) => decided.decisions.len() * RECORD,
        Record::AgentBegan(began) => began.input.len(),
        Record::CallFinished(call) => call.output.len(),
        Record::Retried(retried) => retried.shown.iter().map(|unshown| self::unshown(unshown)).sum(),
        Record::RunStarted(started) => started.state.get().len(),
        Record::FrameBegan(began) => raw(began.state.as_ref()),
        Record::TasksDone(done) => done.done.iter().map(|done| raw(done.update.as_ref())).sum(),
        Record::StepDone { value, .. } => raw(value.as_ref()),
        Record::Resumed(resumed) => resumed.value.get().len(),
        Record::StateEdited(edited) => edited.update.get().len(),
        Record::States(states) => states.iter().map(|frame| frame.state.get().len()).sum(),
        Record::Compressed(compressed) => compressed.summary.as_ref().map_or(0, String::len),
        _ => 0,
    };
    texts.saturating_add(RECORD) as u64
}

fn block(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse(call) => call.input.len() + RECORD,
    }
}

fn unshown(unshown: &Unshown) -> usize {
    match unshown {
        Unshown::Decided { decisions, .. } => decisions.len() * RECORD,
        Unshown::Resumed { value, .. } => value.get().len(),
        Unshown::TimedOut { .. } => RECORD,
        Unshown::Finished(call) => call.output.len(),
        Unshown::Said(message) => message.content.stored_bytes(),
    }
}

fn raw(raw: Option<&Raw>) -> usize {
    raw.map_or(0, |raw| raw.get().len())
}
