//! Waypoints: states of a session saved along its journal, so that its past is folded from the nearest of them and not
//! from its first append.
//!
//! They are a cache. One is saved for each further megabyte of appends, and walking a journal without any, such as a
//! fork's, saves them too. One that cannot be read, or that has changed since it was written, is skipped; one of
//! another [`FOLD_VERSION`] is not even found.
//!
//! An old state is folded from the nearest waypoint before it: about a megabyte, however long the session is. One is
//! saved only if it has at most a quarter of the bytes that it saves reading, and no more than a page of appends, so
//! all of them stay small beside their journal. Its digest covers itself, its session, its position and the version of
//! folding (raised whenever folding changes), so a damaged or misplaced one is never used, in encrypted stores or
//! others. That does not protect against a writer of the file, who could forge other records too. An append does not
//! wait for its waypoint: nothing is awaited between a commit and its effects.

use std::{io, sync::Arc};

use countersign_core::{
    journal::{
        checkpoint::{Checkpoint, FOLD_VERSION},
        record::Entry,
        state::State,
    },
    refusal::Refusal,
    session::Session,
};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::{
    inner::{Inner, READ_BYTES, READ_PAGE},
    refusals::store_refusal,
};
use crate::store::{self, Store, StoreError, Waypoint};

/// Bytes of records, as a state counts them, from one waypoint to the next.
const STRETCH: u64 = 1024 * 1024;
/// A waypoint has at most this part of the records since the previous one, so that all of them are small beside a
/// journal.
const SHARE: u64 = 4;
/// None is larger than a page of records, however far the previous one is.
const LARGEST: usize = READ_BYTES;
const DIGEST: usize = 64;

/// The maximum size of a waypoint `since` bytes after the previous one.
fn most(since: u64) -> usize {
    usize::try_from(since / SHARE).map_or(LARGEST, |most| most.min(LARGEST))
}

/// The digest that binds a text to this session and position. A store without encryption does not notice that a text
/// was changed or moved.
fn digest(session_id: &str, pos: u64, state: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(FOLD_VERSION.to_be_bytes());
    hash.update(pos.to_be_bytes());
    hash.update((session_id.len() as u64).to_be_bytes());
    hash.update(session_id);
    hash.update(state);
    hex::encode(hash.finalize())
}

/// A waypoint: the digest, and the session there. `None` if that exceeds `most` bytes.
fn write(session_id: &str, session: &Session, most: usize) -> Option<Waypoint> {
    let mut written = Bounded { bytes: Vec::new(), most };
    serde_json::to_writer(&mut written, session).ok()?;
    let text = String::from_utf8(written.bytes).ok()?;
    let pos = session.pos;
    let body = digest(session_id, pos, &text) + &text;
    Some(Waypoint { pos, version: FOLD_VERSION, body: body.into() })
}

/// The session, if the waypoint is unchanged.
fn read(session_id: &str, waypoint: &Waypoint) -> Option<Session> {
    let (told, text) = waypoint.body.split_at_checked(DIGEST)?;
    if waypoint.version != FOLD_VERSION || told != digest(session_id, waypoint.pos, text) {
        tracing::warn!("a waypoint of session {session_id} at {} is corrupt; it is not used", waypoint.pos);
        return None;
    }
    let session: Session = serde_json::from_str(text).ok()?;
    (session.pos == waypoint.pos).then_some(session)
}

/// Accepts a number of bytes, and then fails: a waypoint that is too large is not serialised to its end.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a session has completed another stretch.
pub(super) fn passed(before: &State, after: &State) -> bool {
    before.bytes / STRETCH != after.bytes / STRETCH
}

/// A walk through the journal of a session, page by page, from a waypoint on.
pub(super) struct Walk<'a> {
    inner: &'a Inner,
    session_id: &'a Arc<str>,
    at: Session,
    begin: u64,
    /// The bytes of records up to the last waypoint, and from there to the next.
    kept: u64,
    stretch: u64,
}

impl<'a> Walk<'a> {
    /// A walk from the last waypoint before `pos`, or from the beginning; `session_id` is the session that has the
    /// records.
    pub(super) async fn before(
        inner: &'a Inner,
        session_id: &'a Arc<str>,
        as_session: &Arc<str>,
        pos: u64,
    ) -> Result<Walk<'a>, Refusal> {
        let found = match inner.store.waypoint(session_id, pos.saturating_sub(1), FOLD_VERSION).await {
            Err(error @ (StoreError::Deleted(_) | StoreError::Closed(_))) => return Err(inner.refused(error)),
            Err(error) => {
                tracing::warn!("a waypoint of session {session_id} is not used: {error}");
                None
            }
            Ok(found) => found.and_then(|found| read(session_id, &found)),
        };
        let at = match found.filter(|session| session.pos < pos) {
            Some(mut session) => {
                Arc::make_mut(&mut session.state).session_id = as_session.clone();
                session
            }
            None => Session::new(as_session.clone()),
        };
        let (begin, kept) = (at.pos, at.bytes);
        Ok(Walk { inner, session_id, at, begin, kept, stretch: STRETCH })
    }

    pub(super) fn begin(&self) -> u64 {
        self.begin
    }

    pub(super) fn at(&self) -> &State {
        &self.at
    }

    pub(super) fn into_session(self) -> Session {
        self.at
    }

    /// Reads the next page up to `end`, and reports each checkpoint with the `seq` of its last event. Returns the last
    /// append of the page; `None` at the end.
    pub(super) async fn on(
        &mut self,
        end: u64,
        mut found: impl FnMut(Checkpoint, u64),
    ) -> Result<Option<Arc<Entry>>, Refusal> {
        let pos = self.at.pos;
        if pos >= end {
            return Ok(None);
        }
        let left = usize::try_from(end - pos).unwrap_or(READ_PAGE).min(READ_PAGE);
        let page = self.inner.store.read_within(self.session_id, pos, left, READ_BYTES).await.map_err(store_refusal)?;
        if page.is_empty() {
            return Err(self.inner.no_entries(self.session_id).await);
        }
        for entry in &page {
            store::apply(&mut self.at, self.session_id, entry).map_err(store_refusal)?;
            if let Some(one) = Checkpoint::of(&self.at, entry) {
                found(one, self.at.cursor.seq);
            }
        }
        // No waypoint where the caller stops: each caller would leave its own.
        if page.last().is_some_and(|last| last.pos < end) {
            self.keep().await;
        }
        Ok(page.last().cloned())
    }

    /// Saves a waypoint here, if the last one is far.
    async fn keep(&mut self) {
        let since = self.at.bytes.saturating_sub(self.kept);
        if since < self.stretch {
            return;
        }
        let Some(waypoint) = write(self.session_id, &self.at, most(since)) else {
            // A large state is not tried again at every page.
            self.stretch = since.saturating_mul(2);
            return;
        };
        (self.kept, self.stretch) = (self.at.bytes, STRETCH);
        keep(&*self.inner.store, self.session_id, waypoint).await;
    }
}

async fn keep(store: &dyn Store, session_id: &str, waypoint: Waypoint) {
    if let Err(error) = store.keep_waypoint(session_id, waypoint).await {
        // The next reader folds more.
        tracing::debug!("a waypoint of session {session_id} was not kept: {error}");
    }
}

impl Inner {
    /// Saves a waypoint of a session as it is now. Nothing waits for it: a stored append must have its effects, even if
    /// the cache fails. The store may be closed in the meantime.
    pub(super) fn keep_waypoint(&self, session: Session) {
        let store = Arc::downgrade(&self.store);
        let Ok(threads) = self.threads.clone().map_or_else(Handle::try_current, Ok) else { return };
        threads.spawn(async move {
            let session_id = session.session_id.clone();
            let written =
                tokio::task::spawn_blocking(move || write(&session.session_id, &session, most(STRETCH))).await;
            if let (Ok(Some(waypoint)), Some(store)) = (written, store.upgrade()) {
                keep(&*store, &session_id, waypoint).await;
            }
        });
    }
}
