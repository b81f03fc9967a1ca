//! Running agents from a program: [`run`], [`Runner`], and what comes of it.
//!
//! It is the server's runtime over a store in memory: one implementation, whether a run is streamed or not, kept in a file,
//! or kept in a database.

pub mod config;
pub mod context;
mod error;
mod event;
pub mod guardrail;
pub mod guardrail_command;
pub mod hooks;
pub mod interruption;
mod nested;
mod result;
mod said;
mod spent;
mod start;
mod stored;
mod stream;

use self::{config::RunConfig, start::Session};
pub use self::{
    error::RunError,
    event::{RunEvent, RunFrame},
    nested::NestedEvent,
    result::RunResult,
    stored::{Sessions, StoredSession},
    stream::RunStream,
};
pub(crate) use self::{error::over_budget, said::answers};
use crate::{agent::Agent, core::content::Content, run_state::RunState};

/// What a run begins with: what the user says, or the state of a run that goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunInput {
    /// What the user says.
    Content(Content),
    /// A run goes on, with what was decided on its state.
    State(Box<RunState>),
}

impl From<&str> for RunInput {
    fn from(text: &str) -> RunInput {
        RunInput::Content(text.into())
    }
}

impl From<String> for RunInput {
    fn from(text: String) -> RunInput {
        RunInput::Content(text.into())
    }
}

impl From<Content> for RunInput {
    fn from(content: Content) -> RunInput {
        RunInput::Content(content)
    }
}

impl From<RunState> for RunInput {
    fn from(state: RunState) -> RunInput {
        RunInput::State(Box::new(state))
    }
}

impl From<&RunState> for RunInput {
    fn from(state: &RunState) -> RunInput {
        RunInput::State(Box::new(state.clone()))
    }
}

/// Runs an agent until it has answered, or waits for a person.
///
/// With a [`RunState`] the run goes on: what was decided about is done, what was not comes back in
/// [`RunResult::interruptions`] ([`RunState::approve`] says when it counts), and no model is asked again for what it has said. `agent` is the one that the run began with.
///
/// Dropping the future stops the run where it is.
///
/// # Errors
/// [`RunError`]
pub async fn run(agent: &Agent, input: impl Into<RunInput>) -> Result<RunResult, RunError> {
    Runner::default().run(agent, input).await
}

/// Like [`run`], with the events of the run while it goes on (spec S15).
///
/// # Errors
/// [`RunError`]
pub async fn run_streamed(agent: &Agent, input: impl Into<RunInput>) -> Result<RunStream, RunError> {
    Runner::default().run_streamed(agent, input).await
}

/// Runs agents, all in one way.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    config: RunConfig,
}

impl Runner {
    /// A runner whose runs go like this, unless they say otherwise themselves.
    #[must_use]
    pub fn new(config: RunConfig) -> Runner {
        Runner { config }
    }

    /// See [`run`].
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run(&self, agent: &Agent, input: impl Into<RunInput>) -> Result<RunResult, RunError> {
        self.run_with(agent, input, RunConfig::default()).await
    }

    /// Like [`Runner::run`]; what `config` says counts more than what the runner says.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run_with(
        &self,
        agent: &Agent,
        input: impl Into<RunInput>,
        config: RunConfig,
    ) -> Result<RunResult, RunError> {
        // On the heap, both: callers join and spawn runs, and their own futures stay small.
        let session = Box::pin(Session::begin(agent, input.into(), config.over(&self.config), false)).await?;
        Box::pin(session.drive()).await
    }

    /// See [`run_streamed`].
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run_streamed(&self, agent: &Agent, input: impl Into<RunInput>) -> Result<RunStream, RunError> {
        self.run_streamed_with(agent, input, RunConfig::default()).await
    }

    /// Like [`Runner::run_streamed`]; what `config` says counts more than what the runner says.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run_streamed_with(
        &self,
        agent: &Agent,
        input: impl Into<RunInput>,
        config: RunConfig,
    ) -> Result<RunStream, RunError> {
        let session = Box::pin(Session::begin(agent, input.into(), config.over(&self.config), true)).await?;
        Ok(RunStream::new(Box::new(session)))
    }
}
