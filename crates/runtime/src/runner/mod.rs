//! Running agents from a program: [`run`], [`Runner`], and their results.
//!
//! A run uses the server's runtime over a store in memory: one implementation, whether a run is streamed or not, and
//! whether it is kept in a file or in a database.
//!
//! `run` creates a session, or restores the one of a `RunState`, stores the decisions made on it, and drives it on the
//! caller's task; streaming only follows the same session.

pub mod config;
mod error;
mod event;
mod here;
mod nested;
mod result;
mod said;
mod spent;
mod start;
mod stored;
mod stream;

use countersign_core::content::Content;

use self::{config::RunConfig, start::Session};
pub use self::{
    error::{RunError, RunErrorKind},
    event::{RunEvent, RunFrame},
    here::{GraphInput, GraphResult},
    nested::NestedEvent,
    result::RunResult,
    stored::{Sessions, StoredSession},
    stream::RunStream,
};
use crate::{agent::Agent, run_state::RunState};

/// The input of a run: the user's message, or the state of a run to resume.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunInput {
    /// The user's message.
    Content(Content),
    /// Resumes a run, with the decisions made on its state.
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

/// Runs an agent until it has answered, or has pending interruptions.
///
/// With a [`RunState`] the run resumes: decisions take effect, undecided requests stay in [`RunResult::interruptions`]
/// (see [`RunState::approve`]), and no model call with an answer is repeated. `agent` is the one that the run began
/// with.
///
/// Dropping the future stops the run where it is, as a crash would.
///
/// A state and its clones run once: a second run is refused ([`RunErrorKind::Claimed`]), unless nothing of the first
/// run had begun. Continue with the state of the result, or of the error ([`RunError::into_state`]). Without
/// [`RunConfig::store`] only this process's memory knows what has run: a text of the state that is read again, here or
/// in another process, is another state, whose approved calls run again. A store has on record which calls have run,
/// and a person is asked about a call that was in progress.
///
/// # Errors
/// [`RunError`]
pub async fn run(agent: &Agent, input: impl Into<RunInput>) -> Result<RunResult, RunError> {
    Runner::default().run(agent, input).await
}

/// Like [`run`], with the run's events as they happen (spec S15).
///
/// # Errors
/// [`RunError`]
pub async fn run_streamed(agent: &Agent, input: impl Into<RunInput>) -> Result<RunStream, RunError> {
    Runner::default().run_streamed(agent, input).await
}

/// Runs agents with common settings.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    config: RunConfig,
}

impl Runner {
    /// A runner with these settings, which each run can override.
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

    /// Like [`Runner::run`]; `config` overrides the runner's settings.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run_with(
        &self,
        agent: &Agent,
        input: impl Into<RunInput>,
        config: RunConfig,
    ) -> Result<RunResult, RunError> {
        // Both on the heap: callers join and spawn runs, and their own futures stay small.
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

    /// Like [`Runner::run_streamed`]; `config` overrides the runner's settings.
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
