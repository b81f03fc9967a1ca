//! Work that continues without a request: turns that a crash interrupted, and deadlines.
//!
//! No timers are kept in memory. Due deadlines are read from the store every 200 ms, so one that passed while no
//! process ran fires at the start, by the same code. `countersign_core::journal::restart` explains why a turn that ends
//! the process is held.

use std::{
    collections::HashSet,
    sync::{self, Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use countersign_core::{
    journal::{
        draft::Draft,
        state::{State, Status},
    },
    number::InterruptionNo,
    refusal::{Code, Refusal},
};
use futures::StreamExt as _;
use tokio::{sync::MutexGuard, time::timeout};

use super::{
    command::to_the_end,
    failpoint,
    inner::Inner,
    live::{LiveState, uses::LiveRef},
    nodes::contested,
    overdue::Overdue,
    refusals::store_refusal,
};
use crate::store::{Durability, Guards, StoreError, nodes::Epoch};

/// How often deadlines are checked. A deadline fires within this time, well within spec W7's second.
const DEADLINE_TICK: Duration = Duration::from_millis(200);
/// How long others wait for a deadline, or for a session to resume, that is in use or cannot be stored in now: it is handled
/// once that ends.
const BUSY: Duration = Duration::from_millis(300);
/// How many deadlines, or sessions to resume, are begun at the same time.
const SIDE_BY_SIDE: usize = 64;
/// How many processes in a row may resume a turn without progress. The next one holds it.
const TAKEN_UP: u32 = 2;
/// How long a turn that is resumed again runs alone, before the next one is resumed.
const PROBATION: Duration = Duration::from_secs(10);

/// How many times in a row a session was resumed without progress, and the session.
type Again = (u32, Arc<str>);

impl Inner {
    /// Resumes the sessions that were running when their last append was stored, in a store that belongs to this
    /// process.
    pub(super) async fn resume_interrupted(self: &Arc<Self>) -> Result<(), Refusal> {
        let running = self.store.running().await.map_err(store_refusal)?;
        self.resume_taken(running.into_iter().map(|id| (id, Epoch::SOLE)).collect()).await;
        Ok(())
    }

    /// Resumes sessions whose leases this process has taken.
    ///
    /// The process that had them may have ended because of one of them. Each resumption is recorded first, so that the
    /// next process that takes them knows which turns made no progress: it resumes those one after the other, and if
    /// one of them ends it, the process after that holds the turn. A session that is in use for long is resumed later.
    pub(super) async fn resume_taken(self: &Arc<Self>, leases: Vec<(Arc<str>, Epoch)>) {
        let taken = futures::stream::iter(leases).map(|(session_id, lease)| async move {
            let mut taken = tokio::spawn(self.clone().take_up(session_id.clone(), lease));
            if let Ok(taken) = timeout(BUSY, &mut taken).await {
                return taken.ok().flatten();
            }
            // Nothing else resumes it meanwhile.
            self.on_probation().insert(session_id.clone());
            let inner = self.clone();
            tokio::spawn(async move {
                match taken.await.ok().flatten() {
                    Some(again) => inner.resume_again(vec![again]),
                    None => drop(inner.on_probation().remove(&session_id)),
                }
            });
            None
        });
        let taken: Vec<Option<Again>> = taken.buffer_unordered(SIDE_BY_SIDE).collect().await;
        self.resume_again(taken.into_iter().flatten().collect());
    }

    /// Resumes sessions one after the other, after those before them.
    fn resume_again(self: &Arc<Self>, mut again: Vec<Again>) {
        if !again.is_empty() {
            // Those that are held at once come first.
            again.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
            self.on_probation().extend(again.iter().map(|(_, id)| id.clone()));
            tokio::spawn(self.clone().take_up_again(again));
        }
    }

    /// Sessions that are resumed later: one after the other, or once they are no longer in use.
    pub(super) fn on_probation(&self) -> sync::MutexGuard<'_, HashSet<Arc<str>>> {
        // The set is never left half changed.
        self.probation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resumes a session, or returns it.
    async fn take_up(self: Arc<Self>, session_id: Arc<str>, lease: Epoch) -> Option<Again> {
        let live = self.live(&session_id);
        live.lock().await.takes_over(lease);
        failpoint::hit("resume.before_load");
        if !failpoint::blames_sessions() {
            self.spawn_driver(live);
            return None;
        }
        let recorded = self.taken_up(&live).await;
        match recorded {
            Ok((true, _)) => return None,
            Ok((false, times @ 1..)) => return Some((times, session_id)),
            Ok((false, 0)) => {}
            // Its driver retries until it can be read and written.
            Err(error) => not_recorded(&session_id, &error),
        }
        self.spawn_driver(live);
        None
    }

    /// Whether it is held, and how many times it was resumed before this.
    async fn taken_up(&self, live: &LiveRef) -> Result<(bool, u32), Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        if state.status != Status::Running {
            return Ok((false, 0));
        }
        if !state.held && state.restarts == 0 {
            self.restarted(live, &mut guard, 1, false).await?;
        }
        Ok((state.held, state.restarts))
    }

    /// Resumes sessions one after the other, each when the previous one has made progress or used its time.
    async fn take_up_again(self: Arc<Self>, sessions: Vec<Again>) {
        // One at a time, whenever they were taken over.
        let _turn = self.one_by_one.lock().await;
        for (times, session_id) in sessions {
            if self.draining.load(Ordering::SeqCst) {
                return;
            }
            let live = self.live(&session_id);
            let taken = self.taken_up_again(&live, times).await;
            self.on_probation().remove(&session_id);
            match taken {
                Ok(None) => {}
                Ok(Some(true)) => {
                    tracing::error!(
                        session = &*session_id,
                        times,
                        "the server died each time it resumed this session; it is held until somebody sends \
                         a message, retries it, decides what is pending, or cancels it"
                    );
                }
                Ok(Some(false)) => {
                    self.spawn_driver(live.clone());
                    let survived = timeout(PROBATION, until_progress(&live)).await.is_err();
                    if survived && !self.on_probation().is_empty() {
                        // It is only slow. If the process ends from here on, the next session may be the cause as well.
                        self.is_not_blamed(&live).await;
                    }
                }
                Err(error) => {
                    not_recorded(&session_id, &error);
                    self.spawn_driver(live);
                }
            }
        }
    }

    /// Whether it is held from now on; `None` if it has changed meanwhile.
    async fn taken_up_again(&self, live: &LiveRef, times: u32) -> Result<Option<bool>, Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        if state.restarts != times || state.held || state.status != Status::Running {
            return Ok(None);
        }
        let held = times >= TAKEN_UP;
        let times = if held { times } else { times + 1 };
        self.restarted(live, &mut guard, times, held).await?;
        Ok(Some(held))
    }

    /// A turn that is still running counts as resumed once, as if it had not run alone.
    async fn is_not_blamed(&self, live: &LiveRef) {
        let mut guard = live.lock().await;
        if guard.state().is_ok_and(|state| state.restarts > 1 && !state.held && state.status == Status::Running)
            && let Err(error) = self.restarted(live, &mut guard, 1, false).await
        {
            not_recorded(&live.session_id, &error);
        }
    }

    /// This process lives on, although another one took over the session after its lease had ended: the session has not
    /// crashed it, so the restart counted then is taken back.
    pub(super) async fn lives_on(&self, live: &LiveRef) {
        let mut guard = live.lock().await;
        if !std::mem::take(&mut guard.outlived) {
            return;
        }
        let make = |state: &Arc<State>| {
            let draft = Draft::of(state.clone(), self.now());
            let is_blamed = state.restarts > 0 && !state.held && state.status == Status::Running;
            Ok(if is_blamed { draft.restarted(state.restarts - 1, false, None) } else { draft.finish() })
        };
        if let Err(error) = contested!(self.transact(live, &mut guard, Durability::Buffered, make).await) {
            not_recorded(&live.session_id, &error);
        }
    }

    /// The process shuts down cleanly, so this session has not ended it.
    pub(super) async fn ends_in_order(&self, live: &LiveRef, guard: &mut LiveState) {
        if guard.state().is_ok_and(|state| state.restarts > 0 && !state.held && state.status.is_active())
            && let Err(error) = self.restarted(live, guard, 0, false).await
        {
            not_recorded(&live.session_id, &error);
        }
    }

    async fn restarted(&self, live: &LiveRef, guard: &mut LiveState, times: u32, held: bool) -> Result<(), Refusal> {
        let partial = guard.written();
        let make = |state: &Arc<State>| Ok(Draft::of(state.clone(), self.now()).restarted(times, held, partial));
        let guards = Guards { lease: guard.lease, ..Guards::default() };
        self.transact_if(guards, live, guard, Durability::Buffered, make).await.map(drop)
    }

    /// Times interruptions out, and reminds of pending ones. The store's index is read each time; no timer is kept in
    /// memory.
    pub(super) async fn watch_deadlines(self: Arc<Self>) {
        let mut closing = self.closing.subscribe();
        let mut overdue = Overdue::default();
        while !*closing.borrow() {
            self.warm.expire();
            if self.times_over(&mut overdue).await {
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(next_look()) => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// Handles the deadlines that are due now; returns whether there are more.
    async fn times_over(self: &Arc<Self>, overdue: &mut Overdue) -> bool {
        let limit = overdue.limit();
        let due = match self.store.nodes() {
            None => self.store.due(self.now(), limit).await,
            Some(nodes) => nodes.take_due(self.now(), limit).await,
        };
        let mut due = match due {
            Ok(due) => due,
            Err(error) => {
                overdue.away(&self.refused(error));
                return false;
            }
        };
        let more = due.len() == limit;
        due.retain(|due| !failpoint::leaves(due));
        let mut ended = overdue.ended().await;
        // Concurrently, so that the store can group them; in tasks, so that a busy session delays no other.
        let over = futures::stream::iter(overdue.ready(due)).map(|due| async move {
            let (inner, (session_id, n)) = (self.clone(), due.clone());
            let mut handled = tokio::spawn(async move { inner.time_out(&session_id, n).await });
            let done = timeout(BUSY, &mut handled).await;
            (due, done.map_err(|_| handled))
        });
        let over: Vec<_> = over.buffer_unordered(SIDE_BY_SIDE).collect().await;
        for (due, done) in over {
            match done {
                Ok(done) => ended.push((due, done)),
                Err(handled) => overdue.busy(due, handled),
            }
        }
        let (mut stored, mut reached, mut failed) = (false, false, Vec::new());
        for (due, done) in ended {
            match done.unwrap_or_else(|error| Err(Refusal::new(Code::Internal, error.to_string()))) {
                Ok(one) => (stored, reached) = (stored || one, true),
                Err(error) => failed.push((due, error)),
            }
        }
        overdue.looked(failed, reached);
        more && stored
    }

    async fn time_out(self: &Arc<Self>, session_id: &Arc<str>, n: InterruptionNo) -> Result<bool, Refusal> {
        let live = self.live(session_id);
        let changed = contested!(self.time_out_in(&live, n).await)?;
        if changed {
            if failpoint::leaves_deadlines() {
                tracing::warn!(session = &**session_id, n = n.get(), "{}", failpoint::FIRED);
            }
            self.spawn_driver(live);
        }
        Ok(changed)
    }

    async fn time_out_in(&self, live: &LiveRef, n: InterruptionNo) -> Result<bool, Refusal> {
        let mut guard = live.lock().await;
        let state = self.load(live, &mut guard).await?;
        if self.store_time_out(live, &mut guard, n).await? {
            return Ok(true);
        }
        let Some(transition) = Draft::new(&state, self.now()).remind(n) else { return Ok(false) };
        self.transact(live, &mut guard, Durability::Buffered, |_| Ok(transition)).await?;
        Ok(true)
    }

    /// Whether the deadline of an interruption has passed by now; its time-out is stored then.
    async fn time_out_if_due(self: Arc<Self>, live: LiveRef, n: InterruptionNo) -> Result<bool, Refusal> {
        let mut guard = live.lock().await;
        self.load(&live, &mut guard).await?;
        let stored = self.store_time_out(&live, &mut guard, n).await?;
        drop(guard);
        if stored {
            self.spawn_driver(live);
        }
        Ok(stored)
    }

    /// Stores the time-out of an interruption, if its deadline has passed by the store's clock too.
    async fn store_time_out(&self, live: &LiveRef, guard: &mut LiveState, n: InterruptionNo) -> Result<bool, Refusal> {
        let state = guard.state()?;
        let Some(transition) = Draft::of(state.clone(), self.now()).time_out(n, &self.agents) else { return Ok(false) };
        let not_before = state.waiting(n).and_then(|open| open.asked.expires_at);
        let guards = Guards { not_before, ..Guards::default() };
        failpoint::hit("time_out.before_commit");
        self.transact_if(guards, live, guard, Durability::Buffered, |_| Ok(transition)).await?;
        failpoint::hit("time_out.after_commit");
        Ok(true)
    }

    /// The guards of an append with a reply to these interruptions, so that the store's clock orders replies and
    /// deadlines.
    ///
    /// # Errors
    /// `approval_already_resolved` if the deadline of one has passed; its time-out is stored then, and the session
    /// continues, whatever becomes of the caller.
    pub(super) async fn in_time<'a>(
        self: &Arc<Self>,
        live: &LiveRef,
        guard: MutexGuard<'a, LiveState>,
        interruptions: &[InterruptionNo],
    ) -> Result<(MutexGuard<'a, LiveState>, Guards), Refusal> {
        let (state, mut guards) = (guard.state()?, Guards::default());
        for &n in interruptions {
            let due = state.waiting(n).and_then(|open| open.asked.expires_at);
            if Draft::of(state.clone(), self.now()).time_out(n, &self.agents).is_some() {
                drop(guard);
                let timed_out = to_the_end(self.clone().time_out_if_due(live.clone(), n)).await?;
                // Otherwise the session has changed since: the whole reply is retried.
                return Err(match timed_out {
                    true => self.already_resolved(&live.session_id, n).await?,
                    false => store_refusal(StoreError::Conflict),
                });
            }
            guards.not_after = guards.not_after.into_iter().chain(due).min();
        }
        Ok((guard, guards))
    }
}

/// When deadlines are looked at again: at a different time each, since a node that looks in step with the others could
/// always be the first to take one that it cannot handle.
fn next_look() -> Duration {
    let part = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    DEADLINE_TICK / 2 + DEADLINE_TICK * part / 510
}

/// Waits until a resumed turn has made progress, or has no more effects.
async fn until_progress(live: &LiveRef) {
    // A state that cannot be read now is in use.
    let got_on = |state: Arc<State>| state.restarts == 0 || state.status != Status::Running;
    while !live.lock().await.state().is_ok_and(got_on) {
        tokio::time::sleep(DEADLINE_TICK).await;
    }
}

fn not_recorded(session_id: &str, error: &Refusal) {
    tracing::warn!(session = session_id, %error, "how often a turn was resumed could not be recorded");
}
