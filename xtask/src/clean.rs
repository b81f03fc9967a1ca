//! `cargo xtask clean-clone`: the steps of a visitor who has only the repository, and the parts of a release, tried in
//! a clone of the last commit.

use std::{fs, io, path::Path, process::Command};

use crate::{
    Outcome, Places,
    process::{cargo, program, run, say},
};

/// The test of the quickstart's commands, which can use another program.
const QUICKSTART: &str = "u3_the_commands_of_the_quickstart_do_what_it_says";
const PROGRAM: &str = "COUNTERSIGN_INSTALLED";

/// Clones the repository, installs the program as the README says, packs a release, lets cargo build every crate from its
/// package as before publishing, and goes through the quickstart with both programs. `features`: those of the tests that are
/// built already.
pub(crate) fn run_all(places: &Places, features: &str) -> Outcome {
    let folder = places.target.join("clean-clone");
    let (clone, results) = (folder.join("countersign"), folder.join("target"));
    remove(&clone)?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    run(program("git", &places.root).args(["clone", "--quiet", "--local", "."]).arg(&clone))?;
    let quickstart = |installed: &Path| {
        let mut test = cargo(&places.root);
        test.args(["test", "--workspace", "--features", features, "--test", "it", "--", "--exact"]);
        run(test.arg(format!("documents::{QUICKSTART}")).env(PROGRAM, installed))
    };
    // Build results stay for the next time.
    let within = |mut command: Command| {
        command.env("CARGO_TARGET_DIR", &results).env_remove("CARGO");
        command
    };

    say("the README's installation");
    let readme = fs::read_to_string(clone.join("README.md")).map_err(|error| format!("README.md: {error}"))?;
    let mut typed = within(program("sh", &clone));
    typed.arg("-ec").arg(installation(&readme)?).env("CARGO_INSTALL_ROOT", folder.join("installed"));
    // As a visitor types it, but not optimised, since that takes several times as long and proves no more.
    typed.envs(
        [("OPT_LEVEL", "0"), ("LTO", "off"), ("CODEGEN_UNITS", "16")]
            .map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value)),
    );
    run(&mut typed)?;
    quickstart(&folder.join("installed/bin/countersign"))?;

    say("a release's packages");
    let web = clone.join("web");
    run(within(program("cargo", &clone)).args(["xtask", "package"]))?;
    let mut publish = within(program("cargo", &clone));
    run(publish.args(["publish", "--workspace", "--dry-run", "--allow-dirty", "--locked"]))?;
    // Without the sources of the console the program has only the packed files.
    remove(&web)?;
    quickstart(&results.join("debug/countersign"))
}

/// The commands that the README gives to install the program from a checkout.
fn installation(readme: &str) -> Result<&str, String> {
    let rest = readme.split_once("\n## Install\n").and_then(|(_, rest)| rest.split_once("```sh\n"));
    let block = rest.and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    block
        .filter(|block| block.contains("cargo install --path crates/cli"))
        .ok_or_else(|| "the README has no commands that install the program from a checkout".to_owned())
}

fn remove(folder: &Path) -> Outcome {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo counts it as a success if no test has the name.
    #[test]
    fn the_quickstarts_test_is_there_and_takes_the_program_it_is_told() {
        let places = Places::find().expect("the folders");
        let tests = fs::read_to_string(places.root.join("crates/cli/tests/it/documents.rs")).expect("the tests");
        assert!(tests.contains(&format!("async fn {QUICKSTART}()")) && tests.contains(&format!("{PROGRAM:?}")));
    }

    #[test]
    fn the_readme_has_commands_that_install_the_program() {
        let places = Places::find().expect("the folders");
        let readme = fs::read_to_string(places.root.join("README.md")).expect("the page");
        assert!(installation(&readme).expect("commands").starts_with("cargo xtask web "));
        assert!(installation("# Countersign\n\n## Install\n\nNothing.\n").is_err());
    }
}
