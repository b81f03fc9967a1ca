//! The program on PostgreSQL: sessions survive it, and its commands read beside a server; several servers are in `nodes.rs`.

use std::fs;

use countersign_test_postgres::Database;
use serde_json::{Value, json};

use crate::{
    nodes::eventually,
    support::{Provider, Server, Setup, Store, fold::without_gaps, run},
};

/// A session that waits for a person.
async fn waiting() -> (Server, u64) {
    let server = Setup::one_trade(Store::Postgres).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let before = ws.until_status("awaiting_input").await;
    let last = without_gaps(&before[1..], 0);
    (server, last)
}

#[tokio::test]
async fn r3_r4_on_postgresql_a_pending_request_survives_kill_9_and_its_effect_happens_once() {
    let (mut server, last) = waiting().await;
    for _ in 0..2 {
        server.kill();
        server.start_again().await;
    }
    let waiting = server.get("/v1/approvals?status=waiting").await.ok();
    assert_eq!(waiting["approvals"][0]["approval_key"], "s_1");
    assert!(server.calls().is_empty());
    let mut ws = server.ws().await;
    ws.subscribe("s", last).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    let after = ws.until_status("completed").await;
    let after: Vec<_> = after.into_iter().filter(|f| f["type"] != "ack").collect();
    without_gaps(&after, last);
    server.kill();
    server.start_again().await;
    server.until_status("s", "completed").await;
    assert_eq!(server.calls().len(), 1);
}

/// The standby has the message, and neither the model's answer nor the call, which needs no approval.
#[tokio::test]
async fn r4_a_call_that_was_lost_in_a_fail_over_is_not_carried_out_again_by_itself() {
    let (database, standby) = Database::with_a_standby(false);
    let gate = tempfile::tempdir().unwrap();
    let thought = gate.path().join("go");
    let call = json!({ "id": "c1", "name": "note", "args": {} });
    let provider = Provider::start(vec![
        json!({ "waits_for": thought, "tool_calls": [call] }),
        json!({ "text": "done" }),
        json!({ "text": "hello" }),
    ]);
    let provider = provider.await;
    let setup = Setup::new(Store::Memory, &json!({})).provider(&provider).at(database.url_with(&standby));
    let mut server = setup.store("lease_seconds = 4").start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    eventually("the model is asked", async || provider.requests() == 1).await;
    standby.cut_off(&database);
    fs::write(thought, "").unwrap();
    ws.until_status("completed").await;
    assert_eq!(server.calls().len(), 1);
    database.fail_over_to(&standby);
    eventually("it is noticed", async || {
        let ready = server.get("/readyz").await;
        ready.status == 503 && ready.json()["code"] == "store_closed"
    })
    .await;
    server.kill();
    server.start_again().await;
    let check_held = async || {
        let session = server.get("/v1/sessions/s").await.ok();
        assert_eq!(session["status"], "running", "{session}");
        assert_eq!(session["held"]["reason"], "restored", "{session}");
    };
    check_held().await;
    // Then it takes over what the killed server had.
    eventually("the leases of the killed server have ended", async || {
        standby.query("SELECT FROM nodes WHERE until > '-infinity'").len() == 1
    })
    .await;
    // Anything that starts on its own starts before this turn, which is requested later.
    let mut ws = server.ws().await;
    ws.message("another", "hello").await;
    ws.until_status("completed").await;
    assert_eq!((provider.requests(), server.calls().len()), (3, 1), "a person is asked first");
    check_held().await;
}

#[tokio::test]
async fn c_on_postgresql_commands_read_beside_a_server() {
    let (server, _) = waiting().await;
    let decide = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/s_1?wait=true", &decide).await.ok();
    let dir = server.path("");
    let command = |arguments: &[&str]| run(&dir, arguments, "", &[]);
    let verified = command(&["audit", "verify"]);
    assert!(verified.stdout.starts_with("ok: 3 records; anchor 3:"), "{} {}", verified.stdout, verified.stderr);
    fs::write(server.path("changed.toml"), "[[policy.rules]]\nname = \"all\"\ntool = \"*\"\ndeny = true\n").unwrap();
    let tested = command(&["policy", "test", "--policy", "changed.toml", "--json"]);
    let report: Value = serde_json::from_str(&tested.stdout).expect(&tested.stderr);
    assert_eq!((&report["sessions"], &report["calls"]), (&json!(1), &json!(1)));
    assert_eq!(report["tools"][0]["deny"], json!({ "before": 0, "after": 1 }));
    let rekeyed = command(&["store", "rekey"]);
    assert!(rekeyed.stderr.contains("only SQLite stores are encrypted"), "{}", rekeyed.stderr);
}

/// No node is left that would chain them, and this user of the database may not.
#[tokio::test]
async fn r8_who_reads_a_log_is_told_that_it_may_lack_its_newest_records() {
    let database = Database::on_its_own_server();
    let mut server = Setup::one_trade(Store::Postgres).at(database.url().to_owned()).pending().await;
    server.kill();
    let more = "INSERT INTO audit_queue (body, tenant) VALUES ('{}', '')";
    database.run(&format!("{more}; CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"));
    server.configure(|text| text.replace("postgres@", "reader@"));
    for command in ["verify", "export"] {
        let read = run(&server.path(""), &["audit", command], "", &[]);
        assert_eq!(read.code, Some(0), "{}", read.stderr);
        assert!(read.stderr.contains("newest records may not be chained yet"), "{}", read.stderr);
    }
}

#[tokio::test]
async fn x_check_reads_the_url_without_connecting_and_never_shows_its_password() {
    let (server, _) = waiting().await;
    server.configure(|text| {
        let at = text.find("postgres://").unwrap();
        let end = at + text[at..].find('"').unwrap();
        format!("{}postgres://ann:hunter2@127.0.0.1:1/store{}", &text[..at], &text[end..])
    });
    for arguments in [&["check"][..], &["check", "--json"]] {
        let checked = run(&server.path(""), arguments, "", &[]);
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        assert!(checked.stdout.contains("postgres://127.0.0.1:1/store"), "{}", checked.stdout);
        assert!(!checked.stdout.contains("hunter2") && !checked.stderr.contains("hunter2"));
    }
    let refused = run(&server.path(""), &["serve"], "", &[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("cannot connect to postgres://127.0.0.1:1/store"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}
