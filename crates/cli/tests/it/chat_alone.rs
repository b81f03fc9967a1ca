//! Spec U3: `chat` without a server, in whose place it runs the sessions itself.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    support::{
        DEADLINE, Server, Setup, Store,
        receiver::{Answer, Receiver},
        run, trade,
    },
    webhooks::{hook, notifying},
};

const ALONE: [&str; 3] = ["chat", "--config", "countersign.toml"];

fn alone<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&ALONE, more].concat()
}

/// The folder of a server that is not running, without a store.
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
    chat.see("> ");
    chat.type_line("buy");
    chat.see("session ");
    let session = chat.see("\n").trim().to_owned();
    chat.see("I will trade.");
    chat.see("not now (n)> ");
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
        log(&server).iter().map(|body| (body["event"].clone(), body["via"].clone())).collect();
    let direct = |event| (json!(event), json!("store"));
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
    chat.see("not now (n)> ");
    chat.kill_program();
    assert_ne!(chat.ended(), Some(0));
    let listed = server.command(&["approvals", "list", "--config", "countersign.toml", "--json"]).json();
    assert_eq!(listed["approvals"][0]["approval_key"], format!("{session}_1"));
    let mut chat = server.terminal(&alone(&["--session", &session]), &[]);
    chat.see("    buy");
    chat.see("not now (n)> ");
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
    // The server is not affected.
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    server.until_status("s", "awaiting_input").await;
}

#[tokio::test]
async fn u3_chat_without_a_server_is_of_the_person_who_is_named() {
    let setup = Setup::one_trade(Store::Sqlite).trade("approval = { levels = [\"admin\"] }");
    let server = folder(setup.person("ann", &[]).person("root", &["admin"]).person("mia", &[])).await;
    let secrets = [("ANN", "ann-secret"), ("ROOT", "root-secret"), ("MIA", "mia-secret")];
    let env = secrets.map(|(name, secret)| (format!("TEST_TOKEN_{name}"), secret));
    let env: Vec<(&str, &str)> = env.iter().map(|(name, secret)| (name.as_str(), *secret)).collect();
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
    let foreign = server.command(&alone(&["--as", "mia", "--session", &session]));
    assert_eq!(foreign.code, Some(3), "{}", foreign.stderr);
    assert!(foreign.stderr.contains("(session_not_found)"), "{}", foreign.stderr);
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
    assert_eq!((&decided["by"], &decided["via"]), (&json!("root"), &json!("store")));
    let requested = log.iter().find(|body| body["event"] == "requested").unwrap();
    assert_eq!(requested["via"], "store");
}

#[tokio::test]
async fn u3_chat_without_a_server_lets_nobody_approve_what_they_asked_for_where_another_must() {
    let setup = Setup::one_trade(Store::Sqlite).trade("approval = { levels = [\"admin\"], not_self = true }");
    let server = folder(setup.person("ann", &["admin"]).person("root", &["admin"])).await;
    let env: Vec<(&str, &str)> = vec![("TEST_TOKEN_ANN", "ann-secret"), ("TEST_TOKEN_ROOT", "root-secret")];
    let mut chat = server.terminal(&alone(&["buy", "--as", "ann"]), &env);
    let session = chat.see("\n").trim().strip_prefix("session ").unwrap().to_owned();
    chat.see("not now (n)> ");
    chat.type_line("a");
    chat.see("(forbidden)");
    chat.see("not now (n)> ");
    chat.type_line("n");
    chat.see("(pending, /pending to decide) > ");
    chat.type_line("/quit");
    assert_eq!(chat.ended(), Some(0));
    // The printed command can be typed unchanged.
    let pending = server.command(&alone(&["--as", "ann", "--session", &session]));
    assert_eq!(pending.code, Some(7), "{}", pending.stderr);
    let (config, key) = ("--config countersign.toml --as ann", format!("{session}_1"));
    for command in [format!("approvals show {key} {config}"), format!("chat {config} --session {session}")] {
        assert!(pending.stderr.contains(&format!("`countersign {command}`")), "{command}: {}", pending.stderr);
    }
    assert!(server.calls().is_empty());
    server.command(&["approvals", "approve", &key, "--yes", "--config", "countersign.toml", "--as", "root"]).ok();
}

/// Errors that would end it at once come first.
#[tokio::test]
async fn u3_chat_without_a_server_that_cannot_begin_changes_nothing() {
    let slow = "description = \"Takes long.\"\ncommand = [\"sh\", \"-c\", \"echo begun > begun.log; sleep 30\"]\nparameters = { type = \"object\" }";
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "Done." }] });
    let mut server = folder(Setup::new(Store::Sqlite, &script).tool("slow", slow)).await;
    server.command(&alone(&["--session", "s"])).failed(1, "there is no store at");
    server.command(&alone(&["--agent", "nobody"])).failed(3, "(unknown_agent)");
    assert!(!server.path("test.db").exists(), "no store was made");
    server.start_again().await;
    server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
    let deadline = Instant::now() + DEADLINE;
    while !server.path("begun.log").exists() {
        assert!(Instant::now() < deadline, "the tool is not begun");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.kill();
    let entries = || {
        let file = rusqlite::Connection::open(server.path("test.db")).unwrap();
        file.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = entries();
    server.command(&alone(&["--session", "none"])).failed(3, "(session_not_found)");
    server.command(&alone(&["--session", "no/id"])).failed(2, "session id");
    server.command(&alone(&["--json", "--session", "s", "--after", "999"])).failed(2, "the last one is");
    server.command(&alone(&["--agent", "nobody"])).failed(3, "(unknown_agent)");
    assert_eq!(entries(), before, "nothing was continued");
}

/// Retention and notifications are for servers.
#[tokio::test]
async fn u3_chat_without_a_server_deletes_nothing_and_notifies_nobody() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let script = json!({ "turns": [{ "text": "Hello." }, { "tool_calls": [trade(1)] }] });
    let setup = notifying(Setup::new(Store::Sqlite, &script), &hook("desk", &receiver, ""));
    let mut server = setup.start().await;
    server.kill();
    let hello = server.command(&alone(&["hi"]));
    hello.ok();
    let old = hello.stderr.trim().strip_prefix("session ").unwrap();
    let file = rusqlite::Connection::open(server.path("test.db")).unwrap();
    file.execute_batch("UPDATE sessions SET updated_at = 1000").unwrap();
    drop(file);
    server.configure(|text| text.replacen("[server]", "[server]\nkeep_days = 30", 1));
    let asked = server.command_with(&alone(&[]), "hi\nbuy\n", &[]);
    assert_eq!(asked.code, Some(7), "{}", asked.stderr);
    server.command(&["sessions", "show", old, "--config", "countersign.toml"]).ok();
    assert!(receiver.all().is_empty(), "nobody was told");
    server.start_again().await;
    assert_eq!(receiver.until(1).await[0].kind(), "approval.requested");
    let deadline = Instant::now() + DEADLINE;
    while server.get(&format!("/v1/sessions/{old}")).await.status != 410 {
        assert!(Instant::now() < deadline, "a server deletes it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
    // A database whose name was mistyped has no tables, and gets none.
    let database = server.database().unwrap();
    let tables = "SELECT 'DROP TABLE ' || c.oid::regclass || ' CASCADE' FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'";
    for row in database.query(tables) {
        database.run(row[0].as_deref().unwrap());
    }
    server.command(&alone(&["buy"])).failed(1, "there is no store in");
    assert!(database.query(tables).is_empty(), "none was made");
}

/// Warnings go to standard error, apart from the output for programs.
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
