//! The browser of the console's tests: the system's Chromium, installed if that is possible.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    Places,
    process::{output, program, run, say},
};

/// Suitable programs, by preference.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

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
    install(&places.root)?;
    find().ok_or_else(|| "Chromium was installed, but is not in PATH".to_owned())
}

fn find() -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&paths).collect();
    NAMES.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
}

fn install(root: &Path) -> Result<(), String> {
    let remedy = "the console is tested in a browser: install Chromium (on Debian `apt-get install chromium`), \
                  or set CHROMIUM to the path of one";
    if output(program("apt-get", root).arg("--version")).is_err() {
        return Err(remedy.to_owned());
    }
    let root_user = output(program("id", root).arg("-u")).is_ok_and(|id| id == "0");
    let sudo = !root_user && output(program("sudo", root).args(["-n", "true"])).is_ok();
    if !root_user && !sudo {
        return Err(format!("{remedy}; it is installed automatically if you are root or sudo needs no password"));
    }
    let apt = |args: &[&str]| {
        let mut command = program(if sudo { "sudo" } else { "env" }, root);
        if sudo {
            command.args(["-n", "env"]);
        }
        run(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args))
    };
    let installed = apt(&["update"]).and_then(|()| apt(&["install", "-y", "--no-install-recommends", "chromium"]));
    installed.map_err(|error| format!("{error}; {remedy}"))
}
