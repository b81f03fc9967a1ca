//! Runs of graphs, for the library's users: start, answer, read, edit, retry (spec G3, G6).
//!
//! Editing the state of a run withdraws its nodes' questions, pending and answered: reviewers were shown the earlier state. The
//! session's owner may edit it, and the audit log says so; so request another person's decision where it takes effect,
//! and do not keep it in the state.

use std::{marker::PhantomData, sync::Arc};

use countersign_core::{
    approval::{key::approval_key, principal::Principal},
    decide::{
        reply::Reply,
        resolve::{self, DecideInput},
    },
    journal::{
        draft::Draft,
        record::{Failure, Kind},
        run::Raw,
        state::{State, Status},
    },
    number::InterruptionNo,
    refusal::{Code, Refusal},
    wire::client::check_session_id,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    command::to_the_end,
    graph_runs::{StartId, invalid, of_graph},
    inner::{Inner, Runtime},
    live::uses::LiveRef,
    nodes::contested,
    refusals::visible,
    retry::NewRetry,
};
use crate::{
    graph::{Graph, GraphState, NodeError, Outcome, Pending, compiled::AnyGraph, task::AnyState},
    store::Durability,
};

/// The request that begins the only run of a session.
const ONCE: &str = "run_graph";

/// Runs of one graph on a runtime. Cheap to clone.
pub struct Runs<S: GraphState> {
    inner: Arc<Inner>,
    graph: Arc<dyn AnyGraph>,
    state: PhantomData<fn() -> S>,
}

impl<S: GraphState> Clone for Runs<S> {
    fn clone(&self) -> Self {
        Runs { inner: self.inner.clone(), graph: self.graph.clone(), state: PhantomData }
    }
}

impl Runtime {
    /// The runs of a graph that the runtime was [built](super::RuntimeBuilder::graph) with.
    ///
    /// # Errors
    /// `unknown_graph`: the runtime was built without this graph.
    pub fn runs<S: GraphState>(&self, graph: &Graph<S>) -> Result<Runs<S>, Refusal> {
        let known = self.inner.graphs.get(graph.name()).filter(|known| Arc::ptr_eq(known, graph.any()));
        let Some(known) = known else {
            let what = format!(
                "the runtime was built without the graph {:?}; add it with RuntimeBuilder::graph",
                graph.name()
            );
            return Err(Refusal::new(Code::UnknownGraph, what));
        };
        Ok(Runs { inner: self.inner.clone(), graph: known.clone(), state: PhantomData })
    }
}

impl<S: GraphState> Runs<S> {
    /// Starts a run, as the turn of a session, and drives it here until it pauses or ends. The session is created if it
    /// does not exist.
    ///
    /// Dropping the future stops the run in the middle, as a crash would.
    ///
    /// # Errors
    /// `invalid_session_id`, `session_not_found` (another owner's), `session_busy`, `approval_pending`,
    /// `invalid_message` (an agent's session; a state that is too large), `store_unavailable`.
    pub async fn run(&self, by: &Principal, session: impl Into<String>, state: &S) -> Result<Outcome<S>, Refusal> {
        let live = self.begin(by, Some(session.into()), written(state)?, None).await?;
        self.drive(live).await
    }

    /// The same for a session with a single run: if it has already begun, it is continued.
    pub(crate) async fn run_once(&self, by: &Principal, session: &str, state: &S) -> Result<Outcome<S>, Refusal> {
        let live = self.begin(by, Some(session.to_owned()), written(state)?, Some(ONCE.to_owned())).await?;
        self.drive(live).await
    }

    /// Starts a run in the background, and returns its session. Repeating a `request_id` starts nothing, even with
    /// another state.
    ///
    /// # Errors
    /// As [`Runs::run`].
    pub async fn start(
        &self,
        by: &Principal,
        session: Option<String>,
        state: &S,
        request_id: Option<String>,
    ) -> Result<Arc<str>, Refusal> {
        let (runs, by, state) = (self.clone(), by.clone(), written(state)?);
        to_the_end(async move {
            let live = runs.begin(&by, session, state, request_id).await?;
            let session_id = live.session_id.clone();
            runs.inner.spawn_driver(live);
            Ok(session_id)
        })
        .await
    }

    async fn begin(
        &self,
        by: &Principal,
        session: Option<String>,
        state: Raw,
        request_id: Option<String>,
    ) -> Result<LiveRef, Refusal> {
        let request_id = request_id.map(|id| StartId { id, asked: None });
        let begun = self.inner.begin_run(&*self.graph, by, session.as_deref(), state, request_id).await;
        begun.map(|(live, _)| live)
    }

    pub(crate) fn of_this_graph(&self, state: &State) -> Result<(), Refusal> {
        of_graph(self.graph.name(), state)
    }

    /// Answers the interruption with a key, and drives the run here until it pauses or ends.
    ///
    /// # Errors
    /// `approval_not_found`, `approval_already_resolved`, `forbidden`, `invalid_resume` (the answer does not fit the
    /// question's schema; `details.errors` says where), `store_unavailable`. The interruption is then unchanged.
    pub async fn resume(&self, by: &Principal, key: &str, value: impl Serialize) -> Result<Outcome<S>, Refusal> {
        self.resume_all(by, [(key, value)]).await
    }

    /// Answers several questions of one session at once: all of them, or, if one answer is refused, none.
    ///
    /// # Errors
    /// As [`Runs::resume`]; `invalid_message` for no keys, duplicate keys, or keys of several sessions.
    pub async fn resume_all<K: AsRef<str>, V: Serialize>(
        &self,
        by: &Principal,
        answers: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Outcome<S>, Refusal> {
        let mut session: Option<String> = None;
        let mut all: Vec<(InterruptionNo, Raw)> = Vec::new();
        for (key, value) in answers {
            let key = key.as_ref();
            let parsed = countersign_core::approval::key::parse_approval_key(key);
            let (id, n) =
                parsed.filter(|(id, _)| check_session_id(id).is_ok()).ok_or_else(|| resolve::not_found(key))?;
            if session.as_deref().is_some_and(|known| known != id) || all.iter().any(|(known, _)| *known == n) {
                return Err(invalid("the keys answered at once are different ones of one session".to_owned()));
            }
            session = Some(id.to_owned());
            all.push((
                n,
                Raw::of(&value)
                    .map_err(|error| invalid(format!("the answer to {key:?} cannot be serialised as JSON: {error}")))?,
            ));
        }
        let Some(session) = session else { return Err(invalid("no keys; name at least one".to_owned())) };
        let live = self.inner.live(&Arc::from(session));
        let resumed = contested!(self.resume_in(&live, by, all.clone()).await);
        self.inner.or_refused(resumed).await?;
        self.drive(live).await
    }

    async fn resume_in(&self, live: &LiveRef, by: &Principal, all: Vec<(InterruptionNo, Raw)>) -> Result<(), Refusal> {
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        for (n, _) in &all {
            let key = approval_key(&live.session_id, *n);
            if state.pos == 0 || !by.may_see(&state) {
                return Err(resolve::not_found(&key));
            }
            by.check_may_decide()?;
            self.of_this_graph(&state)?;
            if state.waiting(*n).is_none() {
                return Err(self.inner.already_resolved(&live.session_id, *n).await?);
            }
        }
        let at = self.inner.now();
        let interruptions: Vec<InterruptionNo> = all.iter().map(|(n, _)| *n).collect();
        let (mut guard, guards) = self.inner.in_time(live, guard, &interruptions).await?;
        let make = |state: &Arc<State>| {
            let mut made = Draft::of(state.clone(), at).finish();
            for (n, value) in all {
                let input = DecideInput::new(n, Reply::Resume(value), by.clone());
                let next = resolve::decide(made.state(), at, input, &self.inner.agents)?;
                made.add(next);
            }
            Ok(made)
        };
        self.inner.transact_if(guards, live, &mut guard, Durability::Synced, make).await?;
        live.wake();
        Ok(())
    }

    /// Continues a failed run: failed tasks are retried, results are kept.
    ///
    /// # Errors
    /// `session_not_found`, `nothing_to_retry`, `store_unavailable`.
    pub async fn retry(&self, by: &Principal, session: &str) -> Result<Outcome<S>, Refusal> {
        let live = self.inner.retry_run(Some(self.graph.name()), by, session, NewRetry::default()).await?;
        self.drive(live).await
    }

    /// Edits the state of a run that is paused, has failed or has ended, as a node's update would. Paused nodes start
    /// over with the new state, here, and ask again under new keys, since reviewers were shown the earlier state.
    /// Failed nodes start over when they are retried. Nodes of inner graphs keep their questions, since those graphs
    /// have their own states, and start over when they are answered. A dropped future stops the run, as a crash would.
    ///
    /// # Errors
    /// `session_not_found`, `forbidden` (another owner's session, or the edit would withdraw requests or answers that
    /// others decide), `session_busy` while nodes run, `invalid_message` (not a session of this graph, or the update
    /// does not fit), `store_unavailable`.
    pub async fn edit(&self, by: &Principal, session: &str, update: &S::Update) -> Result<Outcome<S>, Refusal> {
        let live = self.inner.named(session)?;
        let raw =
            Raw::of(update).map_err(|error| invalid(format!("the update cannot be serialised as JSON: {error}")))?;
        self.inner.edit_state(Some(self.graph.name()), &live, by, raw, None).await?;
        self.drive(live).await
    }

    /// The current state, including all finished rounds.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (not a session of this graph), `too_busy`, `store_unavailable`.
    pub async fn state(&self, by: &Principal, session: &str) -> Result<S, Refusal> {
        let state = self.inner.read_state(by, session).await?;
        self.of_this_graph(&state)?;
        self.typed(Some(by), &state).await
    }

    /// The state at a checkpoint (spec G6): see [`Runtime::checkpoints`].
    ///
    /// # Errors
    /// As [`Runs::state`]; `invalid_message` if there is no such checkpoint.
    pub async fn state_at(&self, by: &Principal, session: &str, checkpoint: u64) -> Result<S, Refusal> {
        let state = self.inner.read_state(by, session).await?;
        let _turn = self.inner.heavy.turn(by).await?;
        let then = self.inner.at_checkpoint(&state, &state.session_id, checkpoint).await?;
        self.of_this_graph(&then.session)?;
        self.typed(None, &then.session).await
    }

    /// The outcome of a session's run so far.
    ///
    /// # Errors
    /// As [`Runs::state`].
    pub async fn outcome(&self, by: &Principal, session: &str) -> Result<Outcome<S>, Refusal> {
        let live = self.inner.named(session)?;
        self.inner.rests(&live).await;
        let state = self.inner.load(&live, &mut *live.lock().await).await?;
        visible(by, &state)?;
        self.of_this_graph(&state)?;
        self.outcome_of(Some(by), &state).await
    }

    async fn typed(&self, by: Option<&Principal>, state: &State) -> Result<S, Refusal> {
        let raw = self.inner.graph_state(by, state).await?;
        let raw = raw.ok_or_else(|| invalid("no run has begun in this session".to_owned()))?;
        raw.downcast_ref::<S>().cloned().ok_or_else(|| Refusal::new(Code::Internal, "the state is of another type"))
    }

    async fn drive(&self, live: LiveRef) -> Result<Outcome<S>, Refusal> {
        self.inner.clone().drive_until_idle(&live, None).await?;
        let state = self.inner.load(&live, &mut *live.lock().await).await?;
        self.outcome_of(None, &state).await
    }

    async fn outcome_of(&self, by: Option<&Principal>, state: &State) -> Result<Outcome<S>, Refusal> {
        self.inner.released().await?;
        Ok(match state.status {
            Status::Failed => {
                let why = |failure: &Failure| (failure.code().to_owned(), failure.message.clone());
                let (code, message) = state.failure.as_deref().map(why).unwrap_or_default();
                Outcome::Failed { code, message }
            }
            Status::Cancelled => Outcome::Cancelled,
            Status::Completed | Status::Idle => Outcome::Done(self.typed(by, state).await?),
            // It runs or is pending.
            _ => Outcome::Paused {
                state: self.typed(by, state).await?,
                pending: state.open.iter().filter_map(|open| Pending::of(&state.session_id, open)).collect(),
            },
        })
    }
}

/// The state of a run that begins, as JSON.
fn written<S: GraphState>(state: &S) -> Result<Raw, Refusal> {
    Raw::of(state).map_err(|error| invalid(format!("the state cannot be serialised as JSON: {error}")))
}

impl Inner {
    /// The recorded state of a session's run, for [`Inner::graph_root`].
    pub(crate) async fn graph_state(&self, by: Option<&Principal>, state: &State) -> Result<Option<AnyState>, Refusal> {
        let root = self.graph_root(by, state).await?.transpose();
        root.map_err(|error| invalid(error.to_string()))
    }

    /// The same, or why this program cannot read it. For a person's read it waits for a turn to fold the journal; a
    /// caller that already has a turn, or works on the session, passes `None`.
    pub(super) async fn graph_root(
        &self,
        by: Option<&Principal>,
        state: &State,
    ) -> Result<Option<Result<AnyState, NodeError>>, Refusal> {
        let Some(run) = state.run.as_ref().filter(|run| !run.agent_loop) else { return Ok(None) };
        if let Some(kept) = self.warm.root(&state.session_id, state.pos) {
            return Ok(Some(Ok(kept)));
        }
        let _turn = match by {
            Some(by) => Some(self.heavy.turn(by).await?),
            None => None,
        };
        let folded = self.fold_states(&state.session_id, run, state.pos).await?;
        Ok(folded.map(|hot| hot.root().map(|(_, state)| state.clone())).transpose())
    }
}

impl Pending {
    fn of(session_id: &str, open: &countersign_core::journal::state::Open) -> Option<Pending> {
        let at = open.asked.question.as_ref()?;
        let read = |raw: &str| serde_json::from_str::<Value>(raw).unwrap_or_default();
        Some(Pending {
            key: approval_key(session_id, open.asked.n),
            node: at.node.clone(),
            question: at.question.clone(),
            payload: read(at.payload.get()),
            schema: at.schema.as_ref().map(|schema| read(schema.0.get())),
            role: open.asked.actions.first().and_then(|action| action.reviewer_said()).map(str::to_owned),
            in_doubt: open.asked.kind == Kind::InDoubt,
        })
    }
}
