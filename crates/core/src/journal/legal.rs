//! The rules of a journal: whether an append can follow those before it. They refuse what no transition of the core
//! makes. Every journal that is read must keep them, whether it comes from a store, a restored state or a fuzzer; and
//! so must every new append, before it is stored: one that breaks a rule would make its session unreadable.
//!
//! `State::append` reads an append whole, and a draft asks about each record as it makes it, which needs no second
//! fold: both by `State::may_come` and `State::may_end`.

mod calls;
mod graph;
mod people;
mod said;
mod turns;

pub use super::illegal::Illegal;
use super::{
    checkpoint::is_whole,
    fork::{is_open_to_edits, must_be_judged},
    record::{Compressed, Entry, Forked, Millis, Record},
    state::{Call, Phase, State, Status},
};
use crate::time::MAX_TIME;

impl State {
    /// Applies the next append, if it is legal. If it is not, the state must be discarded. What an append says about
    /// the event stream is checked by [`Session::append`](crate::session::Session::append), which is the whole
    /// rulebook.
    ///
    /// # Errors
    /// The rule it breaks.
    pub(crate) fn append(&mut self, entry: &Entry) -> Result<(), Illegal> {
        if entry.pos != self.pos + 1 {
            return Err(Illegal("it is not at the next position"));
        }
        is_time(entry.at)?;
        if entry.at < self.updated_at {
            return Err(Illegal("it is older than the entry before it"));
        }
        if entry.records.is_empty() {
            return Err(Illegal("nothing happens in it"));
        }
        self.begin(entry.pos, entry.at);
        for (i, record) in entry.records.iter().enumerate() {
            self.may_come(entry.records.first().filter(|_| i > 0), record)?;
            self.take(record);
        }
        self.may_end()
    }

    /// Whether a record can come next in the append that has begun, after its first record, if it has one.
    ///
    /// # Errors
    /// The rule it breaks.
    pub(super) fn may_come(&self, first: Option<&Record>, record: &Record) -> Result<(), Illegal> {
        let before = self.pos.saturating_sub(1);
        is_time(self.updated_at)?;
        let created = matches!(record, Record::SessionCreated(_));
        if created != (before == 0 && first.is_none()) {
            return Err(Illegal("a session is made by its first entry, and only there"));
        }
        if let Some(first) = first
            && self.must_be_first(first, record)
        {
            return Err(Illegal("a fork, a compression and what begins a turn must be the first in their entry"));
        }
        follows(self, before, record)
    }

    /// Whether the append that has begun can end here.
    ///
    /// # Errors
    /// The rule it breaks.
    pub(super) fn may_end(&self) -> Result<(), Illegal> {
        // An append holds everything that its input led to. In a failed turn that waits for the retry.
        let failed = self.status == Status::Failed;
        let is_half_done = |call: &Call| match call.phase {
            Phase::Proposed => true,
            Phase::Settled(..) => !failed,
            _ => false,
        };
        if self.calls.iter().any(is_half_done) {
            return Err(Illegal("a call has no verdict or result after this append"));
        }
        Ok(())
    }

    /// Whether an append that begins with `first` has to begin with this record instead: cutting, copying and folding
    /// start there, between appends.
    fn must_be_first(&self, first: &Record, record: &Record) -> bool {
        match record {
            Record::Forked(_) | Record::Compressed(_) | Record::RunStarted(_) => true,
            // A fork may begin with another message here.
            Record::UserMessage(_) => !self.status.is_active() && !matches!(first, Record::Forked(_)),
            _ => false,
        }
    }
}

/// Whether stores can calculate with the time of an append.
fn is_time(at: Millis) -> Result<(), Illegal> {
    let fits = (0..=MAX_TIME).contains(&at);
    if fits { Ok(()) } else { Err(Illegal("its time is not between the years 1970 and 9999")) }
}

/// Whether a compression covers whole turns, and gives the right number of those left, so that no call loses its
/// result.
///
/// # Errors
/// It does not.
pub fn cuts_between_turns(state: &State, compressed: &Compressed, turns: &[u64]) -> Result<(), Illegal> {
    let kept = turns.iter().filter(|begin| **begin > compressed.through).count();
    let whole = compressed.through == state.window.from || turns.contains(&(compressed.through + 1));
    if whole && kept > 0 && kept == compressed.kept_turns as usize {
        Ok(())
    } else {
        Err(Illegal("it does not cover whole turns"))
    }
}

const UNLED: Illegal = Illegal("the entries before it do not lead to it");

/// Whether a record can come next in this state, in the append after the one at `before`.
fn follows(state: &State, before: u64, record: &Record) -> Result<(), Illegal> {
    if let (Some(begun), Some(block)) = (&state.begun, record.first_block())
        && !block.begins_as(begun)
    {
        return Err(Illegal::WITHIN_A_BLOCK);
    }
    if let Record::Interrupted(asked) = record
        && !people::asked_in_time(state, asked)
    {
        return Err(Illegal("its times are impossible"));
    }
    if let Some(fits) = graph::fits(state, record) {
        return if fits { Ok(()) } else { Err(UNLED) };
    }
    let fits = match record {
        Record::SessionCreated(_) | Record::RuleRevoked(_) | Record::Renamed(_) => true,
        Record::UserMessage(_)
        | Record::ReviewerSaid(_)
        | Record::MessageQueued(_)
        | Record::BlockBegan(_)
        | Record::BlockShown(_)
        | Record::Replaced { .. }
        | Record::ModelResponded(_)
        | Record::AnswersDiscarded(_) => said::fits(state, record)?,
        Record::Interrupted(_)
        | Record::Decided(_)
        | Record::Answered(_)
        | Record::TimedOut { .. }
        | Record::Noted(_)
        | Record::Withdrawn { .. } => people::fits(state, record)?,
        Record::CallsGated(_)
        | Record::AgentBegan(_)
        | Record::HandedOff(_)
        | Record::CallStarted { .. }
        | Record::CallFinished(_)
        | Record::CallOutdated { .. }
        | Record::InputRequired(_)
        | Record::CallLost { .. }
        | Record::ApprovalSent { .. }
        | Record::ApprovalNotSent { .. } => calls::fits(state, record)?,
        Record::Restarted(_)
        | Record::Status { .. }
        | Record::TurnFailed(_)
        | Record::Retried(_)
        | Record::TurnEnded(_)
        | Record::MakeRoom(_)
        | Record::Compressed(_) => turns::fits(state, before, record),
        Record::Forked(forked) => forks(state, before, forked),
        Record::RunStarted(_)
        | Record::FrameBegan(_)
        | Record::TasksDone(_)
        | Record::TaskFailed(_)
        | Record::TaskWaits { .. }
        | Record::StepStarted { .. }
        | Record::StepDone { .. }
        | Record::Resumed(_)
        | Record::StateEdited(_)
        | Record::States(_) => false,
    };
    if fits { Ok(()) } else { Err(UNLED) }
}

/// Whether a session in this state can be forked like this.
fn forks(state: &State, before: u64, forked: &Forked) -> bool {
    is_whole(state)
        && forked.checkpoint == before
        && forked.withdrawn == state.pending()
        && forked.active == state.status.is_active()
        && forked.judged.iter().all(|judged| {
            let call = state.call(judged.call).filter(|call| call.id == judged.tool_use_id);
            call.is_some_and(|call| must_be_judged(call) && (judged.edited.is_none() || is_open_to_edits(call, state)))
        })
}
