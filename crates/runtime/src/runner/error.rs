//! Why a run ended otherwise than by itself.
//!
//! An error never loses a state: one that was given to a run comes back ([`RunError::into_state`]), unchanged if the
//! run did not get past it.

use countersign_core::refusal::Refusal;

use super::guardrail::GuardrailResult;
use crate::{
    agent::AgentError,
    run_state::{DecisionError, RunState, RunStateError},
};

/// Why a run ended otherwise than by itself. Where there is a `state`, the run can continue with it, also in the store that
/// it failed in, and in another process: nothing that was done is done again, and what was pending stays pending under its
/// keys. A state that was given is in every error, also in one of [`RunStream::next`](super::RunStream::next): nothing that
/// was decided on it is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The turn used up its model calls. It can go on with a larger limit (spec S24).
    #[error("the turn used up its model calls: {limit}")]
    MaxTurns {
        /// The limit.
        limit: u32,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// The model gave no answer, also when it was asked again. It can go on: the model is asked once more.
    #[error("the model failed: {message}")]
    Model {
        /// What failed, without secrets.
        message: String,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// A guardrail stopped the run (spec S11).
    #[error("{}", stopped_by(result))]
    Guardrail {
        /// Which, and what it found, or what went wrong with it.
        result: Box<GuardrailResult>,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// The run has used what it may use (spec S22). It can go on with a larger budget.
    #[error("{}", over_budget(what, *spent, *limit))]
    Budget {
        /// `tokens` or `money`.
        what: &'static str,
        /// How much it has used.
        spent: f64,
        /// How much it may.
        limit: f64,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// The agent that is to answer is not one of those that this run was given (spec S19). It can go on: with the agent that it
    /// began with, or with one of these after [`RunState::set_current_agent`].
    #[error(
        "the agent {agent:?} is to answer, and this run has only {known:?}: run the state with the agent that it began with, or \
         name one of these by RunState::set_current_agent"
    )]
    NoAgent {
        /// The agent that is missing.
        agent: String,
        /// The agents that there are.
        known: Vec<String>,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// The last answer is not of the agent's output type (spec S23).
    #[error("the answer does not fit the output type: {}", errors.join("; "))]
    InvalidOutput {
        /// What is wrong with it, each with its place.
        errors: Vec<String>,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// Something else failed for good.
    #[error("{message}")]
    Failed {
        /// A stable code.
        code: String,
        /// What failed.
        message: String,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// Somebody stopped it.
    #[error("the run was cancelled")]
    Cancelled {
        /// Where the run stands: its turn is over.
        state: Box<RunState>,
    },
    /// A decision or an answer came after its deadline (spec W7). Nothing has run. It is taken back in `state`: a run that goes on
    /// with that has the time-out.
    #[error("the time to decide about the call {call_id:?} was over at {expired_at}")]
    TooLate {
        /// The call.
        call_id: String,
        /// When it was over (RFC 3339).
        expired_at: String,
        /// Where the run stands.
        state: Box<RunState>,
    },
    /// A decision does not fit what waits. Nothing has run.
    #[error("{error}")]
    Decision {
        /// Which, and why.
        error: DecisionError,
        /// The state as it was given.
        state: Option<Box<RunState>>,
    },
    /// [`RunConfig::max_cost`](super::config::RunConfig::max_cost) is set, and a model has no price to count by (spec S22).
    /// Nothing has run.
    #[error(
        "max_cost is set, and the model {model:?} has no RunConfig::price; there are prices for {priced:?}. Give it one under this \
         name: one that costs nothing has a price of 0"
    )]
    NoPrice {
        /// The model without a price, as journals name it.
        model: String,
        /// The models that have one.
        priced: Vec<String>,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// The run goes on elsewhere: what its store has is newer than this state. Nothing has run.
    #[error("the run {session_id:?} has gone on from this state already, in this store")]
    Claimed {
        /// The session.
        session_id: String,
        /// The state as it was given.
        state: Box<RunState>,
    },
    /// What the run was given is no setting that could be meant. Nothing has run.
    #[error("the run cannot begin: {what}")]
    Settings {
        /// Which, and what would be right.
        what: String,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// Another run of this process is at work on the session, in the same store: what it runs has an outcome, which is not
    /// known yet. Nothing has run here; wait for what comes of it there, and take the state then
    /// ([`RunState::save`]).
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
    /// The agents do not fit together.
    #[error("{error}")]
    Agent {
        /// Why.
        error: AgentError,
        /// The state, if one was given.
        state: Option<Box<RunState>>,
    },
    /// The runtime refused: the session is somebody else's, the input is too long, the store failed.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// The state, if one was given, with what was decided on it.
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

/// What a guardrail has found, or why it could not look, in words.
fn stopped_by(GuardrailResult { guardrail, info, error, .. }: &GuardrailResult) -> String {
    match error {
        Some(error) => format!("the guardrail {guardrail:?} failed, so the run was stopped: {error}"),
        None => format!("the guardrail {guardrail:?} stopped the run: {info}"),
    }
}

/// What a run has used, in words. A sum of prices is told to a billionth: what is beyond that is how doubles add up.
pub(crate) fn over_budget(what: &str, spent: f64, limit: f64) -> String {
    if what == "tokens" {
        return format!("the run has used {spent} tokens of at most {limit}");
    }
    // A sum of nothing is -0.
    let told = |money: f64| (money * 1e9).round() / 1e9 + 0.0;
    format!("the run has cost {} of at most {}", told(spent), told(limit))
}

impl RunError {
    /// Where the run stands, if it can go on; else the state that was given, if there was one.
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

    /// The same, to go on with.
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

    /// The error with the state that was given, if it has none.
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
