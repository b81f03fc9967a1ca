//! Turns that have failed: a failure is a pause (spec W2, S22).
//!
//! A turn that fails keeps its calls and its requests. Nothing is carried out any more: no model is asked, no tool begins,
//! nobody is asked anything new. What has begun comes to its end and is stored; decisions, answers and deadlines count.
//! [`Retried`] lets it go on from there, and what follows from all of that follows then. Nothing is done a second time.
//!
//! The message of the stream ends with the failure, and a block needs one that is open. So what would have been shown in
//! the meantime ([`Unshown`]) is kept, and shown in the message that begins with the retry.
//!
//! Only a new message, a new run of a graph or a cancel gives such a turn up: it is retried and cancelled in one append,
//! so that everything that was pending says `cancelled`, and every call has its result.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    draft::{Catalog, Draft, Transition},
    record::{Block, CallFinished, CallStatus, EndReason, Record},
    run::{GraphRun, Raw},
    state::{Phase, State, Status},
};
use crate::{
    approval::{decision::Decision, reviewer::Reviewer},
    refusal::{Code, Refusal},
    wire::event::StopReason,
};

/// See [`Record::TurnFailed`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnFailed {
    /// Why.
    pub failure: Arc<Failure>,
    /// The numbers of the interruptions that stay pending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<u32>,
    /// The block that the model has begun, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Block>,
}

/// Why a turn has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub why: Why,
    /// For people, without secrets.
    pub message: String,
}

/// See [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It used up its model calls (spec S24).
    MaxTurns,
    /// Something else, by a stable code such as `model_error`.
    Error(String),
}

impl Failure {
    /// Its code on the wire.
    #[must_use]
    pub fn code(&self) -> &str {
        match &self.why {
            Why::MaxTurns => "max_turns",
            Why::Error(code) => code,
        }
    }

    /// How the message of the stream ends with it.
    #[must_use]
    pub fn stop_reason(&self) -> StopReason {
        match self.why {
            Why::MaxTurns => StopReason::MaxTurns,
            Why::Error(_) => StopReason::Error,
        }
    }
}

/// A turn between two of its failures: models and nodes that were at work before a failure belong to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 1.
    pub number: u32,
    /// How often it has failed.
    pub failures: u32,
}

/// See [`Record::Retried`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Retried {
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// How many more model calls the turn may make than its agent allows.
    #[serde(default, skip_serializing_if = "super::record::is_zero")]
    pub more_calls: u32,
    /// What has happened since the turn failed, as far as it has a block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Unshown>,
    /// The client's `request_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Arc<str>>,
}

/// What has happened while a turn had failed, and has a block in the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unshown {
    /// People decided.
    Decided {
        /// The interruption's number.
        n: u32,
        /// One for each action.
        decisions: Vec<Decision>,
    },
    /// A person answered a graph, or a tool that asked.
    Resumed {
        /// The interruption's number.
        n: u32,
        /// The answer.
        value: Raw,
    },
    /// A deadline came first.
    TimedOut {
        /// The interruption's number.
        n: u32,
        /// Who is asked next.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        escalated: Vec<Reviewer>,
    },
    /// A call has its result.
    Finished(CallFinished),
}

impl Unshown {
    /// What a record shows in a block; `None` if it has none.
    fn of(record: &Record) -> Option<Unshown> {
        match record {
            Record::Decided(decided) if decided.last && !decided.question => {
                Some(Unshown::Decided { n: decided.n, decisions: decided.decisions.clone() })
            }
            Record::Resumed(resumed) => Some(Unshown::Resumed { n: resumed.n, value: resumed.value.clone() }),
            Record::TimedOut { n, escalated } => Some(Unshown::TimedOut { n: *n, escalated: escalated.clone() }),
            Record::CallFinished(finished) if finished.is_shown() => Some(Unshown::Finished(finished.clone())),
            _ => None,
        }
    }
}

impl State {
    /// Whether the turn has failed and has something to be taken up again or given up: a call without its result, a
    /// pending request, or what nobody was shown yet.
    #[must_use]
    pub fn is_stopped_short(&self) -> bool {
        self.status == Status::Failed
            && (!self.open.is_empty()
                || !self.unshown.is_empty()
                || self.calls.iter().any(|call| call.phase != Phase::Finished))
    }

    /// The turn that this is.
    #[must_use]
    pub fn turn(&self) -> Turn {
        Turn { number: self.turns, failures: self.failures }
    }

    /// Whether the turn is this one and is under way.
    #[must_use]
    pub fn is_in(&self, turn: Turn) -> bool {
        self.turn() == turn && self.status.is_active()
    }

    /// Whether the turn has used up its model calls (spec S24).
    #[must_use]
    pub fn is_out_of_calls(&self, catalog: &dyn Catalog) -> bool {
        self.turn_calls >= catalog.max_turns(&self.agent).saturating_add(self.more_calls)
    }

    pub(super) fn keep_unshown(&mut self, record: &Record) {
        if self.status == Status::Failed {
            self.unshown.extend(Unshown::of(record));
        }
    }

    pub(super) fn turn_failed(&mut self, failed: &TurnFailed) {
        self.status = Status::Failed;
        self.failure = Some(failed.failure.clone());
        self.failures += 1;
        self.held = false;
        // What the model was saying is part of no answer.
        (self.shown, self.begun) = (Vec::new(), None);
    }

    pub(super) fn retried(&mut self, retried: &Retried) {
        self.status = Status::Running;
        self.held = false;
        self.failure = None;
        self.more_calls = self.more_calls.saturating_add(retried.more_calls);
        self.unshown = Vec::new();
        self.run(GraphRun::retry);
    }
}

impl Draft {
    /// The turn failed for good; nothing changes where it is over or has failed already.
    pub fn fail(mut self, code: &str, message: String, partial: Option<Block>, catalog: &dyn Catalog) -> Transition {
        if self.state.status.is_active() {
            self.turn_failed(Why::Error(code.to_owned()), message, partial);
        }
        self.settle(catalog)
    }

    /// An attempt came to an end that fails its turn too, whatever the turn would make of the result. If the call is one of an
    /// agent that works for another one's call, it ends only that agent's work: its caller is told. `None` if that attempt is
    /// not the running one.
    #[must_use]
    pub fn call_stopped(
        mut self,
        call: u32,
        attempt: u32,
        message: &str,
        code: &str,
        catalog: &dyn Catalog,
    ) -> Option<Transition> {
        let found = self.state.calls.iter().find(|c| c.call == call && c.phase == Phase::Started(attempt))?;
        let run = found.run;
        let record = super::draft::finished(found, CallStatus::Error, message, None, self.state.locale);
        self.push(record);
        if run != 0 {
            self.stop_agent(run, message);
        } else if self.state.status.is_active() {
            self.turn_failed(Why::Error(code.to_owned()), message.to_owned(), None);
        }
        Some(self.settle(catalog))
    }

    pub(super) fn turn_failed(&mut self, why: Why, message: String, partial: Option<Block>) {
        let pending = self.state.open.iter().map(|open| open.asked.n).collect();
        let failure = Arc::new(Failure { why, message });
        let partial = self.begun(partial);
        self.push(Record::TurnFailed(Box::new(TurnFailed { failure, pending, partial })));
    }

    /// What has failed goes on: the turn, or tasks of a graph's run of which others still run or are pending. What is done
    /// stays done. With no failure, a turn that is held after its process ended in the middle of it.
    ///
    /// # Errors
    /// `nothing_to_retry`; `budget_spent` where the next thing were a model call and the turn may make no more, unless
    /// `retried` brings some.
    pub fn retry(mut self, mut retried: Retried, catalog: &dyn Catalog) -> Result<Transition, Refusal> {
        let failed = self.state.status == Status::Failed;
        if !failed && self.state.restarts > 0 && self.state.held {
            self.release();
            return Ok(self.settle(catalog));
        }
        let own_graph = self.state.run.as_ref().filter(|run| !run.agent_loop);
        if !failed && !own_graph.is_some_and(|run| run.has_failed_task()) {
            return Err(Refusal::new(Code::NothingToRetry, "nothing in this session has failed"));
        }
        retried.shown.clone_from(&self.state.unshown);
        self.push(Record::Retried(Arc::new(retried)));
        if self.state.wants_answer(0) {
            if self.state.is_out_of_calls(catalog) {
                let most = catalog.max_turns(&self.state.agent);
                return Err(Refusal::new(
                    Code::BudgetSpent,
                    format!(
                        "the turn has made the {} model calls that it may make; say how many more it gets, 1 to {most}, as \"more_calls\"",
                        self.state.turn_calls
                    ),
                ));
            }
            self.queue_reaches_the_model();
        }
        Ok(self.settle(catalog))
    }

    /// A turn that has failed is given up, if anything of it is left.
    pub(super) fn give_up_failed(&mut self, by: Option<&Arc<str>>, request_id: Option<Arc<str>>) {
        if !self.state.is_stopped_short() {
            return;
        }
        let shown = self.state.unshown.clone();
        self.push(Record::Retried(Arc::new(Retried { by: by.cloned(), shown, ..Retried::default() })));
        // What was said to this turn is heard by the next one.
        self.queue_reaches_the_model();
        self.end(EndReason::Cancelled, by, None, request_id);
    }
}
