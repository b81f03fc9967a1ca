//! An active session: its state in memory, its followers, the block being streamed.
//!
//! Token deltas are not stored: followers get them from memory (those on other nodes by `feed.rs`), and a replay has each block whole, in one delta. The
//! start of a block is stored before anybody sees it (`Record::BlockBegan`), by the task that asks the model; following
//! appends nothing. So a crash loses the text of one block at most, and nothing that has a `seq`.

mod follow;
mod transact;

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    journal::{
        record::{Block, Entry},
        state::State,
    },
    refusal::{Code, Refusal},
    session::Session,
    wire::client::check_session_id,
};
use tokio::{
    sync::{Mutex, MutexGuard, Notify},
    time::timeout,
};

use super::{
    Inner, failpoint,
    feed::Fed,
    followers::Followers,
    open_text::OpenText,
    store_refusal,
    transcript::Shown,
    view::{READ_BYTES, READ_PAGE},
};
use crate::store::{
    self, StoreError,
    nodes::{Epoch, TextPlace},
};

/// How long a reader waits for a session in which something is being stored: as long as for a confirmation of what it read.
const READER: Duration = Duration::from_secs(10);

/// A session in memory. Exists while in use; everything in it can be read from the store again.
pub(crate) struct Live {
    pub(crate) session_id: Arc<str>,
    state: Mutex<LiveState>,
    wake: Notify,
    driving: AtomicBool,
    idle: Notify,
}

/// What the session's lock protects.
#[derive(Default)]
pub(super) struct LiveState {
    /// `None`: not loaded, or a store operation was abandoned and it must be loaded again.
    session: Option<Session>,
    /// The position of the last snapshot.
    snapshot: u64,
    /// The position of the last entry published to followers.
    published: u64,
    followers: Followers,
    /// The lease under which this node may carry out effects, as far as is known.
    pub(super) lease: Option<Epoch>,
    /// The lease under which its driver works.
    pub(super) working: Option<Epoch>,
    /// Whether another node has taken the lease from this one, which is alive.
    pub(super) outlived: bool,
    /// Alive while a follower requests entries too, and those of nested runs.
    entries_wanted: Weak<()>,
    /// The text so far of the block that the model has begun ([`State::begun`]).
    open: OpenText,
    /// The feed of that text to other nodes.
    fed: Option<Fed>,
    /// The latest answer, if it came while this was in memory.
    answer: Option<Arc<Entry>>,
    /// The span of the current activity, if any.
    pub(super) part: Weak<tracing::Span>,
    /// Deleted: for those who still hold this.
    gone: bool,
    /// What a model is shown in the turn of this number, if not all. A later turn tries all again: a provider's
    /// refusal may have had another reason. So does the same turn after a pause in which the session left memory.
    shown: Option<(u32, Arc<str>, Shown)>,
}

/// A use of a live session. Dropping the last one lets the session leave memory.
pub(crate) struct LiveRef {
    inner: Arc<Inner>,
    live: Option<Arc<Live>>,
}

impl Deref for LiveRef {
    type Target = Live;
    fn deref(&self) -> &Live {
        match &self.live {
            Some(live) => live,
            None => unreachable!("only drop takes it"),
        }
    }
}

impl LiveRef {
    /// The runtime that has it in memory.
    pub(super) fn runtime(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Clone for LiveRef {
    fn clone(&self) -> Self {
        LiveRef { inner: self.inner.clone(), live: self.live.clone() }
    }
}

impl Drop for LiveRef {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let mut sessions = self.inner.live_sessions();
        let is_known = sessions.get(&live.session_id).is_some_and(|known| Arc::ptr_eq(known, &live));
        if is_known && Arc::strong_count(&live) > 2 {
            // Released under the map's lock, so that of the last two uses exactly one sees that it is the last.
            drop(live);
            return;
        }
        let last = if is_known { sessions.remove(&live.session_id) } else { None };
        drop(sessions);
        // A session's state may be large: it is freed after the map's lock is released.
        drop((last, live));
    }
}

impl Inner {
    fn live_sessions(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Live>>> {
        // The map is never left half changed, so a panic elsewhere does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all live sessions from the map.
    pub(super) fn take_live(&self) -> Vec<Arc<Live>> {
        std::mem::take(&mut *self.live_sessions()).into_values().collect()
    }

    pub(super) fn forget(&self, session_id: &Arc<str>) {
        self.live_sessions().remove(session_id);
        self.warm.forget(Some(session_id));
        self.conversations.forget(Some(session_id));
    }

    /// For crash tests: drops everything of a session from memory but its followers.
    pub(super) fn evict(&self, live: &Live, guard: &mut LiveState) {
        (guard.session, guard.answer, guard.shown) = (None, None, None);
        self.warm.forget(Some(&live.session_id));
        self.conversations.forget(Some(&live.session_id));
        tracing::warn!(session = &*live.session_id, "{}", failpoint::EVICTED);
    }

    /// A session, if it is in memory.
    pub(super) fn if_live(self: &Arc<Self>, session_id: &Arc<str>) -> Option<LiveRef> {
        let live = self.live_sessions().get(session_id).cloned();
        live.map(|live| LiveRef { inner: self.clone(), live: Some(live) })
    }

    /// The sessions in memory, and up to which position; one that is in use is left out.
    pub(super) fn in_memory(&self) -> Vec<(Arc<str>, u64)> {
        let sessions = self.live_sessions();
        let known = |live: &Arc<Live>| Some(live.try_lock()?.published);
        sessions.iter().filter_map(|(id, live)| Some((id.clone(), known(live)?))).collect()
    }

    /// The sessions with followers here that are not read again yet since an input of theirs was abandoned half way, or met
    /// another node's; one that is in use is left out.
    pub(super) fn unread(self: &Arc<Self>) -> Vec<LiveRef> {
        let is_unread =
            |live: &Arc<Live>| live.try_lock().is_some_and(|guard| guard.session.is_none() && guard.has_followers());
        let unread = |live: &Arc<Live>| LiveRef { inner: self.clone(), live: Some(live.clone()) };
        self.live_sessions().values().filter(|live| is_unread(live)).map(unread).collect()
    }

    /// The sessions with followers here whose open block another node's model writes, and the end of the text they have
    /// seen; one that is in use is left out.
    pub(super) fn wanted(&self) -> Vec<(Arc<str>, TextPlace)> {
        let sessions = self.live_sessions();
        let wants = |live: &Arc<Live>| live.try_lock()?.wants();
        sessions.iter().filter_map(|(id, live)| Some((id.clone(), wants(live)?))).collect()
    }

    pub(crate) fn live(self: &Arc<Self>, session_id: &Arc<str>) -> LiveRef {
        let mut sessions = self.live_sessions();
        let live = sessions.entry(session_id.clone()).or_insert_with(|| Arc::new(Live::new(session_id.clone())));
        LiveRef { inner: self.clone(), live: Some(live.clone()) }
    }

    /// The same for an id that a client gives.
    ///
    /// # Errors
    /// `invalid_session_id`.
    pub(super) fn named(self: &Arc<Self>, session_id: &str) -> Result<LiveRef, Refusal> {
        check_session_id(session_id)?;
        Ok(self.live(&Arc::from(session_id)))
    }

    /// The session as it is stored now, also by other nodes. One that is not stored has `pos` 0.
    pub(super) async fn load(&self, live: &Live, guard: &mut LiveState) -> Result<Session, Refusal> {
        let (Some(nodes), Some(session)) = (self.store.nodes(), &guard.session) else {
            return self.known(live, guard).await;
        };
        let stored = nodes.positions(vec![live.session_id.clone()]).await.map_err(|error| self.refused(error))?;
        let pos = stored.first().map_or(0, |(_, pos)| *pos);
        if pos == session.pos {
            return self.known(live, guard).await;
        }
        if pos < session.pos {
            self.is_deleted(live, guard);
            return self.known(live, guard).await;
        }
        let session = session.clone();
        self.fold(live, guard, session, (pos, Vec::new())).await
    }

    /// The session as this node last read or stored it, which may be behind: enough for a driver, since the store
    /// refuses an append at an old position.
    pub(super) async fn known(&self, live: &Live, guard: &mut LiveState) -> Result<Session, Refusal> {
        self.check_open()?;
        if guard.gone {
            return Err(self.why_gone(&live.session_id).await);
        }
        if let Some(session) = &guard.session {
            return Ok(session.clone());
        }
        let tail = match self.store.tail(&live.session_id, READ_PAGE, READ_BYTES).await {
            Err(error @ StoreError::Deleted(_)) => {
                self.is_deleted(live, guard);
                return Err(self.refused(error));
            }
            tail => tail.map_err(|error| self.refused(error))?,
        };
        let (end, snapshot, tail) =
            tail.map_or_else(Default::default, |tail| (tail.head.pos, tail.head.snapshot, tail.entries));
        let session = snapshot.unwrap_or_else(|| Session::new(live.session_id.clone()));
        guard.snapshot = session.pos;
        self.fold(live, guard, session, (end, tail)).await
    }

    /// A session that is deleted, or was lost: nothing in memory is valid any more, and its followers are notified.
    pub(super) fn is_deleted(&self, live: &Live, guard: &mut LiveState) {
        guard.forget();
        self.forget(&live.session_id);
        self.agents.session_ended(&live.session_id);
        live.wake();
    }

    /// Folds the entries stored after a state, up to `end`, and publishes those that followers have not received. The
    /// entries that follow it may have been read with it.
    async fn fold(
        &self,
        live: &Live,
        guard: &mut LiveState,
        mut session: Session,
        (end, mut read): (u64, Vec<Arc<Entry>>),
    ) -> Result<Session, Refusal> {
        // The snapshot may include an append that was abandoned half way, which followers have not received.
        let heard = guard.published;
        let mut pos = if heard > 0 { session.pos.min(heard) } else { session.pos };
        let mut unheard = Vec::new();
        while pos < end {
            let mut page = std::mem::take(&mut read);
            if page.first().is_none_or(|entry| entry.pos != pos + 1) {
                let next = self.store.read_within(&live.session_id, pos, READ_PAGE, READ_BYTES).await;
                page = next.map_err(|error| self.refused(error))?;
            }
            let Some(last) = page.last() else { return Err(self.no_entries(&live.session_id).await) };
            pos = last.pos;
            for entry in page.iter() {
                if entry.pos > session.pos {
                    store::apply(&mut session, &live.session_id, entry).map_err(|error| self.refused(error))?;
                }
            }
            unheard.extend(page.into_iter().filter(|entry| heard > 0 && entry.pos > heard));
        }
        if !unheard.is_empty() {
            guard.publish(&live.session_id, &unheard);
        }
        guard.published = session.pos;
        guard.session = Some(session.clone());
        Ok(session)
    }

    /// Why a session's journal has no next entry: it was deleted or lost meanwhile, or has a gap.
    pub(super) async fn no_entries(&self, session_id: &str) -> Refusal {
        match self.store.head(session_id).await {
            Ok(Some(_)) => Refusal::new(Code::Internal, "the session's journal has a gap"),
            _ => self.why_gone(session_id).await,
        }
    }

    /// Why a session is not what it was: it was deleted, or a fail-over of the store has lost what nobody was told is stored.
    pub(super) async fn why_gone(&self, session_id: &str) -> Refusal {
        match self.store.head(session_id).await {
            // Whoever holds it stops; the next one reads it as it is.
            Ok(_) => store_refusal(StoreError::Unknown).fenced(),
            Err(error) => self.refused(error),
        }
    }
}

impl Live {
    fn new(session_id: Arc<str>) -> Live {
        Live {
            session_id,
            state: Mutex::default(),
            wake: Notify::new(),
            driving: AtomicBool::new(false),
            idle: Notify::new(),
        }
    }

    pub(super) async fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().await
    }

    /// For whoever only reads. Whoever stores something has the session until it is known what came of that: a commit that
    /// waits for a standby may take [`READER`] several times. A reader could only be shown what was there before, so it is
    /// told to come again.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(super) async fn lock_to_read(&self) -> Result<MutexGuard<'_, LiveState>, Refusal> {
        timeout(READER, self.lock()).await.map_err(|_| {
            let what = format!(
                "the session cannot be read now: for {} s what is being stored in it, or judged, has had no answer; try again",
                READER.as_secs()
            );
            Refusal::new(Code::StoreUnavailable, what)
        })
    }

    /// If nobody else has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, LiveState>> {
        self.state.try_lock().ok()
    }

    /// Tells the driver that the state has changed.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`Live::wake`]; only the driver does.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Makes the caller the session's only driver; false if there is one.
    pub(super) fn claim_driver(&self) -> bool {
        !self.driving.swap(true, Ordering::SeqCst)
    }

    pub(super) fn yield_driver(&self) {
        self.driving.store(false, Ordering::SeqCst);
        self.idle.notify_waiters();
    }

    pub(super) fn is_driven(&self) -> bool {
        self.driving.load(Ordering::SeqCst)
    }

    /// Waits until there is no driver.
    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if !self.driving.load(Ordering::SeqCst) {
                return;
            }
            idle.await;
        }
    }
}

impl LiveState {
    /// The text so far of the block that the model has begun.
    pub(super) fn written(&self) -> Option<Block> {
        self.open.written().cloned()
    }

    /// Forgets the text of a block that was being written: another node drives the turn now, and writes all of it
    /// again.
    pub(super) fn unwrite(&mut self) {
        self.open.unwrite();
    }

    /// What a model is shown in this turn.
    pub(super) fn shown_in(&self, turn: u32, model: &str) -> Shown {
        let known = self.shown.as_ref().filter(|(of, name, _)| *of == turn && **name == *model);
        known.map_or_else(Shown::default, |(.., shown)| *shown)
    }

    pub(super) fn show_from_now(&mut self, turn: u32, model: &Arc<str>, shown: Shown) {
        self.shown = Some((turn, model.clone(), shown));
    }

    /// The entry at `pos`, if it is the latest answer and still in memory.
    pub(super) fn answer_at(&self, pos: u64) -> Option<Arc<Entry>> {
        self.answer.clone().filter(|entry| entry.pos == pos)
    }

    /// Whether no effect follows from the session as this node last read or stored it.
    pub(super) fn rests(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.rests())
    }

    /// The state, which the caller has loaded.
    pub(super) fn state(&self) -> Result<Arc<State>, Refusal> {
        self.session().map(|session| session.state)
    }

    /// The session, which the caller has loaded.
    pub(super) fn session(&self) -> Result<Session, Refusal> {
        self.session.clone().ok_or_else(|| Refusal::new(Code::Internal, "the session is not loaded"))
    }

    /// This node has the lease from now on, unless it has a later one meanwhile. The previous holder may have stored
    /// something.
    pub(super) fn takes_over(&mut self, lease: Epoch) {
        if self.lease.max(self.working) <= Some(lease) {
            (self.session, self.lease) = (None, Some(lease));
        }
    }

    /// Another writer has continued it: it is read from the store again before its next use.
    pub(super) fn load_again(&mut self) {
        self.session = None;
    }

    /// The session is deleted, or its store closed: nothing in memory is valid any more.
    pub(super) fn forget(&mut self) {
        // Dropping the followers' queues tells followers that the session is gone.
        *self = LiveState { gone: true, ..LiveState::default() };
    }

    /// It cannot be read here any more: followers find out why.
    pub(super) fn discard_unreadable(&mut self) {
        self.session = None;
        self.followers.fall_behind();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign::model::scripted::Scripted;
    use countersign_core::approval::principal::Principal;

    use crate::{
        agent::Agent,
        run::{NewMessage, Runtime},
        store::memory::MemoryStore,
    };

    /// An unused session is rows in the store and nothing in memory.
    #[tokio::test]
    async fn r10_a_session_at_rest_costs_no_memory() {
        let model = Scripted::from_json(r#"{"turns":[{"text":"hi"}],"at_end":"repeat"}"#).expect("script");
        let agent = Agent::new("a", ("m", Arc::new(model)));
        let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(agent).build().expect("runtime");
        let me = Principal::trusted();
        for i in 0..50 {
            runtime.run(&me, NewMessage::text(format!("s{i}"), "hello")).await.expect("run");
        }
        assert_eq!(runtime.inner.live_sessions().len(), 0);
        let stored = runtime.message_followed(&me, NewMessage::text("s", "hello")).await.expect("message");
        runtime.wait(&me, "s").await.expect("wait");
        assert_eq!(runtime.inner.live_sessions().len(), 1, "followed");
        drop(stored);
        tokio::task::yield_now().await;
        assert_eq!(runtime.inner.live_sessions().len(), 0);
    }
}
