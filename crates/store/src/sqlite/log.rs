//! The write-ahead log: when it is written back, and that no error of that is missed.
//!
//! SQLite would write it back within commits and swallow what goes wrong there. A sync that fails in it may have lost
//! pages of the log that later commits stand on, so the writer does it itself, between two commits.

use std::{
    cell::Cell,
    fs::File,
    io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, config::DbConfig};

use super::{super::StoreError, schema::error};

/// The bytes of a page of a new database. A commit writes each page that it changes whole, twice: to the log and back. Most changes
/// are small, so pages half as large as SQLite's own are written in half the bytes.
pub(super) const PAGE: i64 = 2048;
/// The log's length in pages at which it is written back: at least, at most. To write it back takes two syncs, for which the next
/// commit waits: at 400 kB that was every sixth sync of one session at work. A log of the least length is 4 MB, which go away when
/// the store is closed, and are read in a few milliseconds when one that crashed is opened.
const LOG_PAGES: (i64, i64) = (2000, 4000);
/// Bytes that are written anew at once.
const CHUNK: usize = 1024 * 1024;

thread_local! {
    /// Whether a commit of this thread has written to the log since it was asked.
    static WROTE: Cell<bool> = const { Cell::new(false) };
    /// The log's length in pages after this thread's last commit.
    static LENGTH: Cell<i64> = const { Cell::new(0) };
}

/// Has this connection's commits say how long the log is, and write nothing back by themselves.
pub(super) fn watch(conn: &Connection) -> Result<(), StoreError> {
    // It would take the hook's place.
    conn.pragma_update(None, "wal_autocheckpoint", 0).map_err(|e| error(&e))?;
    conn.wal_hook(Some(|_, pages| {
        LENGTH.set(pages.into());
        WROTE.set(true);
        Ok(())
    }));
    Ok(())
}

/// Whether a commit of this thread has written to the log since this was asked last: one that changes nothing does not, and waits
/// for nothing.
pub(super) fn has_written() -> bool {
    WROTE.replace(false)
}

/// How long the log may get: a quarter of the database, so that a large one does not wait for the disk twice as often.
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

/// Writes the log back if it has at least `most` pages, as far as readers allow.
pub(super) fn write_back(conn: &Connection, most: i64) -> Result<(), StoreError> {
    if !is_long(most) {
        return Ok(());
    }
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(|e| error(&e))
}

/// Has the log of the database at `db` on the disk, whoever has written it.
pub(super) fn sync(db: &Path) -> Result<(), StoreError> {
    // Whoever only reads may not be allowed to write.
    let synced = File::open(place(db)).and_then(|log| log.sync_data());
    match synced {
        // All of it is in the database.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        synced => {
            synced.map_err(|e| StoreError::Failed(format!("the log of {} could not be synced: {e}", db.display())))
        }
    }
}

/// The log of a database, which is there as long as the database is open.
pub(super) fn open(db: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).open(place(db))
}

fn place(db: &Path) -> PathBuf {
    let mut path = db.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Leaves the log as it is when the connection closes: after a failed sync its pages in memory may be others than on
/// the disk, and must not reach the database unchecked.
pub(super) fn leave(conn: &Connection) {
    if let Err(e) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::error!("the log of the SQLite store may be written back unchecked: {e}");
    }
}

/// Writes a log that was left behind once more, as it is read now. After a sync that failed Linux takes its pages for
/// written, so what is read may not be on the disk, and no later sync would bring it there.
pub(super) fn rewrite(db: &Path) -> Result<(), StoreError> {
    let path = &*place(db);
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
