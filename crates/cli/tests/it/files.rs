//! Spec S12, M2: the built-in tools on a folder, through the whole server.

use std::fs;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, run},
};

const WORKSPACE: &str = "\n[workspace]\npath = \".\"\n";

fn call(name: &str, args: &Value) -> Value {
    json!({ "name": name, "args": args })
}

/// The pending request under the session's first key.
async fn request(server: &Server) -> Value {
    server.until_status("s", "awaiting_input").await;
    server.get("/v1/approvals/s_1").await.ok()
}

async fn say(server: &Server, key: &str, decisions: &Value) {
    server.post(&format!("/v1/approvals/{key}"), &json!({ "decisions": decisions })).await.ok();
}

on_both_stores! {
    async fn s12_a_patch_is_shown_as_a_diff_survives_a_crash_and_is_applied_once(store) {
        let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: new/b.txt\n+b\n*** End Patch";
        let script = json!({ "turns": [
            { "tool_calls": [call("read_file", &json!({ "path": "a.txt" }))] },
            { "tool_calls": [call("apply_patch", &json!({ "patch": patch }))] },
            { "text": "Told: {{ last_tool_result }}" },
        ] });
        let setup = Setup::new(store, &script).built_in(&["read_file", "apply_patch"]).sections(WORKSPACE);
        let mut server = setup.file("a.txt", "one\ntwo\n").start().await;
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        let asked = request(&server).await;
        let preview = find(&asked, "preview").expect("a preview");
        assert_eq!(preview, json!({
            "kind": "diff",
            "text": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n--- /dev/null\n+++ b/new/b.txt\n@@ -0,0 +1 @@\n+b",
            "left_out": 0,
        }));
        let untouched = |server: &Server| {
            assert_eq!(fs::read_to_string(server.path("a.txt")).unwrap(), "one\ntwo\n");
            assert!(!server.path("new").exists());
        };
        untouched(&server);
        if matches!(store, Store::Sqlite) {
            server.kill();
            server.start_again().await;
            assert_eq!(find(&request(&server).await, "preview"), Some(preview));
            untouched(&server);
        }
        say(&server, "s_1", &json!([{ "type": "approve" }])).await;
        server.until_status("s", "completed").await;
        assert_eq!(fs::read_to_string(server.path("a.txt")).unwrap(), "one\n2\n");
        assert_eq!(fs::read_to_string(server.path("new/b.txt")).unwrap(), "b\n");
        let history = server.history("s").await.to_string();
        assert!(history.contains("Told: changed a.txt\\nadded new/b.txt"), "{history}");
    }

    async fn s12_a_shell_that_is_declared_runs_only_what_was_approved(store) {
        let lines = |line: &str| json!({ "commands": [line] });
        let script = json!({ "turns": [
            { "tool_calls": [call("sh", &lines("echo yes > yes")), call("sh", &lines("echo no > no"))] },
            { "text": "done" },
        ] });
        let section = "builtin = \"shell\"\nworkspace = \".\"\ntime_limit = 20\ndescription = \"Runs.\"";
        let server = Setup::new(store, &script).tool("sh", section).start().await;
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        let asked = request(&server).await;
        assert!(find(&asked, "preview").unwrap()["text"].as_str().unwrap().ends_with("\n$ echo yes > yes"), "{asked}");
        assert!(!server.path("yes").exists() && !server.path("no").exists());
        say(&server, "s_1", &json!([{ "type": "approve" }, { "type": "reject" }])).await;
        server.until_status("s", "completed").await;
        assert!(server.path("yes").exists() && !server.path("no").exists());
    }
}

/// What a terminal would treat as a command, or hide, is escaped.
#[tokio::test]
async fn s12_a_terminal_shows_what_a_pending_call_would_do() {
    let write = json!({ "path": "a.txt", "content": "\u{1b}[2Jnew\u{202e}\n" });
    let script = json!({ "turns": [{ "tool_calls": [call("write_file", &write)] }, { "text": "done" }] });
    let setup = Setup::new(Store::Memory, &script).built_in(&["write_file"]).sections(WORKSPACE);
    let server = setup.file("a.txt", "old\n").start().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    request(&server).await;
    let url = format!("http://{}", server.address);
    let told = run(&server.path(""), &["sessions", "state", "s", "--url", &url], "", &[]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let diff = "    --- a/a.txt\n    +++ b/a.txt\n    @@ -1 +1 @@\n    -old\n    +\\u{1B}[2Jnew\\u{202E}\n";
    assert!(told.stdout.contains(&format!("pending s_1: write_file\n{diff}")), "{}", told.stdout);
}

/// The first value under this key, anywhere.
fn find(value: &Value, key: &str) -> Option<Value> {
    match value {
        Value::Object(members) => match members.get(key) {
            Some(found) => Some(found.clone()),
            None => members.values().find_map(|value| find(value, key)),
        },
        Value::Array(items) => items.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}
