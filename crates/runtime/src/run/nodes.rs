//! Several nodes over one store: which sessions' effects this one carries out, and how it follows the others' changes
//! (spec R5).
//!
//! An input is stored by whichever node receives it. If the session has no lease, that node takes it with the append
//! and carries out the effects; otherwise the holder of the lease is notified. A node without the lease keeps a session
//! in memory for its followers only, and reads new entries from the store before it answers a request.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use countersign_core::{
    journal::state::{Phase, State},
    refusal::{Code, Refusal},
};
use tokio::{sync::broadcast::error::RecvError, time::Instant};

use super::{
    failpoint,
    inner::Inner,
    live::{Live, LiveState, uses::LiveRef},
    looked::AT_ONCE,
    pass_on::{LEFT_TO_OTHERS, Lack},
};
use crate::store::nodes::{Epoch, Hint, Nodes};

/// How often a node polls for events that give no hint: sessions of nodes that have died, and changes.
const LOOK: Duration = Duration::from_secs(1);
/// How often a caller that waits for another node's work polls.
pub(super) const ELSEWHERE: Duration = Duration::from_millis(50);
/// How long a caller waits for another node that has the session and stores nothing. By default a dead node's
/// lease ends sooner.
const SILENT: Duration = Duration::from_secs(60);
/// The maximum number of tries of one input.
const TRIES: u32 = 16;

/// A caller's wait for a session that another node drives.
#[derive(Default)]
pub(super) struct Elsewhere(Option<(u64, Instant)>);

impl Elsewhere {
    /// The session is at this position now.
    ///
    /// # Errors
    /// `session_busy`: the session has been at this position for too long.
    pub(super) fn seen_at(&mut self, pos: u64) -> Result<(), Refusal> {
        match self.0 {
            Some((at, since)) if at == pos && pos > 0 => {
                if since.elapsed() < SILENT {
                    return Ok(());
                }
                let text = format!(
                    "another process has the session, and has stored nothing of it for {} s: wait for its result; if it \
                     will give none, end it, and run the session again",
                    SILENT.as_secs()
                );
                Err(Refusal::new(Code::SessionBusy, text))
            }
            _ => {
                self.0 = Some((pos, Instant::now()));
                Ok(())
            }
        }
    }
}

/// The tries of one input while other nodes append first: see [`contested`].
pub(super) struct Contest(u32);

impl Contest {
    pub(super) fn new() -> Contest {
        Contest(TRIES)
    }

    /// How long to wait before the next try: a little longer each time.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(u64::from(TRIES - self.0))
    }

    /// Whether to try the input again.
    pub(super) fn may_retry<T>(&mut self, tried: &Result<T, Refusal>) -> bool {
        self.0 -= 1;
        self.0 > 0 && tried.as_ref().is_err_and(Refusal::is_overtaken)
    }
}

/// Tries an input again on the newly stored state, as long as other nodes append first.
macro_rules! contested {
    ($input:expr) => {{
        let mut contest = $crate::run::nodes::Contest::new();
        loop {
            let tried = $input;
            if !contest.may_retry(&tried) {
                break tried;
            }
            tokio::time::sleep(contest.pause()).await;
        }
    }};
}
pub(super) use contested;

/// The refusal while this node's leases have ended: no effect may begin here.
pub(super) fn term_ended() -> Refusal {
    Refusal::new(Code::StoreUnavailable, "this node's leases have ended until it can renew them")
}

impl Inner {
    /// Whether this node may carry out the session's effects; it takes the lease if effects are due and no other node
    /// holds it.
    pub(super) async fn take_lease(&self, live: &Live, guard: &mut LiveState) -> Result<bool, Refusal> {
        if guard.lease.is_none() {
            guard.lease = match self.store.nodes() {
                None => Some(Epoch::SOLE),
                // A draining node starts no effects.
                Some(_) if self.draining.load(Ordering::SeqCst) => None,
                // Left to other nodes for now.
                Some(nodes) if self.passed_on.has(&live.session_id, nodes) => None,
                Some(nodes) if self.load(live, guard).await?.is_at_work() => {
                    let claimed = nodes.claim(&live.session_id).await.map_err(|error| self.refused(error))?;
                    if claimed.is_some() {
                        // The previous holder may have stored more, and released the lease, since the session was read.
                        guard.load_again();
                    }
                    claimed
                }
                Some(_) => None,
            };
        }
        Ok(guard.lease.is_some())
    }

    /// Releases the lease if no effect is due under it; the last append has usually done that. `false`: another node
    /// has appended meanwhile, and effects may be due again.
    pub(super) async fn lets_go(&self, live: &LiveRef, guard: &mut LiveState) -> bool {
        if guard.generation() != self.generation() {
            // Whether it rests is read again.
            guard.load_again();
        }
        let (Some(nodes), Some(epoch), Ok(session)) = (self.store.nodes(), guard.lease, guard.session()) else {
            guard.working = None;
            return true;
        };
        if session.is_at_work() {
            if self.draining.load(Ordering::SeqCst) {
                self.hand_over(live, guard, nodes, epoch).await;
            }
        } else {
            match nodes.release(&live.session_id, epoch, session.pos).await {
                Ok(true) => guard.lease = None,
                Ok(false) => {
                    // Another node has appended, or has the lease. If effects are due again, it is taken again.
                    (guard.lease, guard.working) = (None, None);
                    return !matches!(self.take_lease(live, guard).await, Ok(true));
                }
                Err(error) => {
                    tracing::warn!(session = &*live.session_id, %error, "a lease could not be released");
                }
            }
        }
        guard.working = None;
        true
    }

    /// This node is shutting down, and no part of the session runs here any more: another node continues it at once.
    async fn hand_over(&self, live: &LiveRef, guard: &mut LiveState, nodes: &dyn Nodes, epoch: Epoch) {
        self.ends_in_order(live, guard).await;
        failpoint::hit("hand_over.before_commit");
        match nodes.hand_over(&live.session_id, epoch).await {
            Ok(_) => {
                failpoint::hit("hand_over.after_commit");
                guard.lease = None;
            }
            // Another node takes it over when this one has left.
            Err(error) => tracing::warn!(session = &*live.session_id, %error, "a session could not be handed over"),
        }
    }

    /// The session's driver was dropped half way, and no part of the session runs here any more: the next node need not
    /// wait until this one has left.
    pub(super) async fn abandons(&self, live: &LiveRef) {
        let Some(nodes) = self.store.nodes() else { return };
        let mut guard = live.lock().await;
        // A read, an append or a claim may have been abandoned half way.
        guard.load_again();
        match self.take_lease(live, &mut guard).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(session = &*live.session_id, %error, "a session could not be handed over");
                return;
            }
        }
        if let Some(epoch) = guard.lease {
            self.hand_over(live, &mut guard, nodes, epoch).await;
        }
        guard.working = None;
    }

    /// Hands over a session that cannot be read here to nodes that know its format; a broken one is not handed over.
    pub(super) async fn gives_up(&self, live: &Live, guard: &mut LiveState, error: &Refusal) {
        if !error.is_unreadable() {
            return;
        }
        tracing::error!(session = &*live.session_id, %error, "the session cannot be read here, and is left alone");
        let (Some(nodes), Some(epoch)) = (self.store.nodes(), guard.lease.take()) else { return };
        guard.working = None;
        let is_broken = error.code == Code::Internal;
        let given = async {
            if !is_broken {
                return nodes.hand_over(&live.session_id, epoch).await;
            }
            let stored = nodes.positions(vec![live.session_id.clone()]).await?;
            nodes.release(&live.session_id, epoch, stored.first().map_or(0, |(_, pos)| *pos)).await
        };
        if let Err(error) = given.await {
            tracing::warn!(session = &*live.session_id, %error, "a lease could not be released");
        }
    }

    /// The term in which this node's leases last; `None` if they have ended. A call starts in the term in which its
    /// start was stored, or not at all.
    pub(super) fn term(&self) -> Option<u64> {
        self.store.nodes().map_or(Some(0), Nodes::term)
    }

    /// The number of the store's history.
    pub(super) fn generation(&self) -> u64 {
        self.store.nodes().map_or(0, Nodes::generation)
    }

    /// Whether this node's leases have lasted without a break since `term` was read.
    pub(super) fn lasts(&self, term: Option<u64>) -> bool {
        term.is_some() && term == self.term()
    }

    /// Follows changes by other nodes, and takes over the sessions of those that die, until the runtime closes.
    pub(super) async fn attend_nodes(self: Arc<Self>) {
        let Some(nodes) = self.store.nodes() else { return };
        let (mut hints, mut closing) = (nodes.hints(), self.closing.subscribe());
        let mut was_told = false;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !*closing.borrow() {
            tokio::select! { biased;
                _ = closing.changed() => {}
                _ = look.tick() => self.look(nodes, &mut was_told).await,
                hint = hints.recv() => match hint {
                    Ok(Hint::Changed(first)) => {
                        let mut changed = HashSet::from([first]);
                        let mut all = false;
                        while let Ok(more) = hints.try_recv() {
                            match more {
                                Hint::Changed(id) => drop(changed.insert(id)),
                                Hint::Left => all = true,
                            }
                        }
                        self.hear_all(changed);
                        if all {
                            self.look(nodes, &mut was_told).await;
                        }
                    }
                    Ok(Hint::Left) | Err(RecvError::Lagged(_)) => self.look(nodes, &mut was_told).await,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// An outage is logged once.
    async fn look(self: &Arc<Self>, nodes: &dyn Nodes, was_told: &mut bool) {
        match self.try_look(nodes).await {
            Ok(()) => *was_told = false,
            Err(error) if !std::mem::replace(was_told, true) => {
                tracing::warn!(%error, "sessions of other nodes could not be looked for; it is tried again");
            }
            Err(_) => {}
        }
    }

    /// Takes over sessions of dead nodes, resumes its own, and reads those that others have changed.
    pub(super) async fn try_look(self: &Arc<Self>, nodes: &dyn Nodes) -> Result<(), Refusal> {
        // A draining node takes over nothing, but still follows changes.
        if !self.draining.load(Ordering::SeqCst) {
            loop {
                let taken = nodes
                    .take_over(AT_ONCE, self.passed_on.sessions(nodes))
                    .await
                    .map_err(|error| self.refused(error))?;
                let count = taken.len();
                if count > 0 {
                    self.activity.took_over(count);
                    tracing::info!(sessions = count, "taking over sessions of nodes that have left or died");
                }
                self.resume_taken(taken).await;
                if count < AT_ONCE {
                    break;
                }
            }
            let (after, all) = self.own_after.lock().unwrap_or_else(PoisonError::into_inner).next();
            let own = nodes.own(&after, all, AT_ONCE).await.map_err(|error| self.refused(error))?;
            self.own_after.lock().unwrap_or_else(PoisonError::into_inner).were(&own);
            for session_id in own {
                let live = self.live(&session_id);
                if !live.is_driven() {
                    self.resume_if_free(live);
                }
            }
        }
        let all = self.in_memory();
        for some in all.chunks(AT_ONCE) {
            let stored = nodes
                .positions(some.iter().map(|(id, _)| id.clone()).collect())
                .await
                .map_err(|error| self.refused(error))?;
            let stored: HashSet<(Arc<str>, u64)> = stored.into_iter().collect();
            let changed = some.iter().filter(|(id, pos)| *pos > 0 && !stored.contains(&(id.clone(), *pos)));
            self.hear_all(changed.map(|(id, _)| id.clone()).collect());
        }
        self.forget_deleted(nodes).await
    }

    /// Drops cached data of sessions that other nodes have deleted: conversations that models have read, and what tools
    /// keep for them. A session in memory is read again anyway.
    async fn forget_deleted(self: &Arc<Self>, nodes: &dyn Nodes) -> Result<(), Refusal> {
        let after = std::mem::take(&mut *self.kept_after.lock().unwrap_or_else(PoisonError::into_inner));
        let kept = self.conversations.sessions(&after, AT_ONCE);
        if kept.is_empty() {
            return Ok(());
        }
        let stored = nodes.positions(kept.clone()).await.map_err(|error| self.refused(error))?;
        let stored: HashSet<Arc<str>> = stored.into_iter().map(|(id, _)| id).collect();
        for gone in kept.iter().filter(|id| !stored.contains(*id)) {
            let (inner, live) = (self.clone(), self.live(gone));
            tokio::spawn(async move { inner.hear(live).await });
        }
        if let Some(last) = kept.last().filter(|_| kept.len() == AT_ONCE) {
            *self.kept_after.lock().unwrap_or_else(PoisonError::into_inner) = last.clone();
        }
        Ok(())
    }

    /// Each session in its own task, so that one in use delays no other.
    fn hear_all(self: &Arc<Self>, changed: HashSet<Arc<str>>) {
        for live in changed.into_iter().filter_map(|id| self.if_live(&id)) {
            let inner = self.clone();
            tokio::spawn(async move { inner.hear(live).await });
        }
    }

    /// Resumes a session, unless it is resumed later.
    fn resume_if_free(self: &Arc<Self>, live: LiveRef) {
        if !self.on_probation().contains(&live.session_id) {
            self.spawn_driver(live);
        }
    }

    /// Another node has changed a session that is in memory here.
    async fn hear(self: Arc<Self>, live: LiveRef) {
        let mut guard = live.lock().await;
        let heard = self.load(&live, &mut guard).await;
        let is_ours = guard.lease.is_some();
        self.ask_for_text(&live, &guard);
        if heard.as_ref().is_err_and(Refusal::is_unreadable) {
            // Its driver cannot continue either.
            guard.discard_unreadable();
            live.wake();
        }
        drop(guard);
        match heard {
            // Perhaps no node has its lease.
            Ok(session) if is_ours || session.is_at_work() => self.resume_if_free(live),
            Ok(_) => live.wake(),
            Err(error) if error.is_gone() && !error.is_unreadable() => {}
            // A newer build continues it, and this node is notified of each change.
            Err(error) if error.is_for_newer() => {
                tracing::info!(session = &*live.session_id, %error, "another node's change is left to newer nodes")
            }
            Err(error) => {
                tracing::warn!(session = &*live.session_id, %error, "another node's change could not be read")
            }
        }
    }
}

impl Inner {
    /// Whether this program does not know the session's agent, or the agent of one of its calls.
    pub(super) fn lacks_agent(&self, state: &State) -> bool {
        let calls = state.calls.iter().filter(|call| call.phase != Phase::Finished).map(|call| &call.agent);
        let graph = state.run.as_ref().filter(|run| !run.agent_loop).map(|run| &run.graph);
        let agent = graph.is_none().then_some(&state.agent);
        let is_unknown = |name: &&Arc<str>| !self.graphs.contains_key(&***name) && self.agents.get(name).is_none();
        graph.into_iter().chain(agent).chain(calls).any(|name| is_unknown(&name))
    }

    /// Hands over a session that cannot continue here, if a live node may be able to. `false`: there is none, or the
    /// other nodes have had their time.
    ///
    /// # Errors
    /// The store does not answer: the session could not be handed over.
    pub(super) async fn pass_on(&self, live: &LiveRef, guard: &mut LiveState, lack: &Lack) -> Result<bool, Refusal> {
        let (Some(nodes), Some(epoch)) = (self.store.nodes(), guard.lease) else { return Ok(false) };
        let seq = guard.session()?.cursor.seq;
        let since = self.passed_on.since(&live.session_id, seq);
        if nodes.is_alone() || since.is_some_and(|since| since.elapsed() >= LEFT_TO_OTHERS) {
            return Ok(false);
        }
        self.ends_in_order(live, guard).await;
        // Noted before the hand-over, so that this node does not take the session back at once.
        self.passed_on.add(&live.session_id, seq, lack);
        if let Err(error) = nodes.hand_over(&live.session_id, epoch).await {
            if since.is_none() {
                self.passed_on.forget(&live.session_id);
            }
            return Err(self.refused(error));
        }
        tracing::warn!(session = &*live.session_id, "left to other nodes: {}", lack.why);
        (guard.lease, guard.working) = (None, None);
        Ok(true)
    }
}
