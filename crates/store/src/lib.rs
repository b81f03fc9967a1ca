//! Stores: where journals live. The journal is the truth; the indexes beside it are derived from it.
//!
//! A store keeps, for each session, its entries and a head: the position of the last entry, a summary for lists, and a
//! snapshot of the state to which a load applies the later entries (a cache, never the truth). It also keeps one row
//! for each interruption, derived from the entries by [`index`], and an occasional [`Waypoint`] from which past states
//! are folded.
//!
//! The snapshot keeps loads short. It is written with every answer and every end of a turn, and at least every 64
//! entries; a store may lose it.
//!
//! The id of a deleted session stays taken ([`StoreError::Deleted`]), since people and programs keep ids, keys and
//! decisions longer than sessions.

#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod contents;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub mod copy;
pub mod deliveries;
#[doc(hidden)]
pub mod failpoint;
pub mod files;
pub mod index;
pub mod memory;
pub mod nodes;
#[doc(hidden)]
pub mod owner_only;
pub mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod restored;
pub mod seal;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use countersign_core::{
    approval::rule::{Rule, RuleId},
    audit::{self, AuditRecord},
    journal::{
        record::{Entry, Millis},
        request_id::RequestId,
        state::{State, Status},
    },
    number::InterruptionNo,
    session::Session,
    wire::event::Resolution,
};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use self::page::{InterruptionFilter, Page, Paged, RuleFilter, SessionFilter, Visible};
use self::{
    deliveries::Deliveries,
    index::Purpose,
    nodes::{Epoch, Nodes, Position},
    seal::SealError,
};

/// Applies the next stored append to a session, if it keeps the rules of journals ([`Session::append`]), so that an
/// altered row has no effect. `owner` is the session that has the append.
///
/// # Errors
/// [`StoreError::Corrupt`] names the owner and the position. The session must be discarded then.
pub fn apply(session: &mut Session, owner: &str, entry: &Entry) -> Result<(), StoreError> {
    let broken = |wrong| StoreError::Corrupt(format!("session {owner}, position {}: {wrong}", entry.pos));
    session.append(entry).map_err(broken)
}

/// Keeps journals. Every method is atomic; an error means that nothing changed, except
/// [`StoreError::Unknown`].
pub trait Store: Send + Sync {
    /// Appends entries to a session and replaces its head, if the session's last position is the expected one.
    /// When it returns `Ok` the entries are durable as [`Append::durability`] asks. The result is the lease under which
    /// this process carries out the session's effects from now on; `None`: it has none.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the position is another, or the `request_id` of an entry is a duplicate. A queued
    /// message carries its id twice: when it is queued, and when it reaches the conversation. [`StoreError::Deleted`]
    /// if a session of this id was deleted, [`StoreError::Fenced`] or [`StoreError::Outdated`] if [`Append::guards`] do
    /// not hold.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>>;
    /// The progress of deliveries of its audit log.
    fn deliveries(&self) -> &dyn Deliveries;
    /// The coordination of the processes that share this store; `None`: it belongs to one process.
    fn nodes(&self) -> Option<&dyn Nodes> {
        None
    }
    /// The time by the store's clock, in Unix milliseconds: nodes that share a store have one.
    fn now(&self) -> Millis {
        self.nodes().map_or_else(machine_time, Nodes::now)
    }
    /// The id of its history: a different one than before means that a `seq` already shown may now name another event.
    /// `None`: the history ends with this process.
    fn history_id(&self) -> BoxFuture<'_, Result<Option<Arc<str>>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
    /// Gives it a new one: it was restored from a backup, and its events from here on are not those that once followed.
    fn renew_history_id(&self) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Waits until everything appended before survives power loss. Call it before releasing anything that depends on an
    /// append (an answer, an event with a `seq`, a saved state).
    ///
    /// # Errors
    /// [`StoreError::Closed`]: recent appends may be lost.
    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>>;
    /// A read has answered an input that was sent again: its first answer was lost, perhaps with a process that had not
    /// yet confirmed that it was durable. The next [`Store::sync`] waits until it is.
    fn mark_unsynced(&self) {}
    /// Creates a session with the past of another: its entries up to [`Append::expected`] are those of `from` at the
    /// same positions, and those of the append follow. No part of it is visible before all of it is stored; if that
    /// never completes, nothing remains and the id is free. A long past is copied in pieces, between which others
    /// append.
    ///
    /// The default reads the past and appends all at once.
    ///
    /// # Errors
    /// As [`Store::append`] to a new session; [`StoreError::Deleted`] if `from` is deleted meanwhile, and
    /// [`StoreError::Failed`] if it has no such past.
    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        let from: Arc<str> = from.into();
        Box::pin(async move {
            let mut entries: Vec<Arc<Entry>> = Vec::new();
            while (entries.len() as u64) < append.expected() {
                let left = usize::try_from(append.expected()).unwrap_or(usize::MAX) - entries.len();
                let page = self.read(&from, entries.len() as u64, left).await?;
                if page.is_empty() {
                    return Err(no_past(&from, append.expected()));
                }
                entries.extend(page);
            }
            entries.extend(append.entries);
            let before = Arc::new(State::new(append.session_id.clone()));
            self.append(Append { before, entries, ..append }).await
        })
    }
    /// The last waypoint of this version at or before `until` in a session, if one was kept.
    fn waypoint(
        &self,
        session_id: &str,
        until: u64,
        version: u32,
    ) -> BoxFuture<'_, Result<Option<Waypoint>, StoreError>> {
        let _ = (session_id, until, version);
        Box::pin(async { Ok(None) })
    }
    /// Keeps a waypoint of a session, or does not: it is a cache. Those of older versions may be dropped with it.
    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = (session_id, waypoint);
        Box::pin(async { Ok(()) })
    }
    /// The head of a session; `None` if there never was a session with this id.
    ///
    /// # Errors
    /// [`StoreError::Deleted`] if it was deleted.
    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>>;
    /// The head of a session, and entries after its snapshot (all, if there is none): everything that resumes it, in
    /// one read. It has at most as many entries as [`Store::read_within`] returns within these limits; read the others
    /// with that. The default returns none.
    ///
    /// # Errors
    /// [`StoreError::Deleted`] if it was deleted.
    fn tail(&self, session_id: &str, limit: usize, bytes: usize) -> BoxFuture<'_, Result<Option<Tail>, StoreError>> {
        let _ = (limit, bytes);
        let head = self.head(session_id);
        Box::pin(async move { Ok(head.await?.map(|head| Tail { head, entries: Vec::new() })) })
    }
    /// Entries at positions after `after`, oldest first, at most `limit`.
    fn read(&self, session_id: &str, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        self.read_within(session_id, after, limit, usize::MAX)
    }
    /// The same, but with a limit on stored bytes: at most `bytes`, but at least one entry.
    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>>;
    /// The purpose of this `request_id` in the session, if an entry carries it.
    fn request(&self, session_id: &str, request_id: &RequestId) -> BoxFuture<'_, Result<Option<Purpose>, StoreError>>;
    /// One interruption.
    fn interruption(
        &self,
        session_id: &str,
        n: InterruptionNo,
    ) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>>;
    /// Interruptions that match: pending ones by their deadlines, the soonest first, then those without one and then
    /// resolved ones, the newest first; `cursor` is the opaque cursor of the page before.
    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>>;
    /// How many interruptions are pending, counted up to [`PENDING`], and when the oldest of those counted was asked.
    /// `None`: they are not counted.
    fn pending(&self) -> BoxFuture<'_, Result<Option<PendingCount>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
    /// Sessions that match, most recently used first; one that is used between two pages moves to the front.
    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>>;
    /// Pending interruptions whose deadline or next reminder is at or before `now`, earliest first, at most `limit`.
    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>>;
    /// Sessions that were running when their last entry was stored: those that a crash has interrupted.
    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>>;
    /// At most `limit` records of this range of the audit log: of the whole log, or of a tenant's sessions
    /// (`Some(None)`: of those without a tenant). They are written atomically with the entries they describe, and stay
    /// when their session is deleted (spec R8). Every record stored before the call is included; each carries the hash
    /// of the record before it in the whole log.
    fn audit(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        self.audit_within(of, range, limit, usize::MAX)
    }
    /// The same, but with a limit on the stored bytes of their bodies: at most `bytes`, but at least one record.
    fn audit_within(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>>;
    /// The standing rules for a tool of an agent that apply to all sessions of this subject and are not revoked, oldest
    /// first (spec S7).
    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>>;
    /// Rules that match, newest first.
    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>>;
    /// Deletes a session and everything of it except its audit records; with `at`, only if its last entry is at that
    /// position. Its id stays taken, so that no approval or request for it ever counts for another (spec R11). The audit
    /// log gets `told` in the same transaction (spec R8), if the session was [ever told about](audit::Event::deleted). `false`: there is none, or it ends elsewhere.
    fn delete(
        &self,
        session_id: &str,
        at: Option<u64>,
        told: Option<&audit::Event>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Ids and last positions of at most `limit` sessions that were last used before `before`, longest ago first, and
    /// in which nothing can happen any more, automatically or by a decision: they are not running, nothing is pending
    /// in them, and no rule of theirs applies to other sessions at `now`. The default finds none.
    fn rested(&self, before: Millis, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        let _ = (before, now, limit);
        Box::pin(async { Ok(Vec::new()) })
    }
    /// Whether the store can be written to, for `/readyz`.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// The time by the clock of this machine, in Unix milliseconds: that of a store of one process.
#[must_use]
pub fn machine_time() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Why a past cannot be copied.
fn no_past(from: &str, until: u64) -> StoreError {
    StoreError::Failed(format!("session {from} has no entries up to {until}"))
}

/// How many pending interruptions [`Store::pending`] counts at most.
pub const PENDING: u32 = 100_000;

/// The result of [`Store::pending`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingCount {
    /// How many there are.
    pub count: u64,
    /// When the oldest of those counted was asked.
    pub oldest: Option<Millis>,
}

/// A pending interruption: its session, and its number there.
pub type Due = (Arc<str>, InterruptionNo);

/// Which records of the audit log are read, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditRange {
    /// Those with larger numbers, in order.
    After(u64),
    /// Those with smaller numbers, newest first.
    Before(u64),
}

/// How durable an append is when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives power loss: acknowledged inputs, the start of every effect, the last append before a session pauses or
    /// ends, sessions that were copied or restored.
    Synced,
    /// Survives a crash of the process at once, and power loss once a later append is synced, [`Store::sync`] returns, or 10 ms
    /// have passed.
    Buffered,
}

/// The argument of [`Store::append`].
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session_id: Arc<str>,
    /// The session's state before them; an empty one creates the session.
    pub before: Arc<State>,
    /// At least one entry, at the positions after that.
    pub entries: Vec<Arc<Entry>>,
    /// The session after them, from which the summary is taken.
    pub after: Session,
    /// Whether to keep `after` as the snapshot.
    pub snapshot: bool,
    /// How durable it must be.
    pub durability: Durability,
    /// Further conditions.
    pub guards: Guards,
}

impl Append {
    /// The position of the session's last entry; 0 creates the session.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.before.pos
    }
}

/// The conditions of an append besides its session's position, checked in the transaction that stores it. By default
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guards {
    /// The lease under which effects are carried out, if the append records their outcomes or starts one: it is stored
    /// only while this node holds that lease. `None`: an input, which any node may store.
    pub lease: Option<Epoch>,
    /// Standing rules that decide calls in it: each must be in force.
    pub rules: Vec<RuleName>,
    /// It is stored at this time or later, in Unix milliseconds by the store's clock: a time-out.
    pub not_before: Option<Millis>,
    /// It reaches the store before this time: a decision, before its deadline. In a database it may wait for the session's row after
    /// that.
    pub not_after: Option<Millis>,
    /// The number of the history in which the session was read ([`nodes::Nodes::generation`]): in a later one it may have lost
    /// what this follows, and an append at its position is a [`StoreError::Conflict`]. `None`: it was not read.
    pub generation: Option<u64>,
}

impl Guards {
    /// Whether it may be stored at this time.
    ///
    /// # Errors
    /// [`StoreError::Outdated`].
    pub fn check_time(&self, now: Millis) -> Result<(), StoreError> {
        let is_early = self.not_before.is_some_and(|from| now < from);
        let is_late = self.not_after.is_some_and(|until| now >= until);
        if is_early || is_late { Err(StoreError::Outdated) } else { Ok(()) }
    }
}

/// A standing rule: the session in which it was made, and which of its rules it is.
pub type RuleName = (Arc<str>, RuleId);

/// The state of a session at a past position, so that its past is not folded from the first entry. A cache, never the
/// truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waypoint {
    /// The position of the last entry folded into it.
    pub pos: u64,
    /// The version of the folding and of the format: readers ask for their own.
    pub version: u32,
    /// A text in its reader's format.
    pub body: Arc<str>,
}

/// The result of [`Store::head`].
#[derive(Clone, Debug)]
pub struct Head {
    /// The position of the last entry.
    pub pos: u64,
    /// A snapshot, if there is a usable one; apply the entries after `snapshot.pos` to it.
    pub snapshot: Option<Session>,
}

/// The result of [`Store::tail`].
#[derive(Clone, Debug)]
pub struct Tail {
    /// The head.
    pub head: Head,
    /// The entries that follow its snapshot, or some of them, oldest first.
    pub entries: Vec<Arc<Entry>>,
}

/// A session in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The session.
    pub session_id: Arc<str>,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// Its owner.
    pub subject: Option<Arc<str>>,
    /// The tenant it belongs to.
    pub tenant: Option<Arc<str>>,
    /// The title that a person gave it, or the beginning of its first message.
    pub title: Option<Arc<str>>,
    /// Its status.
    pub status: Status,
    /// When it was created.
    pub created_at: Millis,
    /// When the last entry was appended.
    pub updated_at: Millis,
    /// The numbers of its pending interruptions.
    pub pending: Vec<InterruptionNo>,
}

impl Summary {
    /// The summary of a state.
    #[must_use]
    pub fn of(state: &State) -> Summary {
        Summary {
            session_id: state.session_id.clone(),
            agent: state.agent.clone(),
            subject: state.subject.clone(),
            tenant: state.tenant.clone(),
            title: state.title().cloned(),
            status: state.status,
            created_at: state.created_at,
            updated_at: state.updated_at,
            pending: state.open.iter().map(|open| open.asked.n).collect(),
        }
    }
}

/// An interruption in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptionRow {
    /// The session.
    pub session_id: Arc<str>,
    /// Its number in the session.
    pub n: InterruptionNo,
    /// The session's owner.
    pub subject: Option<Arc<str>>,
    /// The tenant the session belongs to.
    pub tenant: Option<Arc<str>>,
    /// Who decides: a role, or `user`, the session's owner.
    pub role: String,
    /// The agent that asks.
    pub agent: Arc<str>,
    /// The tools, sorted, each once.
    pub tools: Vec<Arc<str>>,
    /// When it was asked.
    pub asked_at: Millis,
    /// When it times out.
    pub expires_at: Option<Millis>,
    /// When its next reminder is due.
    pub remind_at: Option<Millis>,
    /// The position of the `Interrupted` entry.
    pub asked_pos: u64,
    /// How it was resolved; `None` while it is pending.
    pub resolution: Option<Resolution>,
    /// When it was resolved.
    pub resolved_at: Option<Millis>,
    /// The position of the entry that resolved it.
    pub resolved_pos: Option<u64>,
}

impl InterruptionRow {
    /// When its next timer is due, if it is still pending then.
    #[must_use]
    pub fn due_at(&self) -> Option<Millis> {
        self.expires_at.into_iter().chain(self.remind_at).min()
    }
}

/// Whose sessions a rule applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleOwner {
    /// The sessions' subject.
    pub subject: Option<Arc<str>>,
    /// The sessions' tenant.
    pub tenant: Option<Arc<str>>,
}

/// A standing rule in lists: it is in force until it is revoked, expires, or its session is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// The session it was made in.
    pub session_id: Arc<str>,
    /// The session's owner.
    pub subject: Option<Arc<str>>,
    /// The session's tenant.
    pub tenant: Option<Arc<str>>,
    /// The rule.
    pub rule: Rule,
    /// When it was made.
    pub made_at: Millis,
    /// When it was revoked, or replaced by another for the same calls.
    pub revoked_at: Option<Millis>,
    /// Who revoked it.
    pub revoked_by: Option<Arc<str>>,
}

impl RuleRow {
    /// Whether it is in force at this time.
    #[must_use]
    pub fn is_in_force(&self, now: Millis) -> bool {
        self.revoked_at.is_none() && self.rule.until.is_none_or(|until| now < until)
    }
}

/// Why a store operation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session is not at the expected position: something else was appended.
    #[error("the session has moved on")]
    Conflict,
    /// The session of this id was deleted.
    #[error("the session {0:?} was deleted, and its id is never used again")]
    Deleted(Arc<str>),
    /// The page cursor is not one of this store's.
    #[error("the cursor is not one that a page returned")]
    BadCursor,
    /// The lease for storing this was released, or another node has taken it.
    #[error("another node carries out this session's effects now")]
    Fenced,
    /// A condition of this append no longer holds: a standing rule has ended meanwhile, or its time has passed or has
    /// not come. It may be judged again.
    #[error("what it was judged by has changed meanwhile")]
    Outdated,
    /// Another process has the store open.
    #[error("{0}")]
    InUse(String),
    /// The store was moved elsewhere, or is the beginning of a copy that is not finished.
    #[error("{0}")]
    NotServed(String),
    /// A newer build has stored records of the session that this one does not know.
    #[error(
        "the session {session_id:?} has records of format {needs}, which a newer version of countersign has stored, and this \
         one knows formats up to {knows}"
    )]
    #[non_exhaustive]
    Newer {
        /// The session.
        session_id: Arc<str>,
        /// The format that its records need.
        needs: u32,
        /// The format that this build knows.
        knows: u32,
    },
    /// Stored data cannot be read.
    #[error("stored data cannot be read: {0}")]
    Corrupt(String),
    /// The keys are not those of the store, or a sealed value is not what was sealed there.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// It could not be written or read (disk full, I/O); nothing changed.
    #[error("the store failed: {0}")]
    Failed(String),
    /// A write or sync has failed, and the contents of the disk are unknown; or the database went back to an earlier
    /// state: nothing is read, written or acknowledged until the store is opened again. Appends in progress may or may
    /// not be stored.
    #[error("the store was closed ({0}); nothing is acknowledged until it is opened again")]
    Closed(String),
    /// Whether it was written is unknown: the store closed, or its connection ended, in between.
    #[error("the store did not answer, so it is not known whether this was written")]
    Unknown,
}
