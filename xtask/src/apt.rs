//! Debian's packages, where they can be installed without asking.

use std::path::Path;

use crate::{
    Outcome,
    process::{output, program, run},
};

/// Installs a package. `remedy` is for a system where that is not possible.
pub(crate) fn install(root: &Path, package: &str, remedy: &str) -> Outcome {
    if output(program("apt-get", root).arg("--version")).is_err() {
        return Err(remedy.to_owned());
    }
    let root_user = output(program("id", root).arg("-u")).is_ok_and(|id| id == "0");
    let sudo = !root_user && output(program("sudo", root).args(["-n", "true"])).is_ok();
    if !root_user && !sudo {
        return Err(format!("{remedy}; it is installed by itself where you are root or sudo asks for no password"));
    }
    let apt = |args: &[&str]| {
        let mut command = program(if sudo { "sudo" } else { "env" }, root);
        if sudo {
            command.args(["-n", "env"]);
        }
        run(command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(args))
    };
    let installed = apt(&["update"]).and_then(|()| apt(&["install", "-y", "--no-install-recommends", package]));
    installed.map_err(|error| format!("{error}; {remedy}"))
}
