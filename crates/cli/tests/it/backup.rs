//! A real backup of a running server, which is restored after the server has continued: effects after the backup have
//! happened, and none is repeated without a person (spec R4, R8).

use std::{fs, path::PathBuf, time::Duration};

use countersign_test_postgres::Database;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nodes::{SLOW, eventually},
    support::{Provider, Server, Setup, Store, run, trade, ws::upgrade},
};

/// Of three sessions one requests approval of a trade, one has a model that waits for a file and then a call that needs
/// no approval, and one a call that waits for a file.
fn setup(store: Store, thinker: &Provider) -> Setup {
    let script = json!({ "rules": [
        { "when": { "after": "user", "user": "^trade" }, "tool_calls": [trade(1)] },
        { "when": { "after": "user", "user": "^slow" }, "tool_calls": [{ "name": "slow", "args": {} }] },
        { "text": "done" },
    ] });
    let url = &thinker.base_url;
    Setup::new(store, &script).tool("slow", SLOW).sections(&format!(
        "\n[models.thinker]\nprovider = \"openai-chat\"\nmodel = \"m\"\nbase_url = \"{url}\"\n\
         [agents.thinker]\nmodel = \"thinker\"\ntools = [\"note\"]\n"
    ))
}

/// A copy of a store at one moment.
enum Backup {
    Sqlite(PathBuf),
    Postgres(PathBuf),
}

impl Backup {
    /// Made as docs/operations.md says, while the server works.
    fn of(server: &Server) -> Backup {
        let file = server.path("backup");
        match server.database() {
            Some(database) => {
                database.dump(&file);
                Backup::Postgres(file)
            }
            None => {
                let store = rusqlite::Connection::open(server.path("test.db")).unwrap();
                store.execute("VACUUM INTO ?1", [file.to_str().unwrap()]).unwrap();
                Backup::Sqlite(file)
            }
        }
    }

    /// Restored into an empty place, where the server finds it from its next start on.
    fn restore(self, server: &Server) -> Option<Database> {
        match self {
            Backup::Sqlite(file) => {
                for left in ["test.db", "test.db-wal", "test.db-shm"] {
                    let _ = fs::remove_file(server.path(left));
                }
                fs::rename(file, server.path("test.db")).unwrap();
                None
            }
            Backup::Postgres(file) => {
                let restored = Database::of_dump(&file);
                let before = server.database().unwrap().url();
                server.configure(|text| text.replace(before, restored.url()));
                Some(restored)
            }
        }
    }
}

/// The last record of the log of a store, as its anchor names it.
fn anchor(server: &Server) -> String {
    let verified = run(&server.path(""), &["audit", "verify"], "", &[]);
    let (_, anchor) = verified.stdout.trim().split_once("; anchor ").expect(&verified.stderr);
    anchor.to_owned()
}

/// The id of the server's event history.
async fn history(server: &Server) -> Value {
    let (mut ws, _) = upgrade(server.address, &[("sec-websocket-protocol", "countersign.v1")]).await.unwrap();
    ws.next().await["history_id"].take()
}

async fn says(server: &Server, session: &str, what: &str) {
    let agent = if session == "thinks" { "thinker" } else { "trader" };
    let message = json!({ "type": "message", "session_id": session, "content": what, "agent": agent });
    let mut ws = server.ws().await;
    ws.send(&message).await;
    ws.until_type("ack").await;
}

async fn goes_on_and_comes_back(store: Store) {
    let gate = tempfile::tempdir().unwrap();
    let thought = gate.path().join("go");
    let call = json!({ "id": "c1", "name": "note", "args": { "note": 1 } });
    let thinker =
        Provider::start(vec![json!({ "waits_for": thought, "tool_calls": [call] }), json!({ "text": "done" })]);
    let thinker = thinker.await;
    let mut server = setup(store, &thinker).start().await;
    says(&server, "asked", "trade").await;
    says(&server, "slow", "slow").await;
    server.until_status("asked", "awaiting_input").await;
    eventually("the call begins", async || server.calls() == ["begun"]).await;
    says(&server, "thinks", "think").await;
    eventually("the model is asked", async || thinker.requests() == 1).await;
    let before = history(&server).await;
    assert!(before.is_string(), "{before}");
    let backup = Backup::of(&server);
    // Changes after the backup.
    let yes = json!({ "decisions": [{ "type": "approve" }] });
    assert_eq!(server.post("/v1/approvals/asked_1?wait=true", &yes).await.ok()["status"], "completed");
    fs::write(server.path("go"), "").unwrap();
    fs::write(thought, "").unwrap();
    for session in ["slow", "thinks"] {
        server.until_status(session, "completed").await;
    }
    let done = server.calls();
    assert_eq!(done.len(), 4, "{done:?}");
    let last = anchor(&server);
    server.signal(Signal::TERM);
    server.ended().await;

    let _restored = backup.restore(&server);
    let mut held = Vec::new();
    eventually("the leases in the backup end", async || {
        let ended = run(&server.path(""), &["store", "restored", "--json"], "", &[]);
        assert!(ended.code == Some(0) || ended.stderr.contains("or did until a moment ago"), "{}", ended.stderr);
        let told: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        held = told["held"].as_array().into_iter().flatten().cloned().collect();
        ended.code == Some(0)
    })
    .await;
    held.sort_by_key(Value::to_string);
    assert_eq!(held, ["asked", "slow", "thinks"]);
    let behind = run(&server.path(""), &["audit", "verify", "--anchor", &last], "", &[]);
    let number = |anchor: &str| anchor.split_once(':').unwrap().0.to_owned();
    let (has, wanted) = (number(&anchor(&server)), number(&last));
    let told = format!("the log ends with record {has}, but the anchor is record {wanted}");
    assert_eq!(behind.code, Some(8), "{}", behind.stdout);
    assert!(behind.stderr.contains(&told) || behind.stdout.contains(&told), "{} {}", behind.stdout, behind.stderr);
    assert_eq!((has.as_str(), wanted.parse::<u64>().unwrap() > 1), ("1", true), "only the request is in the backup");

    server.start_again().await;
    // By it clients know that what they have seen since may not be there.
    let after = history(&server).await;
    assert!(after.is_string() && after != before, "{after}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((server.calls(), thinker.requests()), (done.clone(), 2), "nothing begins by itself");
    for session in ["asked", "slow", "thinks"] {
        assert_eq!(
            server.get(&format!("/v1/sessions/{session}")).await.ok()["held"]["reason"],
            "restored",
            "{session}"
        );
    }
    // A person continues each. The outcome of the call that had begun is unknown.
    says(&server, "slow", "slow").await;
    server.until_status("slow", "awaiting_input").await;
    assert_eq!(server.get("/v1/approvals/slow_1").await.ok()["kind"], "in_doubt");
    server.post("/v1/sessions/thinks/cancel", &json!({})).await.ok();
    server.until_status("thinks", "cancelled").await;
    assert_eq!(server.calls(), done);
    // This one was approved after the backup: another approval runs it again.
    assert_eq!(server.post("/v1/approvals/asked_1?wait=true", &yes).await.ok()["status"], "completed");
    assert_eq!(server.calls().len(), done.len() + 1);
}

/// Its file alone lacks what is in the log then.
#[tokio::test]
async fn r3_a_server_that_stops_while_somebody_reads_its_store_says_that_its_log_has_a_part_of_it() {
    let script = json!({ "turns": [{ "text": "done" }], "at_end": "repeat" });
    let mut server = Setup::new(Store::Sqlite, &script).log("warn").start().await;
    let reader = rusqlite::Connection::open(server.path("test.db")).unwrap();
    let read = || reader.query_row("SELECT count(*) FROM sessions", [], |row| row.get::<_, i64>(0)).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(read(), 0);
    server.post("/v1/sessions/s/messages", &json!({ "content": "hello" })).await.ok();
    server.until_status("s", "completed").await;
    server.signal(Signal::TERM);
    assert!(server.ended().await.success());
    let log = server.until_logged("somebody is reading the store").await;
    assert!(log.contains("test.db-wal: both files are the store"), "{log}");
    assert!(server.path("test.db-wal").metadata().unwrap().len() > 0);
    // Copied together, they are all of it.
    for file in ["test.db", "test.db-wal"] {
        std::fs::copy(server.path(file), server.path(&file.replace("test", "copy"))).unwrap();
    }
    let listed = server.command(&["sessions", "list", "--store", "copy.db"]);
    assert!(listed.ok().contains('s'), "{}", listed.stdout);
    reader.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn r4_a_backup_of_sqlite_that_is_restored_after_the_server_went_on_repeats_nothing_before_a_person_says_so() {
    goes_on_and_comes_back(Store::Sqlite).await;
}

#[tokio::test]
async fn r4_a_dump_of_postgresql_that_is_restored_after_the_server_went_on_repeats_nothing_before_a_person_says_so() {
    goes_on_and_comes_back(Store::Postgres).await;
}
