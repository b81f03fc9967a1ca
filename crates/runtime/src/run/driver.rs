//! The driver: carries out the effects that follow from a session's state until there are none.
//!
//! A session has at most one driver. It holds the session's lock only while it reads and stores, never while a model or
//! a tool runs.
//!
//! A single effect is polled in place, and becomes a task only when it has to wait.

use std::{
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        graph::{self, Effects},
        permit::Permit,
        state::{State, Status},
    },
    number::{CallNo, RunNo},
    refusal::Refusal,
};
use futures::FutureExt as _;
use tokio::{runtime::Handle, sync::watch, task::JoinError};
use tracing::Instrument as _;

use super::{
    Inner, Outcome,
    claim::Claim,
    failpoint,
    graph::{AtWork, Hot},
    hold::Hold,
    live::{LiveRef, LiveState},
    nodes::{ELSEWHERE, Elsewhere, term_ended},
    outcomes::Done,
    pass_on::{NO_AGENT, NO_SOURCE},
    patience::until_stored,
    sources::{Held, outdated_of},
    spans, store_refusal,
    work::{Running, Work},
};
use crate::store::nodes::Epoch;

/// A task has ended without reporting. Calls, nodes and models catch their panics.
fn lost(error: &JoinError) {
    // A task whose result is no longer needed was aborted on purpose.
    if !error.is_cancelled() {
        tracing::error!(%error, "a task of a turn was lost");
    }
}

impl Inner {
    /// Wakes no waiter: only the end of the last driver does.
    pub(super) fn driver_began(&self) {
        self.drivers.send_if_modified(|running| {
            *running += 1;
            false
        });
    }

    pub(super) fn driver_ended(&self) {
        self.drivers.send_if_modified(|running| {
            *running -= 1;
            // Later waiters read the count first.
            *running == 0 && self.drivers.receiver_count() > 0
        });
    }

    /// Resumes the session in the background.
    pub(super) fn spawn_driver(self: &Arc<Self>, live: LiveRef) {
        if !self.effects {
            return;
        }
        if live.claim_driver() {
            self.driver_began();
            let inner = self.clone();
            let threads = self.threads.clone().unwrap_or_else(Handle::current);
            threads.spawn(async move {
                inner.clone().drive(&live).await;
                inner.lives_on(&live).await;
            });
        } else {
            live.wake();
        }
    }

    /// Resumes the session here, and returns its outcome.
    pub(super) async fn drive_here(self: Arc<Self>, live: LiveRef) -> Result<Outcome, Refusal> {
        self.clone().drive_until_idle(&live).await?;
        let mut guard = live.lock().await;
        let state = self.known(&live, &mut guard).await?;
        let outcome = self.outcome(&state, guard).await?;
        self.released().await?;
        Ok(outcome)
    }

    /// Resumes the session here until no effect follows, or waits until another node has done so.
    ///
    /// # Errors
    /// `session_busy`: another node has the session, and stores nothing.
    pub(super) async fn drive_until_idle(self: Arc<Self>, live: &LiveRef) -> Result<(), Refusal> {
        if !self.effects {
            return Ok(());
        }
        let mut elsewhere = Elsewhere::default();
        loop {
            if live.claim_driver() {
                self.driver_began();
                self.clone().drive(live).await;
                self.lives_on(live).await;
                if self.store.nodes().is_none() || live.lock().await.rests() {
                    return Ok(());
                }
            } else {
                live.wake();
                live.idle().await;
                elsewhere = Elsewhere::default();
            }
            // The previous driver may have been dropped half way, or another node may be driving the session.
            let Some(pos) = self.left_at(live).await else { return Ok(()) };
            if self.store.nodes().is_some() {
                elsewhere.seen_at(pos)?;
                tokio::time::sleep(ELSEWHERE).await;
            }
        }
    }

    /// Waits until the session has no driver, here or on another node.
    pub(super) async fn rests(&self, live: &LiveRef) {
        live.idle().await;
        while self.store.nodes().is_some() && self.left_at(live).await.is_some() {
            tokio::time::sleep(ELSEWHERE).await;
        }
    }

    /// The position of the session, if it still runs, here or on another node, and this one is not shutting down; 0
    /// while the store cannot answer.
    async fn left_at(&self, live: &LiveRef) -> Option<u64> {
        let mut guard = live.lock().await;
        let left = match self.load(live, &mut guard).await {
            Ok(session) => Some(session.pos).filter(|_| !session.rests()),
            Err(error) => Some(0).filter(|_| !error.is_gone() && !error.is_unreadable()),
        };
        drop(guard);
        left.filter(|_| !self.draining.load(Ordering::SeqCst) && !*self.closing.borrow())
    }

    /// Waits until no other runtime of this process carries out the session's effects.
    async fn alone_at(self: &Arc<Self>, live: &LiveRef) -> Hold {
        let hold = match Hold::take(self, &live.session_id) {
            Ok(hold) => hold,
            Err(_) => {
                let hold = Hold::wait(self, &live.session_id).await;
                // It has continued there.
                live.lock().await.load_again();
                hold
            }
        };
        hold.works();
        hold
    }

    async fn drive(self: Arc<Self>, live: &LiveRef) {
        let mut driver = Driver::new(&self, live);
        let mut closing = self.closing.subscribe();
        driver.claim.hold = tokio::select! { biased;
            hold = self.alone_at(live) => Some(hold),
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let leads = until_stored!(self, async {
            let mut guard = live.lock().await;
            let leads = match self.take_lease(live, &mut guard).await {
                Ok(leads) => leads,
                Err(error) => {
                    self.gives_up(live, &mut guard, &error).await;
                    return Err(error);
                }
            };
            if !leads {
                // Under the session's lock: a later change of the state finds no driver and starts one.
                driver.claim.give_back();
            }
            Ok(leads)
        });
        if leads != Some(true) {
            return driver.claim.give_back();
        }
        until_stored!(self, self.reach_tools(live));
        while !*closing.borrow() {
            let stepped = until_stored!(self, async {
                let mut guard = live.lock().await;
                let step = match driver.step(&mut guard).await {
                    // Running work is stopped before other nodes may take the session.
                    Err(error) if error.is_unreadable() => return Ok(Err(error)),
                    step => step?,
                };
                if matches!(step, Step::Rests) {
                    driver.keep_warm(&guard);
                    if self.lets_go(live, &mut guard).await {
                        if failpoint::evicts() {
                            self.evict(live, &mut guard);
                        }
                        // Under the session's lock, as above.
                        driver.claim.give_back();
                        return Ok(Ok(None));
                    }
                }
                Ok(Ok(Some(step)))
            });
            match stepped {
                Some(Ok(Some(step))) => driver.carry_out(step, &mut closing).await,
                Some(Ok(None)) => return,
                Some(Err(error)) => {
                    driver.running.stop().await;
                    self.gives_up(live, &mut *live.lock().await, &error).await;
                    return driver.claim.give_back();
                }
                None => break,
            }
        }
        if *closing.borrow() {
            self.ends_in_order(live, &mut *live.lock().await).await;
        }
        driver.running.stop().await;
        driver.claim.give_back();
    }
}

enum Step {
    /// No effect follows.
    Rests,
    /// This is the only effect.
    Alone(Work),
    /// The session has no room for another answer.
    Full(String),
    /// Effects are running.
    Waits,
}

/// A driver's knowledge of its session beyond the journal.
struct Driver<'a> {
    inner: &'a Arc<Inner>,
    live: &'a LiveRef,
    claim: Claim,
    /// The lease it last worked under.
    lease: Option<Epoch>,
    turn: Turn,
    running: Running,
    /// Whether the effects that were started before this driver, or before its turn failed, are accounted for.
    recovered: bool,
    hot: Option<Hot>,
    at_work: AtWork,
    held: Held,
    part: spans::Part,
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.claim.abandon(std::mem::take(&mut self.running));
    }
}

impl<'a> Driver<'a> {
    fn new(inner: &'a Arc<Inner>, live: &'a LiveRef) -> Driver<'a> {
        Driver {
            inner,
            live,
            claim: Claim::of(live, None),
            lease: None,
            turn: Turn::default(),
            running: Running::default(),
            recovered: false,
            hot: None,
            at_work: AtWork::default(),
            held: Held::default(),
            part: spans::Part::default(),
        }
    }

    /// Stores the transitions that follow from the state, and starts its effects.
    async fn step(&mut self, guard: &mut LiveState) -> Result<Step, Refusal> {
        let mut begun = Vec::new();
        let stepped = self.begin(guard, &mut begun).await;
        // An effect that needs no waiting needs no task, if nothing else runs meanwhile.
        let single = match &stepped {
            Ok(Begun { alone: None, .. }) if begun.len() == 1 && self.running.is_empty() => begun.pop(),
            _ => None,
        };
        // It runs whatever else fails in this step, since its start is on record.
        begun.into_iter().for_each(|work| self.running.spawn(work));
        let Begun { alone, full } = stepped?;
        Ok(match (single.or(alone), full) {
            (Some(work), _) => Step::Alone(work),
            (None, Some(message)) if self.running.is_empty() => Step::Full(message),
            (None, _) if self.running.is_empty() => Step::Rests,
            (None, _) => Step::Waits,
        })
    }

    async fn begin(&mut self, guard: &mut LiveState, begun: &mut Vec<Work>) -> Result<Begun, Refusal> {
        let state = self.inner.known(self.live, guard).await?;
        if !self.enter_lease(guard).await {
            self.only_of(&state).await;
            // The results of running work are no longer needed.
            self.running.stop().await;
            return Ok(Begun::default());
        }
        if self.inner.term().is_none() && self.running.is_empty() {
            // Work started now would not run.
            return Err(term_ended());
        }
        self.only_of(&state).await;
        guard.part = self.part.at(&state);
        if !state.status.is_active() {
            return Ok(Begun::default());
        }
        let inner = self.inner;
        let is_stuck = self.running.is_empty() && !state.held && inner.lacks_agent(&state);
        if is_stuck && inner.pass_on(self.live, guard, &NO_AGENT).await? {
            return Ok(Begun::default());
        }
        // A held session's effects began before the hold, and are not started again.
        if !self.recovered && !state.held {
            self.recover(&state, guard, begun).await?;
        }
        self.inner.walk_loop(self.live, guard).await?;
        // A call whose start was stored without a term would not run, and would count as one of unknown outcome.
        let draining = self.inner.draining.load(Ordering::SeqCst) || self.inner.term().is_none();
        let mut effects = if draining { Effects::default() } else { self.effects(guard).await? };
        let session = guard.session()?;
        let state = session.state.clone();
        let full = self.inner.full(&state).filter(|_| state.status == Status::Running && !state.held && !draining);
        if full.is_some() {
            // No more model calls or nodes; approved calls begin, and the outcomes of running ones are stored.
            effects.compress = false;
            effects.ask.clear();
        }
        self.inner.hold_back(self.live, &session, &mut effects.start, &mut self.held, &mut self.running.others);
        let is_none = effects.start.is_empty() && effects.ask.is_empty() && !effects.compress;
        let is_stuck = is_none && self.held.is_long() && self.running.len() == self.held.reaching();
        if is_stuck && inner.pass_on(self.live, guard, &NO_SOURCE).await? {
            self.running.stop().await;
            return Ok(Begun::default());
        }
        self.start(&state, guard, &effects.start, begun).await?;
        self.ask_models(&state, &effects, begun);
        if draining || full.is_some() {
            return Ok(Begun { alone: None, full });
        }
        let Driver { inner, live, running, hot, at_work, part, .. } = self;
        let alone = inner.begin_tasks(live, guard, hot, at_work, &mut running.others, part).await?;
        Ok(Begun { alone: alone.map(|work| Work::other(RunNo::ROOT, work)), full })
    }

    /// Works under the lease that the node has now, if any. If another node took the lease in between, effects started
    /// before are stopped: that node accounts for them.
    async fn enter_lease(&mut self, guard: &mut LiveState) -> bool {
        if guard.lease.is_some() && guard.lease == guard.working && guard.working == self.lease {
            return true;
        }
        let goes_on = |lease: Epoch| guard.working.is_none() && self.lease.is_some_and(|had| lease.follows(had));
        let is_over = match guard.lease {
            Some(lease) => !goes_on(lease),
            // Its last append has released the lease.
            None => guard.working.is_some(),
        };
        if is_over {
            self.running.stop().await;
            self.hot = None;
            self.at_work.clear();
            guard.unwrite();
        }
        guard.working = guard.lease;
        if guard.lease.is_some() {
            (self.recovered, self.lease) = (false, guard.lease);
        }
        guard.lease.is_some()
    }

    /// Aborts tasks that the state no longer asks for.
    async fn only_of(&mut self, state: &State) {
        self.running.only_open(state);
        let is_over = !state.status.is_open() || state.turns != self.turn.number;
        if is_over {
            self.running.stop().await;
            // If the turn has no calls, anything a tool still holds belongs to an abandoned turn.
            if self.turn.number != 0 || !state.status.is_open() || state.calls.is_empty() {
                self.inner.agents.forget(&self.live.session_id);
            }
        } else if state.turn() != self.turn {
            // In a failed turn calls run to their end. Everything else is repeated by a retry.
            self.running.stop_others().await;
            self.recovered = false;
        }
        if is_over || state.turn() != self.turn {
            (self.turn, self.hot) = (state.turn(), None);
            self.at_work.clear();
        }
    }

    /// Accounts for effects that were started and no longer run.
    async fn recover(&mut self, state: &State, guard: &mut LiveState, begun: &mut Vec<Work>) -> Result<(), Refusal> {
        let mut permits = Vec::new();
        let (inner, term) = (self.inner, self.inner.term());
        let context = inner.app_context(state).await.map_err(store_refusal)?;
        let agents = &inner.agents;
        // Nothing else of this session runs anywhere now, so started effects have an unknown outcome.
        if state.has_begun_work()
            && let Some(transition) = Draft::new(state, self.inner.now()).recover(self.running.calls(), agents)
        {
            failpoint::hit("recover.before_commit");
            permits = self.store(guard, transition).await?;
            failpoint::hit("recover.after_commit");
        }
        self.recovered = true;
        for permit in permits {
            begun.push(inner.call_work(state, (permit, term), &context, &mut self.part));
        }
        // The session may be older than its agent's current budget.
        let wants = guard.state()?.wants_room(agents).is_some();
        if wants && let Some(transition) = Draft::new(&*guard.state()?, self.inner.now()).make_room(agents) {
            self.store(guard, transition).await?;
        }
        Ok(())
    }

    /// The effects to carry out, once everything that must be recorded before them is.
    async fn effects(&mut self, guard: &mut LiveState) -> Result<Effects, Refusal> {
        let inner = self.inner;
        let agents = &inner.agents;
        let mut effects = graph::next(&*guard.state()?);
        if let Some(transition) = inner.without_answers(&*guard.state()?, &effects.start) {
            self.store(guard, transition).await?;
            effects = graph::next(&*guard.state()?);
        }
        let begins = [&*effects.start, &*effects.delegate].concat();
        if !guard.state()?.outdated(&begins, agents).is_empty()
            && let Some(transition) = Draft::new(&*guard.state()?, self.inner.now()).outdated(&begins, agents)
        {
            let outdated: Vec<CallNo> = outdated_of(&transition).collect();
            self.store(guard, transition).await?;
            for call in outdated {
                agents.forget_call(&self.live.session_id, call);
            }
            effects = graph::next(&*guard.state()?);
        }
        // Calls for other agents begin after that, so that none of them is for a tool that has changed.
        while !effects.delegate.is_empty() {
            let calls = std::mem::take(&mut effects.delegate);
            let transition = Draft::new(&*guard.state()?, self.inner.now()).delegate(&calls, agents);
            self.store(guard, transition).await?;
            effects = graph::next(&*guard.state()?);
        }
        Ok(effects)
    }

    /// Starts as many of these calls as may run in parallel.
    async fn start(
        &mut self,
        state: &State,
        guard: &mut LiveState,
        calls: &[CallNo],
        begun: &mut Vec<Work>,
    ) -> Result<(), Refusal> {
        let room = self.inner.settings.parallel_calls().saturating_sub(self.running.len() + begun.len());
        let calls = calls.get(..room.min(calls.len())).unwrap_or_default();
        if calls.is_empty() {
            return Ok(());
        }
        // Read before anything is started: a start on record is never left without its call.
        let context = self.inner.app_context(state).await.map_err(store_refusal)?;
        failpoint::hit("start.before_commit");
        let transition = Draft::new(&*guard.state()?, self.inner.now()).start(calls);
        let term = self.inner.term();
        for permit in self.store(guard, transition).await? {
            begun.push(self.inner.call_work(state, (permit, term), &context, &mut self.part));
        }
        Ok(())
    }

    fn ask_models(&mut self, state: &Arc<State>, effects: &Effects, begun: &mut Vec<Work>) {
        if effects.compress && self.running.asks(RunNo::ROOT) {
            let span = self.part.compression(state);
            let compressing = self.inner.clone().compress(state.clone()).map(Done::Compressed);
            begun.push(Work::other(RunNo::ROOT, compressing.instrument(span).boxed()));
        }
        // A model call beyond the turn's budget would be paid for, and refused only once it has answered.
        let left = usize::try_from(state.calls_left(RunNo::ROOT, &self.inner.agents)).unwrap_or(usize::MAX);
        // One is always asked: a restart may have lowered the budget since, and its answer ends the turn.
        let most = left.min(self.inner.settings.parallel_calls()).max(1);
        for run in effects.ask.iter().copied() {
            if self.running.asking() >= most || !self.running.asks(run) {
                continue;
            }
            let span = self.part.chat(self.inner, state, run);
            let asked = self.inner.clone().ask(self.live.clone(), state.clone(), run);
            begun.push(Work::other(run, asked.instrument(span).boxed()));
        }
    }

    async fn store(&mut self, guard: &mut LiveState, transition: Transition) -> Result<Vec<Permit>, Refusal> {
        match self.inner.record(self.live, guard, |_| Ok(transition)).await {
            // What follows from that is looked at again.
            Err(refusal) if refusal.has_failed_turn() => Ok(Vec::new()),
            stored => stored,
        }
    }

    /// Carries out the single effect, or waits for the next one to end.
    async fn carry_out(&mut self, step: Step, closing: &mut watch::Receiver<bool>) {
        let done = match step {
            Step::Rests => return,
            Step::Full(message) => return self.inner.fail(self.live, self.turn, "session_full", message).await,
            Step::Alone(mut alone) => match futures::poll!(&mut alone.work) {
                Poll::Ready(done) => {
                    self.running.ended(&done);
                    Some(Ok(done))
                }
                Poll::Pending => return self.running.spawn(alone),
            },
            Step::Waits => tokio::select! {
                done = self.running.next() => done,
                () = self.live.woken() => None,
                _ = closing.changed() => None,
            },
        };
        // Nodes that end together are recorded together.
        let (mut next, mut nodes) = (done, Vec::new());
        while let Some(done) = next {
            match done {
                Ok(Done::Task(ended)) => nodes.push(ended),
                // It counts as started, like the call of a process that has ended.
                Ok(Done::Unbegun { .. }) => self.recovered = false,
                Ok(done) => self.inner.done(self.live, self.turn, done).await,
                Err(error) => lost(&error),
            }
            next = if nodes.is_empty() { None } else { self.running.try_next() };
        }
        if !nodes.is_empty() {
            self.inner.tasks_ended(self.live, self.turn, &mut self.hot, &mut self.at_work, nodes).await;
        }
    }

    /// Keeps the suspended nodes in memory, for the next driver.
    fn keep_warm(&mut self, guard: &LiveState) {
        let pos = guard.state().map_or(0, |state| state.pos);
        if let (Some(hot), Some(lease)) = (self.hot.take(), self.lease) {
            self.inner.warm.keep(&self.live.session_id, hot, (pos, Some(lease)));
        }
    }
}

/// The work that a step has started.
#[derive(Default)]
struct Begun {
    /// The only node of a graph that is to run.
    alone: Option<Work>,
    /// The text for a session without room for another answer.
    full: Option<String>,
}
