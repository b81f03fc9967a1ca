//! A machine for servers under test, by libraries for `LD_PRELOAD`: its disk forgets what is not synced when the power is cut
//! ([`Disk`]), and its clock is wrong ([`Clocks`]).
//!
//! The libraries are compiled with `cc`, which building SQLite needs too.

mod clock;
mod disk;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub use clock::{Clock, Clocks};
pub use disk::{Disk, Fault};

/// A variable of a server's environment.
pub type Variable = (&'static str, String);

/// A variable that names a file.
fn names(variable: &'static str, file: &Path) -> Variable {
    (variable, file.to_string_lossy().into_owned())
}

/// Compiles a library into a folder.
fn library(folder: &Path, name: &str, source: &str) -> Result<PathBuf, String> {
    let (file, made) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    fs::write(&file, source).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    match Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&made, &file]).status() {
        Ok(status) if status.success() => Ok(made),
        other => Err(format!("{name}.c cannot be compiled: {other:?}")),
    }
}

/// Replaces a file that a server may be reading.
fn replace(file: &Path, text: &str) -> Result<(), String> {
    let new = file.with_extension("new");
    let replaced = fs::write(&new, text).and_then(|()| fs::rename(&new, file));
    replaced.map_err(|error| format!("{} cannot be written: {error}", file.display()))
}
