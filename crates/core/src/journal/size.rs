//! The approximate size of a session: the bytes of its records.
//!
//! It is counted with each record and bounds a session's growth, so it must be cheap: texts and images from people,
//! models, tools and graphs are counted by their length, and everything else by a constant.

use super::{
    record::{Block, InputQuestion, Note, Record, Unshown},
    run::Raw,
    schema::Schema,
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
            args + asked.question.as_ref().map_or(0, |at| at.payload.get().len() + schema(at.schema.as_deref()))
        }
        Record::InputRequired(required) => {
            let texts = |of: &InputQuestion| RECORD + of.payload.get().len() + schema(of.schema.as_deref());
            required.questions.iter().map(texts).sum::<usize>() + required.state.as_ref().map_or(0, |kept| kept.len())
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
        Record::Noted(noted) => match &noted.note {
            Note::Comment { text } | Note::Reassigned { text: Some(text), .. } => text.len(),
            Note::Reassigned { .. } | Note::Reminded { .. } | Note::Approved { .. } => 0,
        },
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

/// Of a question: its asker has written it.
fn schema(schema: Option<&Schema>) -> usize {
    schema.map_or(0, |schema| schema.0.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool may ask as long as somebody answers, or its questions time out.
    #[test]
    fn r9_what_a_tool_asks_counts_with_its_forms_and_what_is_kept_for_it() {
        let long = "x".repeat(1000);
        let (question, at) = (
            format!(r#""from":"shop","payload":"{long}","schema":{{"title":"{long}"}}"#),
            format!(r#"{{"task":0,"node":"shop","question":"q","payload":"{long}","schema":{{"title":"{long}"}}}}"#),
        );
        let asked = format!(
            r#"{{"input_required":{{"call":1,"attempt":1,"questions":[{{"name":"q",{question}}}],"state":"{long}"}}}}"#
        );
        let interrupted = format!(r#"{{"interrupted":{{"n":1,"kind":"input","actions":[],"question":{at}}}}}"#);
        for (record, texts) in [(asked, 3000), (interrupted, 2000)] {
            let size = of(&serde_json::from_str(&record).expect(&record));
            assert!((texts..texts + 1000).contains(&size), "{size}");
        }
    }
}
