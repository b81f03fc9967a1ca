//! A machine for servers under test, made by libraries for `LD_PRELOAD`: its disk forgets unsynced data when the power
//! is cut ([`Disk`]), and its clock is wrong ([`Clocks`]).
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

/// The variables of a machine with several of these: all of their libraries are loaded.
pub fn together(variables: impl IntoIterator<Item = Variable>) -> Vec<Variable> {
    let mut all: Vec<Variable> = Vec::new();
    for (name, value) in variables {
        match all.iter_mut().find(|(known, _)| *known == "LD_PRELOAD" && *known == name) {
            Some((_, libraries)) => *libraries = format!("{libraries}:{value}"),
            None => all.push((name, value)),
        }
    }
    all
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_may_have_a_clock_and_a_disk_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::new(folder.path()).expect("a disk");
        let clock = Clocks::new(folder.path()).expect("clocks").clock("clock");
        let both = together(disk.environment().into_iter().chain(clock.environment()));
        let loaded: Vec<&str> =
            both.iter().filter(|(name, _)| *name == "LD_PRELOAD").map(|(_, value)| value.as_str()).collect();
        let [loaded] = loaded.as_slice() else { panic!("one of the two is not loaded: {both:?}") };
        assert!(loaded.contains("disk.so:") && loaded.ends_with("clock.so"), "{loaded}");
        assert!(both.iter().any(|(name, _)| *name == "CLOCK") && both.iter().any(|(name, _)| *name == "DISK"));
    }
}
