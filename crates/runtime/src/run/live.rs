//! An active session: its state in memory, its followers, the block being streamed.
//!
//! Token deltas are not stored: followers get them from memory (those on other nodes by `feed.rs`), and a replay has each block whole, in one delta. The
//! start of a block is stored before anybody sees it (`Record::BlockBegan`), by the task that asks the model; following
//! appends nothing. So a crash loses the text of one block at most, and nothing that has a `seq`.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use countersign_core::{
    journal::{
        draft::Transition,
        permit::Permit,
        record::{Block, Entry, Record, records},
        state::State,
    },
    refusal::{Code, Refusal},
    session::{Placed, Session},
    wire::expand,
};
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::{
    Inner, failpoint,
    feed::Fed,
    followers::{Followers, Queue},
    open_text::{OpenText, Rest, Shows},
    spans, store_refusal,
    subscription::{Begun, Frame, Told},
    transcript::Shown,
    view::{READ_BYTES, READ_PAGE, own_answer},
    waypoints,
};
use crate::store::{
    Append, Durability, Guards, RuleName, StoreError,
    nodes::{Epoch, Nodes, TextPlace},
};

/// A snapshot is stored at least every so many entries, so that a load never folds more.
const SNAPSHOT_ENTRIES: u64 = 64;

/// A session in memory. Exists while in use; everything in it can be read from the store again.
pub(crate) struct Live {
    pub(super) session_id: Arc<str>,
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
    /// Alive while a follower wants entries too, and those of nested runs.
    entries_wanted: Weak<()>,
    /// The text so far of the block that the model has begun ([`State::begun`]).
    open: OpenText,
    /// Other nodes are told of it.
    fed: Option<Fed>,
    /// The latest answer, if it came while this was in memory.
    answer: Option<Arc<Entry>>,
    /// The span of the current activity, if any.
    pub(super) part: Weak<tracing::Span>,
    /// Deleted: for those who still hold this.
    gone: bool,
    /// Which images a model is shown in the turn of this number, if not all. A later turn tries all again: a provider's
    /// refusal may have had another reason. So does the same turn after a pause in which the session left memory.
    images: Option<(u32, Arc<str>, Shown)>,
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
            // Given back under the map's lock, so that of the last two one sees that it is the last.
            drop(live);
            return;
        }
        let last = if is_known { sessions.remove(&live.session_id) } else { None };
        drop(sessions);
        // A session's state may be large: nobody waits for the map until it is freed.
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

    /// For crash tests: nothing of a session is in memory but its followers.
    pub(super) fn evict(&self, live: &Live, guard: &mut LiveState) {
        (guard.session, guard.answer, guard.images) = (None, None, None);
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

    /// The sessions whose followers here want to see what another node's model writes, and what they have seen; one that is in
    /// use is left out.
    pub(super) fn wanted(&self) -> Vec<(Arc<str>, TextPlace)> {
        let sessions = self.live_sessions();
        let wants = |live: &Arc<Live>| live.try_lock()?.wants();
        sessions.iter().filter_map(|(id, live)| Some((id.clone(), wants(live)?))).collect()
    }

    pub(super) fn live(self: &Arc<Self>, session_id: &Arc<str>) -> LiveRef {
        let mut sessions = self.live_sessions();
        let live = sessions.entry(session_id.clone()).or_insert_with(|| Arc::new(Live::new(session_id.clone())));
        LiveRef { inner: self.clone(), live: Some(live.clone()) }
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
        self.fold(live, guard, session, pos).await
    }

    /// The session as this node last read or stored it, which may be behind: enough for a driver, since the store refuses what
    /// does not follow from what is stored.
    pub(super) async fn known(&self, live: &Live, guard: &mut LiveState) -> Result<Session, Refusal> {
        self.check_open()?;
        if guard.gone {
            return Err(store_refusal(StoreError::Deleted(live.session_id.clone())));
        }
        if let Some(session) = &guard.session {
            return Ok(session.clone());
        }
        let head = match self.store.head(&live.session_id).await {
            Err(error @ StoreError::Deleted(_)) => {
                self.is_deleted(live, guard);
                return Err(self.refused(error));
            }
            head => head.map_err(|error| self.refused(error))?,
        };
        let snapshot = head.as_ref().and_then(|head| head.snapshot.clone());
        let session = snapshot.unwrap_or_else(|| Session::new(live.session_id.clone()));
        guard.snapshot = session.pos;
        let end = head.map_or(0, |head| head.pos);
        self.fold(live, guard, session, end).await
    }

    /// A session that is deleted: nothing in memory is valid any more, and followers are told.
    pub(super) fn is_deleted(&self, live: &Live, guard: &mut LiveState) {
        guard.forget();
        self.forget(&live.session_id);
        self.agents.session_ended(&live.session_id);
        live.wake();
    }

    /// Folds what is stored after a state, up to `end`, and publishes what followers have not received.
    async fn fold(
        &self,
        live: &Live,
        guard: &mut LiveState,
        mut session: Session,
        end: u64,
    ) -> Result<Session, Refusal> {
        // The snapshot may include an append that was abandoned half way, which followers have not received.
        let heard = guard.published;
        let mut pos = if heard > 0 { session.pos.min(heard) } else { session.pos };
        let mut unheard = Vec::new();
        while pos < end {
            let page = self
                .store
                .read_within(&live.session_id, pos, READ_PAGE, READ_BYTES)
                .await
                .map_err(|error| self.refused(error))?;
            let Some(last) = page.last() else { return Err(self.no_entries(&live.session_id).await) };
            pos = last.pos;
            for entry in page.iter() {
                if entry.pos > session.pos {
                    session.apply(entry);
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

    /// Why a session's journal has no next entry: it was deleted meanwhile, or has a gap.
    pub(super) async fn no_entries(&self, session_id: &str) -> Refusal {
        match self.store.head(session_id).await {
            Ok(Some(_)) => Refusal::new(Code::Internal, "the session's journal has a gap"),
            Ok(None) => Refusal::new(Code::SessionDeleted, "the session was deleted"),
            Err(error) => self.refused(error),
        }
    }

    /// Stores what an input leads to, which any node may.
    pub(super) async fn transact(
        &self,
        live: &Live,
        guard: &mut LiveState,
        durability: Durability,
        make: impl FnOnce(&State) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        self.transact_if(Guards::default(), live, guard, durability, make).await
    }

    /// Stores what came of an effect, or that one begins: only under the lease under which the driver works. The permits
    /// it gives are in the result.
    pub(super) async fn record(
        &self,
        live: &Live,
        guard: &mut LiveState,
        make: impl FnOnce(&State) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        self.record_by(Vec::new(), live, guard, make).await
    }

    /// The same, where these standing rules have decided calls: only while they are in force.
    pub(super) async fn record_by(
        &self,
        rules: Vec<RuleName>,
        live: &Live,
        guard: &mut LiveState,
        make: impl FnOnce(&State) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        // Another node, or a later driver of this one, accounts for what this one had begun.
        let lease = guard.lease.filter(|lease| guard.working == Some(*lease));
        let lease = lease.ok_or_else(|| store_refusal(StoreError::Fenced))?;
        let guards = Guards { lease: Some(lease), rules, ..Guards::default() };
        self.transact_if(guards, live, guard, Durability::Buffered, make).await
    }

    /// Makes a transition, stores it, and publishes it to followers.
    ///
    /// It is on disk when this returns if `durability` asks for that, or if an effect begins with it. Everything else
    /// waits for the disk only where something leaves ([`Inner::released`]).
    ///
    /// If the future is dropped half way, the state is loaded again before its next use.
    pub(super) async fn transact_if(
        &self,
        guards: Guards,
        live: &Live,
        guard: &mut LiveState,
        durability: Durability,
        make: impl FnOnce(&State) -> Result<Transition, Refusal>,
    ) -> Result<Vec<Permit>, Refusal> {
        let session = self.known(live, guard).await?;
        let transition = make(&session)?;
        if transition.is_empty() {
            return Ok(Vec::new());
        }
        let placed = self.placed(&session, transition);
        let pos = placed.after().pos;
        let closes = |record: &Record| {
            matches!(record, Record::ModelResponded(_) | Record::TurnEnded(_) | Record::TurnFailed(_))
        };
        // An interruption adds little to the last snapshot, and a new one would repeat the request.
        let asks = |record: &Record| matches!(record, Record::Interrupted(_));
        let snapshot = (records(placed.entries()).any(closes) && !records(placed.entries()).any(asks))
            || pos.saturating_sub(guard.snapshot) >= SNAPSHOT_ENTRIES;
        let begins = |record: &Record| {
            matches!(record, Record::CallStarted { .. } | Record::StepStarted { .. } | Record::ApprovalSent { .. })
        };
        let durability = if records(placed.entries()).any(begins) { Durability::Synced } else { durability };
        let lease = guards.lease;
        let append = || Append {
            session_id: live.session_id.clone(),
            expected: session.pos,
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot,
            durability,
            guards: guards.clone(),
        };
        guard.session = None;
        let begun = Instant::now();
        guard.lease = match self.append(append, guard.lease).await {
            Ok(next) => {
                self.activity.committed(begun.elapsed());
                self.activity.stored(&session, placed.entries());
                failpoint::stored(&live.session_id, records(placed.entries()));
                if lease.is_some() && next.is_none() {
                    // Nothing is to be carried out any more.
                    guard.working = None;
                }
                self.kept(&live.session_id, next).await
            }
            Err(error) => {
                match error {
                    StoreError::Fenced => guard.lease = None,
                    StoreError::Conflict | StoreError::Unknown | StoreError::Deleted(_) | StoreError::Closed(_) => {}
                    _ => guard.session = Some(session),
                }
                return Err(self.refused(error));
            }
        };
        spans::told(&guard.part, &session, placed.entries());
        let committed = placed.commit();
        if let Some(answer) = committed.entries.iter().rev().find(|entry| own_answer(entry).is_some()) {
            guard.answer = Some(answer.clone());
        }
        guard.publish(&live.session_id, &committed.entries);
        if snapshot {
            guard.snapshot = pos;
        }
        guard.published = pos;
        // No await from here on: dropping the future would lose the permits.
        if waypoints::passed(&session, &committed.after) {
            self.keep_waypoint(committed.after.clone());
        }
        guard.session = Some(committed.after);
        Ok(committed.permits)
    }
}

impl Inner {
    /// Waits until everything stored so far is on disk: before anything that depends on it leaves (an answer, an event
    /// with a `seq`, an outcome, a saved state), so that a power cut loses nothing that anybody has seen.
    ///
    /// # Errors
    /// `store_closed`: it may be lost.
    pub(crate) async fn released(&self) -> Result<(), Refusal> {
        self.store.sync().await.map_err(|error| self.refused(error))
    }

    /// A transition that is ready to be stored by this runtime.
    fn placed(&self, session: &Session, transition: Transition) -> Placed {
        let placed = session.place(transition);
        if self.effects { placed } else { placed.directly() }
    }

    /// The lease that came with what was stored. Where nothing is carried out, it is given to the nodes that do.
    async fn kept(&self, session_id: &str, lease: Option<Epoch>) -> Option<Epoch> {
        let (false, Some(nodes), Some(epoch)) = (self.effects, self.store.nodes(), lease) else { return lease };
        if let Err(error) = nodes.hand_over(session_id, epoch).await {
            // It is taken over when this node has left.
            tracing::warn!(session = session_id, %error, "a session could not be handed over");
        }
        None
    }

    /// What was accepted is on disk already. A refusal reports the session's state, which may not be.
    pub(super) async fn or_refused<T>(&self, taken: Result<T, Refusal>) -> Result<T, Refusal> {
        if taken.is_err() {
            self.released().await?;
        }
        taken
    }

    /// Stores a session that begins with the past of another, up to the snapshot, and then the transition that makes it
    /// a session of its own.
    pub(super) async fn begin_with(
        &self,
        live: &Live,
        guard: &mut LiveState,
        (from, past): (&str, &Session),
        transition: Transition,
    ) -> Result<(), Refusal> {
        let placed = self.placed(past, transition);
        let append = Append {
            session_id: live.session_id.clone(),
            expected: past.pos,
            entries: placed.entries().to_vec(),
            after: placed.after().clone(),
            snapshot: true,
            durability: Durability::Synced,
            guards: Guards::default(),
        };
        guard.session = None;
        failpoint::hit("fork.before_commit");
        let lease = self.store.fork(from, append).await.map_err(|error| self.refused(error))?;
        failpoint::hit("fork.after_commit");
        guard.lease = self.kept(&live.session_id, lease).await;
        let after = placed.commit().after;
        (guard.snapshot, guard.published) = (after.pos, after.pos);
        guard.session = Some(after);
        Ok(())
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

    /// Waits until no driver is at work.
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

    /// Forgets the text of a block that was being written: its turn is another node's now, which writes all of it again.
    pub(super) fn unwrite(&mut self) {
        self.open.unwrite();
    }

    /// Which images a model is shown in this turn.
    pub(super) fn shown_images(&self, turn: u32, model: &str) -> Shown {
        let known = self.images.as_ref().filter(|(of, name, _)| *of == turn && **name == *model);
        known.map_or(Shown::All, |(.., shown)| *shown)
    }

    pub(super) fn show_images(&mut self, turn: u32, model: &Arc<str>, shown: Shown) {
        self.images = Some((turn, model.clone(), shown));
    }

    /// The entry at `pos`, if it is the latest answer and still in memory.
    pub(super) fn answer_at(&self, pos: u64) -> Option<Arc<Entry>> {
        self.answer.clone().filter(|entry| entry.pos == pos)
    }

    /// The state, which the caller has loaded.
    pub(super) fn state(&self) -> Result<Arc<State>, Refusal> {
        self.session().map(|session| session.state)
    }

    /// The session, which the caller has loaded.
    pub(super) fn session(&self) -> Result<Session, Refusal> {
        self.session.clone().ok_or_else(|| Refusal::new(Code::Internal, "the session is not loaded"))
    }

    /// This node has the lease from now on, unless it has a later one meanwhile. Whoever had it may have stored something.
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

    pub(super) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// A queue of everything from now on, and the block that is begun: its start, and its text so far, which no record
    /// holds yet.
    pub(super) fn follow(&mut self, session: &Session) -> (Arc<Queue>, Option<Begun>) {
        let begun = session.begun.as_ref().map(|block| Begun {
            start: Frame::of(expand::start_again(&session.session_id, &session.cursor, block)),
            written: self.open.written().and_then(|block| content(session, block)),
        });
        (self.followers.add(), begun)
    }

    /// Publishes entries to followers too, while the caller keeps the result.
    pub(super) fn tell_entries(&mut self) -> Arc<()> {
        let wanted = self.entries_wanted.upgrade().unwrap_or_default();
        self.entries_wanted = Arc::downgrade(&wanted);
        wanted
    }

    pub(super) fn tells_entries(&self) -> bool {
        self.entries_wanted.strong_count() > 0
    }

    pub(super) fn send(&self, told: Vec<Told>) {
        // No listeners is fine: the journal has it.
        if !told.is_empty() {
            self.followers.tell(told);
        }
    }

    fn send_frames(&self, frames: Vec<Frame>) {
        self.send(frames.into_iter().map(Told::Frame).collect());
    }

    /// Publishes stored entries to followers, without what they have already seen of the block being streamed.
    fn publish(&mut self, session_id: &Arc<str>, entries: &[Arc<Entry>]) {
        let followed = self.has_followers();
        let tells_entries = self.tells_entries();
        let mut told = Vec::new();
        for entry in entries {
            if tells_entries {
                told.push(Told::Entry(entry.clone()));
            }
            for (record, mut events) in expand::by_record(session_id, entry) {
                // What closes a block begins with all of its text.
                if let Some(block) = record.first_block() {
                    let (cursor, first) = (&entry.cursor, 1.min(events.len()));
                    match self.open.end(block) {
                        Rest::All => {}
                        Rest::Over => events.insert(0, expand::start_again(session_id, cursor, block)),
                        Rest::More(rest) if rest.content().is_empty() => drop(events.drain(..first)),
                        Rest::More(rest) => {
                            let rest = expand::more(session_id, cursor, expand::block_parts(&rest).1);
                            events.splice(..first, [rest]);
                        }
                    }
                }
                if followed {
                    told.extend(events.into_iter().map(|event| Told::Frame(Frame::of(event))));
                }
            }
        }
        if followed {
            self.send(told);
        }
    }

    /// The model streams the block that is begun. Followers who saw other text in it, of a broken stream, see it start
    /// over.
    pub(super) fn write(&mut self, block: &Block) {
        let began = self.session.as_ref().map_or(0, |session| session.cursor.began);
        let shows = self.open.write(began, self.working.unwrap_or(Epoch::SOLE), block);
        self.show(&shows);
    }

    /// The model adds to the block that it streams.
    pub(super) fn write_more(&mut self, more: &str) {
        if let Some(shows) = self.open.write_more(more) {
            self.show(&shows);
        }
    }

    fn show(&self, shows: &Shows) {
        let Some(session) = self.session.as_ref().filter(|_| self.has_followers()) else { return };
        let start = |block| Frame::of(expand::start_again(&session.session_id, &session.cursor, block));
        let (start, more) = match (shows, self.open.written()) {
            (Shows::Begins { over }, Some(block)) => (over.then(|| start(block)), block),
            (Shows::More(more), _) => (None, more),
            (Shows::Begins { .. }, None) => return,
        };
        self.send_frames(start.into_iter().chain(content(session, more)).collect());
    }

    /// How far the text of the open block is known, if somebody follows it here while another node's model writes it.
    pub(super) fn wants(&self) -> Option<TextPlace> {
        let is_elsewhere = self.lease.is_none() && self.session.as_ref().is_some_and(|session| session.begun.is_some());
        (is_elsewhere && self.has_followers()).then(|| self.open.place())
    }

    /// Another node says what its model has written in this session.
    pub(super) fn hear(&mut self, birth: &str, at: TextPlace, part: &str) {
        let is_of = |session: &&Session| *session.birth == *birth && session.cursor.began == at.text.block;
        let session = self.session.as_ref().filter(is_of).filter(|_| self.wants().is_some());
        let Some(begun) = session.and_then(|session| session.begun.clone()) else { return };
        if let Some(shows) = self.open.hear(&begun, at, part) {
            self.show(&shows);
        }
    }

    /// Another node wants to hear the text of the open block. `true`: from now on it is to be fed.
    pub(super) fn is_wanted(&mut self, known: TextPlace) -> bool {
        self.lease.is_some() && Fed::ask(&mut self.fed, known)
    }

    /// Says what was written since to the nodes that have asked. `false`: none has for a while, or it is not written here.
    pub(super) fn feed(&mut self, nodes: &dyn Nodes) -> bool {
        let fed = self.fed.take().filter(|fed| self.lease.is_some() && fed.is_wanted());
        self.fed = fed;
        let Some(fed) = &mut self.fed else { return false };
        if let (Some(session), Some(written)) = (&self.session, self.open.written()) {
            fed.tell(session, self.open.place().text, written.content(), nodes);
        }
        true
    }
}

/// The text of the block that is begun, if there is any.
fn content(session: &Session, block: &Block) -> Option<Frame> {
    let delta = || expand::more(&session.session_id, &session.cursor, expand::block_parts(block).1);
    (!block.content().is_empty()).then(|| Frame::of(delta()))
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
        let stored = runtime.message(&me, NewMessage::text("s", "hello"), true).await.expect("message");
        runtime.wait(&me, "s").await.expect("wait");
        assert_eq!(runtime.inner.live_sessions().len(), 1, "followed");
        drop(stored);
        tokio::task::yield_now().await;
        assert_eq!(runtime.inner.live_sessions().len(), 0);
    }
}
