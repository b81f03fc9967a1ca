//! Changes of files, atomically.

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

use super::{super::place::Place, FILE_BYTES, Found, Recent, Stamp, There, Workspace, failed, going::Going, regular};
use countersign_engine::tool::ToolError;

/// The mode bits that a new file gets: never another user's rights by setuid.
const PERMISSIONS: u32 = 0o777;

/// A change of one file.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The file.
    pub(crate) place: Place,
    /// Its state when the change was computed. If it differs by now, nothing is written.
    pub(crate) before: There,
    /// Its new text; `None`: it is removed.
    pub(crate) after: Option<String>,
    /// The file that was moved, whose mode a new file takes over.
    pub(crate) like: Option<Stamp>,
}

impl Change {
    /// A file that gets this text.
    pub(crate) fn write(place: Place, before: There, text: String) -> Change {
        Change { place, before, after: Some(text), like: None }
    }

    /// A file that is removed.
    pub(crate) fn remove(place: Place, before: Found) -> Change {
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
    /// Computes and makes changes without any other change of this workspace in between; `make` gets the recent changes
    /// of calls. Of the calls of an answer, a later one builds on the changes of the earlier ones, by the
    /// [order](Workspace::order) in which they run.
    ///
    /// # Errors
    /// Errors of `make`, and see [`Workspace::commit`].
    pub(crate) fn change<T>(
        &self,
        going: &Going,
        make: impl FnOnce(&mut Recent) -> Result<(Vec<Change>, T), ToolError>,
    ) -> Result<T, ToolError> {
        let mut one_at_a_time = self.root.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (changes, said) = make(&mut one_at_a_time).map_err(ToolError::unbegun)?;
        self.commit(changes, going)?;
        Ok(said)
    }

    /// Makes all changes, or none: everything is checked and written beside the files before the first of them changes.
    /// Each file is replaced atomically; readers see the text before or the text after.
    ///
    /// # Errors
    /// Something has changed meanwhile, or cannot be written. All files are then restored; should restoring one fail
    /// too, the error names it.
    pub(super) fn commit(&self, changes: Vec<Change>, going: &Going) -> Result<(), ToolError> {
        for change in &changes {
            if let Some(text) = change.after.as_ref().filter(|text| text.len() > FILE_BYTES) {
                let (place, bytes) = (&change.place, text.len());
                let what = format!("{place} would have {bytes} bytes; at most {FILE_BYTES} can be written");
                return Err(ToolError::new(what).unbegun());
            }
        }
        let mut commit = Commit { steps: Vec::with_capacity(changes.len()), made: Vec::new() };
        for change in changes {
            let step = commit.prepare(self, change).map_err(ToolError::unbegun)?;
            commit.steps.push(step);
        }
        going.check()?;
        for i in 0..commit.steps.len() {
            if let Err(error) = commit.steps[i].apply() {
                let lost = commit.undo(i);
                let message = error.message;
                return Err(if lost.is_empty() {
                    ToolError::new(format!("{message}; nothing was changed")).unbegun()
                } else {
                    let lost = lost.join(", ");
                    ToolError::new(format!("{message}; the change of these files could not be taken back: {lost}"))
                });
            }
        }
        commit.made.clear();
        Ok(())
    }
}

/// A change in progress: its folder is open, its text is written beside it.
struct Step {
    change: Change,
    folder: OwnedFd,
    /// A unique name in the same folder: of the new text, or of the removed file.
    aside: String,
    applied: bool,
    /// The file that was moved aside could not be restored, and must not be lost.
    kept: bool,
}

struct Commit {
    steps: Vec<Step>,
    /// New folders, each with its parent.
    made: Vec<(OwnedFd, String)>,
}

impl Commit {
    fn prepare(&mut self, workspace: &Workspace, change: Change) -> Result<Step, ToolError> {
        let place = &change.place;
        let is_new = matches!(change.before, There::Nothing);
        let folder = workspace.way(place, |above, name| Ok(is_new && self.make(above, name)?))?;
        let folder = folder.ok_or_else(|| ToolError::new(format!("{place} was removed meanwhile; look again")))?;
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

    /// Makes a folder that is missing, unless others do meanwhile.
    fn make(&mut self, above: &OwnedFd, name: &str) -> io::Result<bool> {
        let made = (above.try_clone()?, name.to_owned());
        match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.made.push(made),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Undoes the changes before `failed`; returns those that could not be undone.
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
    /// No temporary file is left behind, whatever happened.
    fn drop(&mut self) {
        for step in self.steps.iter().filter(|step| !step.kept) {
            let _ = unlinkat(&step.folder, step.aside.as_str(), AtFlags::empty());
        }
        for (above, name) in self.made.iter().rev() {
            // A new folder stays if others have put something in it meanwhile.
            let _ = unlinkat(above, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
}

impl Step {
    fn name(&self) -> &str {
        self.change.place.name()
    }

    /// Checks that the file has not changed.
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
        // The umask applies to a new file's mode.
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
            // Moved aside, so that it can be restored.
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

    /// Gives a new file its name, unless it is taken.
    fn place_new(&self) -> Result<(), Errno> {
        match linkat(&self.folder, self.aside.as_str(), &self.folder, self.name(), AtFlags::empty()) {
            Ok(()) => {
                let _ = unlinkat(&self.folder, self.aside.as_str(), AtFlags::empty());
                Ok(())
            }
            Err(Errno::EXIST) => Err(Errno::EXIST),
            // Not every file system has hard links; that the name is free was checked a moment ago.
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
            // A file that is not text is only overwritten by a call that changes nothing else.
            (Some(_), There::Other(..)) => false,
        };
        self.applied = !done;
        self.kept = !done && self.change.after.is_none();
        done
    }
}
