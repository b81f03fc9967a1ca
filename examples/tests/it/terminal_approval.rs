//! The weather in San Francisco.

use std::{path::Path, process::Output};

use crate::support::run;

/// What is printed before an answer is read: the text that every reviewer sees, and nothing else.
const SHOWN: [&str; 3] = [
    "Agent weather would like to use the tool get_weather with",
    r#"{"location": "San Francisco"}"#,
    // printf '%s' '{"location":"San Francisco"}' | sha256sum
    "(28 bytes, SHA-256 d041d2d45881d016d651aa0eca74b5250773d5365e6bb3f395501a64d0903542)",
];
const ASKED: &str = "Do you approve? (y/n)";

/// Runs the example with this on its standard input.
fn terminal_approval(args: &[&str], input: &str) -> Output {
    run(env!("CARGO_BIN_EXE_terminal_approval"), args, input)
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn saved(folder: &Path) -> String {
    let file = folder.join("result.json").to_string_lossy().into_owned();
    let output = terminal_approval(&["--save", &file], "");
    assert_eq!(lines(&output), [format!("weather-1_1 waits; saved in {file}")]);
    file
}

#[test]
fn s6_in_one_process_it_asks_once_and_goes_on() {
    let approved = terminal_approval(&[], "what?\nY\n");
    let answer = "It is sunny in Oakland. About San Francisco: The weather in San Francisco is sunny";
    assert_eq!(lines(&approved), [&SHOWN[..], &[ASKED, ASKED, answer]].concat());
    let rejected = terminal_approval(&[], "no\n");
    let answer = "It is sunny in Oakland. About San Francisco: The user rejected this action";
    assert_eq!(lines(&rejected), [&SHOWN[..], &[ASKED, answer]].concat());
}

#[test]
fn s17_a_saved_run_goes_on_in_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = saved(folder.path());
    let resumed = terminal_approval(&["--resume", &file], "y\n");
    let answer = "It is sunny in Oakland. About San Francisco: The weather in San Francisco is sunny";
    assert_eq!(lines(&resumed), [&SHOWN[..], &[ASKED, answer]].concat());
}

#[test]
fn s17_a_resumed_run_can_be_saved_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = saved(folder.path());
    let before = std::fs::read_to_string(&file).expect("the state");
    let again = terminal_approval(&["--resume", &file, "--save", &file], "");
    assert_eq!(lines(&again).len(), 1);
    assert_eq!(std::fs::read_to_string(&file).expect("the state"), before);
}

#[test]
fn s26_without_an_answer_nothing_is_decided() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = saved(folder.path());
    let output = terminal_approval(&["--resume", &file], "");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody answered"), "{output:?}");
}

#[test]
fn s21_a_damaged_state_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = saved(folder.path());
    let mut state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("the state")).expect("JSON");
    state["entries"].as_array_mut().expect("entries").remove(1);
    std::fs::write(&file, state.to_string()).expect("written");
    let output = terminal_approval(&["--resume", &file], "y\n");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("Damaged"), "{output:?}");
}
