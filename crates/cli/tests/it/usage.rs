//! Spec U3: exit codes and errors as `docs/command-line.md` has them.

use serde_json::{Value, json};

use crate::support::{Setup, Store, run};

#[tokio::test]
async fn u3_wrong_arguments_have_the_exit_code_of_wrong_arguments_whoever_finds_them() {
    let server = Setup::one_trade(Store::Memory).pending().await;
    for (arguments, says) in [
        (&["approvals", "list", "--url", "foo"][..], "it looks like http://127.0.0.1:7410"),
        (&["sessions", "list", "--url", "ftp://127.0.0.1"], "it must begin with http:// or https://"),
        (&["chat", "--session", "bad id"], "session id"),
        (&["sessions", "show", "bad id"], "session id"),
        (&["sessions", "delete", "s", "bad id", "--yes"], "session id"),
        (&["sessions", "fork", "s", "--session-id", "bad id"], "session id"),
        (&["graph", "--session", "bad id"], "session id"),
        (&["approvals", "show", ""], "cannot be asked for"),
        (&["approvals", "list", "--cursor", "nonsense"], "cursor"),
        (&["sessions", "list", "--cursor", "nonsense"], "cursor"),
        (&["sessions", "history", "s", "--cursor", "nonsense"], "cursor"),
        (&["sessions", "list", "--status", "foo"], "awaiting_input"),
        (&["sessions", "edit", "s", "{oops"], "not valid JSON"),
        (&["sessions", "state", "s", "--checkpoint", "999"], "has positions 1 to"),
        (&["sessions", "fork", "s", "--checkpoint", "999"], "has positions 1 to"),
    ] {
        let ended = server.command(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{says:?} is not in {}", ended.stderr);
    }
    server.command(&["sessions", "show", "s"]).ok();
}

#[tokio::test]
async fn u3_of_several_sessions_all_are_deleted_that_can_be() {
    let server = Setup::one_trade(Store::Memory).start().await;
    for session in ["a", "b", "c", "d"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
    }
    let ended = server.command(&["sessions", "delete", "a", "none", "b", "--yes", "--json"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let done: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&done["deleted"], &done["failed"][0]["session_id"]), (&json!(["a", "b"]), &json!("none")), "{done}");
    assert!(done["failed"][0]["error"].as_str().unwrap().contains("session_not_found"), "{done}");
    let ended = server.command(&["sessions", "delete", "gone", "c", "a", "d", "--yes"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "c: deleted\nd: deleted\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("session_not_found") && ended.stderr.contains("session_deleted"), "{}", ended.stderr);
    assert_eq!(server.command(&["sessions", "list"]).ok(), "");
}

#[test]
fn u3_a_store_that_is_not_there_is_said_so_by_every_command_that_reads_one() {
    let dir = tempfile::tempdir().unwrap();
    let key = format!("[[store.keys]]\nid = \"k\"\nkey_env = \"STORE_KEY\"\n{}", POLICY);
    std::fs::write(dir.path().join("s.json"), r#"{"turns":[]}"#).unwrap();
    std::fs::write(dir.path().join("countersign.toml"), format!("{CONFIG}{key}")).unwrap();
    std::fs::write(dir.path().join("changed.toml"), POLICY).unwrap();
    for arguments in [
        &["audit", "verify"][..],
        &["audit", "export"],
        &["audit", "export", "--store", "none.db"],
        &["policy", "test", "--policy", "changed.toml"],
        &["approvals", "list", "--config", "countersign.toml"],
        &["store", "restored"],
        &["store", "rekey"],
    ] {
        let key = "0123456789abcdef".repeat(4);
        run(dir.path(), arguments, "", &[("STORE_KEY", &key)]).failed(1, "there is no store at ");
    }
    assert!(!dir.path().join("none.db").exists() && !dir.path().join("countersign.db").exists(), "and none is made");
}

const CONFIG: &str = "[models.m]\nprovider = \"scripted\"\nscript = \"s.json\"\n[agents.a]\nmodel = \"m\"\ntools = [\"t\"]\n\
    [tools.t]\ndescription = \"Cats.\"\ncommand = [\"cat\"]\nparameters = { type = \"object\" }\n";
const POLICY: &str = "[[policy.rules]]\ntool = \"t\"\nrequire = true\n";
