//! Errors that end a run.
//!
//! An error carries a state from which no effect is repeated ([`RunError::into_state`]): the given one, as long as
//! nothing has run since, or the run's current one. If that cannot be read, it carries none.

use std::fmt;

use countersign_core::refusal::Refusal;

use crate::{
    agent::{AgentError, guardrail::GuardrailResult},
    run::budget::over_budget,
    run_state::{DecisionError, RunState, RunStateError},
};

/// An error that ended a run: [its kind](RunError::kind), a text, and [a state from which the run can
/// continue](RunError::state), even in the store that it failed in, or in another process. No effect is repeated, and
/// pending interruptions keep their keys. As long as nothing has run, every error has the given state, including one of
/// [`RunStream::next`](super::RunStream::next), so no decision made on that state is lost. Later the error has the
/// run's current state, or none if the store cannot read it. An error of a stream still has the given state then, since
/// the stream can be read further; the run's store refuses to run that state again
/// ([`Claimed`](RunErrorKind::Claimed)).
pub struct RunError(Box<Ended>);

struct Ended {
    cause: Cause,
    state: Option<RunState>,
}

/// What kind of error ended a run, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunErrorKind {
    /// The turn used up its model calls. It can continue with a larger limit (spec S24).
    MaxTurns,
    /// The model gave no answer, despite retries. The run can continue: the model is called once more.
    Model,
    /// A guardrail stopped the run (spec S11): [which one, and its finding or error](RunError::guardrail).
    Guardrail,
    /// The session has used up the run's budget (spec S22). It can continue with a larger one.
    Budget,
    /// The agent that answers next is not one of those given to this run (spec S19). The run can continue with the
    /// agent that it began with, or with one of the given agents after [`RunState::set_current_agent`].
    NoAgent,
    /// The last answer does not fit the agent's output type (spec S23): [what is wrong with
    /// it](RunError::output_errors).
    InvalidOutput,
    /// Another permanent failure, with a stable [code](RunError::code).
    Failed,
    /// A graph's run [has no result yet](super::GraphResult::done): it is paused. Answer the questions on its state to
    /// resume the run.
    Paused,
    /// The run was cancelled. The turn of its state has ended; the conversation continues with the next input.
    Cancelled,
    /// A decision or an answer came after its deadline (spec W7). Nothing has run. The error's state no longer has that
    /// decision or answer, and resuming from it applies the timeout.
    TooLate,
    /// A decision does not fit the pending request: [which decision, and why](RunError::decision). Nothing has run.
    Decision,
    /// [`RunConfig::max_cost`](super::config::RunConfig::max_cost) is set, and a model has no price (spec S22). Nothing
    /// has run. Give the model one.
    NoPrice,
    /// The run has continued from this state already: its store is newer, or, without one, the state or a clone of it was
    /// run in this process. Nothing has run now.
    Claimed,
    /// A setting of the run is invalid, or the state belongs to a store that the run does not have. Nothing has run.
    Settings,
    /// Another run is driving the session in the same store, and will store its outcomes: a run of this process, or one
    /// of another process that has stored nothing for a minute. Nothing has run here; wait for that run's result, and
    /// then load the state ([`RunState::load`]).
    SessionBusy,
    /// The state could not be read or saved: [why](RunError::state_error).
    State,
    /// The agents are not valid together.
    Agent,
    /// The runtime refused: the session has another owner, the input is too long, the store failed. See
    /// [`RunError::refusal`].
    Refused,
}

/// An error's cause, with the details for its text.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error("the turn used up its model calls: {0}")]
    MaxTurns(u32),
    #[error("the model failed: {0}")]
    Model(String),
    #[error("{}", stopped_by(.0))]
    Guardrail(Box<GuardrailResult>),
    #[error("{}", over_budget(what, *spent, *limit))]
    Budget { what: &'static str, spent: f64, limit: f64 },
    #[error(
        "the agent {agent:?} is to answer, and this run has only {known:?}: run the state with the agent that it began with, or \
         name one of these by RunState::set_current_agent"
    )]
    NoAgent { agent: String, known: Vec<String> },
    #[error("the answer does not fit the output type: {}", .0.join("; "))]
    InvalidOutput(Vec<String>),
    #[error("{message}")]
    Failed { code: String, message: String },
    #[error("the run is paused, so it has no result yet; pending: {0}")]
    Paused(usize),
    #[error("the run was cancelled")]
    Cancelled,
    #[error("the deadline for call {call_id:?} passed at {expired_at}")]
    TooLate { call_id: String, expired_at: String },
    #[error("{0}")]
    Decision(DecisionError),
    #[error(
        "max_cost is set, and the model {model:?} has no RunConfig::price; there are prices for {priced:?}. Give it one under this \
         name: one that costs nothing has a price of 0"
    )]
    NoPrice { model: String, priced: Vec<String> },
    #[error(
        "run {0:?} has already been resumed from this state, and its store is newer: continue with the state that it has now \
         (RunState::load)"
    )]
    Claimed(String),
    #[error(
        "this state of run {0:?}, or a clone of it, was run before in this process, and its calls would run again: go on with \
         the state that the run returned (RunResult::state, or RunError::into_state if it failed). With a store \
         (RunConfig::store) a run that was dropped goes on too. To repeat it on purpose, run a copy of its text"
    )]
    Ran(String),
    #[error(
        "session {0:?} is kept in a store, which this run does not have: only there is it known what has run. Run the state with \
         RunConfig::store and that store, or the session as store.session({0:?}); to go on elsewhere, put the state into \
         another store (RunState::save) and run it there"
    )]
    NoStore(String),
    #[error("the run cannot begin: {0}")]
    Settings(String),
    #[error("session {0:?} is already running in this process; wait for its result")]
    AtWork(String),
    #[error("session {session:?}: {why}")]
    Elsewhere { session: String, why: String },
    #[error("{0}")]
    State(RunStateError),
    #[error("{0}")]
    Agent(AgentError),
    #[error("{0}")]
    Refused(Refusal),
}

impl From<DecisionError> for RunError {
    fn from(error: DecisionError) -> RunError {
        RunError::new(Cause::Decision(error), None)
    }
}

impl From<RunStateError> for RunError {
    fn from(error: RunStateError) -> RunError {
        RunError::new(Cause::State(error), None)
    }
}

impl From<AgentError> for RunError {
    fn from(error: AgentError) -> RunError {
        RunError::new(Cause::Agent(error), None)
    }
}

impl From<Refusal> for RunError {
    fn from(refusal: Refusal) -> RunError {
        RunError::new(Cause::Refused(refusal), None)
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunError").field("cause", &self.0.cause).field("state", &self.0.state).finish()
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cause.fmt(f)
    }
}

impl std::error::Error for RunError {}

/// A guardrail's finding or error, as text.
fn stopped_by(GuardrailResult { guardrail, info, error, .. }: &GuardrailResult) -> String {
    match error {
        Some(error) => format!("the guardrail {guardrail:?} failed, so the run was stopped: {error}"),
        None => format!("the guardrail {guardrail:?} stopped the run: {info}"),
    }
}

impl RunError {
    pub(super) fn new(cause: Cause, state: Option<RunState>) -> RunError {
        RunError(Box::new(Ended { cause, state }))
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> RunErrorKind {
        match self.0.cause {
            Cause::MaxTurns(_) => RunErrorKind::MaxTurns,
            Cause::Model(_) => RunErrorKind::Model,
            Cause::Guardrail(_) => RunErrorKind::Guardrail,
            Cause::Budget { .. } => RunErrorKind::Budget,
            Cause::NoAgent { .. } => RunErrorKind::NoAgent,
            Cause::InvalidOutput(_) => RunErrorKind::InvalidOutput,
            Cause::Failed { .. } => RunErrorKind::Failed,
            Cause::Paused(_) => RunErrorKind::Paused,
            Cause::Cancelled => RunErrorKind::Cancelled,
            Cause::TooLate { .. } => RunErrorKind::TooLate,
            Cause::Decision(_) => RunErrorKind::Decision,
            Cause::NoPrice { .. } => RunErrorKind::NoPrice,
            Cause::Claimed(_) | Cause::Ran(_) => RunErrorKind::Claimed,
            Cause::Settings(_) | Cause::NoStore(_) => RunErrorKind::Settings,
            Cause::AtWork(_) | Cause::Elsewhere { .. } => RunErrorKind::SessionBusy,
            Cause::State(_) => RunErrorKind::State,
            Cause::Agent(_) => RunErrorKind::Agent,
            Cause::Refused(_) => RunErrorKind::Refused,
        }
    }

    /// The run's state, if it can continue; else the given state, if there was one and nothing has run since.
    #[must_use]
    pub fn state(&self) -> Option<&RunState> {
        self.0.state.as_ref()
    }

    /// The same, by value, to resume from.
    #[must_use]
    pub fn into_state(self) -> Option<RunState> {
        self.0.state
    }

    /// The guardrail that stopped the run, with its finding or error.
    #[must_use]
    pub fn guardrail(&self) -> Option<&GuardrailResult> {
        match &self.0.cause {
            Cause::Guardrail(result) => Some(result),
            _ => None,
        }
    }

    /// What is wrong with an answer that does not fit the output type, each with its path; empty for other errors.
    #[must_use]
    pub fn output_errors(&self) -> &[String] {
        match &self.0.cause {
            Cause::InvalidOutput(errors) => errors,
            _ => &[],
        }
    }

    /// Why a decision does not fit.
    #[must_use]
    pub fn decision(&self) -> Option<&DecisionError> {
        match &self.0.cause {
            Cause::Decision(error) => Some(error),
            _ => None,
        }
    }

    /// Why the state could not be read or saved.
    #[must_use]
    pub fn state_error(&self) -> Option<&RunStateError> {
        match &self.0.cause {
            Cause::State(error) => Some(error),
            _ => None,
        }
    }

    /// Why the runtime refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.0.cause {
            Cause::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The stable code of a failure that has no kind of its own. For the code of a refusal, see [`RunError::refusal`].
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match &self.0.cause {
            Cause::Failed { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The error with the given state, if it has none.
    pub(super) fn with(mut self, given: Option<RunState>) -> RunError {
        if self.0.state.is_none() {
            self.0.state = given;
        }
        self
    }
}
