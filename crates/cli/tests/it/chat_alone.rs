//! Spec U3: `chat` with no server running, which is the server itself.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::support::{Server, Setup, Store, run, trade};

const ALONE: [&str; 3] = ["chat", "--config", "countersign.toml"];

fn alone<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ALONE, more].concat()
}

/// The folder of a server that does not run, with no store in it.
async fn folder(setup: Setup) -> Server {
    let mut server = setup.start().await;
    server.kill();
    for file in ["test.db", "test.db-wal", "test.db-shm", "test.db.lock"] {
        let _ = fs::remove_file(server.path(file));
    }
    server
}

/// The records of the audit log.
fn log(server: &Server) -> Vec<Value> {
    let exported = server.command(&["audit", "export", "--config", "countersign.toml"]);
    exported.ok().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["body"].clone()).collect()
}

#[tokio::test]
async fn u3_chat_without_a_server_carries_out_what_is_decided_and_leaves_the_store_in_order() {
    let mut server = folder(Setup::one_trade(Store::Sqlite)).await;
    let mut chat = server.terminal(&alone(&[]), &[]);
    let session = chat.see("> ");
    let session = session.strip_prefix("session ").unwrap().lines().next().unwrap().to_owned();
    chat.type_line("buy");
    chat.see("I will trade.");
    chat.see("later (l)> ");
    assert!(server.calls().is_empty());
    // The store is the chat's now.
    let listed = server.command(&["approvals", "list", "--config", "countersign.toml"]);
    listed.failed(1, "test.db is in use by another countersign process");
    chat.type_line("a");
    chat.see("decided");
    chat.see("[execute_trade success: ");
    chat.see("Result: ");
    chat.see("> ");
    chat.type_line("/quit");
    let shown = chat.shown();
    assert_eq!(chat.ended(), Some(0));
    assert!(!shown.contains("listening") && !shown.contains("INFO") && !shown.contains("WARN"), "no log: {shown}");
    assert_eq!(server.calls().len(), 1);
    let told: Vec<(Value, Value)> =
        log(&server).iter().map(|body| (body["event"].clone(), body["direct"].clone())).collect();
    let direct = |event| (json!(event), json!(true));
    assert_eq!(told, [direct("requested"), direct("decided"), direct("finished")]);
    server.start_again().await;
    server.until_status(&session, "completed").await;
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn u3_chat_without_a_server_that_is_killed_leaves_what_is_pending_to_the_next_one() {
    let server = folder(Setup::one_trade(Store::Sqlite)).await;
    let mut chat = server.terminal(&alone(&["buy"]), &[]);
    let session = chat.see("\n").trim().strip_prefix("session ").unwrap().to_owned();
    chat.see("later (l)> ");
    chat.kill_program();
    assert_ne!(chat.ended(), Some(0));
    let listed = server.command(&["approvals", "list", "--config", "countersign.toml", "--json"]).json();
    assert_eq!(listed["approvals"][0]["approval_key"], format!("{session}_1"));
    let mut chat = server.terminal(&alone(&["--session", &session]), &[]);
    chat.see("    buy");
    chat.see("later (l)> ");
    assert!(server.calls().is_empty());
    chat.type_line("a");
    chat.see("Result: ");
    chat.see("> ");
    chat.press("\x04");
    assert_eq!(chat.ended(), Some(0));
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn u3_chat_without_a_server_says_what_to_do_where_it_cannot_be_one() {
    let server = Setup::one_trade(Store::Sqlite).start().await;
    let taken = server.command(&alone(&["go"]));
    taken.failed(1, "test.db is in use by another countersign process");
    assert!(taken.stderr.contains("if that is a server, ask it, with --url"), "{}", taken.stderr);
    assert_eq!(taken.stderr.trim().lines().count(), 1, "{}", taken.stderr);
    let url = format!("http://{}", server.address);
    server.command(&alone(&["--url", &url])).failed(2, "'--url' cannot be used with '--config'");
    server.command(&["chat", "--store", "test.db", "--url", &url]).failed(2, "'--url' cannot be used with '--store'");
    server.command(&["chat", "--store", "test.db"]).failed(2, "name that, with --config");
    server.command(&["chat", "--as", "ann"]).failed(2, "--config");
    server.command(&alone(&["--as", "ann"])).failed(2, "leave --as out");
    server.command(&alone(&["--session", "s", "--after", "1"])).failed(2, "--json");
    let none = run(&server.path(""), &["chat", "--config", "none.toml"], "", &[]);
    none.failed(1, "none.toml");
    // The server is not disturbed.
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    server.until_status("s", "awaiting_input").await;
}

#[tokio::test]
async fn u3_chat_without_a_server_is_of_the_person_who_is_named() {
    let setup = Setup::one_trade(Store::Sqlite).trade("approval = { levels = [\"admin\"] }");
    let server = folder(setup.person("ann", &[]).person("root", &["admin"])).await;
    let env: Vec<(&str, &str)> = vec![("TEST_TOKEN_ANN", "ann-secret"), ("TEST_TOKEN_ROOT", "root-secret")];
    server.command(&alone(&["buy"])).failed(2, "with --as");
    server.command(&alone(&["buy", "--as", "zoe"])).failed(2, "nobody in [[auth.tokens]] is called \"zoe\"");
    assert!(!server.path("test.db").exists(), "no store was made for nobody");
    let mut chat = server.terminal(&alone(&["buy", "--as", "ann"]), &env);
    let session = chat.see("\n").trim().strip_prefix("session ").unwrap().to_owned();
    chat.see("  requester   ann");
    chat.see("is for admin]");
    chat.see("(pending, /pending to decide) > ");
    chat.type_line("/quit");
    assert_eq!(chat.ended(), Some(0));
    let foreign = server.command(&alone(&["--as", "root", "--session", "s"]));
    assert_eq!(foreign.code, Some(3), "{}", foreign.stderr);
    let key = format!("{session}_1");
    let approve = ["approvals", "approve", &key, "--yes", "--config", "countersign.toml", "--as"];
    server.command(&[&approve[..], &["ann"]].concat()).failed(5, "forbidden");
    server.command(&[&approve[..], &["root"]].concat()).ok();
    assert!(server.calls().is_empty(), "nothing was carried out there");
    let ended = server.command_with(&alone(&["--as", "ann", "--session", &session]), "", &[]);
    ended.ok();
    assert_eq!(server.calls().len(), 1);
    let log = log(&server);
    let decided = log.iter().find(|body| body["event"] == "decided").unwrap();
    assert_eq!((&decided["by"], &decided["direct"]), (&json!("root"), &json!(true)));
    let requested = log.iter().find(|body| body["event"] == "requested").unwrap();
    assert_eq!(requested["direct"], true);
}

#[tokio::test]
async fn u3_chat_without_a_server_on_a_store_in_memory_says_that_it_ends_with_it() {
    let script = json!({ "turns": [{ "text": "You said {{ last_user }}." }, { "tool_calls": [trade(1)] }] });
    let server = folder(Setup::new(Store::Memory, &script)).await;
    let ended = server.command_with(&alone(&[]), "hello\nand now\n", &[]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("You said hello.\n[calls execute_trade: "), "{}", ended.stdout);
    assert!(ended.stderr.contains("nobody can decide it: the store in memory ends with this chat"), "{}", ended.stderr);
}

#[tokio::test]
async fn u3_chat_without_a_server_is_a_node_of_a_database_while_it_lasts() {
    let mut server = Setup::one_trade(Store::Postgres).start().await;
    let ended = server.command(&alone(&["buy"]));
    assert_eq!(ended.code, Some(7), "{}{}", ended.stdout, ended.stderr);
    let session = ended.stderr.lines().find_map(|line| line.strip_prefix("session ")).unwrap().to_owned();
    let key = format!("{session}_1");
    let alive = "SELECT count(*) FROM nodes WHERE until > clock_timestamp()";
    assert_eq!(server.database().unwrap().query(alive), [[Some("1".to_owned())]], "the chat has left");
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    let decided = server.post(&format!("/v1/approvals/{key}?wait=true"), &yes).await.ok();
    assert_eq!((&decided["status"], server.calls().len()), (&json!("completed"), 1));
    server.kill();
    let again = server.command(&alone(&["--session", &session, "more"]));
    assert_eq!(again.code, Some(7), "{}{}", again.stdout, again.stderr);
}

/// Warnings are for the person at the terminal, beside what is printed for programs.
#[tokio::test]
async fn u3_chat_without_a_server_warns_on_standard_error_only() {
    let script = json!({ "turns": [{ "text": "Hello." }], "at_end": "repeat" });
    let server = folder(Setup::new(Store::Sqlite, &script)).await;
    assert_eq!(server.command(&alone(&["hi"])).ok(), "Hello.\n");
    fs::set_permissions(server.path("test.db"), fs::Permissions::from_mode(0o644)).unwrap();
    let warned = server.command(&alone(&["hi"]));
    assert_eq!(warned.ok(), "Hello.\n");
    assert!(
        warned.stderr.contains("test.db may be used by other users of this machine (mode 644)"),
        "{}",
        warned.stderr
    );
}
