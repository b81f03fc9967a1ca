//! Errors that end a run.
//!
//! An error never loses a state: one that was given to a run comes back ([`RunError::into_state`]), unchanged if the
//! run did not get past it.

use countersign_core::refusal::Refusal;

use crate::{
    agent::AgentError,
    run_state::{DecisionError, RunState, RunStateError},
};
use crate::{agent::guardrail::GuardrailResult, run::budget::over_budget};

/// An error that ended a run. If it has a `state`, the run can continue from it, also in the store that it failed in,
/// and in another process: nothing is done twice, and pending interruptions keep their keys. A given state is in every
/// error, also in one of [`RunStream::next`](super::RunStream::next): no decision made on it is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The turn used up its model calls. It can continue with a larger limit (spec S24).
    #[error("the turn used up its model calls: {limit}")]
    MaxTurns {
        /// The limit.
        limit: u32,
        /// The run's state.
        state: Box<RunState>,
    },
    /// The model gave no answer, despite retries. The run can continue: the model is asked once more.
    #[error("the model failed: {message}")]
    Model {
        /// The error, without secrets.
        message: String,
        /// The run's state.
        state: Box<RunState>,
    },
    /// A guardrail stopped the run (spec S11).
    #[error("{}", stopped_by(result))]
    Guardrail {
        /// Which one, and its finding or error.
        result: Box<GuardrailResult>,
        /// The run's state.
        state: Box<RunState>,
    },
    /// The run has used up its budget (spec S22). It can continue with a larger one.
    #[error("{}", over_budget(what, *spent, *limit))]
    Budget {
        /// `tokens` or `money`.
        what: &'static str,
        /// How much was used.
        spent: f64,
        /// The budget.
        limit: f64,
        /// The run's state.
        state: Box<RunState>,
    },
    /// The agent that is to answer is not one of those given to this run (spec S19). It can continue: with the agent
    /// that it began with, or with one of these after [`RunState::set_current_agent`].
    #[error(
        "the agent {agent:?} is to answer, and this run has only {known:?}: run the state with the agent that it began with, or \
         name one of these by RunState::set_current_agent"
    )]
    NoAgent {
        /// The agent that is missing.
        agent: String,
        /// The available agents.
        known: Vec<String>,
        /// The run's state.
        state: Box<RunState>,
    },
    /// The last answer does not fit the agent's output type (spec S23).
    #[error("the answer does not fit the output type: {}", errors.join("; "))]
    InvalidOutput {
        /// What is wrong with it, each with its path.
        errors: Vec<String>,
        /// The run's state.
        state: Box<RunState>,
    },
    /// Another permanent failure.
    #[error("{message}")]
    Failed {
        /// A stable code.
        code: String,
        /// What failed.
        message: String,
        /// The run's state.
        state: Box<RunState>,
    },
    /// It was cancelled.
    #[error("the run was cancelled")]
    Cancelled {
        /// The run's state: its turn is over.
        state: Box<RunState>,
    },
    /// A decision or an answer came after its deadline (spec W7). Nothing has run. It is retracted in `state`: resuming
    /// that applies the timeout.
    #[error("the time to decide about the call {call_id:?} was over at {expired_at}")]
    TooLate {
        /// The call.
        call_id: String,
        /// The deadline (RFC 3339).
        expired_at: String,
        /// The run's state.
        state: Box<RunState>,
    },
    /// A decision does not fit the pending request. Nothing has run.
    #[error("{error}")]
    Decision {
        /// Which one, and why.
        error: DecisionError,
        /// The state as it was given.
        state: Option<Box<RunState>>,
    },
    /// [`RunConfig::max_cost`](super::config::RunConfig::max_cost) is set, and a model has no price (spec S22). Nothing
    /// has run.
    #[error(
        "max_cost is set, and the model {model:?} has no RunConfig::price; there are prices for {priced:?}. Give it one under this \
         name: one that costs nothing has a price of 0"
    )]
    NoPrice {
        /// The model without a price, as the journal names it.
        model: String,
        /// The models that have one.
        priced: Vec<String>,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// The run has continued elsewhere: its store is newer than this state. Nothing has run.
    #[error("the run {session_id:?} has gone on from this state already, in this store")]
    Claimed {
        /// The session.
        session_id: String,
        /// The state as it was given.
        state: Box<RunState>,
    },
    /// A setting of the run is invalid. Nothing has run.
    #[error("the run cannot begin: {what}")]
    Settings {
        /// Which one, and what is valid.
        what: String,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// Another run of this process is working on the session, in the same store: its effects will have outcomes.
    /// Nothing has run here; wait for that run's result, and get the state then ([`RunState::save`]).
    #[error("the session {session_id:?} is at work in this process: wait for what comes of it")]
    AtWork {
        /// The session.
        session_id: String,
        /// The state as it was given.
        state: Box<RunState>,
    },
    /// The state could not be read or restored.
    #[error("{error}")]
    State {
        /// Why.
        error: RunStateError,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// The agents are not valid together.
    #[error("{error}")]
    Agent {
        /// Why.
        error: AgentError,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// The runtime refused: the session has another owner, the input is too long, the store failed.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The state, if one was given, with the decisions on it.
        state: Option<Box<RunState>>,
    },
}

impl From<DecisionError> for RunError {
    fn from(error: DecisionError) -> RunError {
        RunError::Decision { error, state: None }
    }
}

impl From<RunStateError> for RunError {
    fn from(error: RunStateError) -> RunError {
        RunError::State { error, state: None }
    }
}

impl From<AgentError> for RunError {
    fn from(error: AgentError) -> RunError {
        RunError::Agent { error, state: None }
    }
}

impl From<Refusal> for RunError {
    fn from(refusal: Refusal) -> RunError {
        RunError::Refused { refusal, state: None }
    }
}

/// A guardrail's finding or error, as text.
fn stopped_by(GuardrailResult { guardrail, info, error, .. }: &GuardrailResult) -> String {
    match error {
        Some(error) => format!("the guardrail {guardrail:?} failed, so the run was stopped: {error}"),
        None => format!("the guardrail {guardrail:?} stopped the run: {info}"),
    }
}

impl RunError {
    /// The run's state, if it can continue; else the given state, if there was one.
    #[must_use]
    pub fn state(&self) -> Option<&RunState> {
        match self {
            RunError::MaxTurns { state, .. }
            | RunError::Model { state, .. }
            | RunError::Guardrail { state, .. }
            | RunError::Budget { state, .. }
            | RunError::NoAgent { state, .. }
            | RunError::InvalidOutput { state, .. }
            | RunError::Failed { state, .. }
            | RunError::TooLate { state, .. }
            | RunError::Claimed { state, .. }
            | RunError::AtWork { state, .. }
            | RunError::Cancelled { state } => Some(state),
            RunError::Decision { state, .. }
            | RunError::NoPrice { state, .. }
            | RunError::Settings { state, .. }
            | RunError::State { state, .. }
            | RunError::Agent { state, .. }
            | RunError::Refused { state, .. } => state.as_deref(),
        }
    }

    /// The same, by value, to resume from.
    #[must_use]
    pub fn into_state(self) -> Option<RunState> {
        match self {
            RunError::MaxTurns { state, .. }
            | RunError::Model { state, .. }
            | RunError::Guardrail { state, .. }
            | RunError::Budget { state, .. }
            | RunError::NoAgent { state, .. }
            | RunError::InvalidOutput { state, .. }
            | RunError::Failed { state, .. }
            | RunError::TooLate { state, .. }
            | RunError::Claimed { state, .. }
            | RunError::AtWork { state, .. }
            | RunError::Cancelled { state } => Some(*state),
            RunError::Decision { state, .. }
            | RunError::NoPrice { state, .. }
            | RunError::Settings { state, .. }
            | RunError::State { state, .. }
            | RunError::Agent { state, .. }
            | RunError::Refused { state, .. } => state.map(|state| *state),
        }
    }

    /// The error with the given state, if it has none.
    pub(super) fn with(mut self, given: Option<RunState>) -> RunError {
        if let RunError::Decision { state, .. }
        | RunError::NoPrice { state, .. }
        | RunError::Settings { state, .. }
        | RunError::State { state, .. }
        | RunError::Agent { state, .. }
        | RunError::Refused { state, .. } = &mut self
            && state.is_none()
        {
            *state = given.map(Box::new);
        }
        self
    }
}
