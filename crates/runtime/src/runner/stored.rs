//! A session in a store, with its next decisions and inputs: `store.session("s").approve("call_1").run(&agent)`.

use std::{fmt, sync::Arc};

use countersign_core::{
    approval::principal::Principal,
    content::Content,
    journal::{draft::OnPending, fork, record::records, request_id::RequestId, state::Status},
    refusal::{Code, Refusal},
    wire::client::check_request_id,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{GraphResult, RunError, RunInput, RunResult, RunStream, Runner, config::RunConfig, error::Cause, here};
use crate::{
    agent::Agent,
    graph::{Graph, GraphState},
    interruption::Interruption,
    run::kept_id,
    run_state::{DecisionError, RunState, RunStateError},
    store::Store,
};

type Decide = Box<dyn FnOnce(&mut RunState) -> Result<(), DecisionError> + Send + Sync>;

/// A decision, with the fields that distinguish it from another one on the same call; a decision made by a function of
/// the application has none.
#[derive(Serialize)]
struct Decides {
    call_id: String,
    how: Option<&'static str>,
    what: Option<Box<RawValue>>,
    #[serde(skip)]
    decide: Decide,
}

mod sealed {
    pub trait Sealed {}
    impl<S: crate::store::Store + 'static> Sealed for std::sync::Arc<S> {}
    impl Sealed for std::sync::Arc<dyn crate::store::Store> {}
}

/// Gives access to the sessions in a store. It cannot be implemented for anything but stores.
pub trait Sessions: sealed::Sealed {
    /// The session with this id, which may not exist yet.
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
    store: Arc<dyn Store>,
    id: String,
    config: RunConfig,
    decides: Vec<Decides>,
    says: Vec<Content>,
    request_id: Option<String>,
}

impl fmt::Debug for StoredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl StoredSession {
    fn new(store: Arc<dyn Store>, id: String) -> StoredSession {
        StoredSession { store, id, config: RunConfig::new(), decides: Vec::new(), says: Vec::new(), request_id: None }
    }

    /// The settings of its run; the store and the session are fixed.
    pub fn config(mut self, config: RunConfig) -> StoredSession {
        self.config = config;
        self
    }

    /// Makes it safe to run the same line again, as after a crash: its inputs and decisions take effect once in its
    /// session. When run again, it only continues the session as it is by then. As with
    /// [`NewMessage::request_id`](crate::run::NewMessage::request_id), other inputs under the same id are refused
    /// (`request_id_reused`): a message, calls or decisions that differ. Of decisions made in [another
    /// way](StoredSession::decide) only the calls are compared.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use countersign::{Agent, Sessions, model::scripted::Scripted, store::memory::MemoryStore};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let agent = Agent::new("helper", Scripted::from_json(r#"{"turns":[{"text":"One"},{"text":"Two"}]}"#)?);
    /// let store = Arc::new(MemoryStore::new());
    /// for _ in 0..2 {
    ///     let over = store.session("s").say("Count.").request_id("order-17").run(&agent).await?;
    ///     assert_eq!(over.final_output, "One");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn request_id(mut self, id: impl Into<String>) -> StoredSession {
        self.request_id = Some(id.into());
        self
    }

    /// The session's current state.
    ///
    /// # Errors
    /// [`RunState::load`]
    pub async fn state(&self) -> Result<RunState, RunStateError> {
        RunState::load(&*self.store, &self.id).await
    }

    /// Adds an input, after those that were added before: see [`RunState::add_input`]. The inputs that begin a session
    /// are one message of several parts.
    pub fn say(mut self, content: impl Into<Content>) -> StoredSession {
        self.says.push(content.into());
        self
    }

    /// See [`RunState::approve`]. An id is enough if no other call of the session has had it; otherwise the error is
    /// [`DecisionError::Stale`]. It is not enough if the call's outcome is unknown ([`DecisionError::InDoubt`]), since
    /// a caller with only the id has not seen that. Decide such calls on the [state](StoredSession::state), by
    /// the interruption.
    pub fn approve(self, call_id: impl Into<String>) -> StoredSession {
        self.decides(call_id, (Some("approve"), None), RunState::approve)
    }

    /// See [`RunState::approve_with`].
    pub fn approve_with(
        self,
        call_id: impl Into<String>,
        args: impl Serialize + Send + Sync + 'static,
    ) -> StoredSession {
        let said = (Some("edit"), json(&args));
        self.decides(call_id, said, move |state, item| state.approve_with(item, &args))
    }

    /// See [`RunState::reject`].
    pub fn reject(self, call_id: impl Into<String>) -> StoredSession {
        self.decides(call_id, (Some("reject"), None), RunState::reject)
    }

    /// See [`RunState::reject_with`].
    pub fn reject_with(self, call_id: impl Into<String>, message: impl Into<String>) -> StoredSession {
        let message = message.into();
        let said = (Some("reject"), json(&message));
        self.decides(call_id, said, move |state, item| state.reject_with(item, message))
    }

    /// See [`RunState::respond`].
    pub fn respond(self, call_id: impl Into<String>, output: impl Into<String>) -> StoredSession {
        let output = output.into();
        let said = (Some("respond"), json(&output));
        self.decides(call_id, said, move |state, item| state.respond(item, output))
    }

    /// See [`RunState::answer`].
    pub fn answer(self, call_id: impl Into<String>, value: impl Serialize + Send + Sync + 'static) -> StoredSession {
        let said = (Some("answer"), json(&value));
        self.decides(call_id, said, move |state, item| state.answer(item, &value))
    }

    /// Decides the call in any other way, such as [`RunState::always_approve`].
    pub fn decide(
        self,
        call_id: impl Into<String>,
        decide: impl FnOnce(&mut RunState, &Interruption) -> Result<(), DecisionError> + Send + Sync + 'static,
    ) -> StoredSession {
        self.decides(call_id, (None, None), decide)
    }

    fn decides(
        mut self,
        call_id: impl Into<String>,
        (how, what): (Option<&'static str>, Option<Box<RawValue>>),
        decide: impl FnOnce(&mut RunState, &Interruption) -> Result<(), DecisionError> + Send + Sync + 'static,
    ) -> StoredSession {
        let call_id = call_id.into();
        let named = call_id.clone();
        let decide: Decide = Box::new(move |state| {
            let item = state.named_alone(&named)?;
            decide(state, &item)
        });
        self.decides.push(Decides { call_id, how, what, decide });
        self
    }

    /// Runs the session with these inputs and decisions until it pauses or ends.
    ///
    /// # Errors
    /// [`RunError`]; if a decision is refused, nothing has run.
    pub async fn run(self, agent: &Agent) -> Result<RunResult, RunError> {
        let (runner, input) = self.begins().await?;
        runner.run(agent, input).await
    }

    /// Like [`StoredSession::run`], with the run's events as they happen.
    ///
    /// # Errors
    /// As [`StoredSession::run`].
    pub async fn run_streamed(self, agent: &Agent) -> Result<RunStream, RunError> {
        let (runner, input) = self.begins().await?;
        runner.run_streamed(agent, input).await
    }

    /// Runs a graph in this session until it ends or pauses: from `state` if the session does not exist yet.
    /// Otherwise it is [resumed](StoredSession::resume_graph), so that a program that was killed in the middle of a run
    /// continues it by running the same line again.
    ///
    /// Such a session has only this one run; the next run needs its own session. Of the
    /// [settings](StoredSession::config), a graph takes the principal and the language, and refuses all others.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use countersign::{Sessions, store::memory::MemoryStore};
    /// # use countersign::graph::{Context, Node, NodeError, StateGraph, GraphState};
    /// # #[derive(Clone, Default, serde::Serialize, serde::Deserialize, GraphState)]
    /// # struct Invoice {
    /// #     paid: bool,
    /// # }
    /// # async fn review(ctx: Context<Invoice>) -> Result<InvoiceUpdate, NodeError> {
    /// #     Ok(InvoiceUpdate::new().paid(ctx.interrupt("pay?", ()).typed::<bool>().await))
    /// # }
    /// # let mut graph = StateGraph::new("invoice");
    /// # let node = graph.node("review", review);
    /// # graph.start(node);
    /// # graph.edge(node, Node::END);
    /// # let graph = graph.compile()?;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let store = Arc::new(MemoryStore::new());
    /// let paused = store.session("invoice-17").run_graph(&graph, Invoice::default()).await?;
    /// assert!(paused.is_paused());
    ///
    /// // Later, perhaps in another process:
    /// let over = store.session("invoice-17").answer("review/pay?", true).resume_graph(&graph).await?;
    /// assert!(over.done()?.paid);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`StoredSession::resume_graph`].
    pub async fn run_graph<S: GraphState>(self, graph: &Graph<S>, state: S) -> Result<GraphResult<S>, RunError> {
        let known = self.store.head(&self.id).await.map_err(RunStateError::from)?;
        if known.is_some() || !self.decides.is_empty() {
            return self.resume_graph(graph).await;
        }
        self.takes_a_graph()?;
        let by = self.config.principal.unwrap_or_else(Principal::trusted);
        let (runtime, runs) = graph.runs_in(&self.store, self.config.locale)?;
        // Another process may begin it at the same time.
        let outcome = Box::pin(runs.run_once(&by, &self.id, &state)).await;
        here::result(&runtime, (&*self.store, true), &self.id, outcome, None).await
    }

    /// Continues the session's run of this graph, with the answers given (once, under a
    /// [`request_id`](StoredSession::request_id)), until it ends or pauses. A run that was killed continues where its
    /// journal ends, failed nodes are retried (while others wait for answers, only if none is given), a run that is held,
    /// such as a fork, goes on, and one that has ended returns its outcome.
    ///
    /// # Errors
    /// As [`Graph::run_with`]; if an answer is refused, nothing has run.
    /// [`RunErrorKind::State`](super::RunErrorKind::State) if there is no such session,
    /// [`RunErrorKind::Refused`](super::RunErrorKind::Refused) if it is not a session of this graph,
    /// [`RunErrorKind::Settings`](super::RunErrorKind::Settings) for a message or a setting, which no graph takes.
    pub async fn resume_graph<S: GraphState>(self, graph: &Graph<S>) -> Result<GraphResult<S>, RunError> {
        self.takes_a_graph()?;
        self.check_request_id()?;
        let state = self.state().await?;
        let (kept, is_repeat) = self.request(&state)?;
        let decides = if is_repeat { Vec::new() } else { self.decides };
        graph
            .resume_in(
                (self.config.principal, self.config.locale),
                (kept, is_repeat),
                (&self.store, true),
                decided(state, decides)?,
            )
            .await
    }

    fn takes_a_graph(&self) -> Result<(), RunError> {
        let checked = match self.says.is_empty() {
            true => self.config.check_for_graph(),
            false => Err("a graph takes answers, not messages".to_owned()),
        };
        checked.map_err(|what| RunError::new(Cause::Settings(what), None))
    }

    fn check_request_id(&self) -> Result<(), Refusal> {
        self.request_id.as_deref().map_or(Ok(()), check_request_id)
    }

    /// The [id](StoredSession::request_id) as the session keeps it, and whether the session has it already.
    fn request(&self, state: &RunState) -> Result<(Option<RequestId>, bool), RunError> {
        let nobody = Principal::trusted();
        let by = self.config.principal.as_ref().unwrap_or(&nobody);
        // A message alone has the id that it has in a runtime.
        let kept = if self.decides.is_empty() {
            let asked = (joined(&self.says), None::<String>, None::<OnPending>);
            kept_id(by, state.state(), self.request_id.as_deref(), &asked)
        } else {
            kept_id(by, state.state(), self.request_id.as_deref(), &(&self.decides, &self.says))
        };
        let Some(id) = kept else { return Ok((None, false)) };
        // A fork's past was acknowledged in the original.
        let known = records(fork::own(state.entries())).filter_map(|record| record.request_id());
        match { known }.find(|known| known.key() == id.key()) {
            None => Ok((Some(id), false)),
            Some(known) if known.fingerprint() == id.fingerprint() => Ok((None, true)),
            Some(_) => {
                let what = format!(
                    "request_id: {:?} was used in this session before, for something else; give each input an id of its own",
                    id.id()
                );
                Err(Refusal::new(Code::RequestIdReused, what).into())
            }
        }
    }

    async fn begins(mut self) -> Result<(Runner, RunInput), RunError> {
        let state = self.state().await;
        self.check_request_id()?;
        let mut kept = None;
        if let Ok(state) = &state {
            let is_repeat;
            (kept, is_repeat) = self.request(state)?;
            if is_repeat {
                (self.says, self.decides) = (Vec::new(), Vec::new());
            }
        }
        let StoredSession { store, id, mut config, decides, says, request_id } = self;
        config.request_id = kept;
        let runner = |config: RunConfig| Runner::new(config.store(store).session(id));
        let over =
            |state: &RunState| matches!(state.state().status, Status::Idle | Status::Completed | Status::Cancelled);
        let begins = match &state {
            Err(RunStateError::NoSession(_)) => true,
            // A single input begins the next turn, on the session as it is when the input is stored.
            Ok(state) => says.len() == 1 && over(state),
            Err(_) => false,
        };
        if begins && decides.is_empty() && !says.is_empty() {
            config.request_id = request_id.as_deref().map(RequestId::from);
            return Ok((runner(config), joined(&says).into()));
        }
        let mut state = state?;
        says.into_iter().for_each(|content| state.add_input(content));
        Ok((runner(config), decided(state, decides)?.into()))
    }
}

/// The content of a decision as JSON, if it can be serialised: otherwise it is refused when it is made.
fn json(said: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(said).ok()
}

/// One message of several parts.
fn joined(says: &[Content]) -> Content {
    says.iter().flat_map(Content::parts).cloned().fold(Content::default(), Content::with)
}

/// The state with these decisions; if one is refused, the error has the state.
fn decided(mut state: RunState, decides: Vec<Decides>) -> Result<RunState, RunError> {
    for Decides { decide, .. } in decides {
        if let Err(error) = decide(&mut state) {
            return Err(RunError::from(error).with(Some(state)));
        }
    }
    Ok(state)
}
