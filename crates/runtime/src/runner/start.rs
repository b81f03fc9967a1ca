//! One part of a run: from its input, or from the decisions on a paused state, until it pauses or ends.

use std::{collections::BTreeSet, sync::Arc};

use countersign_core::{
    approval::{
        decision::{Choice, Decision},
        key::approval_key,
        principal::Principal,
        rule::Always,
    },
    call::gate::DecisionType,
    content::Content,
    journal::{
        draft::{Catalog as _, Draft},
        failure::{self, Retried},
        record::{Entry, Kind, Millis},
        state::{Open, State, Status},
    },
    locale::Text,
    number::{CallNo, InterruptionNo},
    refusal::{Code, Refusal},
    session,
};

use super::{
    RunInput,
    config::{CancelHandle, RunConfig},
    error::{Cause, RunError},
    nested::Nested,
    result::RunResult,
    said::{answers, retract_late, too_late},
    spent::spent,
};
use crate::{
    agent::Agent,
    interruption::Interruption,
    run::{
        LiveRef, NewDecision, NewMessage, NewSession, Runtime,
        guard::{Settings, Watch},
        hold::Hold,
        settle::{Origin, Unsettled, overdue},
        stops::Why,
        subscription::Subscription,
    },
    run_state::{DecisionError, RunState, RunStateError, Staged, journal},
    store::{Store, memory::MemoryStore},
    tool::AppContext,
};

/// Why a state cannot be resumed. Nothing has run.
enum Stopped {
    Claimed,
    AtWork,
    MaxTurns(u32),
    TooLate { call_id: String, expired_at: String, late: Vec<InterruptionNo> },
    Other(RunError),
}

impl<E: Into<RunError>> From<E> for Stopped {
    fn from(error: E) -> Stopped {
        Stopped::Other(error.into())
    }
}

/// A session that is ready to run: its input and its decisions are stored, nothing of it runs yet.
pub(super) struct Session {
    pub(super) runtime: Runtime,
    /// The session stays in memory from the first step to the last.
    _live: LiveRef,
    store: Arc<dyn Store>,
    pub(super) session_id: Arc<str>,
    /// The agent that answers when it resumes.
    pub(super) agent: Arc<str>,
    principal: Principal,
    watch: Arc<Watch>,
    cancel: Option<CancelHandle>,
    /// Carried over from part to part: the run's state before this one, without its journal.
    before: Option<RunState>,
    max_turns: Option<u32>,
    /// The position at which this part begins.
    from: u64,
    /// Decisions that cannot take effect yet.
    kept: Vec<Staged>,
    /// The session's events from here on, if requested.
    pub(super) follow: Option<Subscription>,
    /// Whether the events of nested agents are requested.
    tells_nested: bool,
    /// The runs of nested agents, if so.
    pub(super) nested: Option<Nested>,
    /// No other run of this process continues the session until its driver has ended.
    pub(super) hold: Option<Hold>,
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
        mut config: RunConfig,
        follow: bool,
    ) -> Result<Session, RunError> {
        let (content, before) = match input {
            RunInput::Content(content) => (Some(content), None),
            RunInput::State(state) => (None, Some(*state)),
        };
        if let Some(what) = config.mistake() {
            return Err(RunError::new(Cause::Settings(what), before));
        }
        let context = match &before {
            Some(state) => Some(state.context()),
            None => config.context.clone(),
        };
        let watch = Arc::new(Watch::default());
        if let Some(state) = &before {
            let mut seen = watch.seen();
            seen.guardrails.clone_from(&state.guardrails);
            seen.spent = spent(state.entries());
        }
        let max_turns = config.max_turns.or_else(|| before.as_ref().and_then(|state| state.max_turns));
        let settings =
            Settings { context: context.clone(), max_turns, watch: Some(watch.clone()), ..settings(&config) };
        let durable = config.store.is_some();
        let store = config.store.take().unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let runtime = match runtime(agent, store.clone(), &mut config, settings) {
            Ok(runtime) => runtime,
            Err(error) => return Err(error.with(before)),
        };
        let principal = config.principal.unwrap_or_else(Principal::trusted);
        let session_id: Arc<str> = match &before {
            Some(state) => state.state().session_id.clone(),
            None => config.session_id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()).into(),
        };
        let live = runtime.keep(&session_id);
        let mut session = Session {
            runtime,
            _live: live,
            store,
            session_id,
            agent: agent.name.clone(),
            principal,
            watch,
            cancel: config.cancel,
            before: None,
            max_turns,
            from: 0,
            kept: Vec::new(),
            follow: None,
            tells_nested: follow && config.nested_events.unwrap_or_default(),
            nested: None,
            hold: None,
            moves: true,
            told: Told { from: 0, until: 0, runs: true },
        };
        match before {
            Some(state) => match session.priced() {
                Ok(()) => session.resume(state, follow).await?,
                Err(error) => return Err(error.with(Some(state))),
            },
            None => session.start(content.unwrap_or_default(), context, durable, follow).await?,
        }
        session.is_ready();
        Ok(session)
    }

    /// Its input and its decisions are stored. If nothing is to run, the session is left to other runs of the process.
    fn is_ready(&mut self) {
        // A paused one is cancelled, too.
        self.moves |= self.cancel.as_ref().is_some_and(CancelHandle::is_cancelled);
        match &self.hold {
            Some(hold) if self.moves => hold.works(),
            _ => self.hold = None,
        }
    }

    async fn start(
        &mut self,
        content: Content,
        context: Option<AppContext>,
        durable: bool,
        follow: bool,
    ) -> Result<(), RunError> {
        // Another run that works on the session reports so, or is about to end.
        self.hold = self.take_hold().await;
        loop {
            match self.say(&content, context.as_ref(), durable, follow).await {
                // Another run of the session was first. Its current state determines the error.
                Err(error)
                    if durable
                        && error.refusal().is_some_and(|refusal| refusal.code == Code::StoreUnavailable)
                        && self.has_moved().await => {}
                said => {
                    said?;
                    break;
                }
            }
        }
        if self.hold.is_none() {
            tokio::select! { biased;
                hold = Hold::wait(&self.runtime.inner, &self.session_id) => self.hold = Some(hold),
                () = self.until_cancelled() => {}
            }
        }
        Ok(())
    }

    /// Makes this the only run of this process that continues the session; `None` if another run works on it, or this
    /// one is cancelled before that is known.
    async fn take_hold(&self) -> Option<Hold> {
        loop {
            match Hold::take(&self.runtime.inner, &self.session_id) {
                Ok(hold) => return Some(hold),
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

    async fn say(
        &mut self,
        content: &Content,
        context: Option<&AppContext>,
        durable: bool,
        follow: bool,
    ) -> Result<(), RunError> {
        if durable {
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
        let session_id = Some(self.session_id.to_string());
        let message = NewMessage { session_id, content: content.clone(), ..NewMessage::default() };
        self.follow = self.runtime.take(&self.principal, message, follow).await.map_err(in_the_library)?;
        self.follow_nested().await?;
        self.agent = self.runtime.loaded(&self.session_id).await?.agent.clone();
        Ok(())
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

    /// Puts the state into the store where it resumes, and applies its decisions: all of them or none.
    async fn resume(&mut self, mut state: RunState, follow: bool) -> Result<(), RunError> {
        let given = (!state.unstored().is_empty()).then(|| state.clone());
        let gone_on = self.go_on_from(&mut state, follow).await;
        if gone_on.is_err()
            && let Some(mut given) = given
        {
            // The given state, except for the number of entries that its store is now known to have.
            given.stored = state.stored;
            state = given;
        }
        match gone_on {
            Ok(()) => {
                self.agent = state.state().agent.clone();
                self.before = Some(state);
                Ok(())
            }
            Err(Stopped::Claimed) => Err(RunError::new(Cause::Claimed(self.session_id.to_string()), Some(state))),
            Err(Stopped::AtWork) => Err(RunError::new(Cause::AtWork(self.session_id.to_string()), Some(state))),
            Err(Stopped::MaxTurns(limit)) => Err(RunError::new(Cause::MaxTurns(limit), Some(state))),
            Err(Stopped::TooLate { call_id, expired_at, late }) => {
                retract_late(&mut state, &late);
                Err(RunError::new(Cause::TooLate { call_id, expired_at }, Some(state)))
            }
            Err(Stopped::Other(error)) => Err(error.with(Some(state))),
        }
    }

    async fn go_on_from(&mut self, state: &mut RunState, follow: bool) -> Result<(), Stopped> {
        let at = self.runtime.inner.now();
        let is_stored = self.claim(state).await?;
        self.from = state.state().pos;
        let late = self.check(state, at)?;
        self.prepare_tools(state).await;
        let sets = self.sets(state.state(), &state.staged, &late)?;
        let answers = answers(state, &self.session_id);
        self.moves = matches!(state.state().status, Status::Running | Status::Failed)
            || !(late.is_empty() && sets.is_empty() && answers.is_empty() && state.inputs.is_empty());
        if !is_stored {
            match state.begins_in(&*self.store).await {
                Err(RunStateError::Exists(_)) => return Err(Stopped::Claimed),
                restored => restored?,
            }
        }
        if follow {
            self.told.from = self.runtime.loaded(&self.session_id).await?.cursor.seq;
            self.follow = Some(self.runtime.subscribe(&self.principal, &self.session_id, None).await?);
            self.follow_nested().await?;
        }
        let decided = sets.into_iter().map(|(n, decisions)| {
            let approval_key = approval_key(&self.session_id, n);
            NewDecision::new(approval_key, decisions)
        });
        let replies = decided.chain(answers).collect();
        let cancelled = self.settle(state, at, replies).await?;
        if follow {
            let now = self.runtime.loaded(&self.session_id).await?;
            self.told = Told { until: now.cursor.seq, runs: now.status == Status::Running || cancelled, ..self.told };
        }
        self.tell_resolved(state).await?;
        Ok(())
    }

    /// Claims the state for this run: `true` if its store has it.
    async fn claim(&mut self, state: &mut RunState) -> Result<bool, Stopped> {
        self.hold = self.take_hold().await;
        let head = self.store.head(&self.session_id).await.map_err(RunStateError::from)?;
        if let Some(head) = &head
            && !state.is_at_end_of(&*self.store, head.pos).await?
        {
            // Another run has continued it, or it is of another session.
            return Err(Stopped::Claimed);
        }
        if self.hold.is_none() {
            return Err(Stopped::AtWork);
        }
        Ok(head.is_some())
    }

    /// The overdue interruptions, once everything else allows the run to continue.
    fn check(&self, state: &RunState, at: Millis) -> Result<Vec<InterruptionNo>, Stopped> {
        let agents = &self.runtime.inner.agents;
        // A turn without model calls left is refused before anything is stored.
        if state.state().status == Status::Failed
            && let Err(refusal) = Draft::new(state.state(), at).retry(Retried::default(), agents)
            && refusal.code == Code::BudgetSpent
        {
            return Err(Stopped::MaxTurns(agents.max_turns(&state.state().agent)));
        }
        // Nothing watched the deadlines while the state was kept.
        let late = overdue(state.state(), at);
        if let Some((call_id, expired_at)) = too_late(state, &late) {
            return Err(Stopped::TooLate { call_id, expired_at, late });
        }
        Ok(late)
    }

    /// Decisions are checked against the current tools.
    async fn prepare_tools(&self, state: &RunState) {
        let agents = &self.runtime.inner.agents;
        if !state.staged.is_empty() && agents.have_sources() {
            let open = state.state().open.iter().flat_map(|open| &open.asked.actions);
            let names: BTreeSet<Arc<str>> = open.map(|action| action.agent.clone()).collect();
            agents.prepare(names.iter().map(|name| &**name)).await;
        }
    }

    /// Stores the retry, decisions, answers and input, or nothing of it. `true`: it was cancelled before they were
    /// taken.
    async fn settle(&mut self, state: &RunState, at: Millis, replies: Vec<NewDecision>) -> Result<bool, Stopped> {
        let (pos, unstored) = (state.stored_pos(), state.unstored().to_vec());
        let origin = Origin { pos, unstored, at };
        let (by, id, inputs) = (&self.principal, &self.session_id, state.inputs.clone());
        let settled = self.runtime.settle(by, id, origin.clone(), replies, inputs, self.until_cancelled()).await;
        let cancelled = matches!(settled, Err(Unsettled::Cancelled));
        let settled = match settled {
            Err(Unsettled::Cancelled) => {
                // No decision takes effect. Calls that a failed turn left open are cancelled too.
                self.moves = true;
                let never = std::future::pending();
                self.runtime.settle(&self.principal, &self.session_id, origin, Vec::new(), Vec::new(), never).await
            }
            settled => settled,
        };
        settled.map_err(|unsettled| match unsettled {
            Unsettled::Moved | Unsettled::Cancelled => Stopped::Claimed,
            Unsettled::Refused(refusal) => Stopped::Other(refusal.into()),
        })?;
        Ok(cancelled)
    }

    async fn tell_resolved(&self, state: &RunState) -> Result<(), RunError> {
        if !self.runtime.inner.settings.hooks.is_empty() {
            let open: Vec<Interruption> = Interruption::all(state.state(), None);
            let now = self.runtime.loaded(&self.session_id).await?;
            let waits = Interruption::all(&now, None);
            for item in open.iter().filter(|item| waits.iter().all(|other| !other.is(item))) {
                self.runtime.inner.tell(|hooks| hooks.approval_resolved(item)).await;
            }
        }
        Ok(())
    }

    /// The decisions by interruption. Those of one that cannot be decided in part are kept for later.
    fn sets(
        &mut self,
        state: &State,
        staged: &[Staged],
        late: &[InterruptionNo],
    ) -> Result<Vec<(InterruptionNo, Vec<Decision>)>, RunError> {
        let agents = &self.runtime.inner.agents;
        let items = Interruption::all(state, Some(agents));
        let runs = |kind| matches!(kind, DecisionType::Approve | DecisionType::Edit);
        for staged in staged.iter().filter(|staged| runs(staged.decision.kind())) {
            let item = items.iter().find(|item| item.number() == staged.call);
            if let Some(Interruption { call_id, unresolvable: Some(why), .. }) = item {
                let (call_id, why) = (call_id.to_string(), why.clone());
                return Err(DecisionError::Unresolvable { call_id, why }.into());
            }
        }
        let mut sets = Vec::new();
        let decides =
            |open: &&Open| !matches!(open.asked.kind, Kind::Interrupt | Kind::Input) && !late.contains(&open.asked.n);
        for open in state.open.iter().filter(decides) {
            let decided = |call: CallNo| {
                let own = staged.iter().find(|staged| staged.call == call).map(|staged| staged.decision.clone());
                own.or_else(|| standing(state, staged, call))
            };
            let actions = &open.asked.actions;
            if actions.iter().all(|action| decided(action.call).is_none()) {
                continue;
            }
            // Several people approve all of it, or none.
            if open.quorum() > 1 && actions.iter().any(|action| decided(action.call).is_none()) {
                self.kept.extend(staged.iter().filter(|s| actions.iter().any(|a| a.call == s.call)).cloned());
                continue;
            }
            let decisions = actions.iter().map(|action| match decided(action.call) {
                Some(decision) => self.in_words(state, open, decision, &action.name, &action.tool_use_id),
                None => Decision::defer(),
            });
            sets.push((open.asked.n, decisions.collect()));
        }
        Ok(sets)
    }

    /// A rejection without a message gets the run's own, if it has any (spec S9).
    fn in_words(&self, state: &State, open: &Open, decision: Decision, tool: &str, call_id: &str) -> Decision {
        let mut decision = decision;
        if let Choice::Reject { message: message @ None, .. } = &mut decision.choice
            && open.asked.kind == Kind::Approval
        {
            *message = self.runtime.inner.rejection(tool, call_id, state.locale.text(Text::Rejected));
        }
        decision
    }

    /// Drives it until no more effects follow.
    pub(super) async fn drive(mut self) -> Result<RunResult, RunError> {
        if self.moves {
            let mut going = std::pin::pin!(self.runtime.run_until_idle(&self.session_id));
            tokio::select! {
                biased;
                () = self.until_cancelled() => {
                    // Concurrently: the driver may hold the session while it stores.
                    tokio::join!(self.cancelled(), going);
                }
                () = &mut going => {}
            }
        }
        self.hold = None;
        self.finish().await
    }

    async fn until_cancelled(&self) {
        match &self.cancel {
            Some(cancel) => cancel.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the turn. One that has ended is not changed.
    pub(super) async fn cancelled(&self) {
        if let Err(refusal) = self.runtime.stop(&self.principal, &self.session_id).await {
            tracing::debug!(session = &*self.session_id, %refusal, "nothing was left to cancel");
        }
    }

    /// The pending interruptions with a key.
    pub(super) async fn items(&self, approval_key: &str) -> Result<Vec<Interruption>, RunError> {
        let state = self.runtime.loaded(&self.session_id).await?;
        let mut items = Interruption::all(&state, Some(&self.runtime.inner.agents));
        items.retain(|item| item.approval_key == approval_key);
        Ok(items)
    }

    /// The error with the given state, which is kept.
    pub(super) fn with_given(&self, error: RunError) -> RunError {
        error.with(self.before.clone())
    }

    pub(super) fn given(&mut self) -> Option<RunState> {
        self.before.take()
    }

    pub(super) fn cancel_handle(&self) -> Option<CancelHandle> {
        self.cancel.clone()
    }

    async fn entries(&self) -> Result<Vec<Arc<Entry>>, RunError> {
        let entries = journal(&*self.store, &self.session_id).await.map_err(RunStateError::from)?;
        // They are returned with the result.
        self.store.sync().await.map_err(RunStateError::from)?;
        Ok(entries)
    }

    /// The result of the run.
    pub(super) async fn finish(mut self) -> Result<RunResult, RunError> {
        let read = async {
            let (outcome, state) = self.runtime.answer_and_session(&self.session_id).await?;
            Ok((outcome, state, self.entries().await?))
        };
        let (outcome, state, entries) = match read.await {
            Ok(read) => read,
            Err(error) => return Err(RunError::with(error, self.before.take())),
        };
        if matches!(state.status, Status::Failed | Status::Cancelled) {
            return Err(self.failed(entries, &state));
        }
        let agents = &self.runtime.inner.agents;
        let interruptions = Interruption::all(&state, Some(agents));
        if !self.runtime.inner.settings.hooks.is_empty() {
            let known = self.before.as_ref().map(RunState::interruptions).unwrap_or_default();
            for item in interruptions.iter().filter(|item| known.iter().all(|other| !other.is(item))) {
                self.runtime.inner.tell(|hooks| hooks.approval_requested(item)).await;
            }
        }
        let guardrails = self.watch.seen().guardrails.clone();
        let mut saved = self.saved(RunState::of_session(entries, state.clone()));
        saved.staged = self.kept_for(&saved);
        Ok(RunResult {
            final_output: outcome,
            cut: state.cut,
            interruptions,
            usage: state.usage,
            model_calls: state.answers.all(),
            last_agent: state.agent.clone(),
            guardrails,
            state: saved,
            from: self.from,
        })
    }

    /// The decisions that cannot take effect yet, except those on interruptions withdrawn since.
    fn kept_for(&self, state: &RunState) -> Vec<Staged> {
        self.kept.iter().filter(|staged| state.waits(staged.call)).cloned().collect()
    }

    fn saved(&self, state: RunState) -> RunState {
        let mut state = state.like(self.before.as_ref());
        state.max_turns = self.max_turns;
        state.guardrails.clone_from(&self.watch.seen().guardrails);
        state
    }

    /// Why the turn failed, or that it was cancelled.
    fn failed(&self, entries: Vec<Arc<Entry>>, state: &session::Session) -> RunError {
        let (failure, limit) = (state.failure.clone(), state.turn_calls);
        let mut state = self.saved(RunState::of_session(entries, state.clone()));
        let Some(failure) = failure else { return RunError::new(Cause::Cancelled, Some(state)) };
        state.staged = self.kept_for(&state);
        let stopped = self.watch.seen().stopped.take();
        let message = failure.message.clone();
        let cause = match (&failure.why, stopped.map(|stop| stop.why)) {
            (failure::Why::MaxTurns, _) => Cause::MaxTurns(limit),
            (_, Some(Why::Guardrail(result))) => Cause::Guardrail(result),
            (_, Some(Why::Budget { what, spent, limit })) => Cause::Budget { what, spent, limit },
            (_, Some(Why::NoAgent(agent))) => {
                let known = self.runtime.inner.agents.names.iter().map(ToString::to_string).collect();
                Cause::NoAgent { agent: agent.to_string(), known }
            }
            (_, Some(Why::Output(errors))) => Cause::InvalidOutput(errors),
            (failure::Why::Error(code), _) if code == "model_error" => Cause::Model(message),
            (failure::Why::Error(code), _) => Cause::Failed { code: code.clone(), message },
        };
        RunError::new(cause, Some(state))
    }
}

/// The part of the configuration that settles how a run is carried out.
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

/// A refusal of a message in the library's terms: how it would be sent over the wire does not help here.
fn in_the_library(mut refusal: Refusal) -> Refusal {
    let message = match refusal.code {
        Code::ApprovalPending => {
            "the session waits for a decision: take its state with RunState::save, decide on it, and run that; \
             RunState::add_input says more to the model then"
        }
        Code::SessionBusy => {
            "a turn of the session has not ended: wait for it, or, if its process is gone, take the session's state with \
             RunState::save and run that"
        }
        _ => return refusal,
    };
    refusal.message = message.to_owned();
    refusal
}

/// The decision on a call that follows from one for the rest of the run on another pending call (spec S7).
fn standing(state: &State, staged: &[Staged], call: CallNo) -> Option<Decision> {
    let find =
        |number: CallNo| state.open.iter().flat_map(|open| &open.asked.actions).find(|action| action.call == number);
    let action = find(call)?;
    staged.iter().filter(|staged| *staged.decision.reach() == Always::Session).find_map(|staged| {
        let other = find(staged.call)?;
        let same = other.agent == action.agent && other.name == action.name;
        let approves = staged.decision.kind() == DecisionType::Approve;
        // As for later calls: it replaces one person's decision, and for the tool that they were shown.
        let applies = !approves
            || (action.ask.is_one_person()
                && action.reviewer() == other.reviewer()
                && state.signature_shown(action) == state.signature_shown(other));
        (same && applies).then(|| Decision::from(staged.decision.choice.clone()).always(Always::No))
    })
}
