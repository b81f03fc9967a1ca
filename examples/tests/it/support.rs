//! Examples as processes: run to their end, or killed while they ask.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Output, Stdio},
};

fn spawn(program: &str, args: &[&str]) -> Child {
    Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example")
}

/// Runs an example with this standard input.
pub(crate) fn run(program: &str, args: &[&str], input: &str) -> Output {
    let mut child = spawn(program, args);
    // It may end without reading all of it.
    let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
    child.wait_with_output().expect("output")
}

/// The output of an example that succeeds.
pub(crate) fn printed(program: &str, args: &[&str], input: &str) -> String {
    let output = run(program, args, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The error of an example that fails.
pub(crate) fn refused(program: &str, args: &[&str]) -> String {
    let output = run(program, args, "");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Kills an example without warning when it asks this; returns its output until then.
pub(crate) fn killed_when_it_asks(program: &str, args: &[&str], question: &str) -> String {
    let mut child = spawn(program, args);
    let mut printed = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    while !printed.contains(question) {
        printed += &lines.next().expect("it asks").expect("a line");
        printed.push('\n');
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    printed
}
