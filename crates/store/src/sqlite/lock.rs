//! One process owns a SQLite store: an advisory lock of the operating system on a file beside it, which is released
//! when the process ends, however that happens.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{ErrorKind, Read as _, Seek as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use super::super::StoreError;
use crate::{
    files::{LOCK, beside},
    owner_only,
};

/// How long the lock of a killed process may outlive it: a child that it was just spawning holds its files open until
/// exec.
const LINGER: Duration = Duration::from_secs(1);

/// Gives a lock that root has made to the owner of the database, as SQLite does with its own files: a server of that
/// user has to open it afterwards.
fn own_as(made: &File, db: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        if let (Ok(lock_is), Ok(db)) = (made.metadata(), db.metadata())
            && lock_is.uid() != db.uid()
        {
            // Only root may.
            let _ = fchown(made, Some(db.uid()), Some(db.gid()));
        }
    }
    #[cfg(not(unix))]
    let _ = (made, db);
}

/// Refuses a file with several names if it will be written: SQLite and this program find the log and the lock of a
/// database by its name, so that under another name it would lack what is in the log, and could be served twice.
fn one_name(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    if let Ok(file) = path.metadata()
        && file.is_file()
        && let names @ 2.. = std::os::unix::fs::MetadataExt::nlink(&file)
    {
        let path = path.display();
        return Err(StoreError::Failed(format!(
            "{path} has {names} names (hard links), and the log and the lock of a store are found by its name: remove the \
             others, or give the store a file of its own with `cp`, while no server has it"
        )));
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct Ownership(#[expect(dead_code, reason = "holding it open is what it is for")] File);

impl Ownership {
    /// Takes the lock of the store at `db`, which must be a path without symbolic links.
    pub(super) fn take(db: &Path) -> Result<Ownership, StoreError> {
        one_name(db)?;
        let path = beside(db, LOCK);
        let failed = |e: std::io::Error| StoreError::Failed(format!("cannot use {}: {e}", path.display()));
        // The file stays when the lock is released: removing it would let two processes lock two files of one name.
        let mut file = match open(&path, owner_only::options().read(true).write(true).create_new(true))? {
            Ok(made) => {
                own_as(&made, db);
                made
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                let file = open(&path, File::options().read(true).write(true))?.map_err(failed)?;
                // It is written to, which would change the file under its other names too.
                #[cfg(unix)]
                if std::os::unix::fs::MetadataExt::nlink(&file.metadata().map_err(failed)?) > 1 {
                    return Err(no_lock(&path));
                }
                file
            }
            Err(e) => return Err(failed(e)),
        };
        wait_for(&file, db, File::try_lock)?.map_err(failed)?;
        // For the error above; a full disk is no reason not to start.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Ownership(file))
    }

    /// Refuses a store that another process has, and keeps others from taking it while it is read, without creating a
    /// lock file: where there is none, or it cannot be locked, nothing is locked.
    pub(super) fn share(db: &Path) -> Result<Option<Ownership>, StoreError> {
        let Ok(file) = open(&beside(db, LOCK), File::options().read(true))? else { return Ok(None) };
        let shared = wait_for(&file, db, File::try_lock_shared)?;
        Ok(shared.is_ok().then_some(Ownership(file)))
    }
}

/// Opens a lock file. The owner of the folder may have put anything there, and root may be opening it: no link is
/// followed, and nothing but a file is used or waited for.
fn open(path: &Path, options: &mut OpenOptions) -> Result<std::io::Result<File>, StoreError> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    let opened = options.open(path);
    let is = opened.as_ref().map_or_else(|_| path.symlink_metadata(), File::metadata);
    match is {
        Ok(is) if !is.is_file() => Err(no_lock(path)),
        is => Ok(opened.and_then(|file| is.map(|_| file))),
    }
}

fn no_lock(path: &Path) -> StoreError {
    StoreError::Failed(format!(
        "{} is a link, or no file, and the lock of a store has to be a file of its own: remove it while no server has the \
         store, and run this again",
        path.display()
    ))
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
    // Readers share it, and none of them has written its process id.
    if file.try_lock_shared().is_ok() {
        return Err(StoreError::InUse(format!(
            "{} is in use by another countersign process, which reads it: run this again when that has ended",
            db.display()
        )));
    }
    let mut pid = String::new();
    // The sentence is true without the process id too.
    let _ = file.take(20).read_to_string(&mut pid);
    let pid = pid.trim().parse::<u32>().ok();
    if pid == Some(std::process::id()) {
        return Err(StoreError::InUse(format!(
            "{} is open in this process already: open it once, and share that store as an Arc",
            db.display()
        )));
    }
    let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    Err(StoreError::InUse(format!(
        "{} is in use by another countersign process{pid}; a store belongs to one process",
        db.display()
    )))
}
