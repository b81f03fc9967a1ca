//! Opening a database: whether it is ours, its version, and the settings of each connection.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{super::StoreError, log};
#[cfg(unix)]
use crate::files::{LOG, SHARED, beside};
use crate::owner_only;

/// 'CSGN', at a fixed offset in every database of ours.
const APPLICATION_ID: i32 = 0x4353_474E;
/// The version of the schema and of its contents, in `user_version`: the only one supported. `tests/formats` pins it.
const VERSION: i32 = 1;
/// 'MOVE' is in place of [`VERSION`] in a store that was moved elsewhere, whose table `moved` says where. So no version
/// of this program serves it.
pub(super) const MOVED: i32 = 0x4D4F_5645;
/// Prepared statements kept by each connection; more than there are.
const STATEMENTS: usize = 128;

/// How a [`SqliteStore`](super::SqliteStore) is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SqliteOptions {
    /// The largest number of pages of 2 KiB the database may have; `None` is as many as the disk holds.
    pub max_pages: Option<u32>,
}

/// Whether a store is created where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Make,
    Refuse,
}

/// The path without symbolic links, so that one file has one lock, and one log. Creates the file first if there is
/// none: a symbolic link that leads nowhere yet has another name than the file that will be opened through it.
pub(super) fn resolve(path: &Path, absent: Absent) -> Result<PathBuf, StoreError> {
    let failed = |e: std::io::Error| StoreError::Failed(format!("cannot open {}: {e}", path.display()));
    let found = match path.canonicalize() {
        Err(e) if e.kind() == ErrorKind::NotFound && absent == Absent::Refuse => return Err(no_store(path)),
        // Only then: closing a file that this process has open as a store would release SQLite's locks on it.
        Err(e) if e.kind() == ErrorKind::NotFound => {
            owner_only::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
            path.canonicalize()
        }
        found => found,
    };
    found.map_err(failed)
}

fn no_store(path: &Path) -> StoreError {
    StoreError::Failed(format!("there is no store at {}", path.display()))
}

/// The connection that writes, and whether the database is new; creates it then, unless it must exist already.
pub(super) fn writer(path: &Path, options: &SqliteOptions, absent: Absent) -> Result<(Connection, bool), StoreError> {
    if path.to_str().is_none() {
        // SQLite's connections tell the path as a text, by which the log is found.
        let path = path.display();
        return Err(StoreError::Failed(format!("{path} has a name that is not UTF-8: put the store elsewhere")));
    }
    warn_of_others(path);
    check_writable(path)?;
    let new = {
        let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        log::leave(&conn);
        !recognise(&conn, path)?
    };
    if new && absent == Absent::Refuse {
        return Err(nothing_in(path));
    }
    // No other process has it open, and it is ours.
    log::rewrite(path)?;
    let mut conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let failed = |e: rusqlite::Error| error(&e);
    conn.set_transaction_behavior(TransactionBehavior::Immediate);
    // An existing database keeps its own.
    conn.pragma_update(None, "page_size", log::PAGE).map_err(failed)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(failed)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Failed(format!(
            "{}: the file system does not support SQLite's WAL mode",
            path.display()
        )));
    }
    settings(&conn, 4096)?;
    conn.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    log::watch(&conn)?;
    if new {
        create(&mut conn).map_err(failed)?;
    }
    conn.execute_batch(include_str!("deliveries.sql")).map_err(failed)?;
    conn.execute_batch(include_str!("history.sql")).map_err(failed)?;
    if let Some(pages) = options.max_pages {
        conn.pragma_update(None, "max_page_count", pages).map_err(failed)?;
    }
    // The name of a new file must survive power loss like its content.
    if let Some(parent) = path.parent() {
        let synced = std::fs::File::open(parent).and_then(|dir| dir.sync_all());
        synced.map_err(|e| StoreError::Failed(format!("cannot sync {}: {e}", parent.display())))?;
    }
    Ok((conn, new))
}

/// The connection that writes to a new store at `path`.
#[cfg(test)]
pub(super) fn made(path: &Path) -> Connection {
    let path = resolve(path, Absent::Make).expect("a file");
    writer(&path, &SqliteOptions::default(), Absent::Make).expect("a store").0
}

/// Creates the tables atomically: a database with our application id has them all.
fn create(conn: &mut Connection) -> rusqlite::Result<()> {
    let tx = conn.transaction()?;
    tx.execute_batch(include_str!("schema.sql"))?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()
}

/// A new file is for its owner only, and SQLite gives its log the same permissions. An existing file keeps the permissions
/// its operator gave it.
pub(super) fn warn_of_others(path: &Path) {
    if let Some(mode) = owner_only::shared(path) {
        tracing::warn!("{} may be used by other users of this machine (mode {mode})", path.display());
    }
}

/// Refuses files that this process may not write to, before SQLite opens them read-only, and gives new ones beside
/// them the same permissions. None is opened: closing one would release the locks that this process has on it.
fn check_writable(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    for file in [path.to_owned(), beside(path, LOG), beside(path, SHARED)] {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        use std::os::unix::fs::MetadataExt as _;
        let Ok(is) = file.metadata() else { continue };
        let (both, effective) = (Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS);
        if let Err(why) = accessat(CWD, &file, both, effective) {
            return Err(StoreError::Failed(format!(
                "{} cannot be read and written ({why}): its mode is {:o}, and its owner has the number {}; the user that this \
                 runs as has to own it with mode 600 (`chown`, `chmod 600`), on a disk that is not read-only",
                file.display(),
                is.mode() & 0o7777,
                is.uid()
            )));
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

fn nothing_in(path: &Path) -> StoreError {
    StoreError::Failed(format!("there is no store in {}: it is an empty database", path.display()))
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    settings(&conn, 2048)?;
    Ok(conn)
}

/// Whether it was moved elsewhere.
pub(super) fn is_moved(conn: &Connection) -> Result<bool, StoreError> {
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    // `recognise` reports a file that is not a database.
    Ok(number("application_id").is_ok_and(|id| id == APPLICATION_ID)
        && number("user_version").map_err(|e| error(&e))? == MOVED)
}

/// Why a store that was moved is not served.
fn moved_to(conn: &Connection, path: &impl std::fmt::Display) -> Result<String, StoreError> {
    let place: String = conn.query_row("SELECT place FROM moved", [], |row| row.get(0)).map_err(|e| error(&e))?;
    Ok(format!(
        "{path} was moved to {place} by `countersign store copy`, and serving both would begin calls twice; store.url has to \
         name that database"
    ))
}

/// Refuses an empty file with a log that is not empty: SQLite would delete that.
fn whole_log(path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|file| file.len() == 0) && !log::is_empty(path) {
        let path = path.display();
        return Err(StoreError::Corrupt(format!(
            "{path} is empty, but {path}-wal beside it is not: put the file back that it belongs to, or move it away"
        )));
    }
    Ok(())
}

/// A connection that only reads, to a store that another process may own, or that was moved; `path` is one without
/// symbolic links. With a stamp it reads the file as one that nobody changes, and SQLite would not notice a change.
pub(super) fn only_read(path: &Path) -> Result<(Connection, Option<Stamp>), StoreError> {
    let (conn, unchanging) = looks(path)?;
    let conn = if is_moved(&conn)? { conn } else { is_store(conn, path)? };
    Ok((conn, unchanging))
}

/// Identifies a version of a file: its length, and the time of its last change.
pub(super) type Stamp = (u64, Option<SystemTime>);

/// The stamp of a file that no process has open; `None` if one has.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    if log::is_there(path) {
        return None;
    }
    path.metadata().ok().map(|file| (file.len(), file.modified().ok()))
}

/// The same, but not to a store that was moved.
pub(super) fn only_read_served(path: &Path) -> Result<Connection, StoreError> {
    is_store(looks(path)?.0, path)
}

fn is_store(conn: Connection, path: &Path) -> Result<Connection, StoreError> {
    if recognise(&conn, path)? { Ok(conn) } else { Err(nothing_in(path)) }
}

/// Reads a file as it is where it has no log: then no process has it open, and SQLite would create a log, for which it
/// needs the right to write. A process that opens it meanwhile writes to its log first, and only much later to the
/// file.
fn looks(path: &Path) -> Result<(Connection, Option<Stamp>), StoreError> {
    if let Some(stamp) = stamp(path)
        && let Some(uri) = unchanging(path)
    {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let conn = connect_to(&uri, path, flags)?;
        settings(&conn, 2048)?;
        return Ok((conn, Some(stamp)));
    }
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let first = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    if let Err(e) = first
        && matches!(e.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
    {
        let path = path.display();
        return Err(StoreError::Failed(format!(
            "{path} has a log, {path}-wal, and to read that SQLite has to write beside it ({e}): run this as the user of the \
             server, or copy both files, and read the copy"
        )));
    }
    settings(&conn, 2048)?;
    Ok((conn, None))
}

/// The URI of a file that nobody changes, where every path has one.
fn unchanging(path: &Path) -> Option<PathBuf> {
    if cfg!(not(unix)) {
        return None;
    }
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    Some((uri + "?immutable=1").into())
}

/// An error with the file that it is about.
pub(super) fn named(path: &Path, error: StoreError) -> StoreError {
    let path = path.display().to_string();
    let named = |what: String| if what.contains(&path) { what } else { format!("{path}: {what}") };
    match error {
        StoreError::Corrupt(what) => StoreError::Corrupt(named(what)),
        StoreError::Failed(what) => StoreError::Failed(named(what)),
        error => error,
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    // No URIs: a path is a path.
    connect_to(path, path, flags)
}

/// Opens a name of the file at `path`.
fn connect_to(name: &Path, path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    whole_log(path)?;
    // No mutex: each connection stays on its thread.
    Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(|e| {
        // SQLite does not say why.
        let why = std::fs::File::open(path).err().map_or_else(|| e.to_string(), |why| why.to_string());
        StoreError::Failed(format!("cannot open {}: {why}", path.display()))
    })
}

/// Bounded memory, and no busy timeout: there are no other writers.
fn settings(conn: &Connection, cache_kib: i64) -> Result<(), StoreError> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    for (name, value) in [("cache_size", -cache_kib), ("mmap_size", 0), ("temp_store", 2), ("trusted_schema", 0)] {
        conn.pragma_update(None, name, value).map_err(|e| error(&e))?;
    }
    Ok(())
}

/// Refuses a file that is not ours before anything is written to it, or that has more than an empty database has. `false`
/// if it is still empty.
fn recognise(conn: &Connection, file: &Path) -> Result<bool, StoreError> {
    let path = file.display();
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let unread = |e: rusqlite::Error| match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Corrupt(format!("{path} is not a SQLite database")),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(format!("{path} is damaged, or was cut: {e}")),
        _ => error(&e),
    };
    let id = number("application_id").map_err(unread)?;
    if id == APPLICATION_ID {
        let version = number("user_version").map_err(|e| error(&e))?;
        if version == MOVED {
            return Err(StoreError::NotServed(moved_to(conn, &path)?));
        }
        if version != VERSION {
            return Err(StoreError::Corrupt(format!(
                "{path} was written by another version of countersign (its schema is {version}, and this one knows \
                 only {VERSION})"
            )));
        }
        is_whole(conn, file)?;
        return Ok(true);
    }
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(unread)?;
    if id != 0 || tables != 0 {
        return Err(StoreError::Corrupt(format!("{path} is a SQLite database of another program")));
    }
    let pages: i64 = number("page_count").map_err(unread)?.into();
    let page: i64 = number("page_size").map_err(unread)?.into();
    let has = file.metadata().map_or(0, |file| file.len());
    if pages > 1 || has > u64::try_from(page).unwrap_or_default() {
        return Err(StoreError::Corrupt(format!(
            "{path} has {has} bytes, but not the tables of a store: a part of it is missing, such as a {path}-wal that was \
             beside it. Put that back, or restore a backup; for a new store, name another file"
        )));
    }
    Ok(false)
}

/// Refuses a file that ends in the middle of its last page: SQLite would read the rest of that as zeros, so that stored
/// data would silently be missing. Where there is a log, a checkpoint may have been cut off, and the log has all of
/// that page.
fn is_whole(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let number =
        |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(|e| error(&e));
    let wanted = u64::try_from(number("page_count")? * number("page_size")?).unwrap_or_default();
    let has = path.metadata().map_or(wanted, |file| file.len());
    if has < wanted && log::is_empty(path) {
        let path = path.display();
        return Err(StoreError::Corrupt(format!("{path} was cut: it has {has} bytes of {wanted}")));
    }
    Ok(())
}

/// Maps an error of SQLite to one of the store.
pub(super) fn error(e: &rusqlite::Error) -> StoreError {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(e.to_string()),
        // Only the writer closes the store for it: see `write`.
        Some(ErrorCode::SystemIoFailure) => StoreError::Closed(e.to_string()),
        None if matches!(e, rusqlite::Error::InvalidColumnType(..)) => StoreError::Corrupt(e.to_string()),
        _ => StoreError::Failed(e.to_string()),
    }
}

/// The key of a session's row: its number, and the row's own.
pub(super) fn key(session: i64, n: u64) -> Result<i64, StoreError> {
    match u32::try_from(n) {
        Ok(n) if (0..1 << 31).contains(&session) => Ok(session << 32 | i64::from(n)),
        _ => Err(StoreError::Failed("the store has no room for more records of this session".to_owned())),
    }
}
