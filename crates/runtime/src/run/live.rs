//! An active session: its state in memory, its followers, the block being streamed.
//!
//! Token deltas are not stored: followers get them from memory (those on other nodes by `feed.rs`), and a replay has
//! each whole block in one delta. The start of a block is stored before anybody sees it (`Record::BlockBegan`), by the
//! task that asks the model; following appends nothing. So a crash loses the text of one block at most, and nothing
//! that has a `seq`.

mod follow;
mod load;
mod sent_text;
mod transact;
pub(super) mod uses;

use std::{
    sync::{
        Arc, Weak,
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
};
use tokio::{
    sync::{Mutex, MutexGuard, Notify},
    time::timeout,
};

use self::sent_text::SentText;
use super::{followers::Followers, open_text::OpenText, shown::Shown};
use crate::store::nodes::Epoch;

/// How long a reader waits for a session in which something is being stored: as long as for the confirmation of a read.
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
    /// The number of the store's history in which it was read ([`Nodes::generation`](crate::store::nodes::Nodes)).
    generation: u64,
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
    /// Alive while a follower also requests entries, including those of nested runs.
    entries_wanted: Weak<()>,
    /// The text so far of the block that the model has begun ([`State::begun`]).
    open: OpenText,
    /// How far that text was sent to other nodes, if one requests it.
    sent: Option<SentText>,
    /// The latest answer, if it came while this was in memory.
    answer: Option<Arc<Entry>>,
    /// The span of the current activity, if any.
    pub(super) part: Weak<tracing::Span>,
    /// Deleted: for those who still hold this.
    gone: bool,
    /// The part of the conversation that a model is shown in the turn of this number, if not all of it. A later turn
    /// tries all of it again, since a provider's refusal may have had another reason. So does the same turn after a
    /// pause in which the session left memory.
    shown: Option<(u32, Arc<str>, Shown)>,
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

    /// For readers. A writer holds the session until the outcome of its append is known: a commit that waits for a
    /// standby may take several times [`READER`]. A reader could only be shown the earlier state, so it is told to
    /// retry.
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

    /// The lock, if nobody else has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, LiveState>> {
        self.state.try_lock().ok()
    }

    /// Notifies the driver that the state has changed.
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

    /// The part of the conversation that a model is shown in this turn.
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

    /// Whether the session is in memory, and at this position.
    pub(super) fn is_at(&self, pos: u64) -> bool {
        self.session.as_ref().is_some_and(|session| session.pos == pos)
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

    /// It is read in the history of this number. What was read before a fail-over may have been lost, and followers
    /// catch up from the journal. Whether that is so.
    fn reads_in(&mut self, generation: u64) -> bool {
        let before = std::mem::replace(&mut self.generation, generation);
        if before != generation {
            (self.answer, self.published) = (None, 0);
            self.followers.fall_behind();
        }
        ![0, generation].contains(&before)
    }

    /// The number of the history in which it was read.
    pub(super) fn generation(&self) -> u64 {
        self.generation
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
