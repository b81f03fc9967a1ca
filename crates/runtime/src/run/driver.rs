//! The driver: carries out what follows from a session's state until nothing does.
//!
//! There is at most one driver for a session. It holds the session's lock only while it looks and while it
//! stores, never while a model or a tool is at work.
//!
//! What is the only thing to do is polled where it begins, and becomes a task only when it has to wait.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use countersign_core::{
    call::{gate::Gate, permit::Permit},
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        graph::{self, Effects},
        record::{Block, Compressed, ModelResponded, ToolUse},
        state::{State, Status},
    },
    locale::Text,
    refusal::{Code, Refusal},
};
use futures::FutureExt as _;
use tokio::{runtime::Handle, task::JoinError};
use tracing::Instrument as _;

use super::{
    Inner, Outcome, failpoint,
    gate::Weighed,
    graph::{AtWork, Ended, Hot},
    hold::Hold,
    live::{Live, LiveRef, LiveState},
    now,
    running::{Running, Work},
    sources::{Held, outdated_of},
    spans,
    stops::Stop,
    store_refusal,
    stream::Asked,
};
use crate::{
    model::ModelError,
    store::Durability,
    tool::{AppContext, ON_APPROVAL, ToolError},
};

/// What has come to an end.
pub(super) enum Done {
    /// What tools come from was tried again.
    Reached,
    /// A model, asked for a run of an agent: 0 is the session's own.
    Model(u32, Asked),
    /// A node of a graph.
    Task(Ended),
    Call {
        call: u32,
        attempt: u32,
        outcome: Result<String, ToolError>,
        /// A guardrail of the call stops the turn.
        stop: Option<Stop>,
    },
    Compressed(Option<Compressed>),
}

/// The number of a call that is one of an agent within; 0 if it is the session's own.
fn of_nested(state: &State, call: u32) -> u32 {
    if state.calls.iter().any(|open| open.call == call && open.run != 0) { call } else { 0 }
}

/// A task has ended without saying so. Calls, nodes and models catch their panics.
fn lost(error: &JoinError) {
    // What is not wanted any more was ended on purpose.
    if !error.is_cancelled() {
        tracing::error!(%error, "a task of a turn was lost");
    }
}

/// What is recorded of verdicts.
fn gates_of(weighed: &[Weighed]) -> Vec<Gate> {
    weighed.iter().map(|one| one.gate.clone()).collect()
}

/// Waits between tries of something that must be stored: an outcome is never thrown away because a disk
/// is full for a while.
#[derive(Default)]
pub(super) struct Patience {
    tries: u32,
}

impl Patience {
    /// Waits a little longer each time, at most two seconds.
    pub(super) async fn wait(&mut self, error: &Refusal) {
        if self.tries == 0 && error.code != Code::StoreClosed {
            tracing::error!(error = %error, "a record could not be stored; trying until it can");
        }
        let delay = Duration::from_millis(20) * 2_u32.saturating_pow(self.tries.min(7));
        self.tries += 1;
        tokio::time::sleep(delay.min(Duration::from_secs(2))).await;
    }
}

/// A driver's claim on its session, given back also when the driver is dropped in the middle.
struct Claim<'a> {
    inner: &'a Inner,
    live: &'a Live,
    held: bool,
    hold: Option<Hold>,
}

impl Claim<'_> {
    fn give_back(&mut self) {
        if std::mem::take(&mut self.held) {
            self.hold = None;
            self.live.yield_driver();
            self.inner.driver_ended();
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Inner {
    /// Whoever waits for drivers waits for the last one to end, and hears of nothing else.
    fn driver_began(&self) {
        self.drivers.send_if_modified(|running| {
            *running += 1;
            false
        });
    }

    fn driver_ended(&self) {
        self.drivers.send_if_modified(|running| {
            *running -= 1;
            // Whoever comes to wait from now on reads it first.
            *running == 0 && self.drivers.receiver_count() > 0
        });
    }

    /// Lets the session go on in the background.
    pub(super) fn spawn_driver(self: &Arc<Self>, live: LiveRef) {
        if live.claim_driver() {
            self.driver_began();
            let inner = self.clone();
            let threads = self.threads.clone().unwrap_or_else(Handle::current);
            threads.spawn(async move { inner.drive(&live).await });
        } else {
            live.wake();
        }
    }

    /// Lets the session go on here, and says where it stands then.
    pub(super) async fn drive_here(self: Arc<Self>, live: LiveRef) -> Result<Outcome, Refusal> {
        self.clone().drive_until_idle(&live).await;
        let mut guard = live.lock().await;
        let state = self.load(&live, &mut guard).await?;
        let answer = guard.answer_at(state.answer_pos);
        drop(guard);
        let outcome = self.outcome(&state, answer).await?;
        self.released().await?;
        Ok(outcome)
    }

    /// Lets the session go on here, until nothing follows by itself.
    pub(super) async fn drive_until_idle(self: Arc<Self>, live: &LiveRef) {
        loop {
            if live.claim_driver() {
                self.driver_began();
                return self.drive(live).await;
            }
            live.wake();
            live.idle().await;
            // Whoever drove may have been dropped half way.
            let mut guard = live.lock().await;
            let left = match self.load(live, &mut guard).await {
                Ok(state) => state.status == Status::Running && !state.held,
                Err(_) => false,
            };
            if !left || self.draining.load(Ordering::SeqCst) || *self.closing.borrow() {
                return;
            }
        }
    }

    /// Waits until no other runtime of this process carries out the session's effects.
    async fn alone_at(self: &Arc<Self>, live: &LiveRef) -> Hold {
        let hold = match Hold::take(self, &live.session_id) {
            Ok(hold) => hold,
            Err(_) => {
                let hold = Hold::wait(self, &live.session_id).await;
                // It has gone on there.
                live.lock().await.load_again();
                hold
            }
        };
        hold.works();
        hold
    }

    async fn drive(self: Arc<Self>, live: &LiveRef) {
        let mut claim = Claim { inner: &self, live, held: true, hold: None };
        let mut closing = self.closing.subscribe();
        claim.hold = tokio::select! { biased;
            hold = self.alone_at(live) => Some(hold),
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let mut patience = Patience::default();
        let (mut turn, mut running, mut recovered) = (Turn::default(), Running::default(), false);
        let (mut hot, mut at_work): (Option<Hot>, AtWork) = (None, AtWork::default());
        let mut part = spans::Part::default();
        let (mut reached, mut held) = (false, Held::default());
        loop {
            if !reached && !*closing.borrow() {
                match self.reach_tools(live).await {
                    Err(error) if !error.is_gone() => {
                        patience.wait(&error).await;
                        continue;
                    }
                    _ => reached = true,
                }
            }
            let mut guard = live.lock().await;
            if *closing.borrow() {
                self.ends_in_order(live, &mut guard).await;
                drop(guard);
                running.stop().await;
                claim.give_back();
                return;
            }
            // Nothing more is asked of a model or a node; what was allowed begins, and what runs is stored.
            let mut full = None;
            // It runs whatever else fails in this step, since that it begins is on record.
            let mut begun: Vec<Work> = Vec::new();
            let step = async {
                let state = self.load(live, &mut guard).await?;
                running.only_open(&state);
                guard.part = part.at(&state);
                let is_over = !state.status.is_active() && state.status != Status::Failed;
                if state.turns != turn.number || is_over {
                    running.stop().await;
                    hot = None;
                    at_work.clear();
                    if turn.number != 0 || is_over {
                        self.agents.forget(&live.session_id);
                    }
                }
                if state.turn() != turn {
                    // A turn that has failed lets its calls come to their end; what else it did is done again when it is retried.
                    running.stop_rest().await;
                    recovered &= state.turns != turn.number;
                    (turn, hot) = (state.turn(), None);
                    at_work.clear();
                }
                if !state.status.is_active() {
                    return Ok(None);
                }
                // What is held began before it was, and is not begun again.
                if !recovered && !state.held {
                    // Nothing else of this session runs anywhere now, so what was started has an unknown outcome.
                    let mut permits = Vec::new();
                    let context = self.app_context(&state).await.map_err(store_refusal)?;
                    if state.has_begun_work()
                        && let Some(transition) = Draft::new(&state, now()).recover(running.calls(), &self.agents)
                    {
                        permits = self.transact(live, &mut guard, Durability::Buffered, |_| Ok(transition)).await?;
                    }
                    recovered = true;
                    for permit in permits {
                        begun.push(self.call_work(&state, permit, &context, &mut part));
                    }
                    // The session may be from a time when its agent had another budget.
                    let wants = guard.state()?.wants_room(&self.agents).is_some();
                    if wants && let Some(transition) = Draft::new(&*guard.state()?, now()).make_room(&self.agents) {
                        self.transact(live, &mut guard, Durability::Buffered, |_| Ok(transition)).await?;
                    }
                }
                self.walk_loop(live, &mut guard).await?;
                let state = guard.state()?;
                let draining = self.draining.load(Ordering::SeqCst);
                let mut effects = if draining { Effects::default() } else { graph::next(&state) };
                if let Some(transition) = self.without_answers(&*guard.state()?, &effects.start) {
                    self.transact(live, &mut guard, Durability::Buffered, |_| Ok(transition)).await?;
                    effects = graph::next(&*guard.state()?);
                }
                let begins = [&*effects.start, &*effects.delegate].concat();
                if !guard.state()?.outdated(&begins, &self.agents).is_empty()
                    && let Some(transition) = Draft::new(&*guard.state()?, now()).outdated(&begins, &self.agents)
                {
                    let outdated: Vec<u32> = outdated_of(&transition).collect();
                    self.transact(live, &mut guard, Durability::Buffered, |_| Ok(transition)).await?;
                    for call in outdated {
                        self.agents.forget_call(&live.session_id, call);
                    }
                    effects = graph::next(&*guard.state()?);
                }
                // What is for other agents begins after that: none of it is for a tool that has changed.
                while !effects.delegate.is_empty() {
                    let calls = std::mem::take(&mut effects.delegate);
                    let make = |state: &State| Ok(Draft::new(state, now()).delegate(&calls, &self.agents));
                    self.transact(live, &mut guard, Durability::Buffered, make).await?;
                    effects = graph::next(&*guard.state()?);
                }
                let state = guard.state()?;
                if state.status == Status::Running && !state.held && !draining {
                    full = self.full(&state);
                    if full.is_some() {
                        (effects.call_model, effects.compress) = (false, false);
                        effects.ask.clear();
                    }
                }
                self.hold_back(live, &state, &mut effects.start, &mut held, &mut running.rest);
                let room = self.settings.parallel_calls().saturating_sub(running.len() + begun.len());
                let start: Vec<u32> = effects.start.into_iter().take(room).collect();
                if !start.is_empty() {
                    // Read before anything is started: a start that is on record is never left without its call.
                    let context = self.app_context(&state).await.map_err(store_refusal)?;
                    failpoint::hit("start.before_commit");
                    let make = |state: &State| Ok(Draft::new(state, now()).start(&start));
                    let permits = self.transact(live, &mut guard, Durability::Buffered, make).await?;
                    for permit in permits {
                        begun.push(self.call_work(&state, permit, &context, &mut part));
                    }
                }
                if effects.compress && running.asks(0) {
                    let span = part.compression(&state);
                    let compressing = self.clone().compress(state.clone()).map(Done::Compressed);
                    begun.push(Work::rest(0, compressing.instrument(span).boxed()));
                }
                let runs = effects.call_model.then_some(0).into_iter().chain(effects.ask);
                for run in runs.filter(|run| running.asks(*run)) {
                    let span = part.chat(&self, &state, run);
                    let asked = self.clone().ask(live.clone(), state.clone(), run);
                    begun.push(Work::rest(run, asked.instrument(span).boxed()));
                }
                if draining || full.is_some() {
                    Ok(None)
                } else {
                    self.begin_tasks(live, &mut guard, &mut hot, &mut at_work, &mut running.rest, &mut part).await
                }
            };
            let stepped = step.await;
            // What has nothing to wait for needs no task of its own, if nothing else is to run meanwhile.
            let single = match &stepped {
                Ok(None) if begun.len() == 1 && running.is_empty() => begun.pop(),
                _ => None,
            };
            begun.into_iter().for_each(|work| running.spawn(work));
            let alone = match stepped {
                Ok(alone) => single.or_else(|| alone.map(|alone| Work::rest(0, alone))),
                Err(error) => {
                    drop(guard);
                    if error.is_gone() {
                        running.stop().await;
                        claim.give_back();
                        return;
                    }
                    patience.wait(&error).await;
                    continue;
                }
            };
            patience = Patience::default();
            if let Some(mut alone) = alone {
                drop(guard);
                match futures::poll!(&mut alone.work) {
                    Poll::Ready(Done::Task(ended)) => {
                        self.tasks_ended(live, turn, &mut hot, &mut at_work, vec![ended]).await
                    }
                    Poll::Ready(done) => {
                        running.ended(&done);
                        self.done(live, turn, done).await;
                    }
                    Poll::Pending => running.spawn(alone),
                }
                continue;
            }
            if let Some(message) = full.filter(|_| running.is_empty()) {
                drop(guard);
                self.fail(live, turn, "session_full", message).await;
                continue;
            }
            if running.is_empty() {
                let pos = guard.state().map_or(0, |state| state.pos);
                self.keep_warm(live, hot.take(), pos);
                // Under the session's lock: whoever changes the state afterwards finds no driver and begins one.
                claim.give_back();
                return;
            }
            drop(guard);
            tokio::select! {
                Some(done) = running.next() => match done {
                    Ok(Done::Task(ended)) => {
                        let mut all = vec![ended];
                        while let Some(more) = running.try_next() {
                            match more {
                                Ok(Done::Task(ended)) => all.push(ended),
                                Ok(done) => {
                                    running.ended(&done);
                                    self.done(live, turn, done).await;
                                }
                                Err(error) => lost(&error),
                            }
                        }
                        self.tasks_ended(live, turn, &mut hot, &mut at_work, all).await;
                    }
                    Ok(done) => {
                        running.ended(&done);
                        self.done(live, turn, done).await;
                    }
                    Err(error) => lost(&error),
                },
                () = live.woken() => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// One attempt of a call, as something to be carried out.
    fn call_work(
        self: &Arc<Self>,
        state: &State,
        permit: Permit,
        context: &AppContext,
        part: &mut spans::Part,
    ) -> Work {
        let span = part.call(self, state, &permit);
        let (call, within) = (Some(permit.call()), of_nested(state, permit.call()));
        Work { call, within, work: self.clone().run_call(permit, context.clone()).instrument(span).boxed() }
    }

    /// Records an outcome, however long the store takes to accept it.
    async fn done(&self, live: &LiveRef, turn: Turn, done: Done) {
        match done {
            Done::Call { call, attempt, stop: Some(stop), .. } => {
                failpoint::hit("call.after_effect");
                self.call_stopped(live, turn, call, attempt, stop).await;
            }
            Done::Call { call, attempt, outcome, stop: None } => {
                failpoint::hit("call.after_effect");
                let outcome = match outcome.map_err(ToolError::into_asks) {
                    Ok(result) => Ok(result),
                    Err(Ok(asks)) => return self.call_asks(live, turn, call, attempt, asks).await,
                    Err(Err(error)) if error.is_forgotten() => {
                        return self.call_forgotten(live, turn, call, attempt).await;
                    }
                    Err(Err(error)) => Err(error.message),
                };
                failpoint::hit("finish.before_commit");
                self.must_store_outcome(live, turn, |state| {
                    Draft::new(state, now()).call_finished(call, attempt, outcome.clone(), &self.agents)
                })
                .await;
                failpoint::hit("finish.after_commit");
            }
            Done::Model(run, Asked::Stopped(stop)) if run != 0 && !stop.ends_all() => {
                self.agent_stopped(live, turn, run, &stop.message).await;
            }
            Done::Model(_, Asked::Stopped(stop)) => {
                let (code, message) = self.stopped(stop);
                self.fail(live, turn, code, message).await;
            }
            Done::Model(_, Asked::Answered(answer)) => self.answered(live, turn, answer).await,
            Done::Model(run, Asked::Failed(error)) if run != 0 => {
                self.agent_stopped(live, turn, run, &error.message).await;
            }
            Done::Model(_, Asked::Failed(error)) => {
                let ModelError { message, .. } = error;
                self.must_store(live, turn, |state, partial| {
                    let draft = state.wants_answer(0).then(|| Draft::new(state, now()))?;
                    Some(draft.fail("model_error", message.clone(), partial, &self.agents))
                })
                .await;
            }
            Done::Model(_, Asked::Stale) | Done::Compressed(None) | Done::Task(_) | Done::Reached => {}
            Done::Compressed(Some(compressed)) => {
                failpoint::hit("compress.before_commit");
                self.must_store(live, turn, |state, _| Draft::new(state, now()).compressed(compressed.clone())).await;
                failpoint::hit("compress.after_commit");
            }
        }
        if let Some((code, message)) = self.stopping() {
            self.fail(live, turn, code, message).await;
        }
    }

    async fn answered(&self, live: &LiveRef, turn: Turn, answer: ModelResponded) {
        let Some(state) = self.loaded(live).await else { return };
        if answer.run != 0 && state.nested(answer.run).is_none() {
            return; // Whoever it works for was stopped.
        }
        let shown = if answer.run == 0 { answer.shown as usize } else { 0 };
        let kept = state.shown.len().saturating_sub(shown);
        let blocks = state.shown.iter().skip(kept).chain(&answer.blocks);
        let calls: Vec<_> = blocks
            .filter_map(|block| match block {
                Block::ToolUse(call) => Some(call),
                Block::Text(_) | Block::Thinking(_) => None,
            })
            .collect();
        let weighed = tokio::select! { biased;
            weighed = self.gates(&state, state.agent_of(answer.run), &calls, answer.cut, &[]) => weighed,
            () = self.turn_is_over(live, turn) => return, // A rule may never answer.
        };
        failpoint::hit("model.before_commit");
        match weighed.iter().find_map(Weighed::stop) {
            Some(stop) if answer.run != 0 => return self.answer_stopped(live, turn, &answer, &weighed, stop).await,
            Some(stop) => drop(self.stopped(stop.clone())),
            None => {}
        }
        let by_rule = |one: &Weighed| one.gate.rule.as_deref().is_some_and(|rule| rule != ON_APPROVAL);
        if weighed.iter().any(by_rule) {
            self.answered_by_rules(live, turn, &answer, &calls, &weighed).await;
        } else {
            let gates = gates_of(&weighed);
            self.must_store(live, turn, |state, _| {
                Some(Draft::new(state, now()).model_responded(answer.clone(), gates.clone(), &self.agents))
            })
            .await;
        }
        failpoint::hit("model.after_commit");
    }

    /// Stores an answer of which standing rules decide a part. They are looked at under the session's lock, and again
    /// with each try: one that was revoked meanwhile lets nothing through.
    async fn answered_by_rules(
        &self,
        live: &LiveRef,
        turn: Turn,
        answer: &ModelResponded,
        calls: &[&ToolUse],
        before: &[Weighed],
    ) {
        let mut patience = Patience::default();
        loop {
            let mut guard = live.lock().await;
            let tried = async {
                let state = self.load(live, &mut guard).await?;
                let gates = gates_of(&self.gates(&state, state.agent_of(answer.run), calls, answer.cut, before).await);
                let make = |state: &State, _| {
                    let draft = state.is_in(turn).then(|| Draft::new(state, now()))?;
                    Some(Some(draft.model_responded(answer.clone(), gates.clone(), &self.agents)))
                };
                self.try_store(live, &mut guard, make).await
            };
            match tried.await {
                Ok(_) => return,
                Err(error) if error.is_gone() => return,
                Err(error) => {
                    drop(guard);
                    if *self.closing.borrow() {
                        return;
                    }
                    patience.wait(&error).await;
                }
            }
        }
    }

    /// Stores what `make` makes, trying until it is stored. `false`: the turn has ended or failed, or the runtime closes.
    pub(super) async fn must_store(
        &self,
        live: &LiveRef,
        turn: Turn,
        make: impl Fn(&State, Option<Block>) -> Option<Transition>,
    ) -> bool {
        self.keep_trying(live, |state, partial| state.is_in(turn).then(|| make(state, partial))).await
    }

    /// Stores what a call has come to, also where its turn has failed: what has happened is never lost.
    pub(super) async fn must_store_outcome(
        &self,
        live: &LiveRef,
        turn: Turn,
        make: impl Fn(&State) -> Option<Transition>,
    ) -> bool {
        let wants =
            |state: &State| state.turns == turn.number && (state.status.is_active() || state.status == Status::Failed);
        self.keep_trying(live, |state, _| wants(state).then(|| make(state))).await
    }

    async fn keep_trying(
        &self,
        live: &LiveRef,
        make: impl Fn(&State, Option<Block>) -> Option<Option<Transition>>,
    ) -> bool {
        let mut patience = Patience::default();
        loop {
            let mut guard = live.lock().await;
            match self.try_store(live, &mut guard, &make).await {
                Ok(stored) => return stored,
                Err(error) if error.is_gone() => return false,
                Err(error) => {
                    drop(guard);
                    if *self.closing.borrow() {
                        return false;
                    }
                    patience.wait(&error).await;
                }
            }
        }
    }

    async fn try_store(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        make: impl Fn(&State, Option<Block>) -> Option<Option<Transition>>,
    ) -> Result<bool, Refusal> {
        let state = self.load(live, guard).await?;
        let Some(made) = make(&state, guard.written()) else { return Ok(false) };
        if let Some(transition) = made {
            self.transact(live, guard, Durability::Buffered, |_| Ok(transition)).await?;
        }
        Ok(true)
    }

    /// Asks a run's model for its next answer.
    async fn ask(self: Arc<Self>, live: LiveRef, state: Arc<State>, run: u32) -> Done {
        let asked = std::panic::AssertUnwindSafe(self.clone().ask_model(live, state, run)).catch_unwind().await;
        let failed = |_| Asked::Failed(ModelError::permanent("the model's adapter failed"));
        let asked = asked.unwrap_or_else(failed);
        self.trace_asked(&asked);
        Done::Model(run, asked)
    }

    /// Runs one attempt of one call. The permit was given for exactly this.
    async fn run_call(self: Arc<Self>, permit: Permit, context: AppContext) -> Done {
        let (call, attempt, locale) = (permit.call(), permit.attempt(), permit.locale());
        failpoint::hit("call.before_effect");
        let run = async {
            let agent = self.agents.get(permit.agent());
            match agent.and_then(|agent| agent.tool(permit.tool())) {
                // The tool may have changed while the call waited for a person.
                Some(tool) if !tool.schema.check(permit.args()).is_empty() => {
                    (Err(ToolError::new(locale.text(Text::ArgsOutdated))), None)
                }
                Some(tool) => self.run_guarded(&tool, permit, context).await,
                None => {
                    let text = match agent.is_some_and(|agent| agent.has_unreached()) {
                        true => Text::ToolUnreached,
                        false => Text::ToolGone,
                    };
                    (Err(ToolError::new(locale.fill(text, &[("tool", &format!("{:?}", permit.tool()))]))), None)
                }
            }
        };
        let ran = std::panic::AssertUnwindSafe(run).catch_unwind().await;
        let (outcome, stop) = ran.unwrap_or_else(|_| (Err(ToolError::new(locale.text(Text::ToolFailed))), None));
        self.trace_called(&outcome);
        Done::Call { call, attempt, outcome, stop }
    }
}
