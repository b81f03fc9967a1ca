//! Runs a graph on its own, as an agent is run: `graph.run(state)`.

use std::sync::Arc;

use countersign_core::{approval::principal::Principal, journal::record::Kind, refusal::Refusal};

use super::{
    RunError, StoredSession,
    error::Cause,
    said::{answers, too_late},
    start::{Stopped, is_stored, put},
    stored::decided,
};
use crate::{
    graph::{Graph, GraphState, Outcome},
    interruption::Interruption,
    run::{Runs, Runtime, guard::Settings, settle::overdue},
    run_state::{RunState, RunStateError},
    store::{Store, memory::MemoryStore},
};

/// The input of a graph's run: its initial state, or a paused run with the answers recorded on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GraphInput<S> {
    /// The initial state.
    State(S),
    /// A run to resume.
    Paused(Box<RunState>),
}

impl<S: GraphState> From<S> for GraphInput<S> {
    fn from(state: S) -> GraphInput<S> {
        GraphInput::State(state)
    }
}

impl<S: GraphState> From<RunState> for GraphInput<S> {
    fn from(state: RunState) -> GraphInput<S> {
        GraphInput::Paused(Box::new(state))
    }
}

/// A graph's run, once it has paused or ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GraphResult<S> {
    /// Its outcome, with the state.
    pub outcome: Outcome<S>,
    /// The pending interruptions, as in a run of an agent: see [`RunState::answer`].
    pub interruptions: Vec<Interruption>,
    /// All that is needed to resume: answer on it, store it, send it elsewhere.
    pub state: RunState,
}

impl<S> GraphResult<S> {
    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.outcome, Outcome::Paused { .. })
    }
}

impl<S: GraphState> Graph<S> {
    /// Runs the graph here until it ends or pauses. A paused run resumes from its state, here or in another
    /// process. Run by the same graph, a state that is still in memory continues its nodes where they stopped, once; a
    /// state that was read from a text or a store, or is resumed again, starts the nodes that asked over, without
    /// repeating their steps.
    ///
    /// ```
    /// # use countersign::graph::{Context, Graph, GraphState, Node, NodeError, StateGraph};
    /// #[derive(Clone, Default, serde::Serialize, serde::Deserialize, GraphState)]
    /// struct Invoice {
    ///     amount: u64,
    ///     paid: bool,
    /// }
    ///
    /// async fn review(ctx: Context<Invoice>) -> Result<InvoiceUpdate, NodeError> {
    ///     let yes: bool = ctx.interrupt("pay?", ctx.state().amount).typed().await;
    ///     Ok(InvoiceUpdate::new().paid(yes))
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let mut graph = StateGraph::new("invoice");
    /// let node = graph.node("review", review);
    /// graph.start(node);
    /// graph.edge(node, Node::END);
    /// let graph: Graph<Invoice> = graph.compile()?;
    ///
    /// let mut result = graph.run(Invoice { amount: 120, paid: false }).await?;
    /// while result.is_paused() {
    ///     for interruption in &result.interruptions {
    ///         result.state.answer(interruption, &true)?;
    ///     }
    ///     result = graph.run(result.state).await?;
    /// }
    /// assert!(result.outcome.done().is_some_and(|invoice| invoice.paid));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError`]; a failed run is an [`Outcome::Failed`].
    pub async fn run(&self, input: impl Into<GraphInput<S>>) -> Result<GraphResult<S>, RunError> {
        self.run_in(Arc::new(MemoryStore::new()), input).await
    }

    /// The same with a store, which records the run as it proceeds, in a session with a new id. By an id of its own a
    /// program finds the run again after a crash: see [`StoredSession::run_graph`].
    ///
    /// # Errors
    /// As [`Graph::run`]; [`RunErrorKind::Claimed`](super::RunErrorKind::Claimed) if the run has advanced in the store since.
    pub async fn run_in(
        &self,
        store: Arc<dyn Store>,
        input: impl Into<GraphInput<S>>,
    ) -> Result<GraphResult<S>, RunError> {
        match input.into() {
            GraphInput::State(state) => {
                let (runtime, runs) = self.runs_in(&store)?;
                let id = uuid::Uuid::now_v7().to_string();
                let outcome = Box::pin(runs.run(&Principal::trusted(), &*id, &state)).await;
                result(&runtime, &*store, &id, outcome).await
            }
            GraphInput::Paused(state) => self.resume_in(&Principal::trusted(), &store, *state).await,
        }
    }

    fn runs_in(&self, store: &Arc<dyn Store>) -> Result<(Runtime, Runs<S>), RunError> {
        let settings = Settings { patient: true, ..Settings::default() };
        let runtime = Runtime::builder(store.clone()).graph(self).settings(settings).build()?;
        let runs = runtime.runs(self)?;
        Ok((runtime, runs))
    }

    async fn resume_in(
        &self,
        by: &Principal,
        store: &Arc<dyn Store>,
        mut state: RunState,
    ) -> Result<GraphResult<S>, RunError> {
        let id = state.state().session_id.clone();
        let begun = async {
            let runs = self.runs_in(store)?;
            runs.1.of_this_graph(state.state())?;
            Box::pin(prepare_to_resume(&runs.0, by, &**store, &mut state)).await?;
            Ok::<_, Stopped>(runs)
        };
        let (runtime, runs) = match begun.await {
            Ok(begun) => begun,
            // Nothing has run.
            Err(stopped) => return Err(stopped.with(state)),
        };
        let outcome = match Box::pin(runtime.run_until_idle(&id)).await {
            Ok(()) => runs.outcome(by, &id).await,
            Err(busy) => Err(busy),
        };
        result(&runtime, &**store, &id, outcome).await
    }
}

impl StoredSession {
    /// Runs a graph in this session until it ends or pauses: from `state` if the session does not exist yet.
    /// Otherwise it is [resumed](StoredSession::resume_graph), so that a program that was killed in the middle of a run
    /// continues it by running the same line again.
    ///
    /// A session that is run like this has one run; the next one needs its own session. Of the
    /// [configuration](StoredSession::config) only the principal counts.
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
    /// assert!(over.outcome.done().is_some_and(|invoice| invoice.paid));
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
        let (runtime, runs) = graph.runs_in(&self.store)?;
        // Another process may begin it at the same time.
        let outcome = Box::pin(runs.run_once(&by, &self.id, &state)).await;
        result(&runtime, &*self.store, &self.id, outcome).await
    }

    /// Continues the session's run of this graph, with the answers given, until it ends or pauses. A run that was
    /// killed continues where its journal ends, failed tasks are tried again, and of a run that has ended this is the
    /// outcome.
    ///
    /// # Errors
    /// As [`Graph::run_in`]; if an answer is refused, nothing has run.
    /// [`RunErrorKind::State`](super::RunErrorKind::State) if there is no such session,
    /// [`RunErrorKind::Refused`](super::RunErrorKind::Refused) if it is not of this graph,
    /// [`RunErrorKind::Settings`](super::RunErrorKind::Settings) for a message, which no graph takes.
    pub async fn resume_graph<S: GraphState>(self, graph: &Graph<S>) -> Result<GraphResult<S>, RunError> {
        self.takes_a_graph()?;
        let state = self.state().await?;
        let by = self.config.principal.unwrap_or_else(Principal::trusted);
        graph.resume_in(&by, &self.store, decided(state, self.decides)?).await
    }

    fn takes_a_graph(&self) -> Result<(), RunError> {
        if self.says.is_empty() {
            return Ok(());
        }
        Err(RunError::new(Cause::Settings("a graph takes answers, not messages".to_owned()), None))
    }
}

/// The result of a run, or its error: both with the run's current state. From an earlier state, effects since would be
/// repeated.
async fn result<S>(
    runtime: &Runtime,
    store: &dyn Store,
    id: &str,
    outcome: Result<Outcome<S>, Refusal>,
) -> Result<GraphResult<S>, RunError> {
    let state = RunState::save(store, id).await;
    match outcome {
        Ok(outcome) => {
            let mut state = state?;
            state.suspended = runtime.inner.suspended(state.state());
            Ok(GraphResult { outcome, interruptions: state.interruptions(), state })
        }
        Err(refusal) => Err(RunError::from(refusal).with(state.ok())),
    }
}

/// Prepares a paused run to resume, with the answers and decisions recorded on it.
async fn prepare_to_resume(
    runtime: &Runtime,
    by: &Principal,
    store: &dyn Store,
    state: &mut RunState,
) -> Result<(), Stopped> {
    let is_stored = is_stored(state, store).await?;
    // Nothing watched the deadlines while the state was kept.
    let at = runtime.inner.now();
    let late = overdue(state.state(), at);
    if let Some((call_id, expired_at)) = too_late(state, &late) {
        return Err(Stopped::TooLate { call_id, expired_at, late });
    }
    if !is_stored {
        put(state, store).await?;
    }
    let decided = state.state().open.iter().filter(|open| open.asked.kind == Kind::InDoubt).filter_map(|open| {
        let call = open.asked.actions.first()?.call;
        let staged = state.staged.iter().find(|staged| staged.call == call)?;
        Some((open.asked.n, vec![staged.decision.clone()].into()))
    });
    let replies = decided.chain(answers(state)).collect();
    let (id, origin) = (&state.state().session_id, state.origin(at));
    let pos = runtime.settle(by, id, origin, replies, state.inputs.clone(), std::future::pending()).await?;
    runtime.inner.continue_suspended(state.state(), &state.suspended, pos);
    Ok(())
}
