//! Real processes: each test checks one promise of [`super::CommandTool`].

use std::{
    fs,
    time::{Duration, Instant},
};

use super::*;

fn sh(script: &str) -> CommandTool {
    CommandTool::new(["/bin/sh", "-c", script]).expect("argv")
}

async fn run(tool: &CommandTool, input: &str) -> Result<String, ToolError> {
    let own = [("COUNTERSIGN_IDEMPOTENCY_KEY", "s1/c1".to_owned()), ("COUNTERSIGN_TOOL_USE_ID", "a\0b".to_owned())];
    tool.inner.run(input, &own, Locale::En).await
}

async fn error(tool: &CommandTool) -> String {
    run(tool, "{}").await.expect_err("an error").message
}

/// Whether the process whose id the script wrote into `file` is still running (a zombie is not).
fn runs(file: &Path) -> bool {
    let id = fs::read_to_string(file).expect("the script wrote its process id");
    match fs::read_to_string(format!("/proc/{}/stat", id.trim())) {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => false,
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 5 seconds: {what}");
}

#[tokio::test]
async fn m2_a_command_reads_exactly_the_canonical_arguments() {
    let args = r#"{"n":9007199254740993,"p":1.10,"s":"$(id) `id` \u0000 ü"}"#;
    assert_eq!(run(&sh("cat"), args).await.expect("result"), args);
}

#[tokio::test]
async fn m2_arguments_larger_than_a_pipe_reach_a_command_that_answers_at_the_same_time() {
    let args = "x".repeat(200_000);
    assert_eq!(run(&sh("cat"), &args).await.expect("result").len(), args.len());
}

#[tokio::test]
async fn m2_a_command_may_ignore_its_arguments() {
    let args = "x".repeat(200_000);
    assert_eq!(run(&sh("echo done"), &args).await.expect("result"), "done\n");
}

#[tokio::test]
async fn x_a_command_gets_no_secret_of_the_server() {
    // Cargo sets this one for every test, as an operator's key would be set for the server.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok(), "the planted variable");
    let seen = run(&sh("/usr/bin/env | cut -d= -f1 | sort"), "{}").await.expect("result");
    let known = [
        "_",
        "COUNTERSIGN_IDEMPOTENCY_KEY",
        "COUNTERSIGN_TOOL_USE_ID",
        "HOME",
        "LANG",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHLVL",
        "TZ",
    ];
    assert!(seen.lines().all(|name| known.contains(&name)), "{seen}");
    let named = sh("echo $CARGO_MANIFEST_DIR").pass_env(["CARGO_MANIFEST_DIR"]);
    assert_ne!(run(&named, "{}").await.expect("result").trim(), "");
}

#[tokio::test]
async fn m2_a_command_gets_the_idempotency_key() {
    assert_eq!(run(&sh("printf %s $COUNTERSIGN_IDEMPOTENCY_KEY"), "{}").await.expect("result"), "s1/c1");
}

#[tokio::test]
async fn m2_a_non_zero_exit_is_an_error_with_its_stderr() {
    assert_eq!(
        error(&sh("echo out; echo no such symbol >&2; exit 3")).await,
        "the command failed with exit code 3: no such symbol"
    );
    assert_eq!(error(&sh("exit 1")).await, "the command failed with exit code 1 and wrote nothing");
    let only_output = error(&sh("echo no funds; exit 1")).await;
    assert_eq!(only_output, "the command failed with exit code 1 and wrote no error; its output began: no funds");
}

#[tokio::test]
async fn m2_a_signal_is_an_error_that_names_it() {
    assert_eq!(error(&sh("kill -TERM $$")).await, "the command was ended by signal 15 and wrote nothing");
}

#[tokio::test]
async fn m2_only_the_end_of_a_long_stderr_is_kept() {
    let message = error(&sh("i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1")).await;
    assert!(message.ends_with("line 2999") && message.len() < 5000, "{} bytes", message.len());
}

#[tokio::test]
async fn m2_a_missing_program_is_named() {
    let tool = CommandTool::new(["./no-such-program"]).expect("argv");
    assert!(error(&tool).await.contains("the program ./no-such-program, or the interpreter it names, was not found"));
    let file = tempfile::NamedTempFile::new().expect("file");
    let tool = CommandTool::new([file.path().to_str().expect("path")]).expect("argv");
    assert!(error(&tool).await.contains("is not a program that the server may run"));
    assert!(
        error(&sh("true").cwd("/no/such/place")).await.contains("working directory /no/such/place is not a directory")
    );
    assert!(CommandTool::new(Vec::<String>::new()).is_err());
    assert!(CommandTool::new(["a\0b"]).is_err());
}

#[tokio::test]
async fn m2_a_relative_program_is_relative_to_the_working_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("dir");
    let program = dir.path().join("tool.sh");
    fs::write(&program, "#!/bin/sh\npwd\n").expect("write");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("mode");
    let tool = CommandTool::new(["./tool.sh"]).expect("argv").cwd(dir.path());
    let printed = run(&tool, "{}").await.expect("result");
    assert_eq!(Path::new(printed.trim()), dir.path().canonicalize().expect("path"));
}

#[tokio::test]
async fn r9_output_that_is_not_utf8_is_replaced_and_says_so() {
    let result = run(&sh(r"printf 'a\377b'"), "{}").await.expect("result");
    assert_eq!(result, "a\u{fffd}b\n[the output was not valid UTF-8: each wrong part is shown as \u{fffd}]");
}

#[tokio::test]
async fn m2_output_over_the_limit_is_an_error_and_ends_the_command() {
    let start = Instant::now();
    let message = error(&sh("yes").output_limit(1000)).await;
    assert!(message.starts_with("the command wrote more than 1000 bytes of output (its output_limit) and was stopped"));
    assert!(message.len() < 2000 && start.elapsed() < Duration::from_secs(10));
    let exact = run(&sh("printf 12345").output_limit(5), "{}").await.expect("exactly the limit");
    assert_eq!(exact, "12345");
}

#[tokio::test]
async fn m2_the_time_limit_ends_the_command_and_all_it_started() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("grandchild");
    let script = format!("sleep 600 & echo $! > {}; wait", file.display());
    let message = error(&sh(&script).time_limit(Duration::from_secs(1))).await;
    assert!(
        message.starts_with("the command did not end within 1 seconds (its time_limit) and was stopped"),
        "{message}"
    );
    until("the grandchild is gone", || !runs(&file)).await;
}

#[tokio::test]
async fn m2_dropping_the_call_ends_the_command_and_all_it_started() {
    let dir = tempfile::tempdir().expect("dir");
    let (child, grandchild) = (dir.path().join("child"), dir.path().join("grandchild"));
    // The child ignores every signal it can.
    let script = format!(
        "trap '' TERM INT HUP; echo $$ > {}; sleep 600 & echo $! > {}; wait",
        child.display(),
        grandchild.display()
    );
    let tool = sh(&script);
    let call = tokio::spawn(async move { run(&tool, "{}").await });
    until("both run", || fs::read_to_string(&grandchild).is_ok_and(|id| id.ends_with('\n'))).await;
    assert!(runs(&child) && runs(&grandchild));
    call.abort();
    until("both are gone", || !runs(&child) && !runs(&grandchild)).await;
}

#[tokio::test]
async fn m2_a_process_left_behind_neither_hangs_the_call_nor_survives_it() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("grandchild");
    let start = Instant::now();
    let tool = sh(&format!("sleep 600 & echo $! > {}; echo started", file.display()));
    assert_eq!(run(&tool, "{}").await.expect("result"), "started\n");
    assert!(start.elapsed() < Duration::from_secs(5));
    until("the grandchild is gone", || !runs(&file)).await;
}

#[tokio::test]
async fn m2_a_process_that_left_the_group_does_not_hang_the_call() {
    let start = Instant::now();
    assert_eq!(run(&sh("setsid sleep 3 & echo started"), "{}").await.expect("result"), "started\n");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn r9_many_commands_at_once_do_not_disturb_each_other() {
    let calls = (0..40).map(|i| async move {
        let args = format!("{{\"i\":{i}}}");
        assert_eq!(run(&sh("cat; exit 0"), &args).await.expect("result"), args);
    });
    futures::future::join_all(calls).await;
}
