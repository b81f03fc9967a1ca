//! Whose text the models of a turn have read: these people are requesters of every later call (spec P4).
//!
//! Under `not_self` they may not approve calls that were made later, by any agent of the session.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    approval::decision::{Choice, Decision},
    journal::record::{Decided, Record},
    number::CallNo,
};

/// Who has spoken in the current turn of a session, with the number of calls the session had when they first did.
///
/// Nested agents read each other's results, so a message to one of them counts for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Speakers(Arc<BTreeMap<Arc<str>, u32>>);

impl Speakers {
    /// Whether nobody has spoken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this person has spoken, which makes them a requester of the models' next calls.
    #[must_use]
    pub fn include(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
    }

    /// Whether this person had spoken before the call of this number was made.
    #[must_use]
    pub fn asked_for(&self, subject: &str, call: CallNo) -> bool {
        self.0.get(subject).is_some_and(|calls| call.get() > *calls)
    }

    fn add(&mut self, subject: Option<&Arc<str>>, calls: u32) {
        if let Some(subject) = subject.filter(|subject| !self.0.contains_key(*subject)) {
            Arc::make_mut(&mut self.0).insert(subject.clone(), calls);
        }
    }

    /// Notes whose text the models read. Comments on a request are for people, and a plain approval or rejection has no
    /// text of its own.
    ///
    /// `active`: whether a turn is under way before the record, in a session that has made this many `calls`.
    pub(in crate::journal) fn note(&mut self, record: &Record, active: bool, calls: u32) {
        match record {
            Record::UserMessage(message) => {
                if !active {
                    *self = Speakers::default();
                }
                self.add(message.by.as_ref(), calls);
            }
            Record::RunStarted(started) => {
                *self = Speakers::default();
                self.add(started.by.as_ref(), calls);
            }
            Record::Decided(decided) if speaks(decided) => self.add(decided.by.as_ref(), calls),
            Record::Answered(answered) => self.add(answered.by.as_ref(), calls),
            Record::Resumed(resumed) => self.add(resumed.by.as_ref(), calls),
            Record::StateEdited(edited) => self.add(edited.by.as_ref(), calls),
            // A standing rule may carry a message from its author.
            Record::CallsGated(gates) => {
                gates.iter().for_each(|gate| self.add(gate.said_by.as_ref(), calls));
            }
            Record::Forked(forked) => {
                let edits = forked.judged.iter().any(|one| one.edited.is_some());
                self.add(forked.by.as_ref().filter(|_| edits), calls);
                forked.judged.iter().for_each(|one| self.add(one.said_by.as_ref(), calls));
            }
            _ => {}
        }
    }
}

/// Whether a decision has its own text: a reason, other arguments, a result.
fn speaks(decided: &Decided) -> bool {
    let words = |decision: &Decision| match &decision.choice {
        Choice::Edit(_) | Choice::Respond { .. } => true,
        Choice::Reject { message, .. } => message.is_some(),
        Choice::Approve { .. } | Choice::Defer => false,
    };
    decided.decisions.iter().any(words)
}
