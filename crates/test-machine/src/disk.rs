//! A disk under a SQLite store, `test.db`, that keeps only synced data.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::{Variable, library, names, replace};

/// The files of the store that survive a power cut, and the one that does not.
const FILES: [&str; 2] = ["test.db", "test.db-wal"];
const SHARED: &str = "test.db-shm";
/// The unit in which the operating system writes to the disk.
const PAGE: usize = 4096;

/// A fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next sync of the log fails, and its data is lost, though it can be read until the power is cut.
    SyncLog,
    /// The same for the database.
    SyncBase,
    /// There is no room for new data.
    Full,
}

/// A disk that forgets.
#[derive(Debug)]
pub struct Disk {
    library: PathBuf,
    /// Its synced content.
    kept: PathBuf,
    fault: PathBuf,
}

impl Disk {
    /// Keeps it in a folder.
    ///
    /// # Errors
    /// There is no C compiler, or it fails; or the folder cannot be written.
    pub fn new(folder: &Path) -> Result<Disk, String> {
        let library = library(folder, "disk", include_str!("disk.c"))?;
        let kept = folder.join("disk");
        fs::create_dir_all(&kept).map_err(|error| format!("{} cannot be made: {error}", kept.display()))?;
        Ok(Disk { library, kept, fault: folder.join("fault") })
    }

    /// The environment that puts a server's store on this disk.
    #[must_use]
    pub fn environment(&self) -> [Variable; 3] {
        [names("LD_PRELOAD", &self.library), names("DISK", &self.kept), names("FAULT", &self.fault)]
    }

    /// From now on it has this fault.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn fails(&self, fault: Fault) -> Result<(), String> {
        let says = match fault {
            Fault::SyncLog => "sync log",
            Fault::SyncBase => "sync base",
            Fault::Full => "full",
        };
        replace(&self.fault, says)
    }

    /// Whether it still has a fault: a sync that has yet to fail, or no room.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.fault.exists()
    }

    /// Repairs it. Returns whether it still had a fault.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn mend(&self) -> Result<bool, String> {
        match fs::remove_file(&self.fault) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("{} cannot be removed: {error}", self.fault.display())),
        }
    }

    /// Reduces the store in this folder to what remains after a power cut, once its server was killed: the synced data,
    /// and those unsynced pages that have reached the disk by chance, by `reaches`. Returns how many are lost.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn cut_power(&self, store: &Path, mut reaches: impl FnMut() -> bool) -> Result<usize, String> {
        let mut lost = 0;
        for name in FILES {
            let (seen, kept) = (store.join(name), self.kept.join(name));
            let cut = || -> io::Result<usize> {
                let (before, disk) = (read(&seen)?, read(&kept)?);
                let (left, lost) = left(&before, &disk, &mut reaches);
                if left.is_empty() && !kept.exists() {
                    // It was never synced, so it is not on the disk.
                    if seen.exists() {
                        fs::remove_file(&seen)?;
                    }
                } else {
                    fs::write(&kept, &left)?;
                    fs::write(&seen, &left)?;
                }
                Ok(lost)
            };
            lost += { cut }().map_err(|error| format!("{name} cannot be cut: {error}"))?;
        }
        let _ = fs::remove_file(store.join(SHARED));
        Ok(lost)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// The content of a file after a power cut, and how many pages of it are lost.
fn left(seen: &[u8], disk: &[u8], mut reaches: impl FnMut() -> bool) -> (Vec<u8>, usize) {
    let (mut left, mut lost) = (Vec::new(), 0);
    for at in (0..seen.len().max(disk.len())).step_by(PAGE) {
        let (seen, mut kept) = (page(seen, at), page(disk, at));
        if seen != kept {
            if reaches() {
                kept = seen;
            } else {
                lost += 1;
            }
        }
        if !kept.is_empty() {
            // If the page before it is lost, the file has a hole.
            left.resize(at, 0);
            left.extend_from_slice(kept);
        }
    }
    (left, lost)
}

/// The page at this place, perhaps a part of one.
fn page(file: &[u8], at: usize) -> &[u8] {
    let from = file.get(at..).unwrap_or_default();
    from.get(..PAGE).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_leaves_what_was_synced_and_those_pages_that_reached_the_disk_by_chance() {
        let old = vec![1; 2 * PAGE];
        let seen = [vec![1; PAGE], vec![2; PAGE], vec![3; PAGE], vec![4; 100]].concat();
        assert_eq!(left(&seen, &old, || false), (old.clone(), 3));
        assert_eq!(left(&seen, &old, || true), (seen.clone(), 0));
        let mut pages = [false, false, true].into_iter();
        let cut = left(&seen, &old, || pages.next().expect("three pages differ"));
        assert_eq!(cut, ([old, vec![0; PAGE], vec![4; 100]].concat(), 2));
        // An unsynced truncation is undone.
        assert_eq!(left(&seen[..10], &seen, || false), (seen, 4));
    }

    #[test]
    fn a_store_that_was_never_synced_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::new(folder.path()).expect("a disk");
        fs::write(folder.path().join("test.db"), "never synced").expect("written");
        assert_eq!(disk.cut_power(folder.path(), || false), Ok(1));
        assert!(!folder.path().join("test.db").exists());
        assert_eq!(disk.mend(), Ok(false));
        disk.fails(Fault::Full).expect("a fault");
        assert!(disk.is_faulty());
        assert_eq!((disk.mend(), disk.is_faulty()), (Ok(true), false));
    }
}
