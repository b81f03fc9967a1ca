//! Runs of graphs with any type of state: the shared part of the typed and untyped APIs, and the untyped one, whose
//! states and updates are JSON (spec G3, G6).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    call::reviewer::Reviewer,
    drawing::Drawing,
    journal::{
        draft::Draft,
        record::SessionCreated,
        request_id::RequestId,
        run::{Raw, RunStarted, StateEdited},
        state::State,
    },
    limits,
    refusal::{Code, Refusal},
};

use super::{
    command::to_the_end,
    graph::rounds::round,
    ids::{kept_id, session_id, unique},
    inner::{Inner, Runtime},
    live::uses::LiveRef,
    nodes::contested,
    refusals::{owned, visible},
    view::{SessionView, StateView},
};
use crate::{
    graph::compiled::AnyGraph,
    store::{Durability, index::Purpose},
};

/// A graph run to start, with its state as JSON.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The session; created if absent or not found.
    pub session_id: Option<String>,
    /// The initial state: a JSON object, as the graph's type reads it.
    pub state: Raw,
    /// Makes a retry of the request safe, with the same `session_id` and `state`.
    pub request_id: Option<String>,
}

/// A run that was started.
#[derive(Debug)]
pub struct BegunRun {
    /// Its session.
    pub session: SessionView,
    /// Whether it was started now, and not by an earlier attempt of the same request.
    pub made: bool,
}

impl Runtime {
    /// The drawing of the graph of this name (spec G7).
    ///
    /// # Errors
    /// `unknown_graph`.
    pub fn graph_drawing(&self, graph: &str) -> Result<Drawing, Refusal> {
        let known = self.inner.graphs.get(graph);
        known.map(|known| known.drawing()).ok_or_else(|| self.inner.unknown_graph(graph))
    }

    /// Starts a run of the graph of this name in the background. [`super::Runs::start`] is the typed variant.
    ///
    /// # Errors
    /// `unknown_graph`, `invalid_message` (the state does not fit, and where; an agent's session), `request_id_reused`
    /// (for another state), and those of [`super::Runs::run`].
    pub async fn start_run(&self, by: &Principal, graph: &str, new: NewRun) -> Result<BegunRun, Refusal> {
        let known = self.inner.graphs.get(graph);
        let graph = known.ok_or_else(|| self.inner.unknown_graph(graph))?;
        has_names("state", &new.state)?;
        let sent = new.request_id.map(|id| StartId { id, asked: Some(new.state.clone()) });
        // As the graph writes it, so that defaults for omitted members are on record.
        let state = graph.read_state(&new.state).and_then(|state| graph.write_state(&state));
        let state = state.map_err(|error| invalid(format!("state: {error}")))?;
        let (runtime, by, graph) = (self.clone(), by.clone(), graph.clone());
        to_the_end(async move {
            let begun = runtime.inner.begin_run(&*graph, &by, new.session_id.as_deref(), state, sent).await;
            let (live, made) = begun?;
            let id = live.session_id.clone();
            let session = runtime.of_stored_and_go_on(live, || runtime.session(&by, &id)).await?;
            Ok(BegunRun { session, made })
        })
        .await
    }

    /// Edits the state of a session's run, as a node's update would. Paused nodes start over with the new state, in the
    /// background, and ask again under new keys. [`super::Runs::edit`] is the typed variant.
    ///
    /// # Errors
    /// `session_not_found`, `forbidden` (another owner's, or the edit would withdraw requests or answers that others decide),
    /// `session_busy` while nodes run, `invalid_message` (the update does not fit, and where; a session without a
    /// graph's run), `store_unavailable`.
    pub async fn edit_run(
        &self,
        by: &Principal,
        session: &str,
        update: Raw,
        request_id: Option<String>,
    ) -> Result<StateView, Refusal> {
        has_names("update", &update)?;
        let live = self.inner.named(session)?;
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move {
            runtime.inner.edit_state(None, &live, &by, update, request_id).await?;
            let id = live.session_id.clone();
            runtime.of_stored_and_go_on(live, || runtime.state_queued(&by, &id, None)).await
        })
        .await
    }
}

/// The `request_id` of a start.
#[derive(Clone)]
pub(super) struct StartId {
    pub(super) id: String,
    /// The state as it was sent, which distinguishes a repeat from another request. A program serialises a typed state
    /// each time, perhaps in another order: then only its id identifies a repeat.
    pub(super) asked: Option<Raw>,
}

impl StartId {
    /// The form in which the session of this birth keeps it. Only its owner starts runs in it.
    fn kept(self, birth: &str) -> RequestId {
        match self.asked {
            Some(asked) => RequestId::of(&self.id, None, birth, &asked),
            None => (*self.id).into(),
        }
    }
}

impl Inner {
    /// Starts a run; false: an earlier attempt of this request has started it.
    pub(super) async fn begin_run(
        self: &Arc<Self>,
        graph: &dyn AnyGraph,
        by: &Principal,
        session: Option<&str>,
        state: Raw,
        request_id: Option<StartId>,
    ) -> Result<(LiveRef, bool), Refusal> {
        let live = self.live(&session_id(session)?);
        if state.get().len() > limits::UPDATE_BYTES {
            return Err(invalid(format!("the state has more than {} bytes as JSON", limits::UPDATE_BYTES)));
        }
        let begun = contested!(self.begin_run_in(graph, &live, by, state.clone(), request_id.clone()).await);
        begun.map(|begun| (live, begun))
    }

    async fn begin_run_in(
        &self,
        graph: &dyn AnyGraph,
        live: &LiveRef,
        by: &Principal,
        state: Raw,
        request_id: Option<StartId>,
    ) -> Result<bool, Refusal> {
        let mut guard = live.lock().await;
        let known = self.load(live, &mut guard).await?;
        let birth = if known.pos > 0 { known.birth.clone() } else { unique() };
        let request_id = request_id.map(|request| request.kept(&birth));
        if known.pos > 0 {
            owned(by, &known)?;
            of_graph(graph.name(), &known)?;
            if self.is_repeat(&live.session_id, request_id.as_ref(), Purpose::RUN).await? {
                self.confirmed().await?;
                return Ok(false);
            }
        }
        let mut made = known.run.as_ref().map(|run| run.made).unwrap_or_default();
        let started = RunStarted {
            graph: graph.name().clone(),
            state,
            state_version: graph.state_version(),
            round: round(graph.start(), &mut made),
            by: by.subject.clone(),
            roles: by.roles.clone(),
            request_id,
        };
        let created = SessionCreated {
            agent: graph.name().clone(),
            locale: self.locale,
            subject: by.subject.clone(),
            tenant: by.tenant.clone(),
            context: None,
            birth,
        };
        let make = |state: &Arc<State>| {
            let mut draft = Draft::of(state.clone(), self.now());
            if state.pos == 0 {
                draft.create(created);
            }
            draft.run_started(started, &self.agents)
        };
        self.transact(live, &mut guard, Durability::Synced, make).await?;
        Ok(true)
    }

    /// The state of a session's run as JSON, for [`Inner::graph_root`]; `None` if it has none, or one that this program
    /// cannot read.
    pub(super) async fn graph_values(&self, by: Option<&Principal>, state: &State) -> Result<Option<Raw>, Refusal> {
        let Some(graph) = state.run.as_ref().and_then(|run| self.graphs.get(&run.graph)) else { return Ok(None) };
        let root = self.graph_root(by, state).await?;
        Ok(root.and_then(Result::ok).and_then(|state| graph.write_state(&state).ok()))
    }

    fn unknown_graph(&self, name: &str) -> Refusal {
        let known: Vec<String> = self.graphs.keys().map(|name| format!("{name:?}")).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { format!("known: {}", known.join(", ")) };
        Refusal::new(Code::UnknownGraph, format!("there is no graph {name:?}; {known}"))
    }

    /// Edits the state of a graph's run: of this graph, if one is named. The update is JSON, like a node's.
    pub(super) async fn edit_state(
        &self,
        graph: Option<&str>,
        live: &LiveRef,
        by: &Principal,
        update: Raw,
        request_id: Option<String>,
    ) -> Result<(), Refusal> {
        contested!(self.edit_state_in(graph, live, by, update.clone(), request_id.clone()).await)
    }

    async fn edit_state_in(
        &self,
        of: Option<&str>,
        live: &LiveRef,
        by: &Principal,
        update: Raw,
        request_id: Option<String>,
    ) -> Result<(), Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        self.may_edit_state(by, &state)?;
        let request_id = kept_id(by, &state, request_id.as_deref(), &update);
        if self.is_repeat(&live.session_id, request_id.as_ref(), Purpose::EDIT).await? {
            return Ok(());
        }
        if let Some(of) = of {
            of_graph(of, &state)?;
        }
        let graph = state.run.as_ref().filter(|run| !run.agent_loop).and_then(|run| self.graphs.get(&run.graph));
        let Some(graph) = graph else {
            return Err(invalid("the session runs no graph of this program, so it has no state to change".to_owned()));
        };
        let Some(mut merged) = self.graph_state(None, &state).await? else {
            return Err(invalid("no run has begun in this session".to_owned()));
        };
        let read = graph
            .read_update(Some(&update))
            .map_err(|error| invalid(format!("the update does not fit the state: {error}")))?;
        graph.merge(&mut merged, vec![read]).map_err(|error| invalid(error.to_string()))?;
        let edited = StateEdited { update, state_version: graph.state_version(), by: by.subject.clone(), request_id };
        let make = |state: &Arc<State>| Draft::of(state.clone(), self.now()).edit_state(edited, by, &self.agents);
        self.transact(live, &mut guard, Durability::Synced, make).await?;
        Ok(())
    }

    /// Whether a session takes messages: a graph's does not.
    pub(super) fn takes_messages(&self, state: &State) -> Result<(), Refusal> {
        let graph = match &state.run {
            Some(run) => (!run.agent_loop).then_some(&run.graph),
            // A fork of the moment before its run began.
            None => self.graphs.contains_key(&state.agent).then_some(&state.agent),
        };
        graph.map_or(Ok(()), |graph| {
            Err(invalid(format!("the session runs the graph {graph:?}, which takes answers, not messages")))
        })
    }

    /// Whether a person may edit the state that a session's nodes use, as long as the edit withdraws nothing.
    fn may_edit_state(&self, by: &Principal, state: &State) -> Result<(), Refusal> {
        let Some(roles) = &self.settings.state_edits else {
            owned(by, state)?;
            // Editing what a person was asked about amounts to deciding it.
            return by.check_may_decide();
        };
        visible(by, state)?;
        if roles.iter().any(|role| by.may_decide(state, &Reviewer::of(&**role))) {
            return Ok(());
        }
        let what = match &roles[..] {
            [] => "the policy lets nobody change the state of a session".to_owned(),
            roles => format!("the policy lets only these change the state of a session: {}", roles.join(", ")),
        };
        Err(Refusal::new(Code::Forbidden, what))
    }
}

/// Whether a session can belong to this graph.
pub(super) fn of_graph(graph: &str, state: &State) -> Result<(), Refusal> {
    match &state.run {
        Some(run) if !run.agent_loop && *run.graph == *graph => Ok(()),
        None if state.turns == 0 && *state.agent == *graph => Ok(()),
        _ => Err(invalid(format!("the session {:?} is not one of the graph {graph:?}", state.session_id))),
    }
}

/// Checks that JSON from outside names its fields. Types can also be read from an array of their fields in declaration
/// order, so `[]` would be an update, and a new field would change the meaning of an array.
fn has_names(what: &str, json: &Raw) -> Result<(), Refusal> {
    if json.get().starts_with('{') {
        return Ok(());
    }
    Err(invalid(format!("{what}: it must be a JSON object of the state's fields by their names")))
}

pub(super) fn invalid(what: String) -> Refusal {
    Refusal::new(Code::InvalidMessage, what)
}
