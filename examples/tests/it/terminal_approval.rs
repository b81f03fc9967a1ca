//! The weather in San Francisco.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

/// What is printed before an answer is read: exactly what would run.
const ASKED: &str = r#"Agent Data agent would like to use the tool get_weather with {"location":"San Francisco"}. Do you approve? (y/n)"#;

/// Runs the example in a folder, with this standard input.
fn terminal_approval(folder: &Path, input: &str) -> Output {
    with_args(folder, &[], input)
}

fn with_args(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_terminal_approval"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the example");
    // It may end without reading all of it.
    let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
    child.wait_with_output().expect("output")
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn s6_it_asks_once_and_continues_with_the_decision() {
    for (input, result) in [("Y\n", "The weather in San Francisco is sunny"), ("no\n", "The user rejected this action")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let output = terminal_approval(folder.path(), input);
        let answer = format!("It is sunny in Oakland. About San Francisco: {result}");
        assert_eq!(lines(&output), [ASKED, &answer]);
        // Taken once, and not available to any other process.
        assert!(!folder.path().join("result.json").exists());
        assert!(folder.path().join("result.json.claimed").exists());
    }
}

#[test]
fn s26_without_an_answer_nothing_is_decided() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = terminal_approval(folder.path(), "");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody answered"), "{output:?}");
    let left = std::fs::read_to_string(folder.path().join("result.json.claimed")).expect("the state");
    let state = countersign::RunState::from_json(&left).expect("whole");
    assert_eq!(state.interruptions()[0].args, r#"{"location":"San Francisco"}"#);
}

#[test]
fn u3_help_says_what_it_can_do_and_runs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = lines(&with_args(folder.path(), &["--help"], "")).join("\n");
    assert!(help.contains("San Francisco") && help.contains("COUNTERSIGN_MODEL"), "{help}");
    for wrong in ["--halp", "Oakland"] {
        let refused = with_args(folder.path(), &[wrong], "y\n");
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && told.contains(wrong) && told.contains("San Francisco"), "{told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "it has written nothing");
}

/// The lines of code of a program: neither empty nor a comment.
fn code(program: &str) -> Vec<&str> {
    let lines = program.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect()
}

/// The SDK's own program is the measure: the same in Rust is not longer, though it also says which model answers.
#[test]
fn s1_it_is_no_longer_than_the_same_program_in_typescript() {
    let ours = code(include_str!("../../src/bin/terminal_approval.rs"));
    let theirs = code(include_str!("../fixtures/terminal_approval.ts"));
    assert!(ours.len() <= theirs.len(), "{} lines, and {} in TypeScript", ours.len(), theirs.len());
    // Nor are its lines only longer. TypeScript's library takes the model from the environment by itself.
    let same: Vec<&str> = ours.iter().copied().take_while(|line| !line.starts_with("fn model()")).collect();
    let letters = |lines: &[&str]| lines.concat().chars().filter(|c| !c.is_whitespace()).count();
    assert!(letters(&same) <= letters(&theirs), "{} characters, and {}", letters(&same), letters(&theirs));
}
