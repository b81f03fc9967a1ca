//! The browser of the console's tests: the system's Chromium, installed if that is possible.

use std::{env, path::PathBuf};

use crate::{Places, apt, process::say};

/// Suitable programs, by preference.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const REMEDY: &str = "the console is tested in a browser: install Chromium (on Debian `apt-get install chromium`), or set \
                      CHROMIUM to the path of one";

/// A browser; one is installed if there is none.
pub(crate) fn ensure(places: &Places) -> Result<PathBuf, String> {
    if let Some(chosen) = env::var_os("CHROMIUM").map(PathBuf::from) {
        return if chosen.is_file() {
            Ok(chosen)
        } else {
            Err(format!("CHROMIUM names {}, which does not exist", chosen.display()))
        };
    }
    if let Some(found) = find() {
        say(&format!("the browser is {}", found.display()));
        return Ok(found);
    }
    apt::install(&places.root, "chromium", REMEDY)?;
    find().ok_or_else(|| "Chromium was installed, but is not in PATH".to_owned())
}

fn find() -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&paths).collect();
    NAMES.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}
