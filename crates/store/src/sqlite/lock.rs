//! One process owns a SQLite store: an advisory lock of the operating system on a file beside it, which is released
//! when the process ends, however that happens.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use super::super::StoreError;
use crate::owner_only;

/// How long the lock of a killed process may outlive it: a child that it was just spawning holds its files open until
/// exec.
const LINGER: Duration = Duration::from_secs(1);

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct Ownership(#[expect(dead_code, reason = "holding it open is what it is for")] File);

impl Ownership {
    /// Takes the lock of the store at `db`, which must be a path without symbolic links.
    pub(super) fn take(db: &Path) -> Result<Ownership, StoreError> {
        let mut path = db.as_os_str().to_owned();
        path.push(".lock");
        let failed = |e: std::io::Error| StoreError::Failed(format!("cannot use {}: {e}", Path::new(&path).display()));
        // The file stays when the lock is released: removing it would let two processes lock two files of one name.
        let mut options = owner_only::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let since = Instant::now();
        let locked = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if since.elapsed() < LINGER => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                locked => break locked,
            }
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The sentence is true without the number too.
                let _ = file.take(20).read_to_string(&mut pid);
                let pid = pid.trim().parse::<u32>().map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                return Err(StoreError::InUse(format!(
                    "{} is in use by another countersign process{pid}; a store belongs to one process",
                    db.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // For the error above; a full disk is no reason not to start.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Ownership(file))
    }
}
