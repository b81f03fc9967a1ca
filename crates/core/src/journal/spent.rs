//! What models have used: answers, model calls and tokens (spec S22, S24).
//!
//! Each answer that a model has finished counts, used or not: an answer that is discarded was paid for, and a model that
//! only gives such answers must meet its limits too. [`Record::spent`] is the one place that says what counts. A state
//! adds it up, and so does any program that has prices for it.

use std::sync::Arc;

use super::{
    draft::Draft,
    record::{AnswersDiscarded, Compressed, ModelResponded, Record, Usage},
    state::State,
};
use crate::number::RunNo;

/// What a record says was used.
#[derive(Clone, Copy, Debug)]
pub struct Spent<'a> {
    /// The configured name of the model.
    pub model: &'a Arc<str>,
    /// Its model calls, each with an answer.
    pub calls: u32,
    /// Their tokens.
    pub usage: &'a Usage,
    /// The run whose model calls they are; `None` for a summary, which is not part of a turn.
    pub run: Option<RunNo>,
}

impl Record {
    /// What it says was used, if anything.
    #[must_use]
    pub fn spent(&self) -> Option<Spent<'_>> {
        match self {
            Record::ModelResponded(answer) => Some(answer.spent()),
            Record::AnswersDiscarded(discarded) => Some(discarded.spent()),
            Record::Compressed(compressed) => compressed.spent(),
            _ => None,
        }
    }
}

impl ModelResponded {
    /// What it took: one call, or several if it continues after a cut.
    #[must_use]
    pub fn spent(&self) -> Spent<'_> {
        let calls = self.continued.saturating_add(1);
        Spent { model: &self.model, calls, usage: &self.usage, run: Some(self.run) }
    }
}

impl Compressed {
    /// A summary counts even if it was not usable.
    pub(super) fn spent(&self) -> Option<Spent<'_>> {
        Some(Spent { model: self.model.as_ref()?, calls: 1, usage: &self.usage, run: None })
    }
}

impl AnswersDiscarded {
    fn spent(&self) -> Spent<'_> {
        Spent { model: &self.model, calls: self.calls, usage: &self.usage, run: Some(self.run) }
    }

    /// Adds an answer to the discarded ones of the same run.
    pub fn add(all: &mut Option<AnswersDiscarded>, answer: Spent<'_>) {
        let Spent { model, calls, usage, run } = answer;
        let none = || AnswersDiscarded {
            model: model.clone(),
            run: run.unwrap_or_default(),
            calls: 0,
            usage: Usage::default(),
        };
        let all = all.get_or_insert_with(none);
        all.calls = all.calls.saturating_add(calls);
        all.usage.add(usage);
    }
}

impl State {
    /// Adds what was used.
    pub(super) fn spend(&mut self, spent: Spent<'_>) {
        let Spent { model, calls, usage, run } = spent;
        self.answers.add(model, calls.into());
        self.usage.add(usage);
        let Some(run) = run else { return };
        self.turn_calls = self.turn_calls.saturating_add(calls);
        if run.is_nested()
            && let Some(nested) = self.nested.iter_mut().find(|nested| nested.call.run() == run)
        {
            nested.turn_calls = nested.turn_calls.saturating_add(calls);
        }
    }

    pub(super) fn answers_discarded(&mut self, discarded: &AnswersDiscarded) {
        self.spend(discarded.spent());
        self.discarded_calls = self.discarded_calls.saturating_add(discarded.calls);
    }

    /// Whether a model has given an answer in the current turn that is part of the conversation.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.turn_calls > self.discarded_calls
    }
}

impl Draft {
    /// Records the answers that are discarded, if there are any, before what follows from them. Those of a run that waits for
    /// no answer do not count: it has ended.
    pub fn discards(mut self, discarded: Option<&AnswersDiscarded>) -> Draft {
        if let Some(discarded) = discarded.filter(|discarded| self.state.wants_answer(discarded.run)) {
            self.push(Record::AnswersDiscarded(discarded.clone()));
        }
        self
    }
}
