//! One process owns a SQLite store: an advisory lock of the operating system on a file beside it, which is released
//! when the process ends, however that happens.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{super::StoreError, schema::one_name};
use crate::owner_only;

/// How long the lock of a killed process may outlive it: a child that it was just spawning holds its files open until
/// exec.
const LINGER: Duration = Duration::from_secs(1);

/// Gives the lock of root to whoever has the database, as SQLite does with its own files: a server of that user has to
/// open it afterwards.
fn own_as(lock: &File, db: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        if let (Ok(lock_is), Ok(db)) = (lock.metadata(), db.metadata())
            && lock_is.uid() != db.uid()
        {
            // Only root may.
            let _ = fchown(lock, Some(db.uid()), Some(db.gid()));
        }
    }
    #[cfg(not(unix))]
    let _ = (lock, db);
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct Ownership(#[expect(dead_code, reason = "holding it open is what it is for")] File);

impl Ownership {
    /// Takes the lock of the store at `db`, which must be a path without symbolic links.
    pub(super) fn take(db: &Path) -> Result<Ownership, StoreError> {
        one_name(db)?;
        let path = place(db);
        let failed = |e: std::io::Error| StoreError::Failed(format!("cannot use {}: {e}", path.display()));
        // The file stays when the lock is released: removing it would let two processes lock two files of one name.
        let mut options = owner_only::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        own_as(&file, db);
        wait_for(&file, db, File::try_lock)?.map_err(failed)?;
        // For the error above; a full disk is no reason not to start.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Ownership(file))
    }

    /// Refuses a store that another process has, without making or keeping a lock.
    pub(super) fn check(db: &Path) -> Result<(), StoreError> {
        match File::open(place(db)) {
            // Where it cannot be asked, reading disturbs nobody either.
            Ok(file) => wait_for(&file, db, File::try_lock_shared).map(drop),
            Err(_) => Ok(()),
        }
    }
}

fn place(db: &Path) -> PathBuf {
    let mut path = db.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Locks the file of the store at `db`, or says who has it.
fn wait_for(
    file: &File,
    db: &Path,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<std::io::Result<()>, StoreError> {
    let since = Instant::now();
    loop {
        match lock(file) {
            Ok(()) => return Ok(Ok(())),
            Err(TryLockError::Error(e)) => return Ok(Err(e)),
            Err(TryLockError::WouldBlock) if since.elapsed() < LINGER => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => break,
        }
    }
    let mut pid = String::new();
    // The sentence is true without the number too.
    let _ = file.take(20).read_to_string(&mut pid);
    let pid = pid.trim().parse::<u32>().map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    Err(StoreError::InUse(format!(
        "{} is in use by another countersign process{pid}; a store belongs to one process",
        db.display()
    )))
}
