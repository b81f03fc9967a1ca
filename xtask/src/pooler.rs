//! The pooler in front of the database of the PostgreSQL store's tests: the system's PgBouncer, installed if that is possible. The
//! tests start it.

use std::{env, path::PathBuf};

use crate::{Outcome, Places, apt};

const REMEDY: &str = "the PostgreSQL store is tested through a transaction pooler too: install PgBouncer (on Debian `apt-get install \
                      pgbouncer`)";

/// Installs PgBouncer unless it is found.
pub(crate) fn ensure(places: &Places) -> Outcome {
    if is_there() {
        return Ok(());
    }
    apt::install(&places.root, "pgbouncer", REMEDY)?;
    if is_there() { Ok(()) } else { Err("PgBouncer was installed, but is not where it is looked for".to_owned()) }
}

/// Searched where the tests search: in `PATH`, and where Debian has it.
fn is_there() -> bool {
    let paths = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&paths).chain([PathBuf::from("/usr/sbin")]);
    folders.any(|folder| folder.join("pgbouncer").is_file())
}
