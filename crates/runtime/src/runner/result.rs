//! What a run gives: its answer, or what waits for a person.

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

use super::{guardrail::GuardrailResult, interruption::Interruption};
use crate::run_state::RunState;

/// Where a run stands when nothing more happens by itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// The last answer. While something waits it is what was said so far.
    pub final_output: String,
    /// Why the last answer is not whole, if it is not: what was said is there, but not all of it (see
    /// [`Agent::on_cut`](crate::Agent::on_cut)).
    pub cut: Option<Cut>,
    /// What waits for a person, in the order of the calls; nothing, if the run is over.
    pub interruptions: Vec<Interruption>,
    /// All that is needed to go on: decide on it, keep it, send it elsewhere.
    pub state: RunState,
    /// Tokens of the whole run, with all its pauses.
    pub usage: Usage,
    /// Model calls of the whole run.
    pub model_calls: u64,
    /// The agent that answered last.
    pub last_agent: Arc<str>,
    /// What guardrails have said so far.
    pub guardrails: Vec<GuardrailResult>,
    /// The position at which this part of the run began.
    pub(crate) from: u64,
}

impl RunResult {
    /// Whether it waits for a person: for a decision, or for an answer.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.state.state().status == Status::AwaitingInput
    }

    /// The answer as a value of a type of your own: JSON, unless it is a text.
    ///
    /// # Errors
    /// It is not JSON, or not of that type.
    pub fn final_output_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        plain::read(&self.final_output)
    }

    /// The whole conversation, as the next model call would read it; calls that wait have no result yet.
    #[must_use]
    pub fn history(&self) -> Vec<Message> {
        self.messages(u64::MAX)
    }

    /// What has been added to the conversation by this part of the run.
    #[must_use]
    pub fn new_items(&self) -> Vec<Message> {
        let before = self.messages(self.from).len();
        self.history().into_iter().skip(before).collect()
    }

    fn messages(&self, until: u64) -> Vec<Message> {
        let mut conversation = Conversation::new();
        for entry in self.state.entries().iter().filter(|entry| entry.pos <= until) {
            conversation.apply(entry);
        }
        conversation.into_messages()
    }
}
