//! One part of a run: from its input, or from the decisions on a paused state, until it pauses or ends.

mod end;
mod resume;

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    content::Content,
    journal::{request_id::RequestId, state::State},
    refusal::{Code, Refusal},
};

pub(super) use self::resume::{Stopped, claim, put};
use super::{
    RunInput,
    config::{CancelHandle, RunConfig},
    error::{Cause, RunError},
    nested::Nested,
    spent::spent,
};
use crate::{
    agent::Agent,
    interruption::Interruption,
    run::{
        LiveRef, NewMessage, NewSession, Runtime,
        claim::HeldSession,
        guard::context_of,
        hold::Hold,
        settings::{Settings, Watch},
        subscription::Subscription,
    },
    run_state::{RunState, RunStateError, Staged, Taken},
    store::{Durability, Store, memory::MemoryStore},
    tool::AppContext,
};

/// A session that is ready to run: its input and its decisions are stored, but no part of it runs yet.
pub(super) struct Session {
    pub(super) runtime: Runtime,
    /// Keeps the session in memory from the first step to the last: reloaded between two of them, its unrecorded text
    /// would count as lost in a crash.
    live: LiveRef,
    store: Arc<dyn Store>,
    pub(super) session_id: Arc<str>,
    /// The agent that answers when it resumes.
    pub(super) agent: Arc<str>,
    principal: Principal,
    /// Whether no principal was given.
    anonymous: bool,
    /// Whether its store is the application's, and outlives this part.
    durable: bool,
    /// See [`RunConfig::request_id`].
    request_id: Option<RequestId>,
    /// The right to run a state that its store did not have.
    taken: Option<Taken>,
    watch: Arc<Watch>,
    cancel: Option<CancelHandle>,
    /// The run's state before this part, without its journal: it is carried over from part to part.
    before: Option<RunState>,
    max_turns: Option<u32>,
    /// The position at which this part begins.
    from: u64,
    /// Decisions that cannot take effect yet.
    kept: Vec<Staged>,
    /// The requests that wait, as far as hooks know.
    open: Vec<Interruption>,
    /// The session's events from here on, if requested.
    pub(super) follow: Option<Subscription>,
    /// Whether the events of nested agents are requested.
    tells_nested: bool,
    /// The runs of nested agents, if so.
    pub(super) nested: Option<Nested>,
    /// Keeps other runs of this process from continuing the session until its driver has ended.
    pub(super) hold: Option<HeldSession>,
    /// Whether it has anything to run.
    pub(super) moves: bool,
    /// The events that exist already when it starts to run.
    pub(super) told: Told,
}

/// The range of a resumed session's events that come first: the decisions, and their immediate consequences.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// The number of the last event before it.
    pub(super) from: u64,
    /// The number of the last event before anything runs.
    pub(super) until: u64,
    /// Whether a turn runs then: it ends with a later status.
    pub(super) runs: bool,
}

impl Session {
    pub(super) async fn begin(
        agent: &Agent,
        input: RunInput,
        config: RunConfig,
        follow: bool,
    ) -> Result<Session, RunError> {
        let (content, before) = match input {
            RunInput::Content(content) => (content, None),
            RunInput::State(state) => (Content::default(), Some(*state)),
        };
        let context = config.context.clone();
        let mut session = match Session::configured(agent, before.as_ref(), config, follow) {
            Ok(session) => session,
            Err(error) => return Err(error.with(before)),
        };
        match before {
            Some(state) => session.resume(state, follow).await?,
            None => session.start(content, context, follow).await?,
        }
        session.is_ready();
        Ok(session)
    }

    /// Nothing is stored yet, nor read from its store.
    fn configured(
        agent: &Agent,
        before: Option<&RunState>,
        mut config: RunConfig,
        follow: bool,
    ) -> Result<Session, RunError> {
        if let Some(what) = config.mistake() {
            return Err(RunError::new(Cause::Settings(what), None));
        }
        let context = match before {
            Some(state) => {
                check_data(config.context.as_ref(), &state.context(), &state.state().session_id)?;
                Some(state.context())
            }
            None => config.context.clone(),
        };
        let watch = Arc::new(Watch::default());
        if let Some(state) = before {
            let mut seen = watch.seen();
            seen.guardrails.clone_from(&state.guardrails);
            seen.spent = spent(state.entries());
            // The hooks know the agents whose calls are open, and a new agent has the turn from one of them.
            let State { turns, calls, .. } = state.state();
            seen.agents = calls.iter().map(|call| (call.run, (*turns, call.agent.clone()))).collect();
        }
        let max_turns = config.max_turns.or_else(|| before.and_then(|state| state.max_turns));
        let settings = Settings { context, max_turns, watch: Some(watch.clone()), ..settings(&config) };
        let durable = config.store.is_some();
        let store = config.store.take().unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let runtime = runtime(agent, store.clone(), &mut config, settings)?;
        let session_id: Arc<str> = match before {
            Some(state) => state.state().session_id.clone(),
            None => config.session_id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()).into(),
        };
        let session = Session {
            live: runtime.inner.live(&session_id),
            runtime,
            store,
            session_id,
            agent: agent.name.clone(),
            anonymous: config.principal.is_none(),
            principal: config.principal.unwrap_or_else(Principal::trusted),
            durable,
            request_id: config.request_id,
            taken: None,
            watch,
            cancel: config.cancel,
            before: None,
            max_turns,
            from: 0,
            kept: Vec::new(),
            open: Vec::new(),
            follow: None,
            tells_nested: follow && config.nested_events.unwrap_or_default(),
            nested: None,
            hold: None,
            moves: true,
            told: Told { from: 0, until: 0, runs: true },
        };
        // The usage of a new input's session is not read yet.
        if before.is_some() {
            session.priced()?;
        }
        Ok(session)
    }

    /// Its input and its decisions are stored. If there is nothing to run, the session is left to other runs of the
    /// process.
    fn is_ready(&mut self) {
        // A paused one is cancelled, too.
        self.moves |= self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled);
        if let Some(taken) = self.taken.take().filter(|_| self.moves) {
            taken.begins();
        }
        match &self.hold {
            Some(kept) if self.moves => kept.hold().into_iter().for_each(Hold::works),
            _ => self.hold.take().into_iter().for_each(HeldSession::ends),
        }
    }

    async fn start(&mut self, content: Content, context: Option<AppContext>, follow: bool) -> Result<(), RunError> {
        // Another run that works on the session reports so, or is about to end.
        self.hold = self.take_hold().await;
        loop {
            match self.say(&content, context.as_ref(), follow).await {
                // Another run of the session was first. Its current state determines the error.
                Err(error)
                    if self.durable
                        && error.refusal().is_some_and(|refusal| refusal.code.is_temporary())
                        && self.has_moved().await => {}
                said => {
                    said?;
                    break;
                }
            }
        }
        if self.hold.is_none() {
            tokio::select! { biased;
                hold = Hold::wait(&self.runtime.inner, &self.session_id) => self.hold = Some(HeldSession::new(&self.live, hold)),
                () = self.until_cancelled() => {}
            }
        }
        Ok(())
    }

    /// Makes this the only run of this process that continues the session; `None` if another run works on it, or if
    /// this one is cancelled before the outcome is known.
    async fn take_hold(&self) -> Option<HeldSession> {
        loop {
            match Hold::take(&self.runtime.inner, &self.session_id) {
                Ok(hold) => return Some(HeldSession::new(&self.live, hold)),
                Err(busy) if busy.works() => return None,
                Err(mut busy) => tokio::select! { biased;
                    () = busy.changed() => {}
                    () = self.until_cancelled() => return None,
                },
            }
        }
    }

    /// Whether the session's store has more than when this part began.
    async fn has_moved(&self) -> bool {
        matches!(self.store.head(&self.session_id).await, Ok(Some(head)) if head.pos > self.from)
    }

    async fn say(&mut self, content: &Content, context: Option<&AppContext>, follow: bool) -> Result<(), RunError> {
        if self.durable {
            self.from =
                self.store.head(&self.session_id).await.map_err(RunStateError::from)?.map_or(0, |head| head.pos);
        }
        if self.from > 0 {
            self.watch.seen().spent = spent(&self.entries().await?);
        }
        self.priced()?;
        // Without application data the message creates the session.
        if self.from == 0
            && let Some(context) = context.and_then(AppContext::to_raw)
        {
            let session_id = Some(self.session_id.to_string());
            let new = NewSession { session_id, context: Some(context), ..NewSession::default() };
            self.runtime.create_session(&self.principal, new).await?;
        }
        if self.durable && context.is_some() {
            self.check_data_of_session(context).await?;
        }
        let session_id = Some(self.session_id.to_string());
        let (content, request_id) = (content.clone(), self.request_id.as_ref().map(|id| id.id().to_owned()));
        let message = NewMessage { session_id, content, request_id, ..NewMessage::default() };
        let taken = self.runtime.take_message(&self.principal, message, follow, Durability::Buffered).await;
        self.follow = taken.map_err(in_the_library)?.1.follow;
        self.follow_nested().await?;
        self.agent = self.runtime.loaded(&self.session_id).await?.agent.clone();
        Ok(())
    }

    /// Later inputs use the data of the session: calls are judged and run with the same data.
    async fn check_data_of_session(&self, context: Option<&AppContext>) -> Result<(), RunError> {
        let first = self.store.read(&self.session_id, 0, 1).await.map_err(RunStateError::from)?;
        check_data(context, &context_of(&first), &self.session_id)
    }

    async fn follow_nested(&mut self) -> Result<(), RunError> {
        if let Some(follow) = self.follow.as_mut().filter(|_| self.tells_nested) {
            self.nested = Some(Nested::new(State::clone(&*follow.with_entries().await?)));
        }
        Ok(())
    }

    /// A cost limit needs prices: for all models that answer, or have answered.
    fn priced(&self) -> Result<(), RunError> {
        let (limits, models) = (&self.runtime.inner.settings.limits, self.runtime.inner.agents.models());
        let seen = self.watch.seen();
        match limits.unpriced(models.into_iter().chain(seen.spent.keys())) {
            None => Ok(()),
            Some(model) => {
                let priced = limits.prices.keys().map(ToString::to_string).collect();
                Err(RunError::new(Cause::NoPrice { model: model.to_string(), priced }, None))
            }
        }
    }
}

/// A call must run with the data by which it was judged.
///
/// # Errors
/// The run is configured with other application data than its session has.
fn check_data(given: Option<&AppContext>, own: &AppContext, session_id: &str) -> Result<(), RunError> {
    if given.is_none_or(|given| given == own) {
        return Ok(());
    }
    let what = format!(
        "session {session_id:?} has other application data than RunConfig::context: a session keeps the data that it began \
         with; leave that setting out, begin another session, or resume a state that has other data by \
         RunState::set_context"
    );
    Err(RunError::new(Cause::Settings(what), None))
}

/// The part of the configuration that determines how a run is carried out.
fn settings(config: &RunConfig) -> Settings {
    Settings {
        parallel_calls: config.parallel_calls,
        formatter: config.formatter.clone(),
        pre_approval: config.pre_approval.unwrap_or_default(),
        hooks: config.hooks.clone(),
        limits: config.limits.clone(),
        trace_content: config.trace_content.unwrap_or_default(),
        patient: true,
        ..Settings::default()
    }
}

/// The runtime of one part of a run, as configured.
fn runtime(
    agent: &Agent,
    store: Arc<dyn Store>,
    config: &mut RunConfig,
    settings: Settings,
) -> Result<Runtime, RunError> {
    let mut builder = Runtime::builder(store).agent(agent.clone()).settings(settings);
    if let Some(locale) = config.locale {
        builder = builder.locale(locale);
    }
    if let Some(retry) = config.retry.take() {
        builder = builder.retry(retry);
    }
    if let Some(policy) = config.policy.take() {
        builder = builder.policy(policy);
    }
    Ok(builder.build()?)
}

/// A refusal of a message in the library's terms: details of the wire do not help here.
fn in_the_library(mut refusal: Refusal) -> Refusal {
    let message = match refusal.code {
        Code::ApprovalPending => {
            "the session waits for a decision: take its state with RunState::load, decide on it, and run that; \
             RunState::add_input says more to the model then"
        }
        Code::SessionBusy => {
            "a turn of the session has not ended: wait for it, or, if its process is gone, take the session's state with \
             RunState::load and run that"
        }
        _ => return refusal,
    };
    refusal.message = message.to_owned();
    refusal
}
