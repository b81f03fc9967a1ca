//! The browsers of the console's tests: the system's Chromium, and its headless shell, installed if that is possible.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Places, apt, process::say};

/// A browser, and the variable that tells the tests where it is.
struct Kind {
    variable: &'static str,
    /// Suitable programs, by preference.
    names: &'static [&'static str],
    package: &'static str,
    /// Its purpose.
    purpose: &'static str,
}

const WHOLE: Kind = Kind {
    variable: "CHROMIUM",
    names: &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
    package: "chromium",
    purpose: "the console is tested in a browser",
};

/// Without the user interface of a browser, which costs the console's tests a third of their time.
const SHELL: Kind = Kind {
    variable: "CHROMIUM_HEADLESS_SHELL",
    names: &["chromium-headless-shell", "chrome-headless-shell"],
    package: "chromium-headless-shell",
    purpose: "the console is tested sooner in a headless shell",
};

/// Browsers for tests.
pub(crate) struct Browsers {
    whole: PathBuf,
    /// Not every system has one; tests take the whole browser then.
    shell: Option<PathBuf>,
}

impl Browsers {
    /// Tells tests where they are.
    pub(crate) fn tell(&self, tests: &mut Command) {
        tests.env(WHOLE.variable, &self.whole);
        if let Some(shell) = &self.shell {
            tests.env(SHELL.variable, shell);
        }
    }
}

/// Browsers; missing ones are installed. Only the whole one, and one that is chosen, has to be there.
pub(crate) fn ensure(places: &Places) -> Result<Browsers, String> {
    let whole = WHOLE.ensure(&places.root)?;
    let shell = match SHELL.ensure(&places.root) {
        Err(why) if env::var_os(SHELL.variable).is_none() => {
            say(&why);
            None
        }
        other => Some(other?),
    };
    Ok(Browsers { whole, shell })
}

impl Kind {
    fn ensure(&self, root: &Path) -> Result<PathBuf, String> {
        if let Some(chosen) = env::var_os(self.variable).map(PathBuf::from) {
            return if chosen.is_file() {
                Ok(chosen)
            } else {
                Err(format!("{} names {}, which does not exist", self.variable, chosen.display()))
            };
        }
        let found = match self.find() {
            Some(found) => found,
            None => {
                apt::install(root, self.package, &self.remedy())?;
                self.find().ok_or_else(|| format!("{} was installed, but is not in PATH", self.package))?
            }
        };
        say(&format!("{} is {}", self.variable, found.display()));
        Ok(found)
    }

    fn find(&self) -> Option<PathBuf> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = env::split_paths(&paths).collect();
        self.names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
    }

    fn remedy(&self) -> String {
        let Self { variable, package, purpose, .. } = self;
        format!("{purpose}: install one (on Debian `apt-get install {package}`), or set {variable} to the path of one")
    }
}
