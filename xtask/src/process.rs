//! Running programs: each command is printed first, and a missing program is named with its remedy.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, ErrorKind},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use crate::Outcome;

/// A program to run in `folder`, without input.
pub(crate) fn program(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder).stdin(Stdio::null());
    // Cargo sets variables about this program's own package; other build scripts must not see them, or they would run
    // again each time the repository is built without xtask.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(&name);
        }
    }
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo(folder: &Path) -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), folder)
}

/// The same for builds beside tests: the tests go first.
pub(crate) fn patient_cargo(folder: &Path) -> Command {
    let mut command = program("nice", folder);
    command.args(["-n", "19"]).arg(cargo(folder).get_program());
    command
}

/// Prints a line about the current step.
pub(crate) fn say(line: &str) {
    println!("==> {line}");
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Outcome {
    say(&shown(command));
    match command.status() {
        Ok(status) => ended_well(command, status),
        Err(error) => Err(not_started(command, &error)),
    }
}

/// Runs a command to its end. Each line that it prints is given to `read` at once.
pub(crate) fn run_reading(command: &mut Command, mut read: impl FnMut(&str)) -> Outcome {
    say(&shown(command));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| not_started(command, &error))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            read(&String::from_utf8_lossy(&line));
        }
    }
    match child.wait() {
        Ok(status) => ended_well(command, status),
        Err(error) => Err(format!("`{}` was lost: {error}", shown(command))),
    }
}

/// Runs a command beside another one: its output goes into a file, and is shown as a whole when it has ended.
pub(crate) fn run_beside(command: &mut Command, file: &Path) -> Outcome {
    say(&shown(command));
    let told = |error| format!("{} could not be written or read: {error}", file.display());
    let (out, err) = File::create(file).and_then(|file| Ok((file.try_clone()?, file))).map_err(told)?;
    let ended = command.stdout(out).stderr(err).status();
    println!("{}", String::from_utf8_lossy(&fs::read(file).map_err(told)?));
    match ended {
        Ok(status) => ended_well(command, status),
        Err(error) => Err(not_started(command, &error)),
    }
}

fn ended_well(command: &Command, status: ExitStatus) -> Outcome {
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", shown(command))) }
}

/// Runs a command for its output, which is not shown.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    match command.stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Ok(output) => Err(format!("`{}` failed ({})", shown(command), output.status)),
        Err(error) => Err(not_started(command, &error)),
    }
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    let name = command.get_program().to_string_lossy();
    if error.kind() == ErrorKind::NotFound {
        format!("`{name}` is not installed, or not in PATH")
    } else {
        format!("`{name}` could not be started: {error}")
    }
}
