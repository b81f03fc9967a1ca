//! A state in a file, which one process claims (spec S17).

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use countersign_store::owner_only;

use super::{RunState, RunStateError, WhenTaken};

impl RunState {
    /// Writes the state to a file, whole or not at all, and durably. An existing file is replaced. Only the file's
    /// owner can read it, where the system has permissions: it contains everything in the session.
    ///
    /// # Errors
    /// [`RunStateError::File`]
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), RunStateError> {
        let path = path.as_ref();
        self.put(path).map_err(|error| failed(path, &error))
    }

    fn put(&self, path: &Path) -> io::Result<()> {
        let new = beside(path, &format!("{}.new", uuid::Uuid::now_v7()));
        let mut file = owner_only::options().write(true).create_new(true).open(&new)?;
        let stored = file
            .write_all(self.to_json().as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, path));
        if stored.is_err() {
            // The first error matters more than this one.
            let _ = fs::remove_file(&new);
        }
        // The new name is durable once its folder is synced.
        stored.and_then(|()| sync(folder(path)))
    }

    /// Takes the state out of a file: however many processes try, one gets it, and the others get an error. The file is
    /// then named `PATH.claimed`: if the process that took it dies, nothing is lost, and renaming the file back makes
    /// it available again. Then it is unknown which calls that process had begun: a person is asked about each call of
    /// the state that would begin, unless it is idempotent, as about one whose outcome is unknown ([`Kind::InDoubt`],
    /// spec R4). Calls that an agent made after the file was taken, and steps of graphs, are not on record and run
    /// again. A store ([`RunConfig::store`](crate::runner::config::RunConfig::store)) has all of them on record:
    /// continue from there instead ([`RunState::load`]).
    ///
    /// [`Kind::InDoubt`]: countersign_core::journal::record::Kind::InDoubt
    ///
    /// # Errors
    /// [`RunStateError::Claimed`], [`RunStateError::File`], and those of [`RunState::from_json`], in which case the
    /// file keeps its name, unless there is another file of that name by then.
    pub fn take(path: impl AsRef<Path>) -> Result<RunState, RunStateError> {
        let path = path.as_ref();
        let claimed = beside(path, "claimed");
        // A unique name first: two processes that claim a file of one name in turn must not take each other's.
        let own = beside(path, &format!("{}.claimed", uuid::Uuid::now_v7()));
        match fs::rename(path, &own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let claimed = claimed_as(path, claimed).map(|claimed| claimed.display().to_string());
                let path = path.display().to_string();
                return Err(match claimed {
                    Some(claimed) => RunStateError::Claimed { path, claimed },
                    None => RunStateError::File { path, error: error.to_string() },
                });
            }
            Err(error) => return Err(failed(path, &error)),
            Ok(()) => {}
        }
        let read = fs::read_to_string(&own).map_err(|error| failed(path, &error));
        let taken = read.and_then(|text| RunState::from_json(&text)).and_then(|state| {
            // Durable before anything of it can begin here.
            let known = RunState { taken: Some(WhenTaken::of(state.state())), ..state.clone() };
            known.put(&claimed).map_err(|error| failed(path, &error)).map(|()| state)
        });
        match taken {
            Ok(state) => {
                // The state is in the other file.
                let _ = fs::remove_file(&own);
                Ok(state)
            }
            Err(error) => {
                give_back(&own, path, |own, path| fs::hard_link(own, path));
                Err(error)
            }
        }
    }
}

/// Gives a file that could not be taken its name back. A file that another process has written there since stays.
fn give_back(own: &Path, path: &Path, link: impl FnOnce(&Path, &Path) -> io::Result<()>) {
    // The error for which it could not be taken matters more than those here.
    let _ = match link(own, path) {
        Ok(()) => fs::remove_file(own),
        // Not every file system has links. The file must not stay claimed because of that.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => fs::rename(own, path),
        Err(error) => Err(error),
    };
}

/// The file that another process has claimed it as, or is about to.
fn claimed_as(path: &Path, claimed: PathBuf) -> Option<PathBuf> {
    let begin = beside(path, "");
    let is_claim = |name: &OsStr| {
        let id =
            name.as_encoded_bytes().strip_prefix(begin.file_name()?.as_encoded_bytes())?.strip_suffix(b".claimed")?;
        uuid::Uuid::try_parse_ascii(id).ok()
    };
    let mut files = fs::read_dir(folder(path)).into_iter().flatten().flatten();
    // In this order: a file that has lost its first name has its last one by then.
    let claim = files.find(|file| is_claim(&file.file_name()).is_some());
    if claimed.exists() { Some(claimed) } else { claim.map(|claim| claim.path()) }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

#[cfg(unix)]
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// On other systems a folder cannot be opened like a file.
#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}

/// `PATH.END`.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(end);
    path.with_file_name(name)
}

fn failed(path: &Path, error: &io::Error) -> RunStateError {
    RunStateError::File { path: path.display().to_string(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_a_file_that_cannot_be_taken_gets_its_name_back_where_there_are_no_links() {
        let folder = std::env::temp_dir().join(format!("countersign-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&folder).unwrap();
        let (own, path) = (folder.join("own"), folder.join("order"));
        let none = |_: &Path, _: &Path| Err(io::Error::from(io::ErrorKind::Unsupported));
        fs::write(&own, "one").unwrap();
        give_back(&own, &path, none);
        assert_eq!((fs::read_to_string(&path).unwrap(), own.exists()), ("one".to_owned(), false));
        // The file that another process has written there stays, and so does this one.
        fs::write(&own, "two").unwrap();
        let links: [fn(&Path, &Path) -> io::Result<()>; 2] = [none, |own, path| fs::hard_link(own, path)];
        for link in links {
            give_back(&own, &path, link);
            assert_eq!((fs::read_to_string(&path).unwrap(), own.exists()), ("one".to_owned(), true));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
