//! A folder that file tools cannot leave (spec S12, X).
//!
//! A workspace is a file descriptor, not a path; each step opens with `O_NOFOLLOW`, the same way on every system. Links
//! are refused even where they stay inside: a person approves the path that was shown, and through a link another file
//! would change.

mod commit;
mod going;
mod recent;

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat},
    io::Errno,
};

use countersign_core::{limits::FILE_BYTES, setting::SettingError};

pub(super) use self::{
    commit::Change,
    going::blocking,
    recent::{Recent, Span},
};
use super::place::Place;
use countersign_engine::tool::{ToolError, order::Order};

/// A folder, the only one that file tools may touch.
///
/// It is opened once. Every path is walked from it, name by name, and each step is taken from the open folder, not from
/// a path that is resolved again: `..` is not allowed, and **no symbolic link is followed**, wherever it points. So
/// concurrent changes of the tree cannot lead outside, and the path that a person was shown is the file that is
/// changed. A clone is the same folder.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<Root>,
    /// Files that its tools do not touch.
    without: Arc<[PathBuf]>,
}

#[derive(Debug)]
struct Root {
    folder: OwnedFd,
    path: PathBuf,
    /// One change at a time: calls of several sessions may change the same file.
    writing: Mutex<Recent>,
    order: Order,
}

/// The identity of a file or folder, whatever its path.
type Id = (u64, u64);

#[expect(clippy::unnecessary_cast, reason = "these numbers have other types on other systems")]
fn id(stat: &Stat) -> Id {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// A text file as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its text.
    pub(super) text: String,
    /// Its identity and state.
    pub(super) stamp: Stamp,
}

/// The identity and state of a file: another file, or another text, has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: Id,
    size: i64,
    changed: (i64, i64),
    mode: u32,
}

impl Stamp {
    #[expect(clippy::unnecessary_cast, reason = "these numbers have other types on other systems")]
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            file: id(stat),
            size: stat.st_size as i64,
            changed: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            mode: stat.st_mode as u32,
        }
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }
}

/// The file at a place, if any.
#[derive(Clone, Debug)]
pub(crate) enum There {
    /// Nothing.
    Nothing,
    /// A text file.
    Text(Found),
    /// A file that is not text, or too large to read: why.
    Other(Stamp, String),
}

impl Workspace {
    /// Opens a folder, which must exist.
    ///
    /// # Errors
    /// It does not exist, is not a folder, or cannot be opened.
    pub fn open(folder: impl AsRef<Path>) -> Result<Workspace, SettingError> {
        let folder = folder.as_ref();
        let failed = |error: io::Error| {
            SettingError::new(format!("the workspace {} cannot be opened: {error}", folder.display()))
        };
        let path = folder.canonicalize().map_err(failed)?;
        let opened = openat(CWD, &path, FOLDER, Mode::empty()).map_err(|error| failed(error.into()))?;
        Ok(Workspace {
            root: Arc::new(Root { folder: opened, path, writing: Mutex::default(), order: Order::default() }),
            without: Arc::default(),
        })
    }

    /// The same folder, whose tools neither read nor change these files, whether they are in it now, later or never: the
    /// program's own, such as its store and its configuration. The shell is not bound by it.
    #[must_use]
    pub fn without(mut self, files: impl IntoIterator<Item = PathBuf>) -> Workspace {
        self.without = self.without.iter().cloned().chain(files).collect();
        self
    }

    /// The folder's absolute path, without symbolic links, at the time it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root.path
    }

    /// The source of its tools: a call that was approved for one folder needs another approval before it runs in
    /// another folder.
    pub(super) fn source(&self) -> Arc<str> {
        format!("folder {}", self.path().display()).into()
    }

    /// The order of its tools: calls of one answer may change the same file.
    pub(super) fn order(&self) -> Order {
        self.root.order.clone()
    }

    /// Opens a folder below.
    pub(super) fn folder(&self, parts: &[String]) -> Result<OwnedFd, ToolError> {
        let mut folder = self.root.folder.as_fd().try_clone_to_owned().map_err(|e| ToolError::new(e.to_string()))?;
        for (i, part) in parts.iter().enumerate() {
            folder = enter(&folder, part).map_err(|error| not_entered(&folder, part, &parts[..=i].join("/"), error))?;
        }
        Ok(folder)
    }

    /// The file at a place, with its text if it has one.
    pub(super) fn look(&self, place: &Place) -> Result<There, ToolError> {
        let Some(folder) = self.way(place, |_, _| Ok(false))? else { return Ok(There::Nothing) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // Opening some special files has effects, so the type is checked first.
        match statat(&folder, place.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(There::Nothing),
            Err(error) => return Err(failed(place, error)),
            Ok(stat) => regular(place, &stat)?,
        }
        let file = match openat(&folder, place.name(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(There::Nothing),
            Err(Errno::LOOP) => return Err(is_link(&place.to_string())),
            Err(error) => return Err(failed(place, error)),
        };
        let stat = fstat(&file).map_err(|error| failed(place, error))?;
        regular(place, &stat)?;
        let stamp = Stamp::of(&stat);
        let mut bytes = Vec::new();
        File::from(file)
            .take(FILE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ToolError::new(format!("{place}: {error}")))?;
        if bytes.len() > FILE_BYTES {
            let size = stamp.bytes();
            return Ok(There::Other(stamp, format!("{place} has {size} bytes; at most {FILE_BYTES} can be read")));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => There::Text(Found { text, stamp }),
            _ => There::Other(stamp, format!("{place} is not a text in UTF-8 but a binary file")),
        })
    }

    /// A text file.
    pub(super) fn text(&self, place: &Place) -> Result<Found, ToolError> {
        match self.look(place)? {
            There::Text(found) => Ok(found),
            There::Nothing => Err(ToolError::new(format!("{place} is not there"))),
            There::Other(_, why) => Err(ToolError::new(why)),
        }
    }

    /// Opens the folder of a file, if neither the file nor a folder on the way is kept from tools. `make` may make a
    /// missing folder, and returns whether it is there now; without it there is `None`.
    fn way(
        &self,
        place: &Place,
        mut make: impl FnMut(&OwnedFd, &str) -> io::Result<bool>,
    ) -> Result<Option<OwnedFd>, ToolError> {
        let mut folder = self.folder(&[])?;
        for (i, part) in place.folders().iter().enumerate() {
            let path = || place.folders()[..=i].join("/");
            // Before it is made: a folder in the place of an own file would keep the program from making the file.
            self.is_open_to_tools(&folder, part, place)?;
            let mut next = enter(&folder, part);
            if next.as_ref().is_err_and(|error| *error == Errno::NOENT) {
                if !make(&folder, part).map_err(|error| ToolError::new(format!("{}: {error}", path())))? {
                    return Ok(None);
                }
                next = enter(&folder, part);
            }
            folder = next.map_err(|error| not_entered(&folder, part, &path(), error))?;
        }
        self.is_open_to_tools(&folder, place.name(), place)?;
        Ok(Some(folder))
    }

    /// Refuses a place if this name on the way to it is kept from tools: by its folder and name, which a file has before
    /// it exists, and by its identity, which it has under every name.
    fn is_open_to_tools(&self, folder: &OwnedFd, name: &str, place: &Place) -> Result<(), ToolError> {
        let of_path = |path: &Path| stat(path).ok().map(|stat| id(&stat));
        let in_folder = fstat(folder).ok().map(|stat| id(&stat));
        let itself = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| id(&stat));
        let is_one = |file: &PathBuf| {
            let named = file.file_name().is_some_and(|own| own == name);
            let there = named && file.parent().and_then(of_path) == in_folder;
            there || itself.is_some() && of_path(file) == itself
        };
        if self.without.iter().any(is_one) {
            return Err(ToolError::new(format!("{place} belongs to the server itself, and is not for tools")));
        }
        Ok(())
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// One step down, never through a link.
fn enter(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

/// Why a step failed.
fn not_entered(folder: &OwnedFd, name: &str, path: &str, error: Errno) -> ToolError {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Symlink) => is_link(path),
        Ok(FileType::Directory) => ToolError::new(format!("{path}: {}", io::Error::from(error))),
        Ok(_) => ToolError::new(format!("{path} is not a folder")),
        Err(_) => ToolError::new(format!("{path} is not there")),
    }
}

fn is_link(path: &str) -> ToolError {
    ToolError::new(format!("{path} is a symbolic link, and none is followed here; name what it points to"))
}

/// Refuses anything but a regular file.
fn regular(place: &Place, stat: &Stat) -> Result<(), ToolError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(ToolError::new(format!("{place} is a folder, not a file"))),
        FileType::Symlink => Err(is_link(&place.to_string())),
        _ => Err(ToolError::new(format!("{place} is not a regular file"))),
    }
}

fn failed(place: &Place, error: Errno) -> ToolError {
    ToolError::new(format!("{place}: {}", io::Error::from(error)))
}

#[cfg(test)]
#[path = "workspace/tests.rs"]
mod tests;
