//! `countersign store copy`: a SQLite store becomes a PostgreSQL store, with everything in it, and no effect happens twice.

use std::{
    io::Read as _,
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use countersign_test_postgres::Database;
use serde_json::{Value, json};

use crate::{
    support::{
        BINARY, DEADLINE, Ended, Server, Setup, Store, http,
        policy::people,
        receiver::{Answer, Receiver},
        run, trade,
    },
    webhooks::{approved, hook, notifying, until_webhook},
};

/// Each message trades: twice the same, then another, which is asked about.
fn trades() -> Setup {
    let script = json!({ "turns": [
        { "tool_calls": [trade(1)] }, { "text": "done" }, { "tool_calls": [trade(1)] }, { "text": "done" },
        { "tool_calls": [trade(2)] }, { "text": "done" },
    ], "at_end": "repeat" });
    people(Setup::new(Store::Sqlite, &script), "\n[[policy.rules]]\nrequire = true\ntimeout = 3600\n")
}

const ENV: [(&str, &str); 8] = [
    ("TEST_TOKEN_ALICE", "alice-secret"),
    ("TEST_TOKEN_MIA", "mia-secret"),
    ("TEST_TOKEN_BOB", "bob-secret"),
    ("TEST_TOKEN_CAROL", "carol-secret"),
    ("TEST_TOKEN_DAN", "dan-secret"),
    ("TEST_TOKEN_LEA", "lea-secret"),
    ("TEST_TOKEN_OLGA", "olga-secret"),
    ("TEST_KEY_1", "1111111111111111111111111111111111111111111111111111111111111111"),
];

fn command(server: &Server, arguments: &[&str]) -> Ended {
    run(&server.path(""), arguments, "", &ENV)
}

fn copy(server: &Server, arguments: &[&str]) -> Ended {
    command(server, &[&["store", "copy"], arguments].concat())
}

#[track_caller]
fn refused(ended: &Ended, why: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
}

/// The configuration with the store in a database; it has no keys.
fn on_postgres(server: &Server, database: &Database) -> String {
    let text = std::fs::read_to_string(server.path("countersign.toml")).unwrap();
    let text = text.replace("sqlite:test.db", database.url());
    text[..text.find("\n[[store.keys]]").unwrap_or(text.len())].to_owned()
}

fn is_empty(database: &Database) -> bool {
    database.query("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        == [[Some("0".to_owned())]]
}

/// The state of a copy that ended after everything was copied, before it was finished.
const FULL: &str = "UPDATE countersign SET version = 1179995212";

/// The old store as it was before it was marked as moved.
fn unmark(server: &Server) {
    let file = rusqlite::Connection::open(server.path("test.db")).unwrap();
    file.execute_batch("DROP TABLE moved; PRAGMA user_version = 1").unwrap();
}

/// Everything that people see of these sessions.
async fn seen(server: &Server) -> Vec<Value> {
    let mut seen = Vec::new();
    for path in ["/v1/sessions", "/v1/approvals", "/v1/rules", "/v1/approvals/s_2", "/v1/approvals/f_2"] {
        seen.push(server.ask_as("alice", "GET", path, None).await.ok());
    }
    seen.push(server.ask_as("mia", "GET", "/v1/rules", None).await.ok());
    seen.push(server.ask_as("olga", "GET", "/v1/audit?limit=200", None).await.ok());
    for session in ["s", "f"] {
        for what in ["", "/history", "/checkpoints?limit=200", "/state"] {
            seen.push(server.ask_as("alice", "GET", &format!("/v1/sessions/{session}{what}"), None).await.ok());
        }
    }
    seen
}

#[tokio::test]
async fn c_a_store_moved_to_postgresql_has_everything_and_is_served_nowhere_else() {
    let mut server = trades().keys(&['1']).start().await;
    // A rule that is in force, one that was revoked, one that a session ended which is deleted by now.
    let always = json!({ "type": "approve", "always": { "scope": "arguments" } });
    server.say_as("alice", "s").await;
    server.decide_as("alice", "s_1", always.clone()).await.ok();
    assert_eq!(server.say_as("alice", "s").await["status"], "completed");
    assert_eq!(server.say_as("alice", "s").await["status"], "awaiting_input");
    server.say_as("mia", "m").await;
    server.decide_as("mia", "m_1", always.clone()).await.ok();
    server.ask_as("mia", "DELETE", "/v1/rules/m_1.0", None).await.ok();
    server.say_as("mia", "gone").await;
    server.decide_as("mia", "gone_1", always).await.ok();
    assert_eq!(server.ask_as("mia", "DELETE", "/v1/sessions/gone", None).await.status, 204);
    // A fork: what it copied from its past is the original's.
    let checkpoints = server.ask_as("alice", "GET", "/v1/sessions/s/checkpoints?limit=200", None).await.ok();
    let checkpoints = checkpoints["checkpoints"].as_array().unwrap();
    let asked = checkpoints.iter().find(|one| one["pending"] == json!(["s_1"])).unwrap();
    let fork = json!({ "checkpoint": asked["checkpoint"], "session_id": "f" });
    assert_eq!(server.ask_as("alice", "POST", "/v1/sessions/s/fork", Some(&fork)).await.status, 201);
    let named = json!({ "content": "go", "request_id": "r-1" });
    server.ask_as("alice", "POST", "/v1/sessions/named/messages", Some(&named)).await.ok();
    server.ask_as("alice", "PATCH", "/v1/sessions/s", Some(&json!({ "title": "Trades" }))).await.ok();
    let before = seen(&server).await;
    assert_eq!(before[0]["sessions"][0]["title"], "Trades");
    let (calls, anchor) = (server.calls().len(), command(&server, &["audit", "verify"]).stdout);

    let database = Database::new();
    std::fs::write(server.path("new.toml"), on_postgres(&server, &database)).unwrap();
    let files = ["countersign.toml", "new.toml"];
    refused(&copy(&server, &files), "is in use by another countersign process");
    server.kill();
    refused(&copy(&server, &["sqlite:test.db", "new.toml"]), "is encrypted, with the key \"key-1\"");
    let copied = copy(&server, &[&files[..], &["--json"]].concat());
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert!(copied.stderr.contains("copied 1 of 4 sessions\n"), "{}", copied.stderr);
    assert!(copied.stderr.ends_with("compared 4 of 4 sessions\n"), "{}", copied.stderr);
    let counts: Value = serde_json::from_str(&copied.stdout).unwrap();
    assert_eq!(
        (&counts["sessions"], &counts["pending"], &counts["deleted"], &counts["rules"], &counts["standing_rules"]),
        (&json!(4), &json!(2), &json!(1), &json!(2), &json!(1)),
        "{counts}"
    );
    assert!(anchor.contains(counts["anchor"].as_str().unwrap()), "{counts}");

    // The old store is refused as moved; its log can still be read.
    refused(&command(&server, &["serve"]), "was moved to postgres://");
    refused(&command(&server, &["store", "rekey"]), "was moved to postgres://");
    assert_eq!(command(&server, &["audit", "verify"]).stdout, anchor);
    refused(&copy(&server, &files), "is finished already: serve postgres://");
    let other = Database::new();
    std::fs::write(server.path("other.toml"), on_postgres(&server, &other)).unwrap();
    refused(&copy(&server, &["countersign.toml", "other.toml"]), "that store has changed since");
    assert!(is_empty(&other));

    server.configure(|_| on_postgres(&server, &database));
    server.start_again().await;
    for (now, before) in seen(&server).await.iter().zip(&before) {
        assert_eq!(now, before);
    }
    assert_eq!(command(&server, &["audit", "verify"]).stdout, anchor);
    // Deleted sessions stay deleted, and a repeated request is recognised.
    server.ask_as("mia", "GET", "/v1/sessions/gone", None).await.problem(410, "session_deleted");
    server.ask_as("alice", "POST", "/v1/sessions/named/messages", Some(&named)).await.ok();
    assert_eq!(server.calls().len(), calls, "nothing has run");
    let done = server.decide_as("alice", "s_2", json!({ "type": "approve" })).await.ok();
    assert_eq!((&done["status"], server.calls().len()), (&json!("completed"), calls + 1));
    assert_eq!(server.say_as("alice", "t").await["status"], "completed", "the rule stands");
    assert_eq!(server.say_as("mia", "u").await["status"], "awaiting_input", "and no revoked one");
    let verified = command(&server, &["audit", "verify"]).stdout;
    assert!(verified.starts_with("ok: ") && verified != anchor, "{verified}");
}

#[tokio::test]
async fn r4_a_call_that_ran_when_its_store_was_moved_is_asked_about_and_not_run_again() {
    let slow = "description = \"Slow.\"\ncommand = [\"sh\", \"-c\", \"echo begun >> calls.log; sleep 30\"]\n\
                parameters = { type = \"object\" }";
    let script =
        json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "{{ last_tool_result }}" }] });
    let mut server = Setup::new(Store::Sqlite, &script).tool("slow", slow).start().await;
    server.ws().await.message("s", "go").await;
    let begun = async {
        while server.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the call begins");
    server.kill();
    let database = Database::new();
    let copied = copy(&server, &["sqlite:test.db", database.url()]);
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    assert!(copied.stdout.contains("is marked as moved and is not served again"), "{}", copied.stdout);
    server.configure(|_| on_postgres(&server, &database));
    server.start_again().await;
    server.until_status("s", "awaiting_input").await;
    assert_eq!(server.get("/v1/approvals/s_1").await.ok()["kind"], "in_doubt");
    assert_eq!(server.calls().len(), 1);
}

/// A proxy to a database that passes so many bytes, and then signals that and passes nothing more.
fn stalling(database: &Database, most: usize) -> (String, mpsc::Receiver<()>) {
    let (head, name) = database.url().rsplit_once('/').unwrap();
    let (user, host) = head.strip_prefix("postgres://").unwrap().rsplit_once('@').unwrap();
    let host = host.replace("%2F", "/").replace("%2f", "/");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stalls, stalled) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let stalls = stalls.clone();
            if let Some(folder) = host.strip_prefix('/') {
                let (folder, port) = folder.rsplit_once(':').unwrap_or((folder, "5432"));
                let server = UnixStream::connect(format!("/{folder}/.s.PGSQL.{port}")).unwrap();
                pass(client, (server.try_clone().unwrap(), server), most, stalls);
            } else {
                let server = TcpStream::connect(if host.contains(':') { host.clone() } else { format!("{host}:5432") });
                let server = server.unwrap();
                pass(client, (server.try_clone().unwrap(), server), most, stalls);
            }
        }
    });
    let (name, _) = name.split_once('?').unwrap_or((name, ""));
    (format!("postgres://{user}@127.0.0.1:{port}/{name}?sslmode=disable"), stalled)
}

fn pass<S: std::io::Read + std::io::Write + Send + 'static>(
    client: TcpStream,
    (mut from_server, mut to_server): (S, S),
    most: usize,
    stalls: mpsc::Sender<()>,
) {
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
    std::thread::spawn(move || {
        let (mut bytes, mut passed) = (vec![0; 4096], 0);
        while let Ok(read @ 1..) = from_client.read(&mut bytes) {
            passed += read;
            if passed > most {
                let _ = stalls.send(());
                // Kept open until the writer has ended.
                while let Ok(1..) = from_client.read(&mut bytes) {}
                return;
            }
            if to_server.write_all(&bytes[..read]).is_err() {
                return;
            }
        }
    });
}

#[tokio::test]
async fn c_a_copy_that_was_killed_is_served_by_nobody_and_made_again_in_an_empty_schema() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    for session in ["a", "b", "c", "d"] {
        let path = format!("/v1/sessions/{session}/messages");
        server.post(&path, &json!({ "content": "go ".repeat(80_000) })).await.ok();
    }
    server.kill();
    let database = Database::new();
    let (url, stalled) = stalling(&database, 700_000);
    let mut copying = Command::new(BINARY)
        .args(["store", "copy", "sqlite:test.db", &url])
        .current_dir(server.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    stalled.recv_timeout(DEADLINE).expect("it is in the middle");
    copying.kill().unwrap();
    copying.wait().unwrap();
    let found = database.query("SELECT version, (SELECT count(*) BETWEEN 1 AND 3 FROM sessions) FROM countersign");
    assert_eq!(found, [[Some("1129271385".to_owned()), Some("t".to_owned())]]);
    std::fs::write(server.path("new.toml"), on_postgres(&server, &database)).unwrap();
    for arguments in [
        &["serve", "--config", "new.toml"][..],
        &["audit", "verify", "--config", "new.toml"],
        &["store", "copy", "sqlite:test.db", "new.toml"],
    ] {
        refused(&command(&server, arguments), "has the beginning of a copy that is not finished");
    }
    // The old store is as it was, and can be served, or copied once the schema is made again.
    server.start_again().await;
    assert_eq!(server.get("/v1/approvals/a_1").await.ok()["status"], "waiting");
    server.kill();
    database.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    let kept = copy(&server, &["sqlite:test.db", "new.toml", "--keep"]);
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    assert!(kept.stdout.contains("is unchanged; serve only one of them"), "{}", kept.stdout);
    server.start_again().await;
    server.kill();
    server.configure(|_| on_postgres(&server, &database));
    server.start_again().await;
    for session in ["a", "b"] {
        let approve = json!({ "decisions": [{ "type": "approve" }] });
        let done = server.post(&format!("/v1/approvals/{session}_1?wait=true"), &approve).await.ok();
        assert_eq!(done["status"], "completed");
    }
    assert_eq!(server.calls().len(), 2);
}

/// The process ended when both stores were marked, or only one of them.
#[tokio::test]
async fn c_a_copy_that_ended_between_its_two_marks_is_served_by_nobody_until_it_is_run_again() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    server.kill();
    let database = Database::new();
    let arguments = ["sqlite:test.db", database.url()];
    assert_eq!(copy(&server, &arguments).code, Some(0));
    database.run(FULL);
    refused(&command(&server, &["serve"]), "was moved to postgres://");
    std::fs::write(server.path("new.toml"), on_postgres(&server, &database)).unwrap();
    refused(&command(&server, &["serve", "--config", "new.toml"]), "Run the same `countersign store copy` again");
    // Differences are found.
    database.run("UPDATE interruptions SET expires_at = expires_at + 1");
    refused(&copy(&server, &arguments), "the copy is not the same as the store: what is pending in session s");
    database.run("UPDATE interruptions SET expires_at = expires_at - 1");
    for is_marked in [true, false] {
        if !is_marked {
            database.run(FULL);
            unmark(&server);
        }
        let finished = copy(&server, &arguments);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        refused(&command(&server, &["serve"]), "was moved to postgres://");
        refused(&copy(&server, &arguments), "is finished already: serve postgres://");
    }
    server.configure(|_| on_postgres(&server, &database));
    server.start_again().await;
    assert_eq!(server.get("/v1/approvals/s_1").await.ok()["status"], "waiting");
    let gone = http::request(server.address, "DELETE", "/v1/sessions/s", &[], None).await;
    assert_eq!(gone.status, 204);
}

#[tokio::test]
async fn c_no_other_database_is_taken_for_the_copy_of_a_store() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    server.kill();
    let database = Database::new();
    let arguments = ["sqlite:test.db", database.url()];
    assert_eq!(copy(&server, &arguments).code, Some(0));
    // A copy of another time in the same place.
    for version in [FULL, "UPDATE countersign SET version = 1"] {
        database.run(&format!("{version}, copy = 'another'"));
        refused(&copy(&server, &arguments), "that store has changed since");
    }
    database.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    refused(&copy(&server, &arguments), "which is empty now");
    assert!(is_empty(&database), "nothing was made");
    // Later changes by a server to the old store are not in the copy.
    unmark(&server);
    assert_eq!(copy(&server, &arguments).code, Some(0));
    database.run(FULL);
    unmark(&server);
    server.start_again().await;
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/s_1?wait=true", &yes).await.ok();
    server.kill();
    refused(&copy(&server, &arguments), "was used after it was copied, drop the schema of postgres://");
    server.start_again().await;
}

#[tokio::test]
async fn u4_a_store_that_is_moved_keeps_how_far_its_webhooks_are_and_what_did_not_arrive() {
    let receiver = Receiver::start(Answer::Status(503)).await;
    let setup = notifying(Setup::one_trade(Store::Sqlite), &hook("desk", &receiver, "max_attempts = 1"));
    let mut server = setup.start().await;
    approved(&server, "s", &[&receiver]).await;
    until_webhook(&server, |webhook| webhook["dead"] == 2 && webhook["cursor"] == 3).await;
    let failed = server.get("/v1/webhooks/desk/failed").await.ok();
    server.kill();
    receiver.answers(Answer::Status(200));
    let database = Database::new();
    let arguments = ["sqlite:test.db", database.url(), "--json"];
    let copied = copy(&server, &arguments);
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let counts: Value = serde_json::from_str(&copied.stdout).unwrap();
    assert_eq!((&counts["webhooks"], &counts["webhook_messages"]), (&json!(1), &json!(2)), "{counts}");
    // They are compared, too.
    for (change, back, why) in [
        ("UPDATE endpoints SET cursor = 2", "UPDATE endpoints SET cursor = 3", "where the webhook desk stands"),
        (
            "UPDATE failed_deliveries SET attempts = 5 WHERE n = 1",
            "UPDATE failed_deliveries SET attempts = 1 WHERE n = 1",
            "where the webhook desk stands",
        ),
        (
            "INSERT INTO failed_deliveries VALUES ('desk', 9, 1, NULL, 1, '')",
            "DELETE FROM failed_deliveries WHERE n = 9",
            "2 and 3 messages of webhooks that did not arrive",
        ),
    ] {
        database.run(&format!("{FULL}; {change}"));
        refused(&copy(&server, &arguments), why);
        database.run(back);
    }
    assert_eq!(copy(&server, &arguments).code, Some(0));
    server.configure(|_| on_postgres(&server, &database));
    server.start_again().await;
    assert_eq!(server.get("/v1/webhooks/desk/failed").await.ok(), failed);
    let before = receiver.all().len();
    approved(&server, "t", &[&receiver]).await;
    let all = receiver.until(before + 2).await;
    assert!(all[before..].iter().all(|one| one.json()["data"]["session_id"] == "t"), "nothing is sent again");
}

#[tokio::test]
async fn c_a_store_whose_audit_log_was_changed_is_not_copied() {
    let mut server = Setup::one_trade(Store::Sqlite).pending().await;
    server.kill();
    let change = "UPDATE audit SET body = replace(body, '100', '101')";
    rusqlite::Connection::open(server.path("test.db")).unwrap().execute_batch(change).unwrap();
    let database = Database::new();
    refused(&copy(&server, &["sqlite:test.db", database.url()]), "record 1 was changed");
    for arguments in [["sqlite:none.db", database.url()], ["none.db", database.url()]] {
        refused(&copy(&server, &arguments), "none.db");
    }
}

#[tokio::test]
async fn u3_arguments_between_which_nothing_can_be_copied_are_wrong_arguments() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    server.kill();
    for (arguments, why) in [
        (["postgres://h/d", "sqlite:test.db"], "not the other way"),
        (["sqlite:test.db", "sqlite:copy.db"], "a store is copied into PostgreSQL"),
        (["sqlite:test.db", "countersign.toml"], "is not a PostgreSQL database"),
        (["sqlite:test.db", "postgre://ann:hunter2@h/d"], "an argument is not a URL of a store"),
        (["sqlite:test.db", "postgres://ann:hunter2@h:port/d"], "the second argument is not a URL"),
        (["test.db", "postgres://h/d"], "test.db is a SQLite file, not a configuration: write sqlite:test.db"),
    ] {
        let ended = copy(&server, &arguments);
        ended.failed(2, why);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}
