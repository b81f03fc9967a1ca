//! The database of the PostgreSQL store's tests: the system's programs, installed if that is possible. The tests start servers of
//! their own.

use std::{env, fs, path::PathBuf};

use crate::{Outcome, Places, apt, process::say};

const REMEDY: &str = "the PostgreSQL store is tested on a server: install PostgreSQL (on Debian `apt-get install postgresql`), or \
                      set DATABASE_URL to the URL of a server's user who may make databases";

/// Ensures that it is there.
pub(crate) fn ensure(places: &Places) -> Outcome {
    if env::var_os("DATABASE_URL").is_some() {
        return Ok(());
    }
    if find().is_none() {
        apt::install(&places.root, "postgresql", REMEDY)?;
    }
    let found = find().ok_or("PostgreSQL was installed, but has no `initdb` where it is looked for")?;
    say(&format!("PostgreSQL is in {}", found.display()));
    Ok(())
}

/// The folder of its programs, searched where the tests search: in `PATH`, and where Debian has them.
fn find() -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = env::split_paths(&paths).chain(versions.map(|version| version.path().join("bin")));
    folders.into_iter().find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}
