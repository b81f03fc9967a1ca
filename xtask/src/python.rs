//! Python: the packages that tests need, in an environment of their own.

use std::path::PathBuf;

use crate::{
    Outcome, Places,
    process::{output, program, run, say},
    stamp::Stamp,
};

/// The oldest Python that the packages take.
const PYTHON: (u32, u32) = (3, 11);

/// Where the environment is; its programs are in `bin`.
pub(crate) fn folder(places: &Places) -> PathBuf {
    places.target.join("third-party-python")
}

/// Makes the environment and installs a folder's `requirements.txt` into it, if that or what is installed has changed.
pub(crate) fn install(places: &Places, requirements: &str) -> Outcome {
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
    let list = places.root.join(requirements).join("requirements.txt");
    let folder = folder(places);
    // Written last, and only once everything is there.
    let installed = folder.join("installed.txt");
    let stamp = Stamp::new(places, "python-third-party", vec![list.clone()], installed.clone());
    if stamp.is_fresh() {
        say(&format!("the packages of {requirements}/requirements.txt are installed"));
        return Ok(());
    }
    run(program("python3", &places.root).args(["-m", "venv", "--clear"]).arg(&folder))
        .map_err(|error| format!("{error}; {remedy}"))?;
    let pip = folder.join("bin/pip");
    run(program(&pip.display().to_string(), &places.root)
        .args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(&list))?;
    let now = output(program(&pip.display().to_string(), &places.root).arg("freeze"))?;
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
