//! `cargo xtask`: tasks for the whole repository, one file a command.

mod apt;
mod bench;
mod built;
mod chromium;
mod clean;
mod demo;
mod failures;
mod fuzz;
#[cfg(test)]
mod layout;
mod mutants;
mod npm;
mod package;
mod pooler;
mod postgres;
mod process;
mod python;
mod security;
mod stamp;
mod test;
mod torture;
mod valgrind;
mod web;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  demo [OPTION…]   builds everything and starts the demo; options go to `countersign demo`
  test [--all]     installs what is missing and runs every test; with --all also those that take long: with a proxy whose packages
                   have some 750 MB, and `clean-clone`
  clean-clone      in a clone of what is committed: installs the program as the README says, builds every crate from its package
                   as before publishing, and goes through the quickstart with both programs
  security         runs the tests that docs/security.md names, threat by threat
  web              builds the console, if its sources have changed
  torture [OPTION…]
                   builds everything, and kills servers for some time; `--minutes 30 --store postgres`, more with `--help`
  mutants [NAME… | --report FILE]
                   puts the bugs of tests/mutants into a copy of the sources, one at a time, and runs the tests that must catch each;
                   with --report it writes what came of all of them into a page of Markdown
  package [--allow-dirty]
                   packs the crates and the npm packages of a release, with the console in the server's; publishes nothing
  bench [NAME…]    runs the benchmarks, in release mode
  fuzz [TARGET] [SECONDS]
                   fuzzes what reads input from outside, guided by coverage; 600 seconds are ten minutes for each target";

/// The outcome of a command: `Err` is for standard error.
type Outcome = Result<(), String>;

/// The folders.
struct Places {
    /// The repository.
    root: PathBuf,
    /// The folder of build results.
    target: PathBuf,
}

impl Places {
    fn find() -> Result<Places, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let root = root.ok_or("the repository's folder has no name")?.to_owned();
        // This program is TARGET/debug/xtask, whatever CARGO_TARGET_DIR says.
        let own = std::env::current_exe().map_err(|error| format!("this program's own path is not known: {error}"))?;
        let target = own.parent().and_then(Path::parent);
        let target = target.ok_or("the folder of build results is not known")?.to_owned();
        Ok(Places { root, target })
    }

    /// The console's sources and packages.
    fn web(&self) -> PathBuf {
        self.root.join("web")
    }

    /// The program `countersign` in a profile's build.
    fn countersign(&self, profile: &str) -> PathBuf {
        self.target.join(profile).join("countersign")
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.collect();
    let outcome = Places::find().and_then(|places| match (command.as_deref(), rest.as_slice()) {
        (Some("demo"), options) => demo::run(&places, options),
        (Some("test"), []) => test::run(&places, false),
        (Some("test"), [option]) if option == "--all" => test::run(&places, true),
        (Some("security"), []) => security::run(&places),
        (Some("web"), []) => web::build(&places).map(drop),
        (Some("clean-clone"), []) => clean::run_all(&places, test::FEATURES),
        (Some("torture"), options) => torture::run(&places, options),
        (Some("mutants"), names) => mutants::run(&places, names),
        (Some("package"), []) => package::run_all(&places, false),
        (Some("package"), [option]) if option == "--allow-dirty" => package::run_all(&places, true),
        (Some("bench"), names) => bench::run(&places, names),
        (Some("fuzz"), words) => fuzz::run(&places, words),
        (Some("help" | "--help" | "-h"), _) => {
            println!("{HELP}");
            Ok(())
        }
        (Some(command @ ("test" | "web" | "security" | "package" | "clean-clone")), [option, ..]) => {
            Err(format!("{command} does not take {option:?}\n\n{HELP}"))
        }
        (Some(command), _) => Err(format!("there is no command {command:?}\n\n{HELP}")),
        (None, _) => Err(HELP.to_owned()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
