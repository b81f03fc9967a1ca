//! Subscribing to a session: a replay from the journal, then live, without a gap or a repeat (spec W2, R7).

use std::{collections::VecDeque, sync::Arc};

pub use super::told::Frame;
use super::{
    followers::{Missed, Queue},
    inner::Inner,
    live::{LiveState, uses::LiveRef},
    refusals::store_refusal,
    told::{Begun, Told},
};
use countersign_core::{
    journal::{record::Entry, state::State},
    limits,
    refusal::{Code, Refusal},
    wire::expand,
};

/// Entries read from the store at once during a replay, if they are short.
const REPLAY_PAGE: usize = 128;

/// A session's events, in order, from a given point on.
///
/// Memory is bounded: a follower that falls behind catches up from the journal.
pub struct Subscription {
    inner: Arc<Inner>,
    live: LiveRef,
    queue: Arc<Queue>,
    ready: VecDeque<Told>,
    replay: Option<Replay>,
    /// Entries are returned too.
    entries: Option<Entries>,
    /// The last `seq` returned.
    seq: u64,
    /// It fell behind: it catches up from the journal before anything else is returned.
    behind: bool,
    /// The entry of an event that is ready may not be on disk yet.
    unreleased: bool,
    /// The number of the store's history in which it began, or has caught up.
    generation: u64,
}

/// The progress of returning entries.
struct Entries {
    pos: u64,
    /// Followers receive entries while this is held.
    _wanted: Arc<()>,
}

/// The part to be replayed from the journal before the live events.
struct Replay {
    /// Replays events after this `seq`.
    after: u64,
    /// The position returned so far; `None` before the position of `after` is found.
    pos: Option<u64>,
    /// The last position to return.
    until: u64,
    /// Entries that were read but not returned.
    page: VecDeque<Arc<Entry>>,
    /// The block that was open when the subscription began.
    begun: Option<Begun>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("session_id", &self.live.session_id)
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The session's events from now on, if requested.
    pub(super) fn follow_if(
        self: &Arc<Self>,
        wanted: bool,
        live: &LiveRef,
        guard: &mut LiveState,
    ) -> Result<Option<Subscription>, Refusal> {
        wanted.then(|| Subscription::new(self, live, guard, None)).transpose()
    }
}

impl Subscription {
    /// Begins under the session's lock, so that journal and live events meet exactly.
    pub(super) fn new(
        inner: &Arc<Inner>,
        live: &LiveRef,
        guard: &mut LiveState,
        after: Option<u64>,
    ) -> Result<Subscription, Refusal> {
        let now = guard.session()?;
        let last = now.cursor.seq;
        let after = after.unwrap_or(last);
        if after > last {
            return Err(Refusal::new(Code::InvalidMessage, format!("after: the session's last event has seq {last}")));
        }
        let (queue, begun) = guard.follow(&now);
        inner.ask_for_text(live, guard);
        let replay = Some(Replay { after, pos: None, until: now.pos, page: VecDeque::new(), begun });
        Ok(Subscription {
            inner: inner.clone(),
            live: live.clone(),
            queue,
            ready: VecDeque::new(),
            replay,
            entries: None,
            seq: after,
            behind: false,
            unreleased: false,
            generation: guard.generation(),
        })
    }

    /// The session that is followed.
    #[must_use]
    pub fn session_id(&self) -> &Arc<str> {
        &self.live.session_id
    }

    /// The last `seq` that was returned, or after which it began.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The next event, once its entry is on disk: its `seq` names nothing else, whatever happens. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// `store_unavailable` if the journal cannot be read; call again to retry.
    /// `session_deleted` if it was deleted, `store_closed` if its store is closed.
    pub async fn next(&mut self) -> Result<Frame, Refusal> {
        loop {
            self.make_ready().await?;
            if self.unreleased {
                self.inner.released().await?;
                self.unreleased = false;
            }
            if self.generation != self.inner.generation() {
                // A fail-over may have lost what is ready here or queued.
                (self.replay, self.behind) = (None, true);
                self.ready.clear();
                continue;
            }
            if let Some(Told::Frame(frame)) = self.pop() {
                return Ok(frame);
            }
        }
    }

    /// Returns the entries too from now on, and text being written in nested runs: see [`Subscription::next_told`].
    /// Returns the state that the first of them follows.
    pub(crate) async fn with_entries(&mut self) -> Result<Arc<State>, Refusal> {
        let mut guard = self.live.lock().await;
        let state = self.inner.load(&self.live, &mut guard).await?;
        self.entries = Some(Entries { pos: state.pos, _wanted: guard.tell_entries() });
        Ok(state.state)
    }

    /// Like [`Subscription::next`], with everything, and without waiting for the disk: for the program that runs the
    /// session, which a power cut ends too. A follower that falls behind loses text of nested runs, but no entries.
    pub(crate) async fn next_told(&mut self) -> Result<Told, Refusal> {
        loop {
            self.make_ready().await?;
            if let Some(told) = self.pop() {
                return Ok(told);
            }
        }
    }

    fn pop(&mut self) -> Option<Told> {
        let told = self.ready.pop_front();
        if let Some(Told::Frame(frame)) = &told {
            self.seq = self.seq.max(frame.seq().unwrap_or_default());
        }
        told
    }

    /// Waits until there is something to return.
    async fn make_ready(&mut self) -> Result<(), Refusal> {
        while self.ready.is_empty() {
            // Anything received may have been stored just now.
            self.unreleased = true;
            if self.replay.is_some() {
                self.replay_one().await?;
                continue;
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            match self.queue.next().await {
                Ok(batch) => batch.iter().for_each(|told| self.take(told)),
                Err(Missed::Behind) => self.behind = true,
                Err(Missed::Gone) => return Err(self.inner.no_more_events(&self.live.session_id).await),
            }
            // Events without a `seq` are not on record.
            let on_record = |told: &Told| matches!(told, Told::Frame(frame) if frame.seq().is_some());
            self.unreleased = self.ready.iter().any(on_record);
        }
        Ok(())
    }

    fn take(&mut self, told: &Told) {
        match (told, &mut self.entries) {
            (Told::Frame(_), _) | (Told::Written(..), Some(_)) => self.ready.push_back(told.clone()),
            (Told::Entry(entry), Some(entries)) if entry.pos == entries.pos + 1 => {
                entries.pos = entry.pos;
                self.ready.push_back(told.clone());
            }
            // The journal has the entries between.
            (Told::Entry(entry), Some(entries)) if entry.pos > entries.pos => self.behind = true,
            _ => {}
        }
    }

    async fn catch_up(&mut self) -> Result<(), Refusal> {
        let mut guard = self.live.lock().await;
        let now = self.inner.load(&self.live, &mut guard).await?;
        // A fail-over may have lost the events up to which it was begun.
        let after = self.seq.min(now.cursor.seq);
        let again = Subscription::new(&self.inner, &self.live, &mut guard, Some(after))?;
        drop(guard);
        *self = Subscription { entries: self.entries.take(), ..again };
        Ok(())
    }

    /// Returns one entry of the journal at a time, so that a slow follower has little queued here.
    async fn replay_one(&mut self) -> Result<(), Refusal> {
        let Some(replay) = &self.replay else { return Ok(()) };
        let (after, until) = (replay.after, replay.until);
        let pos = match replay.pos {
            Some(pos) => pos,
            None => {
                let place = self.place_of(after, until).await?;
                self.entries.as_ref().map_or(place, |entries| place.min(entries.pos))
            }
        };
        if pos >= until {
            if let Some(Begun { start, written }) = self.replay.take().and_then(|replay| replay.begun) {
                // The block's start was just returned, or is returned again.
                let again = start.seq().is_some_and(|seq| seq <= after).then_some(start);
                self.ready.extend(again.into_iter().chain(written).map(Told::Frame));
            }
            return Ok(());
        }
        let read = match self.replay.as_ref().is_some_and(|replay| replay.page.is_empty()) {
            false => Vec::new(),
            true => {
                let (session_id, most) = (&self.live.session_id, limits::FOLLOWER_BYTES);
                let page = self.inner.store.read_within(session_id, pos, REPLAY_PAGE, most).await;
                page.map_err(store_refusal)?
            }
        };
        let Some(replay) = &mut self.replay else { return Ok(()) };
        replay.page.extend(read);
        let Some(entry) = replay.page.pop_front().filter(|entry| entry.pos <= until) else {
            return Err(self.inner.no_entries(&self.live.session_id).await);
        };
        replay.pos = Some(entry.pos);
        self.take(&Told::Entry(entry.clone()));
        let events = expand::expand_after(&self.live.session_id, &entry, after);
        self.ready.extend(events.into_iter().map(|event| Told::Frame(Frame::of(event))));
        Ok(())
    }

    /// The position before the entry that holds the event after `after`.
    async fn place_of(&self, after: u64, until: u64) -> Result<u64, Refusal> {
        // The last entry that began at or before `after`, by bisection: `seq` grows with the position.
        let (mut low, mut high) = (0, until);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let page = self.inner.store.read(&self.live.session_id, middle - 1, 1).await.map_err(store_refusal)?;
            if page.first().is_some_and(|entry| entry.cursor.seq <= after) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low.saturating_sub(1))
    }
}
