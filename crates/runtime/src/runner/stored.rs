//! A session in a store, with its next decisions and inputs: `store.session("s").approve("call_1").run(&agent)`.

use std::{fmt, sync::Arc};

use countersign_core::{content::Content, journal::state::Status};
use serde::Serialize;

use super::{RunError, RunInput, RunResult, RunStream, Runner, config::RunConfig};
use crate::{
    agent::Agent,
    interruption::Interruption,
    run_state::{DecisionError, RunState, RunStateError},
    store::Store,
};

pub(super) type Decide = Box<dyn FnOnce(&mut RunState) -> Result<(), DecisionError> + Send>;

/// Stores, with the sessions in them.
pub trait Sessions {
    /// The session of this id, which may not exist yet.
    fn session(&self, id: impl Into<String>) -> StoredSession;
}

impl<S: Store + 'static> Sessions for Arc<S> {
    fn session(&self, id: impl Into<String>) -> StoredSession {
        StoredSession::new(self.clone(), id.into())
    }
}

impl Sessions for Arc<dyn Store> {
    fn session(&self, id: impl Into<String>) -> StoredSession {
        StoredSession::new(self.clone(), id.into())
    }
}

/// A session in a store, with its next inputs and decisions. It always continues in that store, also after a pause.
///
/// ```
/// use std::sync::Arc;
///
/// use countersign::{Agent, Sessions, store::memory::MemoryStore, tool};
///
/// /// Buys something.
/// #[tool(needs_approval)]
/// async fn buy(what: String) -> String {
///     format!("bought {what}")
/// }
///
/// # const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"id":"c1","name":"buy","args":{"what":"tea"}}]},{"text":"{{ last_tool_result }}"}]}"#;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let agent = Agent::new("Helper", countersign::model::scripted::Scripted::from_json(SCRIPT)?).tool(buy);
/// let store = Arc::new(MemoryStore::new());
/// let paused = store.session("s").say("Buy tea.").run(&agent).await?;
/// assert_eq!(&*paused.interruptions[0].call_id, "c1");
///
/// // Later, perhaps in another process:
/// let over = store.session("s").approve("c1").run(&agent).await?;
/// assert_eq!(over.final_output, "bought tea");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is done before it is run"]
pub struct StoredSession {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: String,
    pub(super) config: RunConfig,
    pub(super) decides: Vec<Decide>,
    pub(super) says: Vec<Content>,
}

impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl StoredSession {
    fn new(store: Arc<dyn Store>, id: String) -> StoredSession {
        StoredSession { store, id, config: RunConfig::new(), decides: Vec::new(), says: Vec::new() }
    }

    /// The settings of its run; the store and the session are fixed.
    pub fn config(mut self, config: RunConfig) -> StoredSession {
        self.config = config;
        self
    }

    /// The session's current state.
    ///
    /// # Errors
    /// [`RunState::save`]
    pub async fn state(&self) -> Result<RunState, RunStateError> {
        RunState::save(&*self.store, &self.id).await
    }

    /// Adds an input, after those that were added before: see [`RunState::add_input`]. Those with which a session begins
    /// are one message of several parts.
    pub fn say(mut self, content: impl Into<Content>) -> StoredSession {
        self.says.push(content.into());
        self
    }

    /// See [`RunState::approve`]. An id is enough if no other call of the session has had it, and the call's outcome is
    /// not unknown; otherwise it is [`DecisionError::Stale`], and must be decided on the [state](StoredSession::state),
    /// by its interruption.
    pub fn approve(self, call_id: impl Into<String>) -> StoredSession {
        self.decide(call_id, RunState::approve)
    }

    /// See [`RunState::approve_with`].
    pub fn approve_with(self, call_id: impl Into<String>, args: impl Serialize + Send + 'static) -> StoredSession {
        self.decide(call_id, move |state, item| state.approve_with(item, &args))
    }

    /// See [`RunState::reject`].
    pub fn reject(self, call_id: impl Into<String>) -> StoredSession {
        self.decide(call_id, RunState::reject)
    }

    /// See [`RunState::reject_with`].
    pub fn reject_with(self, call_id: impl Into<String>, message: impl Into<String>) -> StoredSession {
        let message = message.into();
        self.decide(call_id, move |state, item| state.reject_with(item, message))
    }

    /// See [`RunState::respond`].
    pub fn respond(self, call_id: impl Into<String>, output: impl Into<String>) -> StoredSession {
        let output = output.into();
        self.decide(call_id, move |state, item| state.respond(item, output))
    }

    /// See [`RunState::answer`].
    pub fn answer(self, call_id: impl Into<String>, value: impl Serialize + Send + 'static) -> StoredSession {
        self.decide(call_id, move |state, item| state.answer(item, &value))
    }

    /// Decides the call in any other way, such as [`RunState::always_approve`].
    pub fn decide(
        mut self,
        call_id: impl Into<String>,
        decide: impl FnOnce(&mut RunState, &Interruption) -> Result<(), DecisionError> + Send + 'static,
    ) -> StoredSession {
        let call_id = call_id.into();
        self.decides.push(Box::new(move |state| {
            let item = state.named_alone(&call_id)?;
            decide(state, &item)
        }));
        self
    }

    /// Runs it until it pauses or ends.
    ///
    /// # Errors
    /// [`RunError`]; if a decision is refused, nothing has run.
    pub async fn run(self, agent: &Agent) -> Result<RunResult, RunError> {
        let (runner, input) = self.begins().await?;
        runner.run(agent, input).await
    }

    /// The same, with its events.
    ///
    /// # Errors
    /// As [`StoredSession::run`].
    pub async fn run_streamed(self, agent: &Agent) -> Result<RunStream, RunError> {
        let (runner, input) = self.begins().await?;
        runner.run_streamed(agent, input).await
    }

    async fn begins(self) -> Result<(Runner, RunInput), RunError> {
        let state = self.state().await;
        let StoredSession { store, id, config, decides, says } = self;
        let runner = Runner::new(config.store(store).session(id));
        let over =
            |state: &RunState| matches!(state.state().status, Status::Idle | Status::Completed | Status::Cancelled);
        let begins = match &state {
            Err(RunStateError::NoSession(_)) => true,
            // One input begins the next turn of the session as it is when that is stored.
            Ok(state) => says.len() == 1 && over(state),
            Err(_) => false,
        };
        if begins && decides.is_empty() && !says.is_empty() {
            let parts = says.iter().flat_map(Content::parts).cloned();
            return Ok((runner, parts.fold(Content::default(), Content::with).into()));
        }
        let mut state = state?;
        says.into_iter().for_each(|content| state.add_input(content));
        Ok((runner, decided(state, decides)?.into()))
    }
}

/// The state with these decisions; if one is refused, the error has the state.
pub(super) fn decided(mut state: RunState, decides: Vec<Decide>) -> Result<RunState, RunError> {
    for decide in decides {
        if let Err(error) = decide(&mut state) {
            return Err(RunError::from(error).with(Some(state)));
        }
    }
    Ok(state)
}
