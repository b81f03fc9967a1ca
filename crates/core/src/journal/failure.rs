//! Turns that have failed: a failure is a pause (spec W2, S22).
//!
//! A failed turn keeps its calls and its requests, and begins nothing: no model call, no tool call, no new request.
//! Running calls end and their results are stored; decisions, answers and deadlines count, but take effect only when
//! [`Retried`] continues the turn. No effect is repeated.
//!
//! A failure ends the message of the stream, and a block needs an open one. So events that have a block are kept
//! ([`Unshown`]) and shown in the message that the retry begins.
//!
//! The answer that the model was giving stays readable as far as people have seen it. A retry asks for a new one, so it
//! marks those blocks as not part of the conversation ([`Retried::replaced`]); abandoning the turn leaves them, since
//! no answer follows in their place.
//!
//! Only a new message, a new run of a graph or a cancel abandons a failed turn. It is then retried and cancelled in one
//! append, so that its pending requests end as `cancelled` and every call has its result.

use std::sync::Arc;

use super::{
    draft::{Catalog, Draft, Transition},
    progress::GraphRun,
    record::{Block, CallStatus, EndReason, Failure, Record, Retried, TurnFailed, Unshown, Why},
    request_id::RequestId,
    state::{Phase, State, Status, parts::finished},
};
use crate::{
    number::{CallNo, RunNo},
    refusal::{Code, Refusal},
};

/// One attempt at a turn: what models and nodes began before a failure belongs to an earlier attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 1.
    pub number: u32,
    /// How often it has failed.
    pub failures: u32,
}

impl Unshown {
    /// The block that a record shows; `None` if it has none.
    fn of(record: &Record) -> Option<Unshown> {
        match record {
            Record::Decided(decided) if decided.last && !decided.declined => {
                Some(Unshown::Decided { n: decided.n, decisions: decided.decisions.clone() })
            }
            Record::Resumed(resumed) => Some(Unshown::Resumed { n: resumed.n, value: resumed.value.clone() }),
            Record::TimedOut { n, escalated } => Some(Unshown::TimedOut { n: *n, escalated: escalated.clone() }),
            Record::ReviewerSaid(message) => Some(Unshown::Said(message.clone())),
            Record::CallFinished(finished) if finished.is_shown() => Some(Unshown::Finished(finished.clone())),
            _ => None,
        }
    }
}

impl State {
    /// Whether the turn has failed and left something unfinished: a call without its result, a pending request, or a
    /// block to show.
    #[must_use]
    pub fn is_stopped_short(&self) -> bool {
        self.status == Status::Failed
            && (!self.open.is_empty()
                || !self.unshown.is_empty()
                || self.calls.iter().any(|call| call.phase != Phase::Finished))
    }

    /// The current try of the turn.
    #[must_use]
    pub fn turn(&self) -> Turn {
        Turn { number: self.turns, failures: self.failures }
    }

    /// Whether this try of the turn is under way.
    #[must_use]
    pub fn is_in(&self, turn: Turn) -> bool {
        self.turn() == turn && self.status.is_active()
    }

    /// How many model calls a run may still make, including its nested agents (spec S22, S24).
    #[must_use]
    pub fn calls_left(&self, run: RunNo, catalog: &dyn Catalog) -> u32 {
        let left = catalog.max_turns(&self.agent).max(self.allowed_calls).saturating_sub(self.turn_calls);
        match self.nested(run) {
            Some(nested) => left.min(catalog.max_turns(&nested.agent).saturating_sub(nested.turn_calls)),
            None => left,
        }
    }

    /// Whether there is something to retry: the turn, including one that is held, or a task of a graph's run that
    /// otherwise continues.
    #[must_use]
    pub fn is_to_be_retried(&self) -> bool {
        self.status == Status::Failed || self.has_failed_nodes() || self.held
    }

    /// Whether nodes of a graph's run have failed, even if others continue.
    #[must_use]
    pub fn has_failed_nodes(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.agent_loop && run.has_failed_task())
    }

    /// Whether only a retry continues it: the turn has failed, or is held with nothing that people could decide.
    #[must_use]
    pub fn needs_a_retry(&self) -> bool {
        self.status == Status::Failed || self.held && self.status == Status::Running
    }

    pub(super) fn keep_unshown(&mut self, record: &Record) {
        if self.status == Status::Failed {
            self.unshown.extend(Unshown::of(record).map(Arc::new));
        }
    }

    pub(super) fn turn_failed(&mut self, failed: &TurnFailed) {
        self.status = Status::Failed;
        self.failure = Some(failed.failure.clone());
        self.failures += 1;
        self.held = false;
        let seen: Vec<_> = self.shown.iter().chain(&failed.partial).filter_map(Block::shown_as).collect();
        let says = seen.iter().any(|block| !block.empty);
        self.broken_off = if says { u32::try_from(seen.len()).unwrap_or(u32::MAX) } else { 0 };
        // The unfinished output is not part of any answer.
        (self.shown, self.begun) = (Vec::new(), None);
    }

    pub(super) fn retried(&mut self, retried: &Retried) {
        if self.status == Status::Failed {
            self.status = Status::Running;
        }
        self.held = false;
        self.failure = None;
        self.broken_off = 0;
        if retried.more_calls > 0 {
            self.allowed_calls = self.turn_calls.saturating_add(retried.more_calls);
        }
        self.unshown = Vec::new();
        self.run(GraphRun::retry);
    }
}

impl Draft {
    /// Fails the turn. Does nothing if it has ended, or has failed already.
    pub fn fail(mut self, code: &str, message: String, partial: Option<Block>, catalog: &dyn Catalog) -> Transition {
        if self.state.status.is_active() {
            self.push_failure(Why::Error(code.to_owned()), message, partial);
        }
        self.settled(catalog)
    }

    /// An attempt ended with this result and in a way that fails its turn too, whatever the result means. For a call of a
    /// nested agent it ends only that agent's work: its caller gets the error. `None` if that attempt is not the running one.
    #[must_use]
    pub fn call_stopped(
        mut self,
        (call, attempt): (CallNo, u32),
        result: &str,
        message: &str,
        code: &str,
        catalog: &dyn Catalog,
    ) -> Option<Transition> {
        let found = self.state.attempt(call, attempt)?;
        let run = found.run;
        let record = finished(found, CallStatus::Error, result, None, self.state.locale);
        self.push(record);
        if run.is_nested() {
            self.stop_agent(run, message);
        } else if self.state.status.is_active() {
            self.push_failure(Why::Error(code.to_owned()), message.to_owned(), None);
        }
        Some(self.settled(catalog))
    }

    pub(super) fn push_failure(&mut self, why: Why, message: String, partial: Option<Block>) {
        let pending = self.state.pending();
        let failure = Arc::new(Failure { why, message });
        let partial = self.begun(partial);
        self.push(Record::TurnFailed(Box::new(TurnFailed { failure, pending, partial })));
    }

    /// Continues after a failure: the turn, or tasks of a graph's run while others run or are pending. Also continues a
    /// turn that is held: for a graph's turn with nothing pending, there is no other way to continue.
    ///
    /// # Errors
    /// `nothing_to_retry`; `max_turns` where the turn would fail again, since it has no model calls left.
    pub fn retry(mut self, mut retried: Retried, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        if !self.state.is_to_be_retried() {
            return Err(Refusal::new(Code::NothingToRetry, "nothing in this session has failed"));
        }
        let (made, most) = (self.state.turn_calls, catalog.max_turns(&self.state.agent));
        let was_held = self.state.held;
        retried.replaced = self.state.broken_off;
        self.push_retried(retried);
        if was_held {
            self.push_released();
        }
        let settled = self.settled(catalog);
        let is_spent =
            |record: &Record| matches!(record, Record::TurnFailed(failed) if failed.failure.why == Why::MaxTurns);
        if settled.records().any(is_spent) {
            return Err(Refusal::new(
                Code::MaxTurns,
                format!(
                    "the turn has made the {made} model calls that it may make; say how many more it gets, 1 to {most}, \
                     as \"more_calls\""
                ),
            ));
        }
        Ok(settled)
    }

    /// Abandons a failed turn. The records that follow are another append.
    pub(super) fn give_up_failed(&mut self, by: Option<&Arc<str>>, request_id: Option<RequestId>) {
        self.push_retried(Retried { by: by.cloned(), ..Retried::default() });
        self.end(EndReason::Cancelled, by, None, request_id);
        self.end_append();
    }

    fn push_retried(&mut self, mut retried: Retried) {
        retried.shown.clone_from(&self.state.unshown);
        let retried = Arc::new(retried);
        self.push(Record::Retried(retried.clone()));
        for unshown in &retried.shown {
            if let Unshown::Said(message) = &**unshown {
                self.push(Record::UserMessage(message.clone()));
            }
        }
    }
}
