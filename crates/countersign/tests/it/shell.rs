//! The shell, and programs that decide in a person's place. Over the whole runtime.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use countersign::{
    Agent, Args, Decision, Principal, Status, ToolGuardrailOutput,
    model::scripted::Scripted,
    policy::{Glob, Policy, PolicyRule, Then},
    run::{Code, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{
        Approval, OnApprovalOutput as Said, ToolEntry,
        builtin::{self, Shell, Workspace},
        condition::ProposedCall,
        on_approval,
    },
};
use countersign_core::{
    approval::rule::Always,
    call::{gate::Ask, preview::PreviewKind},
};
use countersign_engine::tool::{CallFacts, OnApproval};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::support::{Stored, decide, results, send, stores};

fn runtime(store: Arc<dyn Store>, tool: ToolEntry, calls: &[Value]) -> Stored {
    let name = tool.spec.name.clone();
    let calls: Vec<Value> = calls.iter().map(|args| json!({ "name": &*name, "args": args })).collect();
    let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }], "at_end": "repeat" });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("coder", ("demo", Arc::new(model))).tool(tool);
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    Stored { runtime, store }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn shell(folder: &Path) -> Shell {
    Shell::new(&Workspace::open(folder).expect("workspace"))
}

/// The results of the calls, in order.
async fn told(runtime: &Stored, session: &str) -> Vec<String> {
    results(runtime, session).await.into_iter().map(|(_, text)| text).collect()
}

/// Returns this verdict, and counts how often it is called.
struct Program {
    says: Result<Said, String>,
    asked: Arc<AtomicUsize>,
}

impl OnApproval for Program {
    fn decide<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Said, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert_ne!(self.says, Err("panic".to_owned()), "as it is told");
        assert!(!call.session_id.is_empty() && !call.args.text().is_empty());
        let says = self.says.clone();
        Box::pin(async move { says })
    }
}

fn program(says: Result<Said, &str>) -> (Arc<Program>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    (Arc::new(Program { says: says.map_err(str::to_owned), asked: asked.clone() }), asked)
}

#[tokio::test]
async fn s12_no_line_of_a_command_looks_like_a_command_of_its_own() {
    let folder = tempfile::tempdir().expect("folder");
    let line = "echo a\n# in /safe\n$ ls";
    let runtime = runtime(memory(), shell(folder.path()).entry(), &[json!({ "commands": [line] })]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let preview = outcome.interruptions[0].actions()[0].preview.clone().expect("preview");
    assert!(preview.text.ends_with("\n$ echo a\n> # in /safe\n> $ ls"), "{}", preview.text);
}

#[tokio::test]
async fn s12_command_lines_run_in_the_folder_one_after_the_other() {
    let folder = tempfile::tempdir().expect("folder");
    let lines = ["printf hello > a; cat a", "echo oops >&2; exit 3", "cat a; pwd"];
    let runtime = runtime(memory(), shell(folder.path()).entry(), &[json!({ "commands": lines })]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let preview = outcome.interruptions[0].actions()[0].preview.clone().expect("preview");
    let path = folder.path().canonicalize().expect("path");
    let path = path.display();
    assert_eq!(preview.kind, PreviewKind::Text);
    assert_eq!(preview.text, format!("# in {path}\n$ {}\n$ {}\n$ {}", lines[0], lines[1], lines[2]));
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let expected = format!(
        "$ {}\nhello\n[exit code 0]\n\n$ {}\n[standard error]\noops\n[exit code 3]\n\n$ {}\nhello{path}\n[exit code 0]\n",
        lines[0], lines[1], lines[2]
    );
    assert_eq!(told(&runtime, "s1").await, [expected]);
}

/// The model would take it that nothing has run.
#[tokio::test]
async fn s12_what_has_run_is_told_though_the_next_command_line_cannot_be_started() {
    let parent = tempfile::tempdir().expect("folder");
    let folder = parent.path().join("work");
    std::fs::create_dir(&folder).expect("folder");
    let lines = ["echo paid; rmdir \"$PWD\"", "echo next", "echo last"];
    let runtime = runtime(memory(), shell(&folder).entry(), &[json!({ "commands": lines })]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let told = told(&runtime, "s1").await;
    let begins = format!("$ {}\npaid\n[exit code 0]\n\n$ echo next\n[not run: sh cannot be started: ", lines[0]);
    assert!(told[0].starts_with(&begins) && told[0].ends_with("\n[1 more not run]"), "{told:?}");
}

#[tokio::test]
async fn s12_command_lines_that_no_shell_takes_reach_no_person_and_no_edit_makes_one() {
    let folder = tempfile::tempdir().expect("folder");
    let wrong = [json!({ "commands": vec!["true"; 51] }), json!({ "commands": ["touch a\0b"] })];
    let calls = [wrong[0].clone(), wrong[1].clone(), json!({ "commands": ["echo good"] })];
    let runtime = runtime(memory(), shell(folder.path()).entry(), &calls);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let asked: Vec<&str> = outcome.interruptions[0].actions().iter().map(|action| action.args.text()).collect();
    assert_eq!(asked, [r#"{"commands":["echo good"]}"#]);
    let refusals = ["1 to 50 command lines; this one has 51", "a command line must not contain a NUL character"];
    let told = told(&runtime, "s1").await;
    for (i, (wrong, why)) in wrong.iter().zip(refusals).enumerate() {
        assert!(told[i].contains(why), "{told:?}");
        let edit = Decision::edit("shell", Args::parse(&wrong.to_string()).expect("args"));
        let refused = decide(&runtime, &outcome.pending[0], vec![edit]).await.expect_err("refused");
        assert_eq!(refused.code, Code::InvalidEdit);
        assert!(refused.message.contains(why), "{refused}");
    }
    let edit = Decision::edit("shell", Args::parse(r#"{"commands":["echo better"]}"#).expect("args"));
    decide(&runtime, &outcome.pending[0], vec![edit]).await.expect("it fits");
    assert!(self::told(&runtime, "s1").await[2].contains("better\n[exit code 0]"));
}

/// Calls of one answer start as tasks: the change takes longer to begin than the command line that uses it.
#[tokio::test]
async fn s12_command_lines_wait_for_the_changes_that_stand_before_them() {
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("deploy.sh"), "echo old").expect("before");
    let workspace = Workspace::open(folder.path()).expect("workspace");
    let slow = |_: ProposedCall| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        ToolGuardrailOutput::Allow
    };
    let write = builtin::write_file(&workspace).needs_approval(Approval::never()).input_guardrail("slow", slow);
    let shell = Shell::new(&workspace).entry().needs_approval(Approval::never());
    let calls = json!([
        { "name": "write_file", "args": { "path": "deploy.sh", "content": "echo new" } },
        { "name": "shell", "args": { "commands": ["sh deploy.sh", "echo more > out"], "timeout_ms": 60000.0 } },
        { "name": "read_file", "args": { "path": "out" } },
    ]);
    let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("coder", ("demo", Arc::new(model))).tool(write).tool(shell);
    let store = memory();
    let runtime = Runtime::builder(store.clone()).agent(agent.tool(builtin::read_file(&workspace))).build();
    let runtime = Stored { runtime: runtime.expect("runtime"), store };
    send(&runtime, "s1", "go").await.expect("run");
    let told = told(&runtime, "s1").await;
    assert!(told[1].contains("$ sh deploy.sh\nnew\n") && told[2] == "more\n", "{told:?}");
}

/// The process dies while the first attempt runs, which has removed its folder.
#[tokio::test]
async fn r4_a_second_attempt_that_cannot_start_does_not_say_that_nothing_was_done() {
    let folder = tempfile::tempdir().expect("folder");
    let (place, begun) = (folder.path().join("work"), folder.path().join("begun"));
    std::fs::create_dir(&place).expect("a folder");
    let store = memory();
    let tool = shell(&place).entry().idempotent(true);
    let line = format!("rmdir {0} && touch {1} && sleep 1000", place.display(), begun.display());
    let process = || runtime(store.clone(), tool.clone(), &[json!({ "commands": [line] })]);
    let first = process();
    let outcome = send(&first, "s1", "go").await.expect("paused");
    let is_begun = async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = decide(&first, &outcome.pending[0], vec![Decision::approve()]) => panic!("it sleeps"),
        () = is_begun => {}
    }
    first.shutdown(Duration::ZERO).await;

    let second = process();
    second.start().await.expect("start");
    second.wait(&Principal::trusted(), "s1").await.expect("outcome");
    let told = told(&second, "s1").await;
    let unknown = "It is not known whether this action took effect; it was not run again (sh cannot be started";
    assert!(told[0].starts_with(unknown), "{told:?}");
}

#[tokio::test]
async fn s12_a_command_line_that_takes_too_long_ends_with_all_it_started() {
    let folder = tempfile::tempdir().expect("folder");
    let args =
        json!({ "commands": ["(sleep 1000; touch late) & echo begun; sleep 1000", "touch next"], "timeout_ms": 300 });
    let runtime = runtime(memory(), shell(folder.path()).entry(), &[args]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let begun = Instant::now();
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let told = told(&runtime, "s1").await;
    assert!(
        told[0].contains("[killed: it took longer than 300 ms]") && told[0].contains("[1 more not run]"),
        "{told:?}"
    );
    assert!(!folder.path().join("next").exists() && !folder.path().join("late").exists());
}

#[tokio::test]
async fn x_a_command_line_gets_no_secret_of_the_server_and_cannot_flood_it() {
    let folder = tempfile::tempdir().expect("folder");
    let tool = shell(folder.path()).output_limit(1000).entry();
    // Cargo sets these for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let args = json!({ "commands": ["echo \"[$CARGO_MANIFEST_DIR]\"; cat", "yes | head -c 100000000"] });
    let runtime = runtime(memory(), tool, &[args]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let told = told(&runtime, "s1").await;
    assert!(told[0].contains("\n[]\n[exit code 0]"), "{told:?}");
    assert!(told[0].contains("[killed: it wrote more than 1000 bytes]") && told[0].len() < 3000);
}

#[tokio::test]
async fn m141_a_program_decides_in_a_persons_place_and_its_reason_reaches_the_model() {
    for (name, store, _guard) in stores() {
        let folder = tempfile::tempdir().expect("folder");
        let cases: [(&str, Result<Said, &str>, Option<&str>); 7] = [
            ("approve", Ok(Said::Approve), None),
            ("reason", Ok(Said::Reject(Some("never touch that".to_owned()))), Some("never touch that")),
            ("blank", Ok(Said::Reject(Some("  ".to_owned()))), Some("The user rejected")),
            ("none", Ok(Said::Reject(None)), Some("The user rejected")),
            ("ask", Ok(Said::Ask), None),
            ("error", Err("no connection"), None),
            ("panic", Err("panic"), None),
        ];
        for (session, says, refused) in cases {
            let (decides, asked) = program(says);
            let ran = folder.path().join(session);
            let args = json!({ "commands": [format!("touch {session}")] });
            let tool = shell(folder.path()).entry().on_approval(decides);
            let runtime = runtime(store.clone(), tool, &[args]);
            let outcome = send(&runtime, session, "go").await.expect("run");
            assert_eq!(asked.load(Ordering::SeqCst), 1, "{name} {session}");
            if matches!(session, "ask" | "error" | "panic") {
                assert_eq!(outcome.status, Status::AwaitingInput, "{name} {session}");
                let json = serde_json::to_value(&outcome.interruptions[0]).expect("json");
                let reason = json["review_configs"][0]["reason"].as_str().unwrap_or_default().to_owned();
                assert_eq!(reason.contains("on_approval"), session != "ask", "{name} {session}: {reason}");
                assert!(!ran.exists());
                continue;
            }
            assert_eq!(outcome.status, Status::Completed, "{name} {session}");
            assert_eq!(ran.exists(), refused.is_none(), "{name} {session}");
            if let Some(text) = refused {
                let told = told(&runtime, session).await;
                assert!(told[0].contains(text), "{name} {session}: {told:?}");
            }
            let audit = runtime.audit(&Principal::trusted(), 0, 1000).await.expect("audit").rows;
            let by: Vec<Value> = audit
                .iter()
                .map(|record| serde_json::from_str(record.body.get()).expect("json"))
                .filter(|body: &Value| body["session_id"] == session && body["decided_by"]["type"] == "program")
                .collect();
            assert_eq!(by.len(), 1, "{name} {session}: {audit:?}");
        }
    }
}

#[tokio::test]
async fn m142_a_program_is_not_asked_again_after_a_decision() {
    let folder = tempfile::tempdir().expect("folder");
    let patch = json!({ "patch": "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch" });
    let line = json!({ "commands": ["touch ran"] });
    let workspace = Workspace::open(folder.path()).expect("workspace");
    for (tool, args, made) in
        [(builtin::shell(&workspace), line, "ran"), (builtin::apply_patch(&workspace), patch, "patched")]
    {
        let store = memory();
        let (decides, asked) = program(Ok(Said::Ask));
        let tool = tool.on_approval(decides);
        let first = runtime(store.clone(), tool.clone(), std::slice::from_ref(&args));
        let outcome = send(&first, "s1", "go").await.expect("run");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // Nor when another process resumes it.
        first.shutdown(Duration::from_secs(5)).await;
        let second = runtime(store, tool, &[args]);
        second.start().await.expect("start");
        let outcome = decide(&second, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
        assert_eq!(outcome.status, Status::Completed);
        assert!(folder.path().join(made).exists());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn s12_a_standing_rule_comes_before_a_program_and_each_call_is_asked_about_once() {
    let folder = tempfile::tempdir().expect("folder");
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let decides = {
        let seen = seen.clone();
        on_approval(move |call: ProposedCall| {
            let line = call.args.value()["commands"][0].as_str().unwrap_or_default().to_owned();
            seen.lock().expect("seen").push(line.clone());
            async move { Ok(if line.contains("ask") { Said::Ask } else { Said::Approve }) }
        })
    };
    let tool = shell(folder.path()).entry().on_approval(decides);
    let one = json!({ "commands": ["echo ask"] });
    let other = json!({ "commands": ["echo other"] });
    let runtime = runtime(memory(), tool, &[one, other]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    assert_eq!(*seen.lock().expect("seen"), ["echo ask", "echo other"]);
    let always = vec![Decision::approve().always(Always::Arguments { until: None })];
    decide(&runtime, &outcome.pending[0], always).await.expect("decide");
    // The rule decides one of the next answer's calls, and the program is called once about the other.
    let outcome = send(&runtime, "s1", "again").await.expect("run");
    assert_eq!(outcome.status, Status::Completed);
    let outcome = send(&runtime, "s1", "again").await.expect("run");
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(seen.lock().expect("seen").iter().filter(|line| *line == "echo ask").count(), 1);
}

#[tokio::test]
async fn p1_a_program_cannot_approve_what_the_policy_asks_about() {
    let folder = tempfile::tempdir().expect("folder");
    for (says, status) in [(Said::Approve, Status::AwaitingInput), (Said::Reject(None), Status::Completed)] {
        let (decides, asked) = program(Ok(says));
        let tool = shell(folder.path()).entry().on_approval(decides);
        let args = json!({ "commands": ["touch ran"] });
        let script = json!({ "turns": [{ "tool_calls": [{ "name": "shell", "args": args }] }, { "text": "done" }] });
        let model = Scripted::from_json(&script.to_string()).expect("script");
        let agent = Agent::new("coder", ("demo", Arc::new(model))).tool(tool);
        let rule =
            PolicyRule { tools: vec![Glob::new("sh*")], then: Then::Ask(Ask::default()), ..PolicyRule::default() };
        let policy = Policy { rules: vec![rule] };
        let runtime = Runtime::builder(memory()).agent(agent).policy(policy).build().expect("runtime");
        let outcome = send(&runtime, "s1", "go").await.expect("run");
        assert_eq!((outcome.status, asked.load(Ordering::SeqCst)), (status, 1));
        assert!(!folder.path().join("ran").exists());
    }
}
