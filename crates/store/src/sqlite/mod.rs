//! A store in one SQLite file, for one server process.
//!
//! One thread writes and commits in groups ([`write`]); the others read. An append is acknowledged when the
//! operating system says that it is on the disk (`synchronous=FULL`), a buffered one when it is in the log.

mod apply;
mod copy;
mod deliveries;
mod group;
mod list;
mod lock;
mod log;
mod past;
mod read;
mod rekey;
mod rows;
mod rules;
mod running;
mod schema;
mod sealing;
#[cfg(feature = "postgres")]
mod source;
mod statement;
mod unfinished;
mod waypoints;
mod write;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread::JoinHandle,
};

use countersign_core::{
    audit::{self, AuditRecord},
    journal::{
        record::{Entry, Millis},
        request_id::RequestId,
    },
    limits,
    number::InterruptionNo,
};
use futures::future::{self, BoxFuture, FutureExt as _, TryFutureExt as _};
use rusqlite::Connection;

#[cfg(feature = "postgres")]
pub(crate) use self::source::{Moved, Source};
use self::{
    apply::{Delete, Write},
    group::Op,
    lock::Ownership,
    read::Reader,
    schema::Absent,
    sealing::Values,
    waypoints::Kept,
    write::{Broken, Writer},
};
pub use self::{
    past::Past,
    rekey::{Rekeyed, rekey},
    schema::SqliteOptions,
    write::CLOSED,
};
use super::{
    Append, AuditRange, Due, Head, InterruptionFilter, InterruptionRow, Page, Paged, PendingCount, RuleFilter,
    RuleOwner, RuleRow, SessionFilter, Store, StoreError, Summary, Tail, Waypoint,
    deliveries::Deliveries,
    index::Purpose,
    nodes::{Epoch, Position},
    seal::Keys,
};

/// Lists read concurrently, so that one slow list does not hold up the others.
const LISTS: usize = 4;
/// A larger append, such as a restored state, is serialised off the shared threads.
const MANY: usize = 64;

/// Keeps journals in one SQLite file. Dropping it writes what is queued, and closes the file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// `None` only during drop.
    lanes: Option<Lanes>,
    readers: Vec<JoinHandle<()>>,
    thread: Option<JoinHandle<()>>,
    values: Values,
    /// Whether any rule may apply to more than its session: if not, lookups are skipped.
    standing_rules: AtomicBool,
    /// Released last.
    _ownership: Option<Ownership>,
}

#[derive(Debug)]
struct Lanes {
    /// `None` if the store was opened to be read.
    writer: Option<Writer>,
    /// Reads about one session.
    points: Reader,
    /// Lists, which may take longer.
    lists: Reader,
}

impl Lanes {
    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::Failed("the store was opened to be read only".to_owned()))
    }
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and creates it if there is none.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another process has it open; [`StoreError::Corrupt`] if the file is not
    /// one of ours or of another version; [`StoreError::Sealed`] if it is encrypted; [`StoreError::Failed`].
    pub fn open(path: impl AsRef<Path>, options: &SqliteOptions) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(path.as_ref(), options, None, Absent::Make)
    }

    /// Opens an encrypted store, and creates it if there is no file. Content is sealed with the first key and opened
    /// with any ([`super::seal`]): entries, snapshots, titles and the audit log. Ids, positions, times, statuses, names
    /// of agents and tools, roles and subjects are not sealed, since lists filter by them.
    ///
    /// # Errors
    /// As [`SqliteStore::open`]; [`StoreError::Sealed`] if a key of the store is missing or different, or if the
    /// store is plain.
    pub fn open_sealed(
        path: impl AsRef<Path>,
        options: &SqliteOptions,
        keys: &Keys,
    ) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(path.as_ref(), options, Some(keys), Absent::Make)
    }

    /// Opens a store that must exist, plain or encrypted.
    ///
    /// # Errors
    /// As [`SqliteStore::open_sealed`]; a missing file and an empty database are [`StoreError::Failed`].
    pub fn open_existing(
        path: impl AsRef<Path>,
        options: &SqliteOptions,
        keys: Option<&Keys>,
    ) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(path.as_ref(), options, keys, Absent::Refuse)
    }

    fn open_with(
        path: &Path,
        options: &SqliteOptions,
        keys: Option<&Keys>,
        absent: Absent,
    ) -> Result<SqliteStore, StoreError> {
        let path = schema::resolve(path, absent)?;
        SqliteStore::open_at(path.clone(), options, keys, absent).map_err(|e| schema::named(&path, e))
    }

    /// Opens a store that must exist and that no other process has, plain or encrypted, to read it. It changes no file,
    /// and creates none, except SQLite's index (`-shm`) of a log that a killed process has left. Every write is
    /// refused. Until it is dropped, no process opens the store to write to it, if it has the file of a lock: a server
    /// leaves one.
    ///
    /// # Errors
    /// As [`SqliteStore::open_existing`].
    pub fn open_to_read(path: impl AsRef<Path>, keys: Option<&Keys>) -> Result<SqliteStore, StoreError> {
        let path = schema::resolve(path.as_ref(), Absent::Refuse)?;
        let shared = Ownership::share(&path)?;
        schema::warn_of_others(&path);
        SqliteStore::read_at(path.clone(), keys, shared).map_err(|e| schema::named(&path, e))
    }

    fn read_at(path: PathBuf, keys: Option<&Keys>, shared: Option<Ownership>) -> Result<SqliteStore, StoreError> {
        let conn = schema::only_read_served(&path)?;
        let values = sealing::reading(&conn, &path, keys)?;
        let standing_rules = AtomicBool::new(rules::any(&conn)?);
        let lists = (0..LISTS).map(|_| schema::only_read_served(&path)).collect::<Result<_, _>>()?;
        let broken = Broken::default();
        let (points, mut readers) = Reader::start(vec![conn], "reader", &broken)?;
        let (lists, more) = Reader::start(lists, "lists", &broken)?;
        readers.extend(more);
        let lanes = Some(Lanes { writer: None, points, lists });
        Ok(SqliteStore { path, lanes, readers, thread: None, standing_rules, values, _ownership: shared })
    }

    fn open_at(
        path: PathBuf,
        options: &SqliteOptions,
        keys: Option<&Keys>,
        absent: Absent,
    ) -> Result<SqliteStore, StoreError> {
        let ownership = Ownership::take(&path)?;
        let unopened = |e| if let StoreError::Closed(e) = e { StoreError::Failed(e) } else { e };
        let (conn, new) = schema::writer(&path, options, absent).map_err(unopened)?;
        let values = sealing::writing(&conn, &path, keys, new)?;
        if new {
            // So that the file is a complete store from the start, and is never taken for an empty one without its log.
            log::empty(&conn).map_err(|e| schema::error(&e)).map_err(unopened)?;
        }
        let lists = (0..LISTS).map(|_| schema::reader(&path)).collect::<Result<_, _>>()?;
        let points = vec![schema::reader(&path)?];
        let standing_rules = AtomicBool::new(rules::any(&conn)?);
        let broken = Broken::default();
        let (writer, thread) = Writer::start(conn, values.clone(), &broken)?;
        let (points, mut readers) = Reader::start(points, "reader", &broken)?;
        let (lists, more) = Reader::start(lists, "lists", &broken)?;
        readers.extend(more);
        Ok(SqliteStore {
            path,
            lanes: Some(Lanes { writer: Some(writer), points, lists }),
            readers,
            thread: Some(thread),
            standing_rules,
            values,
            _ownership: Some(ownership),
        })
    }

    /// The file, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lanes(&self) -> Result<&Lanes, StoreError> {
        self.lanes.as_ref().ok_or_else(write::stopped)
    }

    async fn write(&self, op: Op) -> Result<bool, StoreError> {
        self.lanes()?.writer()?.write(op).await
    }
}

/// Reads audit records of the store at `path`, which another process may have open. An encrypted one needs its keys.
///
/// # Errors
/// As [`SqliteStore::open_sealed`], except [`StoreError::InUse`]; a missing file is [`StoreError::Failed`].
pub fn read_audit(path: &Path, keys: Option<&Keys>, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
    Past::open(path, keys)?
        .read(|conn, values| rows::audit(conn, values, None, AuditRange::After(after), (limit, limits::PAGE_BYTES)))
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        let Some(Lanes { writer, points, lists }) = self.lanes.take() else { return };
        // A thread ends when its queue does. The readers first: the last connection to close removes the log.
        drop((points, lists));
        let readers = self.readers.drain(..).map(JoinHandle::join).collect::<Vec<_>>();
        drop(writer);
        let writer = self.thread.take().map(JoinHandle::join);
        if readers.iter().chain(&writer).any(Result::is_err) {
            tracing::error!("a thread of the SQLite store {} had panicked", self.path.display());
        }
    }
}

impl Store for SqliteStore {
    fn deliveries(&self) -> &dyn Deliveries {
        self
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        async move {
            let write = if append.entries.len() > MANY {
                let values = self.values.clone();
                self.lanes()?.points.read(move |_| Write::of(&append, &values)).await?
            } else {
                Write::of(&append, &self.values)?
            };
            if write.makes_standing_rule() {
                self.standing_rules.store(true, Ordering::SeqCst);
            }
            self.write(Op::Append(Box::new(write))).await.map(|_| Some(Epoch::SOLE))
        }
        .boxed()
    }

    fn history_id(&self) -> BoxFuture<'_, Result<Option<Arc<str>>, StoreError>> {
        let read = |conn: &mut Connection| statement::find(conn, "SELECT id FROM event_history", [], |row| row.get(0));
        async move { self.lanes()?.points.read(read).await }.boxed()
    }

    fn renew_history_id(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.write(Op::RenewHistory).await.map(|_| ()) }.boxed()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let lanes = self.lanes()?;
            match &lanes.writer {
                Some(writer) => writer.sync().await,
                None => {
                    // The process that was killed may not have synced it.
                    let path = self.path.clone();
                    lanes.points.read(move |_| log::sync(&path)).await
                }
            }
        }
        .boxed()
    }

    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        self.copy(from.into(), append).map_ok(|()| Some(Epoch::SOLE)).boxed()
    }

    fn waypoint(
        &self,
        session_id: &str,
        until: u64,
        version: u32,
    ) -> BoxFuture<'_, Result<Option<Waypoint>, StoreError>> {
        let (id, values) = (session_id.to_owned(), self.values.clone());
        let read = move |conn: &mut Connection| waypoints::last(conn, &values, &id, until, version);
        async move { self.lanes()?.points.read(read).await }.boxed()
    }

    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        let (id, values): (Arc<str>, _) = (session_id.into(), self.values.clone());
        let seal = move |conn: &mut Connection| Kept::of(conn, &values, id, &waypoint);
        async move {
            let lanes = self.lanes()?;
            if lanes.writer.is_none() {
                return Ok(());
            }
            match lanes.points.read(seal).await? {
                Some(kept) => self.write(Op::Keep(kept)).await.map(|_| ()),
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        let id: Arc<str> = session_id.into();
        async move {
            let asked = id.clone();
            let head = self.lanes()?.points.read(move |conn| rows::head(conn, &asked)).await?;
            head.map(|head| head.parse(&id, &self.values)).transpose()
        }
        .boxed()
    }

    fn tail(&self, session_id: &str, limit: usize, bytes: usize) -> BoxFuture<'_, Result<Option<Tail>, StoreError>> {
        let (id, values): (Arc<str>, _) = (session_id.into(), self.values.clone());
        async move {
            let asked = id.clone();
            let read = move |conn: &mut Connection| rows::tail(conn, &asked, (limit, bytes), &values);
            let tail = self.lanes()?.points.read(read).await?;
            tail.map(|tail| rows::parse_tail(&id, tail, &self.values)).transpose()
        }
        .boxed()
    }

    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let id: Arc<str> = session_id.into();
        async move {
            let asked = id.clone();
            let values = self.values.clone();
            let read = move |conn: &mut Connection| rows::entries(conn, &asked, after, (limit, bytes), &values);
            let bodies = self.lanes()?.points.read(read).await?;
            rows::parse(&id, bodies, &self.values)
        }
        .boxed()
    }

    fn request(&self, session_id: &str, request_id: &RequestId) -> BoxFuture<'_, Result<Option<Purpose>, StoreError>> {
        let (session_id, request_id) = (session_id.to_owned(), request_id.clone());
        async move { self.lanes()?.points.read(move |conn| rows::request(conn, &session_id, &request_id)).await }
            .boxed()
    }

    fn interruption(
        &self,
        session_id: &str,
        n: InterruptionNo,
    ) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        let session_id = session_id.to_owned();
        async move { self.lanes()?.points.read(move |conn| list::interruption(conn, &session_id, n)).await }.boxed()
    }

    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        async move { self.lanes()?.lists.read(move |conn| list::interruptions(conn, &filter, &page)).await }.boxed()
    }

    fn pending(&self) -> BoxFuture<'_, Result<Option<PendingCount>, StoreError>> {
        async move { self.lanes()?.lists.read(|conn| list::pending(conn)).await.map(Some) }.boxed()
    }

    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        let values = self.values.clone();
        async move { self.lanes()?.lists.read(move |conn| list::sessions(conn, &filter, &page, &values)).await }.boxed()
    }

    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        async move { self.lanes()?.points.read(move |conn| rows::due(conn, now, limit)).await }.boxed()
    }

    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        async move { self.lanes()?.lists.read(move |conn| running::list(conn)).await }.boxed()
    }

    fn audit_within(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        let (of, values) = (of.map(|tenant| tenant.map(str::to_owned)), self.values.clone());
        let read = move |conn: &mut Connection| {
            rows::audit(conn, &values, of.as_ref().map(Option::as_deref), range, (limit, bytes))
        };
        async move { self.lanes()?.lists.read(read).await }.boxed()
    }

    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        if !self.standing_rules.load(Ordering::SeqCst) {
            return future::ready(Ok(Vec::new())).boxed();
        }
        let (agent, tool, values) = (agent.to_owned(), tool.to_owned(), self.values.clone());
        let read = move |conn: &mut Connection| rules::standing(conn, &values, &of, &agent, &tool);
        async move { self.lanes()?.points.read(read).await }.boxed()
    }

    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        let values = self.values.clone();
        async move { self.lanes()?.lists.read(move |conn| rules::list(conn, &values, &filter, &page)).await }.boxed()
    }

    fn delete(
        &self,
        session_id: &str,
        at: Option<u64>,
        told: Option<&audit::Event>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let delete = Op::Delete(Box::new(Delete::of(session_id, at, told)), AtomicI64::default());
        async move { self.write(delete).await }.boxed()
    }

    fn rested(&self, before: Millis, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        async move { self.lanes()?.lists.read(move |conn| list::rested(conn, before, now, limit)).await }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.write(Op::Check).await.map(|_| ()) }.boxed()
    }
}
