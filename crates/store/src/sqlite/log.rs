//! The write-ahead log: when it is checkpointed, and how errors of that are noticed.
//!
//! SQLite would checkpoint within commits and swallow errors there. A sync that fails in it may have lost pages of the
//! log that later commits depend on, so the writer does it itself, between two commits.

use std::{
    cell::Cell,
    fs::File,
    io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use rusqlite::{Connection, Row, config::DbConfig};

use super::{super::StoreError, schema::error};
use crate::files::{LOG, beside};

/// The page size of a new database. A commit writes each changed page twice in full: to the log and back. Most changes
/// are small, so pages half SQLite's default size halve the bytes written.
pub(super) const PAGE: i64 = 2048;
/// The log's length in pages at which it is checkpointed: at least, at most. A checkpoint takes two syncs, for which
/// the next commit waits: at 400 kB that was every sixth sync of one busy session. The shortest log is 4 MB, which are
/// freed when the store is closed, and read in a few milliseconds when it is opened after a crash.
const LOG_PAGES: (i64, i64) = (2000, 4000);
/// Bytes rewritten at a time.
const CHUNK: usize = 1024 * 1024;

thread_local! {
    /// Whether a commit of this thread has written to the log since the last query.
    static WROTE: Cell<bool> = const { Cell::new(false) };
    /// The log's length in pages after this thread's last commit.
    static LENGTH: Cell<i64> = const { Cell::new(0) };
}

/// Makes this connection report the log's length and never checkpoint automatically.
pub(super) fn watch(conn: &Connection) -> Result<(), StoreError> {
    // It would replace the hook.
    conn.pragma_update(None, "wal_autocheckpoint", 0).map_err(|e| error(&e))?;
    conn.wal_hook(Some(|_, pages| {
        LENGTH.set(pages.into());
        WROTE.set(true);
        Ok(())
    }));
    Ok(())
}

/// Whether a commit of this thread has written to the log since the last query: a commit that changes nothing does not,
/// and syncs nothing.
pub(super) fn has_written() -> bool {
    WROTE.replace(false)
}

/// How long the log may get: a quarter of the database, so that a large one does not sync twice as often.
pub(super) fn bound(conn: &Connection) -> Result<i64, StoreError> {
    let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0)).map_err(|e| error(&e))?;
    let most = (pages / 4).clamp(LOG_PAGES.0, LOG_PAGES.1);
    conn.pragma_update(None, "journal_size_limit", most * PAGE).map_err(|e| error(&e))?;
    Ok(most)
}

/// Whether this thread's last commit has left the log with at least `most` pages.
pub(super) fn is_long(most: i64) -> bool {
    LENGTH.get() >= most
}

/// Checkpoints if the log has at least `most` pages, as far as readers allow.
pub(super) fn write_back(conn: &Connection, most: i64) -> Result<(), StoreError> {
    if !is_long(most) {
        return Ok(());
    }
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(|e| error(&e))
}

/// Writes all of the log back and empties it. `false` if a part of it is still only there, since somebody reads an
/// older state.
pub(super) fn empty(conn: &Connection) -> rusqlite::Result<bool> {
    let counts = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    // It reports a failure in a row, not as an error.
    let (pages, written) = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], counts)?;
    Ok(written >= pages)
}

/// Syncs the log of the database at `db`, whichever process has written it.
pub(super) fn sync(db: &Path) -> Result<(), StoreError> {
    // A process that only reads may not be allowed to write.
    let synced = File::open(beside(db, LOG)).and_then(|log| log.sync_data());
    match synced {
        // The database has all of it.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        synced => {
            synced.map_err(|e| StoreError::Failed(format!("the log of {} could not be synced: {e}", db.display())))
        }
    }
}

/// The log of a database, which exists as long as the database is open.
pub(super) fn open(db: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).open(beside(db, LOG))
}

/// Whether a database has a log, as every open one does.
pub(super) fn is_there(db: &Path) -> bool {
    beside(db, LOG).exists()
}

/// Whether a database has no log with anything that it lacks.
pub(super) fn is_empty(db: &Path) -> bool {
    beside(db, LOG).metadata().map_or(true, |log| log.len() == 0)
}

/// Leaves the log alone when the connection closes: after a failed sync its pages in memory may differ from those on
/// the disk, and must not reach the database unchecked.
pub(super) fn leave(conn: &Connection) {
    if let Err(e) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::error!("the log of the SQLite store may be written back unchecked: {e}");
    }
}

/// Rewrites a leftover log as it is read now. After a failed sync Linux marks its pages clean, so the data read may not
/// be on the disk, and no later sync would write it.
pub(super) fn rewrite(db: &Path) -> Result<(), StoreError> {
    let path = &*beside(db, LOG);
    let failed = |e: std::io::Error| StoreError::Failed(format!("cannot write {} anew: {e}", path.display()));
    let mut log = match File::options().read(true).write(true).open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    loop {
        log.seek(SeekFrom::Start(at)).map_err(failed)?;
        let read = match log.read(&mut chunk) {
            Ok(0) => return log.sync_all().map_err(failed),
            Ok(read) => read,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(e)),
        };
        log.seek(SeekFrom::Start(at)).map_err(failed)?;
        log.write_all(&chunk[..read]).map_err(failed)?;
        at += read as u64;
    }
}
