//! The built-in tools on a folder, and the previews that a reviewer is shown. Over the whole runtime.

use std::{fs, path::Path, sync::Arc, time::Duration};

use countersign::{
    Agent, Args, Decision, Principal, Status, ToolGuardrailOutput,
    model::scripted::Scripted,
    run::{NewDecision, Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::{
        Approval,
        builtin::{self, Workspace},
        condition::ProposedCall,
    },
};
use countersign_core::call::preview::PreviewKind;
use serde_json::{Value, json};

use crate::support::{Stored, decide, results, send, stores};

/// A runtime whose model makes these calls in one answer, and then says `done`.
fn runtime(store: Arc<dyn Store>, folder: &Path, calls: &[(&str, Value)]) -> Stored {
    let calls: Vec<Value> = calls.iter().map(|(name, args)| json!({ "name": name, "args": args })).collect();
    let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }], "at_end": "repeat" });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let workspace = Workspace::open(folder).expect("workspace");
    let mut agent = Agent::new("coder", ("demo", Arc::new(model)));
    for name in countersign_tools::builtin::WORKSPACE_NAMES {
        agent = agent.tool(countersign_tools::builtin::on(&workspace, name).expect("a built-in tool"));
    }
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    Stored { runtime, store }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// What is shown of the first pending action: the kind of its preview, and its text.
fn shown(outcome: &TurnOutcome) -> (PreviewKind, String) {
    let preview = outcome.interruptions[0].actions()[0].preview.as_ref().expect("a preview");
    (preview.kind, preview.text.clone())
}

#[tokio::test]
async fn s12_reading_asks_nobody_and_what_is_outside_cannot_be_read() {
    let folder = tempfile::tempdir().expect("folder");
    let work = folder.path().join("work");
    fs::create_dir_all(work.join("src")).expect("work");
    fs::write(work.join("src/a.rs"), "fn a() {}\n").expect("a");
    fs::write(folder.path().join("secret"), "secret").expect("secret");
    std::os::unix::fs::symlink("../secret", work.join("link")).expect("link");
    let outside = folder.path().join("secret");
    let runtime = runtime(
        memory(),
        &work,
        &[
            ("read_file", json!({ "path": "src/a.rs" })),
            ("list_files", json!({ "depth": 3 })),
            ("read_file", json!({ "path": "../secret" })),
            ("read_file", json!({ "path": outside })),
            ("read_file", json!({ "path": "link" })),
            ("list_files", json!({ "path": ".." })),
        ],
    );
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "done"));
    let told = results(&runtime, "s1").await;
    assert_eq!(told[0], (true, "fn a() {}\n".to_owned()));
    assert_eq!(told[1], (true, "link (symbolic link, not followed)\nsrc/\nsrc/a.rs (10 bytes)".to_owned()));
    for (i, why) in [(2, "has \"..\""), (3, "is absolute"), (4, "is a symbolic link"), (5, "has \"..\"")] {
        assert!(!told[i].0 && told[i].1.contains(why), "{i}: {told:?}");
    }
    assert!(told.iter().all(|(_, text)| !text.contains("secret\n") && text != "secret"));
}

#[tokio::test]
async fn s12_a_write_shows_its_diff_and_waits_for_a_person() {
    for (name, store, _guard) in stores() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("a.txt"), "one\ntwo\nthree\n").expect("a");
        let edit = json!({ "path": "a.txt", "old_string": "two", "new_string": "2\u{202e}" });
        let runtime = runtime(store, folder.path(), &[("edit_file", edit)]);
        let outcome = send(&runtime, "s1", "go").await.expect("run");
        assert_eq!(outcome.status, Status::AwaitingInput, "{name}");
        let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\\u{202E}\n three";
        assert_eq!(shown(&outcome), (PreviewKind::Diff, diff.to_owned()), "{name}");
        assert_eq!(fs::read_to_string(folder.path().join("a.txt")).expect("a"), "one\ntwo\nthree\n");
        let outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
        assert_eq!(outcome.status, Status::Completed, "{name}");
        assert_eq!(fs::read_to_string(folder.path().join("a.txt")).expect("a"), "one\n2\u{202e}\nthree\n");
    }
}

#[tokio::test]
async fn s12_a_call_that_waits_or_is_rejected_has_no_effect() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a"), "a\n").expect("a");
    let patch = "*** Begin Patch\n*** Add File: b\n+b\n*** Delete File: a\n*** End Patch";
    let calls = [
        ("shell", json!({ "commands": ["touch ran"] })),
        ("apply_patch", json!({ "patch": patch })),
        ("write_file", json!({ "path": "c", "content": "c" })),
    ];
    let store = memory();
    let first = runtime(store.clone(), folder.path(), &calls);
    let outcome = send(&first, "s1", "go").await.expect("run");
    assert_eq!(outcome.status, Status::AwaitingInput);
    let only_a = || {
        let names: Vec<_> = fs::read_dir(folder.path()).expect("read").map(|e| e.expect("entry").file_name()).collect();
        names == ["a"]
    };
    assert!(only_a());
    // Nor after a restart: what is pending stays pending.
    first.shutdown(Duration::from_secs(5)).await;
    drop(first);
    let second = runtime(store, folder.path(), &calls);
    second.start().await.expect("start");
    let waits = second.wait(&Principal::trusted(), "s1").await.expect("wait");
    assert_eq!(waits.pending, outcome.pending);
    assert_eq!(shown(&waits), shown(&outcome));
    assert!(only_a());
    let no = vec![Decision::reject(None), Decision::reject(Some("not that".to_owned())), Decision::reject(None)];
    let outcome = decide(&second, &waits.pending[0], no).await.expect("decide");
    assert_eq!(outcome.status, Status::Completed);
    assert!(only_a());
    assert!(results(&second, "s1").await[1].1.contains("not that"));
}

#[tokio::test]
async fn s12_a_patch_is_applied_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let files = || {
        let text = |name: &str| fs::read_to_string(at(name)).ok();
        [text("a"), text("b"), text("c"), text("d/new")]
    };
    fs::write(at("a"), "1\n2\n3\n").expect("a");
    fs::write(at("b"), "b\n").expect("b");
    let before = files();
    let bad = "*** Begin Patch\n*** Update File: a\n@@\n-2\n+two\n*** Add File: d/new\n+x\n*** Update File: b\n@@\n-nowhere\n+x\n*** End Patch";
    let good = "*** Begin Patch\n*** Update File: a\n@@\n 1\n-2\n+two\n*** Add File: d/new\n+x\n*** Update File: b\n*** Move to: c\n*** End Patch";
    let calls = [("apply_patch", json!({ "patch": bad })), ("apply_patch", json!({ "patch": good }))];
    let runtime = runtime(memory(), folder.path(), &calls);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let shown_of = |i: usize| outcome.interruptions[0].actions()[i].preview.clone().expect("preview");
    assert_eq!(shown_of(0).kind, PreviewKind::Failed);
    assert!(shown_of(0).text.contains("b: hunk 1: these lines are not in the file"), "{}", shown_of(0).text);
    let diff = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+x\n\
                --- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+b\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b";
    assert_eq!(shown_of(1).text, diff);
    // The bad one alone, then the good one.
    let later = vec![Decision::approve(), Decision::defer()];
    let outcome = decide(&runtime, &outcome.pending[0], later).await.expect("decide");
    assert_eq!(files(), before);
    let outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(outcome.status, Status::Completed);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(files(), [some("1\ntwo\n3\n"), None, some("b\n"), some("x\n")]);
    let told = results(&runtime, "s1").await;
    assert!(told.contains(&(true, "changed a\nadded d/new\nmoved b to c".to_owned())), "{told:?}");
}

#[tokio::test]
async fn s12_a_patch_for_lines_that_have_changed_since_it_was_shown_changes_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a"), "1\n").expect("a");
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n*** End Patch";
    let runtime = runtime(memory(), folder.path(), &[("apply_patch", json!({ "patch": patch }))]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    fs::write(folder.path().join("a"), "theirs\n").expect("a");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(fs::read_to_string(folder.path().join("a")).expect("a"), "theirs\n");
    let told = results(&runtime, "s1").await;
    assert!(!told[0].0 && told[0].1.contains("these lines are not in the file"), "{told:?}");
}

#[tokio::test]
async fn s12_an_operation_may_be_an_object() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a"), "1\n2\n").expect("a");
    let operations = json!([
        { "type": "create_file", "path": "new", "diff": "+x\n+y" },
        { "type": "update_file", "path": "a", "diff": "@@\n 1\n-2\n+two" },
    ]);
    let runtime = runtime(memory(), folder.path(), &[("apply_patch", json!({ "operations": operations }))]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert_eq!(fs::read_to_string(folder.path().join("a")).expect("a"), "1\ntwo\n");
    assert_eq!(fs::read_to_string(folder.path().join("new")).expect("new"), "x\ny\n");
}

#[tokio::test]
async fn s12_edits_that_are_not_exact_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a"), "x = 1\nx = 1\n").expect("a");
    let edit = |old: &str, new: &str, all: bool| {
        ("edit_file", json!({ "path": "a", "old_string": old, "new_string": new, "replace_all": all }))
    };
    let calls = [edit("x = 1", "y", false), edit("z", "y", false), edit("", "y", false), edit("x", "x", false)];
    let runtime = runtime(memory(), folder.path(), &calls);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve(); 2]).await.expect("decide");
    let told = results(&runtime, "s1").await;
    for (i, why) in ["is in a 2 times", "is not in a", "is empty", "are the same"].into_iter().enumerate() {
        assert!(!told[i].0 && told[i].1.contains(why), "{told:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("a")).expect("a"), "x = 1\nx = 1\n");
}

#[tokio::test]
async fn s12_a_call_that_could_change_no_file_asks_nobody() {
    let folder = tempfile::tempdir().expect("folder");
    let write = |path: &str| ("write_file", json!({ "path": path, "content": "x" }));
    let patch = |text: &str| ("apply_patch", json!({ "patch": text }));
    let calls = [
        write("a/../../b"),
        write("/etc/x"),
        write(&"x".repeat(300)),
        write("./secrets/x"),
        write("secrets//x"),
        patch("*** Begin Patch\nhello\n*** End Patch"),
        patch("*** Begin Patch\n*** Update File: a\n*** Move to: ../b\n*** End Patch"),
        ("edit_file", json!({ "path": "a", "old_string": "", "new_string": "y" })),
    ];
    let runtime = runtime(memory(), folder.path(), &calls);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "done"), "{:?}", outcome.pending);
    let why = [
        "has \"..\"",
        "is absolute",
        "a name of 300 bytes",
        "is to be written \"secrets/x\"",
        "is to be written \"secrets/x\"",
        "begins no file",
        "has \"..\"",
        "is empty",
    ];
    for (told, why) in results(&runtime, "s1").await.iter().zip(why) {
        assert!(!told.0 && told.1.contains(why), "{told:?}");
    }
}

/// Two people: the second sees the first one's edit, not the model's arguments.
#[tokio::test]
async fn s12_who_is_asked_after_an_edit_is_shown_what_the_edited_call_would_do() {
    let folder = tempfile::tempdir().expect("folder");
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "write_file", "args": { "path": "a", "content": "model\n" } }] },
        { "text": "done" },
    ] });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let tool = builtin::write_file(&Workspace::open(folder.path()).expect("workspace"))
        .needs_approval(Approval::always().levels(["first", "second"]));
    let agent = Agent::new("coder", ("demo", Arc::new(model))).tool(tool);
    let runtime = Runtime::builder(memory()).agent(agent).build().expect("runtime");
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    assert!(shown(&outcome).1.ends_with("+model"));
    let args = Args::parse(r#"{"path":"a","content":"person\n"}"#).expect("args");
    let edit = vec![Decision::edit("write_file", args)];
    let outcome = decide(&runtime, &outcome.pending[0], edit).await.expect("edit");
    assert_eq!(outcome.status, Status::AwaitingInput);
    assert!(shown(&outcome).1.ends_with("+person"), "{}", shown(&outcome).1);
    let outcome = decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("approve");
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(fs::read_to_string(folder.path().join("a")).expect("a"), "person\n");
}

#[tokio::test]
async fn s12_calls_of_one_answer_about_the_same_file_all_count() {
    let folder = tempfile::tempdir().expect("folder");
    let text: String = (0..20).map(|i| format!("line {i};\n")).collect();
    fs::write(folder.path().join("a"), &text).expect("a");
    let edit = |i: i32| {
        let (old, new) = (format!("line {i};"), format!("new {i};"));
        ("edit_file", json!({ "path": "a", "old_string": old, "new_string": new }))
    };
    let calls: Vec<_> = (0..20).map(edit).collect();
    let runtime = runtime(memory(), folder.path(), &calls);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve(); 20]).await.expect("decide");
    let after = fs::read_to_string(folder.path().join("a")).expect("a");
    let told = results(&runtime, "s1").await;
    for (i, (success, why)) in told.iter().enumerate() {
        // Each line was changed, or the model got an error.
        assert_eq!(*success, after.contains(&format!("new {i};\n")), "{i}: {why}");
    }
    assert!(told.iter().all(|(success, _)| *success), "{told:?}");
}

/// The first rewrites the file; the second changes a line beside the one that differs then.
#[tokio::test]
async fn s12_an_edit_counts_beside_what_an_earlier_call_of_the_answer_has_written() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("a");
    fs::write(&file, "1\n2\n3\n4\n").expect("a");
    let write = json!({ "path": "a", "content": "one\n2\n3\n4\n" });
    let edit = json!({ "path": "a", "old_string": "3", "new_string": "three" });
    let runtime = runtime(memory(), folder.path(), &[("write_file", write), ("edit_file", edit)]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve(); 2]).await.expect("decide");
    let told = results(&runtime, "s1").await;
    assert!(told.iter().all(|(success, _)| *success), "{told:?}");
    assert_eq!(fs::read_to_string(&file).expect("a"), "one\n2\nthree\n4\n");
}

/// Two sessions are shown one state of a file; what one changes beside the other's line nobody was shown with it.
#[tokio::test]
async fn s12_an_edit_does_not_count_beside_what_another_session_has_changed() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("a");
    fs::write(&file, "# staging\nhost = a\nlimit = 5\n").expect("a");
    let edit = |old: &str, new: &str| json!({ "path": "a", "old_string": old, "new_string": new });
    let runtime = runtime(memory(), folder.path(), &[("edit_file", edit("limit = 5", "limit = 500"))]);
    let one = send(&runtime, "s1", "go").await.expect("run");
    let other = send(&runtime, "s2", "go").await.expect("run");
    let args = Args::parse(&edit("# staging", "# production").to_string()).expect("args");
    decide(&runtime, &other.pending[0], vec![Decision::edit("edit_file", args)]).await.expect("decide");
    assert!(results(&runtime, "s2").await[0].0);
    decide(&runtime, &one.pending[0], vec![Decision::approve()]).await.expect("decide");
    assert!(!results(&runtime, "s1").await[0].0);
    assert_eq!(fs::read_to_string(&file).expect("a"), "# production\nhost = a\nlimit = 5\n");
}

/// One moves to another place what the other was shown to change.
#[tokio::test]
async fn s12_a_call_does_not_change_what_an_earlier_one_of_the_answer_has_put_there() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("a");
    let text = |user: &str, admin: &str| format!("user {user}\n1\n2\n3\n4\n5\nadmin {admin}\n");
    fs::write(&file, text("limit", "none")).expect("a");
    let patch =
        "*** Begin Patch\n*** Update File: a\n@@\n-user limit\n+user 9\n@@\n-admin none\n+admin limit\n*** End Patch";
    let edit = json!({ "path": "a", "old_string": "limit", "new_string": "100" });
    let runtime = runtime(memory(), folder.path(), &[("apply_patch", json!({ "patch": patch })), ("edit_file", edit)]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve(); 2]).await.expect("decide");
    let told = results(&runtime, "s1").await;
    assert!(told[0].0 && !told[1].0, "{told:?}");
    assert_eq!(fs::read_to_string(&file).expect("a"), text("9", "limit"));
}

/// Calls of one answer start as tasks, which begin in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s12_f71_changes_of_one_answer_to_a_file_are_made_in_the_models_order() {
    let folder = tempfile::tempdir().expect("folder");
    let workspace = Workspace::open(folder.path()).expect("workspace");
    for round in 0..30 {
        let (write, edit) = (format!("w{round}"), format!("e{round}"));
        fs::write(folder.path().join(&edit), "0").expect("before");
        let written = |i: i32| json!({ "name": "write_file", "args": { "path": write, "content": i.to_string() } });
        let edited = |i: i32| {
            let (old, new) = (i.to_string(), (i + 1).to_string());
            json!({ "name": "edit_file", "args": { "path": edit, "old_string": old, "new_string": new } })
        };
        let read = json!({ "name": "read_file", "args": { "path": write } });
        let mut calls: Vec<_> = (0..4).map(written).chain((0..4).map(edited)).collect();
        calls.insert(2, read);
        let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] });
        let model = Scripted::from_json(&script.to_string()).expect("script");
        // A later call's guardrail may be done before that of an earlier one.
        let slow = |call: ProposedCall| async move {
            let first = call.args.text().contains("\"0\"");
            tokio::time::sleep(Duration::from_millis(if first { 3 } else { 0 })).await;
            ToolGuardrailOutput::Allow
        };
        let mut agent = Agent::new("coder", ("demo", Arc::new(model))).tool(builtin::read_file(&workspace));
        for tool in [builtin::write_file(&workspace), builtin::edit_file(&workspace)] {
            let tool = tool.needs_approval(Approval::never());
            agent = agent.tool(if round % 2 == 0 { tool } else { tool.input_guardrail("slow", slow) });
        }
        let store = memory();
        let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
        let runtime = Stored { runtime, store };
        let outcome = send(&runtime, "s1", "go").await.expect("run");
        assert_eq!(outcome.status, Status::Completed);
        let told = results(&runtime, "s1").await;
        assert!(told.iter().all(|(success, _)| *success), "{round}: {told:?}");
        assert_eq!(told[2].1, "1", "{round}: a read is between the changes that it stands between");
        let is = |name: &str| fs::read_to_string(folder.path().join(name)).expect("file");
        assert_eq!((is(&write).as_str(), is(&edit).as_str()), ("3", "4"), "{round}");
    }
}

/// An approval is for a change of the file that was shown, not of a later version.
#[tokio::test]
async fn s12_a_write_over_a_file_that_is_not_what_was_shown_is_refused() {
    for (before, meanwhile, written) in [
        (None, Some("theirs\n"), false),
        (Some("old\n"), Some("theirs\n"), false),
        (Some("old\n"), None, false),
        (Some("old\n"), Some("old\n"), true),
        (Some("old\n"), Some("mine\n"), true),
        (None, None, true),
    ] {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("a");
        let store = memory();
        let calls = [("write_file", json!({ "path": "a", "content": "mine\n" }))];
        if let Some(text) = before {
            fs::write(&file, text).expect("before");
        }
        let first = runtime(store.clone(), folder.path(), &calls);
        let outcome = send(&first, "s1", "go").await.expect("run");
        // What was shown is in the journal: a restart loses none of it.
        first.shutdown(Duration::from_secs(5)).await;
        match meanwhile {
            Some(text) => fs::write(&file, text).expect("meanwhile"),
            None => drop(fs::remove_file(&file)),
        }
        let second = runtime(store, folder.path(), &calls);
        let outcome = decide(&second, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
        assert_eq!(outcome.status, Status::Completed);
        let told = &results(&second, "s1").await[0];
        assert_eq!(told.0, written, "{before:?} {meanwhile:?}: {told:?}");
        let after = fs::read_to_string(&file).ok();
        if written {
            assert_eq!(after.as_deref(), Some("mine\n"));
        } else {
            assert!(told.1.contains("may not be as it was when the change was shown; nothing was changed"), "{told:?}");
            assert_eq!(after.as_deref(), meanwhile);
        }
    }
}

/// Makes one call. The file `a` has the first content when it is shown, the second when it is decided. Returns the result
/// for the model, and the file afterwards.
async fn decided_later(
    call: (&str, Value),
    (before, meanwhile): (&str, &str),
    decision: Decision,
) -> ((bool, String), Option<String>) {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("a");
    fs::write(&file, before).expect("before");
    let runtime = runtime(memory(), folder.path(), &[call]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    fs::write(&file, meanwhile).expect("meanwhile");
    let outcome = decide(&runtime, &outcome.pending[0], vec![decision]).await.expect("decide");
    assert_eq!(outcome.status, Status::Completed);
    let told = results(&runtime, "s1").await.remove(0);
    (told, fs::read_to_string(&file).ok())
}

/// An edit changes what is written, and shows nobody the file again.
#[tokio::test]
async fn s12_an_edited_write_over_a_file_that_is_not_what_was_shown_is_refused() {
    let write = |path: &str, content: &str| {
        let args = json!({ "path": path, "content": content }).to_string();
        ("write_file", Args::parse(&args).expect("args"))
    };
    let call = || ("write_file", json!({ "path": "a", "content": "mine\n" }));
    for (path, now, written) in [("a", "theirs\n", false), ("a", "old\n", true), ("b", "theirs\n", true)] {
        let (tool, args) = write(path, "better\n");
        let (told, after) = decided_later(call(), ("old\n", now), Decision::edit(tool, args)).await;
        assert_eq!(told.0, written, "{path} {now:?}: {told:?}");
        assert_eq!(after.as_deref(), Some(if written && path == "a" { "better\n" } else { now }));
    }
}

/// A reviewer asked after an edit approves the file that they were shown, not the one the editor was shown.
#[tokio::test]
async fn s12_what_the_last_reviewer_was_shown_is_overwritten_though_an_editor_saw_it_earlier() {
    for (approval, later, written) in [
        (Approval::always().levels(["first", "second"]), None, true),
        (Approval::always().levels(["first", "second"]), Some("newest\n"), false),
        (Approval::always().levels(["first", "second"]), Some("old\n"), false),
        (Approval::always().levels(["first"]).quorum(2), None, true),
        (Approval::always().levels(["first"]).quorum(2), Some("newest\n"), false),
    ] {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("a");
        fs::write(&file, "old\n").expect("before");
        let call = json!({ "name": "write_file", "args": { "path": "a", "content": "model\n" } });
        let script = json!({ "turns": [{ "tool_calls": [call] }, { "text": "done" }] });
        let model = Scripted::from_json(&script.to_string()).expect("script");
        let tool = builtin::write_file(&Workspace::open(folder.path()).expect("workspace")).needs_approval(approval);
        let agent = Agent::new("coder", ("demo", Arc::new(model))).tool(tool);
        let store = memory();
        let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
        let runtime = Stored { runtime, store };
        let outcome = send(&runtime, "s1", "go").await.expect("run");
        assert!(shown(&outcome).1.contains("-old"), "{}", shown(&outcome).1);
        fs::write(&file, "theirs\n").expect("meanwhile");
        let args = Args::parse(r#"{"path":"a","content":"person\n"}"#).expect("args");
        let edit = vec![Decision::edit("write_file", args)];
        let mut outcome = decide(&runtime, &outcome.pending[0], edit).await.expect("edit");
        assert!(shown(&outcome).1.contains("-theirs"), "{}", shown(&outcome).1);
        if let Some(text) = later {
            fs::write(&file, text).expect("later");
        }
        for by in ["ann", "bob"] {
            if let Some(pending) = outcome.pending.first() {
                let by = Principal::person(by, vec!["first".into(), "second".into()]);
                let approved = NewDecision::new(&**pending, vec![Decision::approve()]);
                outcome = runtime.decide_and_run(&by, approved).await.expect("approve");
            }
        }
        assert_eq!(outcome.status, Status::Completed);
        let told = results(&runtime, "s1").await.remove(0);
        assert_eq!(told.0, written, "{later:?}: {told:?}");
        let after = fs::read_to_string(&file).expect("a");
        assert_eq!(after, if written { "person\n" } else { later.unwrap_or("theirs\n") });
    }
}

#[tokio::test]
async fn s12_nothing_is_deleted_or_changed_at_a_place_that_was_not_shown() {
    let patch = |text: &str| ("apply_patch", json!({ "patch": format!("*** Begin Patch\n{text}\n*** End Patch") }));
    let replace = ("edit_file", json!({ "path": "a", "old_string": "foo", "new_string": "bar", "replace_all": true }));
    let hunk = patch("*** Update File: a\n-b\n+B");
    let edit = ("edit_file", json!({ "path": "a", "old_string": "foo", "new_string": "bar" }));
    for (call, before, meanwhile, after) in [
        (patch("*** Delete File: a"), "old junk\n", "old junk\n", None),
        (patch("*** Delete File: a"), "old junk\n", "very important\n", Some("very important\n")),
        (replace.clone(), "foo\n", "foo\nfoo again\n", Some("foo\nfoo again\n")),
        (replace, "foo\nfoo\n", "foo\nfoo\n", Some("bar\nbar\n")),
        // A line that is there once is found wherever it is now, among the same lines.
        (hunk.clone(), "1\n2\n3\nb\n", "new\n1\n2\n3\nb\n", Some("new\n1\n2\n3\nB\n")),
        (edit.clone(), "1\n2\n3\nfoo\n", "new\n1\n2\n3\nfoo\n", Some("new\n1\n2\n3\nbar\n")),
        (hunk.clone(), "a\nb\n", "new\na\nb\n", Some("new\na\nb\n")),
        (hunk.clone(), "a\nb\n", "b\na\nb\n", Some("b\na\nb\n")),
        (hunk.clone(), "b\na\nb\n", "b\na\nb\n", Some("B\na\nb\n")),
        // Nor at one that matches more closely than the one that was shown, nor in one that was none when it was shown.
        (hunk.clone(), "def x():\n    b\n", "def x():\n    b\n1\n2\n3\nb\n", Some("def x():\n    b\n1\n2\n3\nb\n")),
        (hunk, "a\n", "b\n", Some("b\n")),
        (edit.clone(), "# test\nfoo\n# real\n1\n", "# test\n2\n# real\nfoo\n", Some("# test\n2\n# real\nfoo\n")),
        (edit, "1\n", "foo\n", Some("foo\n")),
        (patch("*** Update File: a\n*** Move to: b"), "echo\n", "rm\n", Some("rm\n")),
        (patch("*** Update File: a\n*** Move to: b"), "echo\n", "echo\n", None),
        (
            patch("*** Update File: a\n*** Move to: b\n-b\n+B"),
            "1\n2\n3\nb\n",
            "x\n1\n2\n3\nb\n",
            Some("x\n1\n2\n3\nb\n"),
        ),
    ] {
        let (told, now) = decided_later(call, (before, meanwhile), Decision::approve()).await;
        assert_eq!(now.as_deref(), after, "{before:?} {meanwhile:?}: {told:?}");
        assert_eq!(told.0, now.as_deref() != Some(meanwhile), "{told:?}");
    }
}

/// The folder is shown, or what is in it.
#[tokio::test]
async fn s12_r1_a_call_that_would_run_in_another_folder_is_asked_about_again() {
    let (one, other) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    for call in [
        ("shell", json!({ "commands": ["touch a"] })),
        ("write_file", json!({ "path": "a", "content": "x" })),
        ("apply_patch", json!({ "patch": "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch" })),
    ] {
        let store = memory();
        let calls = [call];
        let first = runtime(store.clone(), one.path(), &calls);
        let asked = send(&first, "s1", "go").await.expect("run");
        first.shutdown(Duration::from_secs(5)).await;
        let second = runtime(store, other.path(), &calls);
        let again = decide(&second, &asked.pending[0], vec![Decision::approve()]).await.expect("decide");
        assert_eq!((again.status, again.pending.len()), (Status::AwaitingInput, 1), "{calls:?}");
        assert_eq!(fs::read_dir(other.path()).expect("folder").count(), 0, "{calls:?}");
        let done = decide(&second, &again.pending[0], vec![Decision::approve()]).await.expect("decide");
        assert_eq!(done.status, Status::Completed);
        assert_eq!(fs::read_dir(one.path()).expect("folder").count(), 0, "{calls:?}");
        for made in fs::read_dir(other.path()).expect("folder") {
            fs::remove_file(made.expect("a file").path()).expect("removed");
        }
    }
}

/// The preview of one call, or why there is none; the approved call says the same.
async fn refused(folder: &Path, tool: &str, args: Value) -> String {
    let runtime = runtime(memory(), folder, &[(tool, args)]);
    let outcome = send(&runtime, "s1", "go").await.expect("run");
    let (kind, text) = shown(&outcome);
    assert_eq!(kind, PreviewKind::Failed, "{text}");
    decide(&runtime, &outcome.pending[0], vec![Decision::approve()]).await.expect("decide");
    let told = results(&runtime, "s1").await;
    assert!(!told[0].0 && told[0].1.contains(&text), "{told:?}\n{text}");
    text
}

#[tokio::test]
async fn r9_an_edit_that_would_make_a_huge_file_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().expect("folder");
    // With the largest of both it would be forty gigabytes.
    fs::write(folder.path().join("a"), " ".repeat(100_000)).expect("a");
    let edit = json!({ "path": "a", "old_string": " ", "new_string": "x".repeat(100), "replace_all": true });
    let why = refused(folder.path(), "edit_file", edit).await;
    assert!(
        why.contains("a would have 10000000 bytes with 100000 places replaced; a file has at most 4194304"),
        "{why}"
    );
}

#[tokio::test]
async fn r9_a_patch_of_too_much_text_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let mut patch = vec!["*** Begin Patch".to_owned()];
    for i in 0..6 {
        fs::write(folder.path().join(format!("f{i}")), format!("first\n{}", "x".repeat(3_000_000))).expect("file");
        patch.push(format!("*** Update File: f{i}\n-first\n+1"));
    }
    patch.push("*** End Patch".to_owned());
    let why = refused(folder.path(), "apply_patch", json!({ "patch": patch.join("\n") })).await;
    assert!(why.contains("have more than 33554432 bytes together"), "{why}");
}
