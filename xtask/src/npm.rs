//! npm: packages from the lock files, and the scripts of `web/`.

use std::path::Path;

use crate::{
    Outcome, Places,
    process::{output, program, run, say},
    stamp::Stamp,
};

/// The oldest Node that the console's tools support.
const NODE: (u32, u32) = (20, 19);

/// Checks the Node on this machine.
pub(crate) fn check_node(root: &Path) -> Outcome {
    let remedy = format!(
        "the console is built with Node.js {}.{} or newer and npm: install both (https://nodejs.org/en/download, \
         or on Debian 13 `apt-get install nodejs npm`)",
        NODE.0, NODE.1
    );
    let found = output(program("node", root).arg("--version")).map_err(|error| format!("{error}; {remedy}"))?;
    if version(&found).is_none_or(|found| found < NODE) {
        return Err(format!("this machine's Node.js is {found}; {remedy}"));
    }
    output(program("npm", root).arg("--version")).map(drop).map_err(|error| format!("{error}; {remedy}"))
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Installs the packages of a folder, if its lock file or the installed packages have changed.
pub(crate) fn install(places: &Places, folder: &str) -> Outcome {
    let path = places.root.join(folder);
    let inputs = ["package.json", "package-lock.json", ".npmrc"].map(|name| path.join(name)).to_vec();
    // npm's own record of the installed packages.
    let installed = path.join("node_modules/.package-lock.json");
    let stamp = Stamp::new(places, &format!("npm-{}", folder.replace('/', "-")), inputs, installed);
    if stamp.is_fresh() {
        say(&format!("the packages of {folder}/ are installed"));
        return Ok(());
    }
    run(program("npm", &path).args(["ci", "--no-fund", "--no-audit"]))?;
    stamp.set();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("v20.19.4"), Some((20, 19)));
        assert!(version("v20.9.0") < Some(NODE) && version("v22.0.0") >= Some(NODE));
        assert_eq!(version("twenty"), None);
    }
}
