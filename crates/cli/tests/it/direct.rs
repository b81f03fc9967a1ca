//! Spec U3: `approvals` and `sessions` in a store that no server has, or beside the servers that share it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::{
    Ended, Server, Setup, Store,
    ask::{asks, waiting},
    run, trade,
};

const CONFIG: [&str; 2] = ["--config", "countersign.toml"];
const FILE: [&str; 2] = ["--store", "test.db"];

fn direct(server: &Server, arguments: &[&str], more: &[&[&str]]) -> Ended {
    server.command(&[&[arguments, &CONFIG], more].concat().concat())
}

/// The records of the audit log, exported without a server.
fn log(server: &Server) -> Vec<Value> {
    let exported = server.command(&["audit", "export", "--config", "countersign.toml"]);
    exported.ok().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["body"].clone()).collect()
}

/// A session with a request that is pending, and a server that was killed.
async fn stopped(setup: Setup) -> Server {
    let mut server = setup.pending().await;
    server.kill();
    server
}

#[tokio::test]
async fn u3_a_stopped_servers_store_is_read_as_the_server_would_answer() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    let commands: [&[&str]; 7] = [
        &["approvals", "list"],
        &["approvals", "show", "s_1"],
        &["sessions", "list"],
        &["sessions", "show", "s"],
        &["sessions", "history", "s"],
        &["sessions", "checkpoints", "s"],
        &["sessions", "state", "s"],
    ];
    let json = |command: &[&str], more: &[&str]| server.command(&[command, &["--json"], more].concat()).json();
    let answered: Vec<Value> = commands.iter().map(|command| json(command, &[])).collect();
    // While the server has the store open, nobody else can open it.
    for place in [CONFIG, FILE] {
        let taken = server.command(&[&["approvals", "list"][..], &place].concat());
        taken.failed(1, "test.db is in use by another countersign process");
        assert!(taken.stderr.contains("ask it, with --url"), "{}", taken.stderr);
    }
    server.kill();
    for (command, answered) in commands.iter().zip(answered) {
        for place in [CONFIG, FILE] {
            let json = server.command(&[command, &["--json"][..], &place].concat()).json();
            assert_eq!(json, answered, "{command:?} {place:?}");
        }
    }
    assert!(direct(&server, &["approvals", "list"], &[]).ok().starts_with("s_1  in "));
    direct(&server, &["approvals", "show", "s_2"], &[]).failed(3, "approval_not_found");
    server.start_again().await;
    server.until_status("s", "awaiting_input").await;
}

#[tokio::test]
async fn u3_what_is_approved_in_a_stopped_servers_store_runs_once_when_it_starts_again() {
    let mut server = stopped(Setup::one_trade(Store::Sqlite)).await;
    let shown = direct(&server, &["approvals", "show", "s_1", "--json"], &[]).json();
    let digest = shown["actions"][0]["digest"].as_str().unwrap();
    let wrong = "0".repeat(64);
    direct(&server, &["approvals", "approve", "s_1", "--digest", &wrong], &[]).failed(4, "stale_action");
    let approved = direct(&server, &["approvals", "approve", "s_1", "--digest", digest, "--json"], &[]);
    assert!(approved.stderr.contains("a server on this store carries out what follows"), "{}", approved.stderr);
    let approved = approved.json();
    assert_eq!((&approved["status"], &approved["decisions"][0]["type"]), (&json!("resolved"), &json!("approve")));
    let late = direct(&server, &["approvals", "reject", "s_1", "--yes"], &[]);
    late.failed(4, "already resolved");
    let session = direct(&server, &["sessions", "show", "s", "--json"], &[]).json();
    assert_eq!((&session["status"], server.calls().len()), (&json!("running"), 0), "nothing is carried out here");
    server.start_again().await;
    server.until_status("s", "completed").await;
    assert_eq!(server.calls().len(), 1);
    server.kill();
    let log = log(&server);
    let told: Vec<(&str, bool)> =
        log.iter().map(|body| (body["event"].as_str().unwrap(), body["via"] == "store")).collect();
    assert_eq!(told, [("requested", false), ("decided", true), ("finished", false)]);
    server.command(&["audit", "verify", "--config", "countersign.toml"]).ok();
}

#[tokio::test]
async fn u3_in_a_store_the_rules_of_the_server_hold() {
    let setup = Setup::new(
        Store::Sqlite,
        &json!({ "turns": [{ "tool_calls": [trade(100)] }, { "text": "done" }], "at_end": "repeat" }),
    )
    .trade("approval = { require = \"args.quantity > 50\", levels = [\"admin\"], not_self = true, timeout = 300 }")
    .person("ann", &["admin"])
    .person("bob", &["admin"])
    .person("eve", &["clerk"])
    .principal("bot", &["admin"], "kind = \"service\"");
    let mut server = setup.start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    server.kill();
    let approve = ["approvals", "approve", "s_1", "--yes"];
    let as_somebody = |who: &str, more: &[&str]| direct(&server, &approve, &[&["--as", who], more]);
    direct(&server, &approve, &[]).failed(2, "with --as");
    as_somebody("zoe", &[]).failed(2, "nobody in [[auth.tokens]] is called \"zoe\"");
    as_somebody("eve", &["--as-role", "admin"]).failed(2, "has the roles and the tenant of [[auth.tokens]]");
    as_somebody("eve", &[]).failed(3, "approval_not_found");
    as_somebody("ann", &[]).failed(5, "who asked for it may not approve it");
    as_somebody("bot", &[]).failed(5, "a service may not decide");
    let file = server.command(&[&approve[..], &FILE].concat());
    file.failed(2, "--config");
    // Reading shows everything, or what one person may see.
    let listed = |more: &[&str]| direct(&server, &["approvals", "list"], &[more]);
    assert!(listed(&[]).ok().contains("s_1") && listed(&["--as", "bob"]).ok().contains("s_1"));
    assert_eq!(listed(&["--as", "eve"]).ok(), "");
    assert!(as_somebody("bob", &[]).ok().starts_with("s_1: decided (approve) by bob"));
    let log = log(&server);
    let decided = log.iter().find(|body| body["event"] == "decided").unwrap();
    assert_eq!((&decided["by"], &decided["via"]), (&json!("bob"), &json!("store")));
    server.start_again().await;
    let history = async || server.ask_as("ann", "GET", "/v1/sessions/s", None).await.ok()["status"].clone();
    while history().await != "completed" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(server.calls().len(), 1);
}

/// There is no token with the roles of such a person.
#[tokio::test]
async fn u3_in_a_store_a_person_who_signs_in_with_a_jwt_has_the_roles_that_are_named() {
    let jwt = "\n[auth.jwt]\nissuer = \"https://id.test\"\naudience = \"countersign\"\njwks_url = \"http://127.0.0.1:9/keys\"\n";
    let setup = Setup::one_trade(Store::Sqlite).trade("approval = { levels = [\"admin\"] }").more(jwt);
    let mut server = setup.person("ann", &[]).start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    server.kill();
    let as_zoe = |more: &[&str]| direct(&server, &["approvals", "approve", "s_1", "--yes"], &[&["--as", "zoe"], more]);
    as_zoe(&[]).failed(3, "approval_not_found");
    as_zoe(&["--as-role", "admin", "--as-tenant", "north"]).failed(3, "approval_not_found");
    // Names that the configuration refuses are refused here too, and not stored.
    as_zoe(&["--as-role", "admin", "--as-role", "a b"]).failed(2, "--as-role has \"a b\", which is not a role");
    as_zoe(&["--as-tenant", ""]).failed(2, "--as-tenant must have 1 to 128 bytes");
    for subject in ["", "zo\u{1b}[1me", &"z".repeat(129)] {
        let approved =
            direct(&server, &["approvals", "approve", "s_1", "--yes", "--as-role", "admin"], &[&["--as", subject]]);
        approved.failed(2, "--as must have 1 to 128 bytes and no control characters");
    }
    assert!(as_zoe(&["--as-role", "clerk", "--as-role", "admin"]).ok().contains("decided (approve) by zoe"));
}

/// Nobody of this process has presented their token: they are who the user of the store says.
#[tokio::test]
async fn u3_in_a_store_a_person_who_signs_in_with_a_jwt_edits() {
    let jwt = "\n[auth.jwt]\nissuer = \"https://id.test\"\naudience = \"countersign\"\njwks_url = \"http://127.0.0.1:9/keys\"\n";
    let setup = Setup::one_trade(Store::Sqlite).trade("approval = { levels = [\"admin\"] }").more(jwt);
    let mut server = setup.person("ann", &[]).start().await;
    server.ask_as("ann", "POST", "/v1/sessions/s/messages", Some(&json!({ "content": "go" }))).await.ok();
    server.kill();
    let arguments = [&["approvals", "edit", "s_1", "--yes", "--as", "zoe", "--as-role", "admin"][..], &CONFIG].concat();
    let edited = server.command_with(&arguments, "", &[("EDITOR", "sed -i s/100/50/"), ("VISUAL", "")]);
    assert!(edited.ok().contains("decided (edit) by zoe"), "{}", edited.stdout);
}

#[tokio::test]
async fn u3_in_a_store_an_edit_is_judged_by_the_policy_and_questions_are_answered() {
    let mut server = stopped(
        Setup::one_trade(Store::Sqlite)
            .more("\n[[policy.rules]]\ntool = \"execute_trade\"\nwhen = \"args.quantity > 500\"\ndeny = true\n"),
    )
    .await;
    let edit = |editor: &str| {
        let arguments = [&["approvals", "edit", "s_1", "--yes"][..], &CONFIG].concat();
        server.command_with(&arguments, "", &[("EDITOR", editor), ("VISUAL", "")])
    };
    edit("sed -i s/100/900/").failed(5, "invalid_edit");
    edit("sed -i s/100/0/").failed(5, "invalid_edit");
    assert!(edit("sed -i s/100/50/").ok().contains("decided (edit)"));
    server.start_again().await;
    server.until_status("s", "completed").await;
    assert!(server.calls().concat().contains("\"quantity\":50"), "{:?}", server.calls());

    let (mut server, ws) = waiting(asks(Store::Sqlite)).await;
    drop(ws);
    server.kill();
    let answered =
        direct(&server, &["approvals", "answer", "s_1", "--answer", "B", "--answer", "C, D", "--json"], &[]).json();
    assert_eq!(answered["answers"], json!({ "Q1": "B", "Q2": "C, D" }));
    server.start_again().await;
    server.until_status("s", "completed").await;
}

#[tokio::test]
async fn u3_sessions_of_a_stopped_server_are_renamed_forked_and_deleted() {
    let mut server = stopped(Setup::one_trade(Store::Sqlite)).await;
    assert_eq!(direct(&server, &["sessions", "rename", "s", "Tea"], &[]).ok(), "s: Tea\n");
    let forked = direct(&server, &["sessions", "fork", "s", "--session-id", "t", "--json"], &[]).json();
    assert_eq!((&forked["forked_from"]["session_id"], &forked["pending"]), (&json!("s"), &json!(["t_2"])));
    assert_eq!(direct(&server, &["sessions", "delete", "s", "--yes"], &[]).ok(), "s: deleted\n");
    direct(&server, &["sessions", "show", "s"], &[]).failed(3, "session_deleted");
    server.start_again().await;
    let sessions = server.get("/v1/sessions").await.ok();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    let told = server.told().await;
    let end = told.iter().find(|body| body["event"] == "session_deleted").expect("a record of the deletion");
    assert_eq!((&end["session_id"], &end["via"]), (&json!("s"), &json!("store")), "{end}");
    let decided = server.post("/v1/approvals/t_2?wait=true", &json!({ "decisions": [{ "type": "approve" }] })).await;
    assert_eq!((decided.ok()["status"].clone(), server.calls().len()), (json!("completed"), 1));
}

#[tokio::test]
async fn u3_a_store_that_cannot_be_opened_says_what_to_do() {
    let server = stopped(Setup::one_trade(Store::Sqlite).keys(&['a'])).await;
    let list = ["approvals", "list"];
    let listed = direct(&server, &list, &[]);
    assert!(listed.ok().contains("s_1"));
    assert_eq!(listed.stderr, "");
    std::fs::set_permissions(server.path("test.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let warned = direct(&server, &list, &[]).stderr;
    assert!(warned.contains("test.db may be used by other users of this machine (mode 644)"), "{warned}");
    server.command(&[&list[..], &FILE].concat()).failed(1, "name the configuration that has it, with --config");
    let none = run(&server.path(""), &["approvals", "list", "--store", "none.db"], "", &[]);
    none.failed(1, "there is no store at none.db");
    assert!(!server.path("none.db").exists() && !server.path("none.db.lock").exists(), "none is made");
    std::fs::write(server.path("empty.db"), "").unwrap();
    let empty = run(&server.path(""), &["approvals", "list", "--store", "empty.db"], "", &[]);
    empty.failed(1, "empty.db is empty: there is no store in it");
    assert_eq!(std::fs::metadata(server.path("empty.db")).unwrap().len(), 0, "it stays as it is");
    for place in [CONFIG, FILE] {
        server.command(&[&["approvals", "watch"][..], &place].concat()).failed(2, "watch a server");
    }
    server.command(&[&list[..], &CONFIG, &FILE].concat()).failed(2, "cannot be used with");
    for (option, place) in [("--url", CONFIG), ("--server", FILE)] {
        let both = server.command(&[&list[..], &place, &[option, "http://127.0.0.1:9"]].concat());
        both.failed(2, &format!("'--url' cannot be used with '{}'", place[0]));
    }
    server.command(&[&list[..], &FILE, &["--as", "ann"]].concat()).failed(2, "cannot be used with");
    server.command(&[&list[..], &["--as", "ann"]].concat()).failed(2, "--config");
    direct(&server, &list, &[&["--as", "ann"]]).failed(2, "leave --as out");
    let memory = Setup::one_trade(Store::Memory).start().await;
    direct(&memory, &list, &[]).failed(1, "a store in memory belongs to its server alone");
}

#[tokio::test]
async fn u3_in_a_database_a_decision_is_carried_out_by_the_server_that_runs() {
    let mut server = Setup::one_trade(Store::Postgres).pending().await;
    let listed = direct(&server, &["approvals", "list", "--json"], &[]).json();
    assert_eq!(listed, server.command(&["approvals", "list", "--json"]).json(), "while the server runs");
    assert!(direct(&server, &["approvals", "approve", "s_1", "--yes"], &[]).ok().contains("decided (approve)"));
    server.until_status("s", "completed").await;
    assert_eq!(server.calls().len(), 1);
    // No server runs it meanwhile.
    server.post("/v1/sessions/t/messages", &json!({ "content": "go" })).await.ok();
    server.kill();
    direct(&server, &["approvals", "approve", "t_1", "--yes"], &[]).ok();
    assert_eq!(direct(&server, &["sessions", "show", "t", "--json"], &[]).json()["status"], "running");
    server.start_again().await;
    server.until_status("t", "completed").await;
    assert_eq!(server.calls().len(), 2);
}
