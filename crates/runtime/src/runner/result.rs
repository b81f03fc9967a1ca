//! The result of a run: its answer, or its pending interruptions.

use std::sync::Arc;

use countersign_core::{
    conversation::{Conversation, Message},
    journal::{
        record::{Cut, Usage},
        state::Status,
    },
    plain,
};
use serde::de::DeserializeOwned;

use crate::{agent::guardrail::GuardrailResult, interruption::Interruption, run_state::RunState};

/// The result of a run that has ended or paused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// The last answer. During a pause it is the text so far.
    pub final_output: String,
    /// Why the last answer is incomplete, if it is: the text so far is there (see
    /// [`Agent::on_cut`](crate::agent::Agent::on_cut)).
    pub cut: Option<Cut>,
    /// The pending interruptions, in the order of the calls; empty if the run has ended.
    pub interruptions: Vec<Interruption>,
    /// Everything needed to resume: make decisions on it, store it, send it elsewhere.
    pub state: RunState,
    /// Tokens of the whole session so far, with all its turns and their pauses; those of this part alone are
    /// [`RunResult::new_usage`].
    pub usage: Usage,
    /// Answered model calls of the whole session so far, including those for summaries.
    pub model_calls: u64,
    /// The agent that answered last.
    pub last_agent: Arc<str>,
    /// The results of guardrails so far.
    pub guardrails: Vec<GuardrailResult>,
    /// The position at which this part of the run began.
    pub(crate) from: u64,
}

impl RunResult {
    /// Whether it has pending interruptions.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.state.state().status == Status::AwaitingInput
    }

    /// Reads the answer, which must be JSON, as a value of your own type.
    ///
    /// # Errors
    /// The answer is not JSON, or not of that type.
    pub fn final_output_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        plain::read(&self.final_output)
    }

    /// The whole conversation, as the next model call would read it; pending calls have no result yet.
    #[must_use]
    pub fn history(&self) -> Vec<Message> {
        self.fold(Conversation::new()).into_messages()
    }

    /// The messages that this part of the run added to the conversation, in the conversation's order: a new result may
    /// come before one that was there already. Messages compressed since are no longer in the conversation.
    #[must_use]
    pub fn new_items(&self) -> Vec<Message> {
        self.fold(Conversation::with_positions()).into_messages_since(self.from)
    }

    /// Tokens of this part of the run: from its input, or from the decisions on a paused state, until it paused or ended.
    /// The parts of a session add up to [`RunResult::usage`].
    #[must_use]
    pub fn new_usage(&self) -> Usage {
        let entries = self.state.entries().iter().filter(|entry| entry.pos > self.from);
        entries.flat_map(|entry| &entry.records).filter_map(|record| record.spent()).fold(
            Usage::default(),
            |mut all, spent| {
                all.add(spent.usage);
                all
            },
        )
    }

    fn fold(&self, mut conversation: Conversation) -> Conversation {
        self.state.entries().iter().for_each(|entry| conversation.apply(entry));
        conversation
    }
}
