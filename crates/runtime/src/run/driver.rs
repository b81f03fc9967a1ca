//! The driver: carries out the effects that follow from a session's state until there are none.
//!
//! A session has at most one driver. It holds the session's lock only while it reads and stores, never while a model or
//! a tool runs.
//!
//! A single effect is polled in place, and becomes a task only when it has to wait.

use std::{sync::Arc, task::Poll};

use countersign_core::{
    journal::{
        failure::Turn,
        graph::Effects,
        state::{Phase, State, Status},
    },
    number::RunNo,
    refusal::Refusal,
};
use futures::FutureExt as _;
use tokio::{sync::watch, task::JoinError};
use tracing::Instrument as _;

use super::{
    claim::Claim,
    failpoint,
    graph::hot::{AtWork, Hot},
    hold::Hold,
    inner::Inner,
    live::{LiveState, uses::LiveRef},
    nodes::term_ended,
    outcomes::Done,
    pass_on::{NO_AGENT, NO_SOURCE},
    sources::Held,
    spans,
    work::{Running, Work},
};
use crate::{
    store::{Durability, Guards, RuleName, nodes::Epoch},
    tool::AppContext,
};

/// A task has ended without reporting. Calls, nodes and models catch their panics.
fn lost(error: &JoinError) {
    // A task whose result is no longer needed was aborted on purpose.
    if !error.is_cancelled() {
        tracing::error!(%error, "a task of a turn was lost");
    }
}

pub(super) enum Step {
    /// No effect follows.
    Rests,
    /// This is the only effect.
    Alone(Work),
    /// The session has no room for another answer.
    Full(String),
    /// Effects are running.
    Waits,
}

/// On whose behalf an append is stored.
pub(super) enum By {
    /// On an effect's: only under the driver's lease, and only while these standing rules are in force.
    Effect(Vec<RuleName>),
    /// On a person's: only while these guards hold, and acknowledged once it has this durability.
    Person(Guards, Durability),
}

/// A driver's knowledge of its session beyond the journal.
pub(super) struct Driver {
    pub(super) inner: Arc<Inner>,
    pub(super) live: Arc<LiveRef>,
    pub(super) claim: Claim,
    /// The lease it last worked under.
    lease: Option<Epoch>,
    pub(super) turn: Turn,
    pub(super) running: Running,
    /// The work that begins with the next step.
    pub(super) begun: Vec<Work>,
    /// Whether the next step comes at once: no other ended work is recorded before it.
    pub(super) comes_at_once: bool,
    /// Whether the effects that were started before this driver, or before its turn failed, are accounted for.
    pub(super) recovered: bool,
    hot: Option<Hot>,
    at_work: AtWork,
    pub(super) held: Held,
    pub(super) context: Option<AppContext>,
    pub(super) part: spans::Part,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.claim.abandon(std::mem::take(&mut self.running));
    }
}

impl Driver {
    /// The driver of a session that the caller has claimed.
    pub(super) fn new(inner: &Arc<Inner>, live: &LiveRef, hold: Option<Hold>) -> Driver {
        let live = Arc::new(live.clone());
        Driver {
            inner: inner.clone(),
            claim: Claim::of(live.clone(), hold),
            live,
            lease: None,
            turn: Turn::default(),
            running: Running::default(),
            begun: Vec::new(),
            comes_at_once: true,
            recovered: false,
            hot: None,
            at_work: AtWork::default(),
            held: Held::default(),
            context: None,
            part: spans::Part::default(),
        }
    }

    /// A driver of a session that rests. `None` if others have the session, or its tools' sources must be reached
    /// before a call begins.
    pub(super) async fn of_rest(inner: &Arc<Inner>, live: &LiveRef, guard: &mut LiveState) -> Option<Driver> {
        let is_ours = inner.effects && inner.store.nodes().is_none() && !inner.agents.have_sources();
        let state = guard.state().ok().filter(|state| is_ours && state.rests())?;
        // A call waits for its context, not its approval.
        let context = inner.app_context(&state).await.ok()?;
        let hold = Hold::take(inner, &live.session_id).ok()?;
        if !inner.claims_driver(live) {
            return None;
        }
        hold.works();
        let mut driver = Driver::new(inner, live, Some(hold));
        (guard.lease, driver.context) = (Some(Epoch::SOLE), Some(context));
        driver.enter_lease(guard).await;
        driver.only_of(&state).await;
        Some(driver)
    }

    /// Stores what follows from the state, and starts its effects.
    pub(super) async fn step(&mut self, guard: &mut LiveState) -> Result<Step, Refusal> {
        let stepped = self.begin(guard).await;
        // An effect that needs no waiting needs no task, if nothing else runs meanwhile.
        let single = match &stepped {
            Ok(Begun { alone: None, .. }) if self.begun.len() == 1 && self.running.is_empty() => self.begun.pop(),
            _ => None,
        };
        // It runs even if something else fails in this step, since its start is on record.
        self.begun.drain(..).for_each(|work| self.running.spawn(work));
        let Begun { alone, full } = stepped?;
        Ok(match (single.or(alone), full) {
            (Some(work), _) => Step::Alone(work),
            (None, Some(message)) if self.running.is_empty() => Step::Full(message),
            (None, _) if self.running.is_empty() => Step::Rests,
            (None, _) => Step::Waits,
        })
    }

    async fn begin(&mut self, guard: &mut LiveState) -> Result<Begun, Refusal> {
        let (inner, live) = (self.inner.clone(), &*self.live.clone());
        let state = inner.known(live, guard).await?;
        if !self.enter_lease(guard).await {
            self.only_of(&state).await;
            // The results of running work are no longer needed.
            self.stop().await;
            return Ok(Begun::default());
        }
        if inner.term().is_none() && self.running.is_empty() && self.begun.is_empty() {
            // Work started now would not run.
            return Err(term_ended());
        }
        self.only_of(&state).await;
        guard.part = self.part.at(&state);
        if !state.status.is_active() {
            return Ok(Begun::default());
        }
        let is_idle = self.running.is_empty() && self.begun.is_empty();
        if is_idle && !state.held && inner.lacks_agent(&state) && inner.pass_on(live, guard, &NO_AGENT).await? {
            return Ok(Begun::default());
        }
        let recovers = !self.recovered && !state.held;
        let effects = self.advance(guard, None, By::Effect(Vec::new()), recovers).await?;
        let (state, draining) = (guard.state()?, effects.is_none());
        let mut effects = effects.unwrap_or_default();
        let full = inner.full(&state).filter(|_| state.status == Status::Running && !state.held && !draining);
        if full.is_some() {
            // No more model calls or nodes are started; approved calls begin, and the outcomes of running ones are
            // stored.
            effects.compress = false;
            effects.ask.clear();
        }
        inner.hold_back(live, &state, &effects.start, &mut self.held, &mut self.running.others);
        let is_none = self.begun.is_empty() && effects.ask.is_empty() && !effects.compress;
        let is_stuck = is_none && self.held.is_long() && self.running.len() == self.held.reaching();
        if is_stuck && inner.pass_on(live, guard, &NO_SOURCE).await? {
            self.stop().await;
            return Ok(Begun::default());
        }
        self.ask_models(&state, &effects);
        if draining || full.is_some() {
            return Ok(Begun { alone: None, full });
        }
        let Driver { running, hot, at_work, part, .. } = self;
        let alone = inner.begin_tasks(live, guard, hot, at_work, &mut running.others, part).await?;
        Ok(Begun { alone: alone.map(|work| Work::other(RunNo::ROOT, work)), full })
    }

    /// Aborts everything, and waits until it has ended. Work that is about to begin does not begin.
    pub(super) async fn stop(&mut self) {
        self.begun.clear();
        self.running.stop().await;
    }

    /// Logs the calls that this process cuts off because it is shutting down.
    pub(super) fn log_cut_off(&self, guard: &LiveState) {
        let Ok(state) = guard.state() else { return };
        for call in self.running.calls().iter().filter_map(|call| state.call(*call)) {
            let (session, tool) = (&*state.session_id, &*call.name);
            tracing::warn!(
                session,
                tool,
                "the call was cut off by the end of this process, and its outcome is unknown"
            );
        }
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
            self.stop().await;
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
        let is_started = |call| state.call(call).is_some_and(|call| matches!(call.phase, Phase::Started(_)));
        self.begun.retain(|work| work.call.is_none_or(is_started));
        let is_over = !state.status.is_open() || state.turns != self.turn.number;
        if is_over {
            self.stop().await;
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

    fn ask_models(&mut self, state: &Arc<State>, effects: &Effects) {
        if effects.compress && self.running.asks(RunNo::ROOT) {
            let span = self.part.compression(state);
            let compressing = self.inner.clone().compress(state.clone()).map(Done::Compressed);
            self.begun.push(Work::other(RunNo::ROOT, compressing.instrument(span).boxed()));
        }
        // A model call beyond the turn's budget would be paid for, but refused only after it has answered.
        let left = usize::try_from(state.calls_left(RunNo::ROOT, &self.inner.agents)).unwrap_or(usize::MAX);
        // One call is always made: a restart may have lowered the budget since, and its answer ends the turn.
        let most = left.min(self.inner.settings.parallel_calls()).max(1);
        for run in effects.ask.iter().copied() {
            if self.running.asking() >= most || !self.running.asks(run) {
                continue;
            }
            let span = self.part.chat(&self.inner, state, run);
            let asked = self.inner.clone().ask(LiveRef::clone(&self.live), state.clone(), run);
            self.begun.push(Work::other(run, asked.instrument(span).boxed()));
        }
    }

    /// Carries out the single effect, or waits for the next one to end.
    pub(super) async fn carry_out(&mut self, step: Step, closing: &mut watch::Receiver<bool>) {
        let done = match step {
            Step::Rests => return,
            Step::Full(message) => return self.inner.fail(&self.live, self.turn, "session_full", message, None).await,
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
        // Work that ends together is recorded together.
        let (mut next, mut nodes, mut outcomes) = (done, Vec::new(), Vec::new());
        while let Some(done) = next {
            match done {
                Ok(Done::Task(ended)) => nodes.push(ended),
                Ok(Done::Call { call, attempt, outcome, stop: None }) => {
                    failpoint::hit("call.after_effect");
                    outcomes.push(self.inner.outcome_of(call, attempt, outcome));
                }
                // It counts as started, like the call of a process that has ended.
                Ok(Done::Unbegun { .. }) => self.recovered = false,
                Ok(done) => {
                    self.comes_at_once = false;
                    self.record_outcomes(&mut outcomes).await;
                    self.comes_at_once = nodes.is_empty();
                    // It may wait long for a rule or a preview: other ended work is not queued behind it.
                    self.done(done).await;
                    break;
                }
                Err(error) => lost(&error),
            }
            next = self.running.try_next();
        }
        self.comes_at_once = nodes.is_empty();
        self.record_outcomes(&mut outcomes).await;
        self.comes_at_once = true;
        if !nodes.is_empty() {
            self.inner.tasks_ended(&self.live, self.turn, &mut self.hot, &mut self.at_work, nodes).await;
        }
    }

    /// Keeps the suspended nodes in memory, for the next driver.
    pub(super) fn keep_warm(&mut self, guard: &LiveState) {
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
