//! Runs a graph on its own, as an agent is run: `graph.run(state)`.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{record::Kind, request_id::RequestId},
    locale::Locale,
    refusal::{Code, Refusal},
};

use super::{
    RunError,
    config::RunConfig,
    error::Cause,
    said::{answers, in_time},
    start::{Stopped, claim, put},
};
use crate::{
    graph::{Graph, GraphState, Outcome},
    interruption::Interruption,
    run::{Runs, Runtime, settings::Settings, settle::Origin},
    run_state::{RunState, Taken},
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

/// A graph's run, once it has paused or ended: [`GraphResult::done`] is its final state, or why there is none.
#[derive(Clone, Debug)]
#[must_use = "a run that has failed is not an error: see GraphResult::done"]
#[non_exhaustive]
pub struct GraphResult<S> {
    /// Its outcome, with the state.
    pub outcome: Outcome<S>,
    /// The pending interruptions, as in a run of an agent: see [`RunState::answer`].
    pub interruptions: Vec<Interruption>,
    /// Everything needed to resume: answer questions on it, store it, send it elsewhere.
    pub state: RunState,
}

impl<S> GraphResult<S> {
    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.outcome, Outcome::Paused { .. })
    }

    /// The final state of a run that is done.
    ///
    /// # Errors
    /// It has failed ([`RunErrorKind::Failed`](super::RunErrorKind::Failed), with its code), was cancelled, or is
    /// [paused](super::RunErrorKind::Paused). The error has the run's state, which continues it.
    pub fn done(self) -> Result<S, RunError> {
        let cause = match self.outcome {
            Outcome::Done(state) => return Ok(state),
            Outcome::Failed { code, message } => Cause::Failed { code, message },
            Outcome::Cancelled => Cause::Cancelled,
            Outcome::Paused { pending, .. } => Cause::Paused(pending.len()),
        };
        Err(RunError::new(cause, Some(self.state)))
    }
}

impl<S: GraphState> Graph<S> {
    /// Runs the graph here until it ends or pauses. A paused run resumes from its state, here or in another process.
    /// From the state of a paused result, the nodes continue where they stopped, but only once, with the same `Graph`,
    /// and in the same Tokio runtime. Otherwise, such as from a text or a store, the nodes that asked start over,
    /// without repeating their steps.
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
    /// assert!(result.done()?.paid);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError`]; a failed run is an [`Outcome::Failed`], and an error of [`GraphResult::done`].
    pub async fn run(&self, input: impl Into<GraphInput<S>>) -> Result<GraphResult<S>, RunError> {
        self.run_with(input, RunConfig::new()).await
    }

    /// Like [`Graph::run`], with settings: the [principal](RunConfig::principal), who owns a new run, and gives the
    /// answers on a paused one; a [store](RunConfig::store), which records the run as it proceeds, in a session with a
    /// new id; the [language](RunConfig::locale). All other settings are refused, since they have no effect on a graph.
    ///
    /// An answer that only certain people may give, as to a question with a [role](crate::graph::Interrupt::role),
    /// needs the principal: otherwise it is refused
    /// ([`DecisionError::NoPrincipal`](crate::run_state::DecisionError::NoPrincipal)). To find a run again after a
    /// crash, give its session an id of your own: [`StoredSession::run_graph`](super::StoredSession::run_graph).
    ///
    /// # Errors
    /// As [`Graph::run`]; [`RunErrorKind::Settings`](super::RunErrorKind::Settings) for a setting that a graph does not
    /// honour, [`RunErrorKind::Refused`](super::RunErrorKind::Refused) if the principal may not answer it. With a store
    /// [`RunErrorKind::Claimed`](super::RunErrorKind::Claimed) if the run has advanced in it since,
    /// [`RunErrorKind::SessionBusy`](super::RunErrorKind::SessionBusy) if another process has it and stores nothing.
    pub async fn run_with(
        &self,
        input: impl Into<GraphInput<S>>,
        config: RunConfig,
    ) -> Result<GraphResult<S>, RunError> {
        let input = input.into();
        let wrong = match &config.session_id {
            Some(_) => Err(
                "RunConfig::session names no session of a graph: use Sessions::session and StoredSession::run_graph"
                    .to_owned(),
            ),
            None => config.check_for_graph(),
        };
        if let Err(what) = wrong {
            let state = match input {
                GraphInput::State(_) => None,
                GraphInput::Paused(state) => Some(*state),
            };
            return Err(RunError::new(Cause::Settings(what), state));
        }
        let durable = config.store.is_some();
        let store = config.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        match input {
            GraphInput::State(state) => {
                let (runtime, runs) = self.runs_in(&store, config.locale)?;
                let id = uuid::Uuid::now_v7().to_string();
                let by = config.principal.unwrap_or_else(Principal::trusted);
                let outcome = Box::pin(runs.run(&by, &*id, &state)).await;
                result(&runtime, (&*store, durable), &id, outcome, None).await
            }
            GraphInput::Paused(state) => {
                let who = (config.principal, config.locale);
                self.resume_in(who, (None, false), (&store, durable), *state).await
            }
        }
    }

    pub(super) fn runs_in(
        &self,
        store: &Arc<dyn Store>,
        locale: Option<Locale>,
    ) -> Result<(Runtime, Runs<S>), RunError> {
        let settings = Settings { patient: true, ..Settings::default() };
        let mut builder = Runtime::builder(store.clone()).graph(self).settings(settings);
        if let Some(locale) = locale {
            builder = builder.locale(locale);
        }
        let runtime = builder.build()?;
        let runs = runtime.runs(self)?;
        Ok((runtime, runs))
    }

    pub(super) async fn resume_in(
        &self,
        (by, locale): (Option<Principal>, Option<Locale>),
        under: (Option<RequestId>, bool),
        (store, durable): (&Arc<dyn Store>, bool),
        mut state: RunState,
    ) -> Result<GraphResult<S>, RunError> {
        let id = state.state().session_id.clone();
        let begun = async {
            let (runtime, runs) = self.runs_in(store, locale)?;
            runs.of_this_graph(state.state())?;
            Box::pin(prepare_to_resume(&runtime, by.as_ref(), under, (&**store, durable), &mut state)).await?;
            Ok::<_, Stopped>((runtime, runs))
        };
        let (runtime, runs) = match begun.await {
            Ok(begun) => begun,
            // Nothing has run.
            Err(stopped) => return Err(stopped.with(state)),
        };
        let outcome = match Box::pin(runtime.run_until_idle(&id)).await {
            Ok(()) => runs.outcome(&by.unwrap_or_else(Principal::trusted), &id).await,
            Err(busy) => Err(busy),
        };
        let mut result = result(&runtime, (&**store, durable), &id, outcome, Some(&state)).await?;
        if !durable && result.state.state().pos == state.state().pos {
            result.state.is_still(&state);
        }
        Ok(result)
    }
}

/// The result of a run, or its error: both with the run's current state, and with what the program gave the state
/// `before`. From that one, effects since would be repeated.
pub(super) async fn result<S>(
    runtime: &Runtime,
    (store, durable): (&dyn Store, bool),
    id: &str,
    outcome: Result<Outcome<S>, Refusal>,
    before: Option<&RunState>,
) -> Result<GraphResult<S>, RunError> {
    let state = RunState::read_from(store, id, durable).await.map(|state| state.like(before));
    match outcome {
        Ok(outcome) => {
            let mut state = state?;
            state.suspended = runtime.inner.suspended(state.state());
            Ok(GraphResult { outcome, interruptions: state.interruptions(), state })
        }
        Err(busy) if busy.code == Code::SessionBusy => {
            let cause = Cause::Elsewhere { session: id.to_owned(), why: busy.message };
            Err(RunError::new(cause, state.ok()))
        }
        Err(refusal) => Err(RunError::from(refusal).with(state.ok())),
    }
}

/// Prepares a paused run to resume, with the answers and decisions recorded on it.
async fn prepare_to_resume(
    runtime: &Runtime,
    by: Option<&Principal>,
    (request_id, is_repeat): (Option<RequestId>, bool),
    (store, durable): (&dyn Store, bool),
    state: &mut RunState,
) -> Result<(), Stopped> {
    let mut taken = claim(state, store).await?;
    let at = runtime.inner.now();
    in_time(state, at)?;
    if by.is_none()
        && let Some(error) = state.needs_principal()
    {
        return Err(error.into());
    }
    if let Some(own) = taken.take() {
        taken = put(state, own, store, durable).await?;
    }
    let decided = state.state().open.iter().filter(|open| open.asked.kind == Kind::InDoubt).filter_map(|open| {
        let action = open.asked.actions.first()?;
        let staged = state.staged.iter().find(|staged| staged.decides(action))?;
        Some((open.asked.n, vec![staged.decision.clone()].into()))
    });
    let replies = decided.chain(answers(state)).collect();
    let (id, origin) = (&state.state().session_id, Origin { request_id, is_repeat, ..state.origin(at) });
    let nobody = Principal::trusted();
    let by = by.unwrap_or(&nobody);
    let pos = runtime.settle(by, id, origin, replies, state.inputs.clone(), std::future::pending()).await?;
    taken.into_iter().for_each(Taken::begins);
    runtime.inner.continue_suspended(state.state(), &state.suspended, pos);
    Ok(())
}
