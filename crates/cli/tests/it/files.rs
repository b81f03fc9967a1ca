//! Spec S12, M2: the built-in tools on a folder, through the whole server.

use std::fs;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Server, Setup, Store, policy::people, run},
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
        let mut server = setup.file("a.txt", "one\ntwo\n").pending().await;
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

    async fn s12_what_an_edit_would_do_is_shown_before_it_is_decided_and_nothing_changes(store) {
        let write = |path: &str, content: &str| call("write_file", &json!({ "path": path, "content": content }));
        let script = json!({ "turns": [{ "tool_calls": [write("a.txt", "model"), write("b.txt", "model")] }, { "text": "done" }] });
        let rules = "\n[[policy.rules]]\ntool = \"write_file\"\nrequire = true\nlevels = [\"admin\", \"legal\"]\n";
        let setup = Setup::new(store, &script).built_in(&["write_file"]).sections(WORKSPACE);
        let server = people(setup, rules).start().await;
        server.say_as("alice", "s").await;
        let asked = server.ask_as("bob", "GET", "/v1/approvals/s_1", None).await.ok();
        let told = server.told().await;
        let path = "/v1/approvals/s_1/preview";
        let edited = write("b.txt", "person\n");
        let edit = json!({ "action": 1, "edited_action": edited, "digest": asked["actions"][1]["digest"] });
        let found = server.ask_as("bob", "POST", path, Some(&edit)).await.ok();
        let config = &found["review_config"];
        assert_eq!((&found["outcome"], &config["role"], &config["level"]), (&json!("asks"), &json!("legal"), &json!(2)));
        assert_eq!(found["preview"]["text"], "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+person");
        // Somebody who may not decide it may not preview it either.
        server.ask_as("alice", "POST", path, Some(&edit)).await.problem(403, "forbidden");
        server.ask_as("dan", "POST", path, Some(&edit)).await.problem(404, "approval_not_found");
        // An error of the edit is the answer; an error of the request is a refusal.
        let wrong = server.preview_as("bob", "s_1", &call("write_file", &json!({ "path": 1, "content": "" }))).await.ok();
        assert_eq!((&wrong["outcome"], &wrong["problem"]["code"]), (&json!("refused"), &json!("invalid_edit")));
        assert_eq!(wrong["problem"]["details"]["errors"][0]["pointer"], "/path");
        assert_eq!(wrong.get("preview"), None);
        for (member, value, status, code) in [("digest", json!("x"), 409, "stale_action"), ("action", json!(2), 400, "invalid_message")] {
            let mut other = edit.clone();
            other[member] = value;
            server.ask_as("bob", "POST", path, Some(&other)).await.problem(status, code);
        }
        assert_eq!(server.ask_as("bob", "GET", "/v1/approvals/s_1", None).await.ok(), asked);
        assert_eq!(server.told().await, told);
        assert!(!server.path("a.txt").exists() && !server.path("b.txt").exists());
        // Once it is decided, the next person is shown the same.
        let decisions = json!({ "decisions": [{ "type": "approve" }, { "type": "edit", "edited_action": edited }] });
        server.ask_as("bob", "POST", "/v1/approvals/s_1?wait=true", Some(&decisions)).await.ok();
        let next = server.ask_as("dan", "GET", "/v1/approvals/s_2", None).await.ok();
        assert_eq!(next["actions"][1]["preview"], found["preview"]);
        server.ask_as("bob", "POST", path, Some(&edit)).await.problem(409, "approval_already_resolved");
    }

    async fn s12_a_shell_that_is_declared_runs_only_what_was_approved(store) {
        let lines = |line: &str| json!({ "commands": [line] });
        let script = json!({ "turns": [
            { "tool_calls": [call("sh", &lines("echo yes > yes")), call("sh", &lines("echo no > no"))] },
            { "text": "done" },
        ] });
        let section = "builtin = \"shell\"\nworkspace = \".\"\ntime_limit = 20\ndescription = \"Runs.\"";
        let server = Setup::new(store, &script).tool("sh", section).pending().await;
        let asked = request(&server).await;
        assert!(find(&asked, "preview").unwrap()["text"].as_str().unwrap().ends_with("\n$ echo yes > yes"), "{asked}");
        assert!(!server.path("yes").exists() && !server.path("no").exists());
        say(&server, "s_1", &json!([{ "type": "approve" }, { "type": "reject" }])).await;
        server.until_status("s", "completed").await;
        assert!(server.path("yes").exists() && !server.path("no").exists());
    }
}

/// Shell tools are not bound by it: nothing is said of them here.
#[tokio::test]
async fn s12_x_file_tools_touch_neither_the_store_nor_the_configuration() {
    let own =
        ["countersign.toml", "script.json", "test.db", "test.db-wal", "test.db-shm", "test.db-journal", "test.db.lock"];
    let write = |path: &str| call("write_file", &json!({ "path": path, "content": "mine" }));
    let calls: Vec<Value> = own.iter().map(|path| write(path)).chain([write("mine.toml")]).collect();
    let read = own.iter().map(|path| call("read_file", &json!({ "path": path })));
    let script =
        json!({ "turns": [{ "tool_calls": calls }, { "tool_calls": read.collect::<Vec<_>>() }, { "text": "done" }] });
    let sections = format!("{WORKSPACE}[tools.write_file]\napproval = false\n");
    let setup = Setup::new(Store::Sqlite, &script).built_in(&["write_file", "read_file"]).sections(&sections);
    let server = setup.start().await;
    let config = fs::read_to_string(server.path("countersign.toml")).unwrap();
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    server.until_status("s", "completed").await;
    let history = server.history("s").await.to_string();
    for path in own {
        let refused = format!("{path} belongs to the server itself, and is not for tools");
        assert_eq!(history.matches(&refused).count(), 2, "{path}: {history}");
    }
    assert_eq!(fs::read_to_string(server.path("mine.toml")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(server.path("countersign.toml")).unwrap(), config);
    assert!(!server.path("test.db-journal").exists());
}

/// The reviewer has approved what the program of the file does, not that of tomorrow's file.
#[tokio::test]
async fn r1_a_call_whose_program_changes_while_it_waits_is_asked_about_again() {
    let script = json!({ "turns": [{ "tool_calls": [call("pay", &json!({}))] }, { "text": "done" }] });
    let section = "description = \"Pays.\"\nparameters = { type = \"object\", properties = {} }\napproval = true\n\
                   command = [\"sh\", \"-c\", \"echo paid > one\"]";
    let mut server = Setup::new(Store::Sqlite, &script).tool("pay", section).pending().await;
    request(&server).await;
    server.kill();
    server.configure(|text| text.replace("echo paid > one", "echo paid > two"));
    server.start_again().await;
    let approve = json!({ "decisions": [{ "type": "approve" }] });
    let again = server.post("/v1/approvals/s_1?wait=true", &approve).await.ok();
    assert_eq!(again["status"], "awaiting_input", "{again}");
    assert!(!server.path("one").exists() && !server.path("two").exists());
    let done = server.post("/v1/approvals/s_2?wait=true", &approve).await.ok();
    assert_eq!(done["status"], "completed", "{done}");
    assert!(!server.path("one").exists() && server.path("two").exists());
}

/// What a terminal would treat as a command, or hide, is escaped.
#[tokio::test]
async fn s12_a_terminal_shows_what_a_pending_call_would_do() {
    let write = json!({ "path": "a.txt", "content": "\u{1b}[2Jnew\u{202e}\n" });
    let script = json!({ "turns": [{ "tool_calls": [call("write_file", &write)] }, { "text": "done" }] });
    let setup = Setup::new(Store::Memory, &script).built_in(&["write_file"]).sections(WORKSPACE);
    let server = setup.file("a.txt", "old\n").pending().await;
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
