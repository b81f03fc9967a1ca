//! Changes of files, all of them or none.

use std::{
    fs::File,
    io::{self, Write as _},
    sync::PoisonError,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, fchmod, linkat, mkdirat, openat, renameat, statat, unlinkat},
    io::Errno,
};

use super::{
    super::place::Place, FILE_BYTES, Found, Stamp, There, Workspace, enter, failed, going::Going, not_entered, regular,
};
use countersign_engine::tool::ToolError;

/// Of a file's mode, what a new one gets: never another user's rights by setuid.
const PERMISSIONS: u32 = 0o777;

/// What becomes of one file.
#[derive(Clone, Debug)]
pub(in super::super) struct Change {
    /// Which.
    pub(in super::super) place: Place,
    /// As it was when the change was made up. If it is not so any more, nothing is written.
    pub(in super::super) before: There,
    /// Its text from now on; `None`: it is removed.
    pub(in super::super) after: Option<String>,
    /// The mode that a new file takes over from another, which it was moved from.
    pub(in super::super) like: Option<Stamp>,
}

impl Change {
    /// A file that gets this text.
    pub(in super::super) fn write(place: Place, before: There, text: String) -> Change {
        Change { place, before, after: Some(text), like: None }
    }

    /// A file that is removed.
    pub(in super::super) fn remove(place: Place, before: Found) -> Change {
        Change { place, before: There::Text(before), after: None, like: None }
    }
}

impl There {
    fn stamp(&self) -> Option<Stamp> {
        match self {
            There::Nothing => None,
            There::Text(found) => Some(found.stamp),
            There::Other(stamp, _) => Some(*stamp),
        }
    }
}

impl Workspace {
    /// Makes up changes and makes them, with nothing else that does so on this workspace in between: what one call of an
    /// answer has changed, the next one changes further.
    ///
    /// # Errors
    /// What `make` says, and see [`Workspace::commit`].
    pub(in super::super) fn change<T>(
        &self,
        going: &Going,
        make: impl FnOnce() -> Result<(Vec<Change>, T), ToolError>,
    ) -> Result<T, ToolError> {
        let _one_at_a_time = self.root.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (changes, said) = make()?;
        self.commit(changes, going)?;
        Ok(said)
    }

    /// Makes all changes, or none: everything is checked and written beside the files before the first of them changes.
    /// Each file changes at once; who reads it sees the text before or the text after.
    ///
    /// # Errors
    /// Something is not as it was, or cannot be written. Then all files are as they were; should putting one back fail
    /// too, the error says which.
    pub(super) fn commit(&self, changes: Vec<Change>, going: &Going) -> Result<(), ToolError> {
        for change in &changes {
            if let Some(text) = change.after.as_ref().filter(|text| text.len() > FILE_BYTES) {
                let (place, bytes) = (&change.place, text.len());
                return Err(ToolError::new(format!(
                    "{place} would have {bytes} bytes; at most {FILE_BYTES} can be written"
                )));
            }
        }
        let mut commit = Commit { steps: Vec::with_capacity(changes.len()), made: Vec::new() };
        for change in changes {
            let step = commit.prepare(self, change)?;
            commit.steps.push(step);
        }
        going.check()?;
        for i in 0..commit.steps.len() {
            if let Err(error) = commit.steps[i].apply() {
                let lost = commit.undo(i);
                let message = error.message;
                return Err(ToolError::new(if lost.is_empty() {
                    format!("{message}; nothing was changed")
                } else {
                    format!("{message}; the change of these files could not be taken back: {}", lost.join(", "))
                }));
            }
        }
        commit.made.clear();
        Ok(())
    }
}

/// A change on its way: its folder is open, its text is written beside it.
struct Step {
    change: Change,
    folder: OwnedFd,
    /// A name of our own in the same folder: of the text to come, or of what was removed.
    aside: String,
    applied: bool,
    /// What was moved aside could not be put back, and must not be lost.
    kept: bool,
}

struct Commit {
    steps: Vec<Step>,
    /// Folders that were made on the way, each with the folder it is in.
    made: Vec<(OwnedFd, String)>,
}

impl Commit {
    fn prepare(&mut self, workspace: &Workspace, change: Change) -> Result<Step, ToolError> {
        let folder = match change.before {
            There::Nothing => self.make_way(workspace, &change.place)?,
            There::Text(_) | There::Other(..) => workspace.folder(change.place.folders())?,
        };
        let step = Step {
            change,
            folder,
            aside: format!(".countersign-{}", uuid::Uuid::now_v7()),
            applied: false,
            kept: false,
        };
        step.check()?;
        if let Some(text) = &step.change.after {
            step.write_aside(text.as_bytes())?;
        }
        Ok(step)
    }

    /// Opens the folder of a new file, with those on the way that are not there yet.
    fn make_way(&mut self, workspace: &Workspace, place: &Place) -> Result<OwnedFd, ToolError> {
        let mut folder = workspace.folder(&[])?;
        for (i, part) in place.folders().iter().enumerate() {
            let path = || place.folders()[..=i].join("/");
            let next = match enter(&folder, part) {
                Err(Errno::NOENT) => {
                    match mkdirat(&folder, part.as_str(), Mode::from_raw_mode(0o777)) {
                        Ok(()) => {
                            let above = folder.try_clone().map_err(|e| ToolError::new(format!("{}: {e}", path())))?;
                            self.made.push((above, part.clone()));
                        }
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(ToolError::new(format!("{}: {}", path(), io::Error::from(error)))),
                    }
                    enter(&folder, part)
                }
                entered => entered,
            };
            folder = next.map_err(|error| not_entered(&folder, part, &path(), error))?;
        }
        Ok(folder)
    }

    /// Takes back the changes before `failed`; says which could not be.
    fn undo(&mut self, failed: usize) -> Vec<String> {
        let mut lost = Vec::new();
        for step in self.steps[..failed].iter_mut().rev() {
            if !step.take_back() {
                lost.push(step.change.place.to_string());
            }
        }
        lost
    }
}

impl Drop for Commit {
    /// Nothing of ours is left behind, whatever happened.
    fn drop(&mut self) {
        for step in self.steps.iter().filter(|step| !step.kept) {
            let _ = unlinkat(&step.folder, step.aside.as_str(), AtFlags::empty());
        }
        for (above, name) in self.made.iter().rev() {
            // One that others have put something in meanwhile stays.
            let _ = unlinkat(above, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
}

impl Step {
    fn name(&self) -> &str {
        self.change.place.name()
    }

    /// Whether the file still is as it was.
    fn check(&self) -> Result<(), ToolError> {
        let place = &self.change.place;
        let now = match statat(&self.folder, self.name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                regular(place, &stat)?;
                Some(Stamp::of(&stat))
            }
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(place, error)),
        };
        match (self.change.before.stamp(), now) {
            (before, now) if before == now => Ok(()),
            (None, _) => Err(ToolError::new(format!("{place} is there already"))),
            (_, None) => Err(ToolError::new(format!("{place} was removed meanwhile; look again"))),
            _ => Err(ToolError::new(format!("{place} was changed meanwhile; read it again"))),
        }
    }

    fn write_aside(&self, bytes: &[u8]) -> Result<(), ToolError> {
        let place = &self.change.place;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The system takes away what a new file's mode may not have.
        let new = Mode::from_raw_mode(0o666);
        let file = openat(&self.folder, self.aside.as_str(), flags, new).map_err(|error| failed(place, error))?;
        let written = || -> io::Result<()> {
            if let Some(stamp) = self.change.before.stamp().or(self.change.like) {
                fchmod(&file, Mode::from_raw_mode((stamp.mode & PERMISSIONS) as _))?;
            }
            let mut file = File::from(file);
            file.write_all(bytes)?;
            file.sync_data()
        };
        written().map_err(|error| {
            let _ = unlinkat(&self.folder, self.aside.as_str(), AtFlags::empty());
            ToolError::new(format!("{place}: {error}"))
        })
    }

    fn apply(&mut self) -> Result<(), ToolError> {
        self.check()?;
        let done = match (&self.change.after, &self.change.before) {
            // Moved aside, so that it can be put back.
            (None, _) => renameat(&self.folder, self.name(), &self.folder, self.aside.as_str()),
            (Some(_), There::Nothing) => self.place_new(),
            (Some(_), _) => renameat(&self.folder, self.aside.as_str(), &self.folder, self.name()),
        };
        done.map_err(|error| match error {
            Errno::EXIST => ToolError::new(format!("{} is there already", self.change.place)),
            error => failed(&self.change.place, error),
        })?;
        self.applied = true;
        Ok(())
    }

    /// Gives a new file its name, if nothing else has it.
    fn place_new(&self) -> Result<(), Errno> {
        match linkat(&self.folder, self.aside.as_str(), &self.folder, self.name(), AtFlags::empty()) {
            Ok(()) => {
                let _ = unlinkat(&self.folder, self.aside.as_str(), AtFlags::empty());
                Ok(())
            }
            Err(Errno::EXIST) => Err(Errno::EXIST),
            // Not every file system has links; that the name is free was looked at a moment ago.
            Err(_) => renameat(&self.folder, self.aside.as_str(), &self.folder, self.name()),
        }
    }

    fn take_back(&mut self) -> bool {
        if !self.applied {
            return true;
        }
        let done = match (&self.change.after, &self.change.before) {
            (None, _) => renameat(&self.folder, self.aside.as_str(), &self.folder, self.name()).is_ok(),
            (Some(_), There::Nothing) => unlinkat(&self.folder, self.name(), AtFlags::empty()).is_ok(),
            (Some(_), There::Text(before)) => {
                self.write_aside(before.text.as_bytes()).is_ok()
                    && renameat(&self.folder, self.aside.as_str(), &self.folder, self.name()).is_ok()
            }
            // What is no text is only written over by a call that changes nothing else.
            (Some(_), There::Other(..)) => false,
        };
        self.applied = !done;
        self.kept = !done && self.change.after.is_none();
        done
    }
}
