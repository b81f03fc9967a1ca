//! Python: the packages that tests need, in an environment of their own.

use std::path::{Path, PathBuf};

use crate::{
    Outcome, Places,
    process::{output, program, run, say},
    stamp::Stamp,
};

/// The oldest Python that the packages support.
const PYTHON: (u32, u32) = (3, 11);

/// The folder of the environments, each in a folder of its name; their programs are in `bin`.
pub(crate) fn folder(places: &Places) -> PathBuf {
    places.target.join("python")
}

/// Makes the environment `name` and installs the `requirements.txt` of `tests/third-party/NAME` into it, if that or the
/// installed packages have changed.
pub(crate) fn install(places: &Places, name: &str) -> Outcome {
    let remedy = format!(
        "some tests need Python {}.{} or newer with its venv module (https://www.python.org/downloads, or on Debian 13 \
         `apt-get install python3-venv`)",
        PYTHON.0, PYTHON.1
    );
    let found =
        output(program("python3", &places.root).arg("--version")).map_err(|error| format!("{error}; {remedy}"))?;
    if version(&found).is_none_or(|found| found < PYTHON) {
        return Err(format!("this machine's Python is {found}; {remedy}"));
    }
    let list = places.root.join("tests/third-party").join(name).join("requirements.txt");
    let folder = folder(places).join(name);
    // Written last, once everything is installed.
    let installed = folder.join("installed.txt");
    let stamp = Stamp::new(places, &format!("python-{name}"), vec![list.clone()], installed.clone());
    if stamp.is_fresh() {
        say(&format!("the packages of {} are installed", list.display()));
        return Ok(());
    }
    let venv = |folder: &Path, more: &[&str]| {
        let mut venv = program("python3", &places.root);
        run(venv.args(["-m", "venv", "--clear"]).args(more).arg(folder)).map_err(|error| format!("{error}; {remedy}"))
    };
    // One pip for all, since installing it takes ten seconds.
    let tools = self::folder(places).join("pip");
    let pip = tools.join("bin/pip");
    if !pip.exists() {
        venv(&tools, &[])?;
    }
    venv(&folder, &["--without-pip"])?;
    let pip = || {
        let mut pip = program(&pip, &places.root);
        pip.arg("--python").arg(folder.join("bin/python")).arg("--disable-pip-version-check");
        pip
    };
    // Few of the modules are used, and those are compiled on use.
    run(pip().args(["install", "--quiet", "--no-compile", "--requirement"]).arg(&list))?;
    let now = output(pip().arg("freeze"))?;
    std::fs::write(&installed, now).map_err(|error| format!("{}: {error}", installed.display()))?;
    stamp.set();
    Ok(())
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("Python ")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("Python 3.11.7\n"), Some((3, 11)));
        assert!(version("Python 3.9.2") < Some(PYTHON) && version("Python 3.13.0") >= Some(PYTHON));
        assert_eq!(version("three"), None);
    }
}
