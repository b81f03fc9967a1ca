//! How attempts of calls end, and what is recorded then.

use super::{
    draft::{Catalog, Draft, ToolKind, Transition},
    record::{CallStatus, InputRequired, Loss, Record},
    state::{
        Call,
        parts::{finished, todos},
    },
};
use crate::{locale::Locale, number::CallNo};

/// How an attempt of a call has ended.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// With a result, or an error.
    Finished {
        /// The call.
        call: CallNo,
        /// The attempt, from 1.
        attempt: u32,
        /// Its result, or the error.
        result: Result<String, String>,
    },
    /// With questions to a person (spec S13).
    Asks(InputRequired),
    /// It cannot resume with the answers to its questions: what it did before it asked is unknown, so a person decides
    /// whether it runs again (spec R4).
    Forgotten {
        /// The call.
        call: CallNo,
        /// The attempt, from 1.
        attempt: u32,
    },
}

impl CallOutcome {
    /// This attempt of a call has ended with a result, or an error.
    #[must_use]
    pub fn finished(call: CallNo, attempt: u32, result: Result<String, String>) -> CallOutcome {
        CallOutcome::Finished { call, attempt, result }
    }

    fn attempt(&self) -> (CallNo, u32) {
        match self {
            CallOutcome::Finished { call, attempt, .. } | CallOutcome::Forgotten { call, attempt } => (*call, *attempt),
            CallOutcome::Asks(InputRequired { call, attempt, .. }) => (*call, *attempt),
        }
    }
}

impl Draft {
    /// Attempts have ended, in this order, each with an append of its own. One that is not running is left out: its
    /// outcome is discarded, since the turn was cancelled. `None` if all are.
    #[must_use]
    pub fn ended(mut self, outcomes: &[CallOutcome], catalog: &dyn Catalog) -> Option<Transition> {
        for outcome in outcomes {
            let (call, attempt) = outcome.attempt();
            let Some(found) = self.state.attempt(call, attempt) else { continue };
            match outcome {
                CallOutcome::Finished { result, .. } => {
                    let record = finished_as(found, result, catalog, self.state.locale);
                    self.push(record);
                }
                CallOutcome::Asks(required) => self.asks_input(required.clone()),
                CallOutcome::Forgotten { .. } => self.push(Record::CallLost { call, why: Loss::QuestionsGone }),
            }
            self.settle(catalog);
            self.end_append();
        }
        Some(self.finish()).filter(|made| !made.is_empty())
    }
}

fn finished_as(call: &Call, result: &Result<String, String>, catalog: &dyn Catalog, locale: Locale) -> Record {
    let (status, output) = match result {
        Ok(output) => (CallStatus::Success, output),
        Err(message) => (CallStatus::Error, message),
    };
    let kind = catalog.tool(&call.agent, &call.name).map(|tool| tool.kind).unwrap_or_default();
    let todos = (kind == ToolKind::Todos && status == CallStatus::Success).then(|| todos(call)).flatten();
    finished(call, status, output, todos, locale)
}
