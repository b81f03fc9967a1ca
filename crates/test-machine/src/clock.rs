//! Clocks that are set while servers run.

use std::path::{Path, PathBuf};

use super::{Variable, library, names, replace};

/// Machines with separate clocks.
#[derive(Debug)]
pub struct Clocks {
    folder: PathBuf,
    library: PathBuf,
}

/// A machine's clock, right until it is set.
#[derive(Clone, Debug)]
pub struct Clock {
    library: PathBuf,
    /// The seconds by which it is ahead.
    file: PathBuf,
}

impl Clocks {
    /// Keeps them in a folder.
    ///
    /// # Errors
    /// There is no C compiler, or it fails.
    pub fn new(folder: &Path) -> Result<Clocks, String> {
        let library = library(folder, "clock", include_str!("clock.c"))?;
        Ok(Clocks { folder: folder.to_owned(), library })
    }

    /// The clock of this name.
    #[must_use]
    pub fn clock(&self, name: &str) -> Clock {
        Clock { library: self.library.clone(), file: self.folder.join(name) }
    }
}

impl Clock {
    /// The environment that makes a server use this clock.
    #[must_use]
    pub fn environment(&self) -> [Variable; 2] {
        [names("LD_PRELOAD", &self.library), names("CLOCK", &self.file)]
    }

    /// From now on it is ahead by this many seconds, or behind if the number is negative.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub fn set(&self, seconds: i64) -> Result<(), String> {
        replace(&self.file, &seconds.to_string())
    }
}
