//! The files of a store in SQLite.

use std::path::{Path, PathBuf};

/// The end of the name of SQLite's log.
pub(crate) const LOG: &str = "-wal";
/// The end of the name of SQLite's index of its log.
pub(crate) const SHARED: &str = "-shm";
/// The end of the name of the lock.
pub(crate) const LOCK: &str = ".lock";

/// All files of the store at `db`, the database first, whether they are there or not. Nothing else may change them.
#[must_use]
pub fn of_sqlite(db: &Path) -> [PathBuf; 5] {
    ["", LOG, SHARED, "-journal", LOCK].map(|end| beside(db, end))
}

/// The file beside a database whose name ends like this.
pub(crate) fn beside(db: &Path, end: &str) -> PathBuf {
    let mut path = db.as_os_str().to_owned();
    path.push(end);
    path.into()
}
