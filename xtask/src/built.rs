//! Tests that are built once, with features that other crates of a user's program may enable, and run one by one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Places,
    process::{self, patient_cargo, program},
};

/// Test programs.
pub(crate) struct Built(Vec<Test>);

struct Test {
    package: String,
    /// The folder of its package.
    folder: PathBuf,
    executable: PathBuf,
}

/// Builds the unit tests and the tests in `tests/it` of these packages. One build serves all: cargo would rebuild their
/// shared dependencies for each selection of packages.
pub(crate) fn tests(places: &Places, packages: &[String], features: &str) -> Result<Built, String> {
    let mut build = patient_cargo(&places.root);
    build.args(["test", "--no-run", "--message-format=json-render-diagnostics", "--lib", "--test", "it"]);
    for package in packages {
        build.args(["-p", package]);
    }
    build.args(["--features", features]);
    // They run once: they are neither rebuilt nor debugged.
    build.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "false")]);
    let mut built = Vec::new();
    process::run_reading(&mut build, |line| built.extend(test(line)))?;
    Ok(Built(built))
}

impl Built {
    /// Commands that run a package's tests, as cargo would. There is at least one.
    pub(crate) fn programs(&self, package: &str) -> Result<impl Iterator<Item = Command>, String> {
        let mut of = self.0.iter().filter(move |test| test.package == package).peekable();
        if of.peek().is_none() {
            return Err(format!("cargo has built no tests of {package}"));
        }
        Ok(of.map(|test| {
            let mut command = program(&test.executable, &test.folder);
            command.env("CARGO_MANIFEST_DIR", &test.folder);
            command
        }))
    }
}

/// A test program in cargo's messages. They also name the programs that the tests start.
fn test(line: &str) -> Option<Test> {
    if !line.contains(r#""test":true},"features""#) {
        return None;
    }
    let executable = PathBuf::from(text(line, "executable")?);
    let folder = Path::new(text(line, "manifest_path")?).parent()?.to_path_buf();
    // The name is left out where it is the folder's.
    let id = text(line, "package_id")?.split_once('#')?.1;
    let package = match id.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => folder.file_name()?.to_str()?.to_owned(),
    };
    Some(Test { package, folder, executable })
}

/// A string member of a line of JSON without escapes, as paths are here.
fn text<'a>(line: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{field}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_program_is_found_in_what_cargo_says() {
        let said = |kind: &str, tests: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///r/crates/core#countersign-core@0.1.0","manifest_path":"/r/crates/core/Cargo.toml","target":{{"kind":["{kind}"],"name":"it","test":true}},"profile":{{"opt_level":"0","test":{tests}}},"features":[],"executable":{executable}}}"#
            )
        };
        let lines = [said("bin", false, r#""/r/target/core""#), said("test", true, r#""/r/target/it-1""#)];
        let built = Built(lines.iter().filter_map(|line| test(line)).collect());
        let commands: Vec<Command> = built.programs("countersign-core").expect("programs").collect();
        let [command] = &commands[..] else { panic!("{} programs", commands.len()) };
        assert_eq!(
            (command.get_program(), command.get_current_dir()),
            ("/r/target/it-1".as_ref(), Some(Path::new("/r/crates/core")))
        );
        assert!(built.programs("countersign").is_err());
        let unnamed = lines[1].replace("#countersign-core@0.1.0", "#0.1.0");
        assert_eq!(test(&unnamed).map(|test| test.package).as_deref(), Some("core"));
        assert!(test(&said("test", true, "null")).is_none());
    }
}
