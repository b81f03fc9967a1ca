//! Spec R3 on a disk that fails: a sync that does not succeed, no room, a power cut.
//!
//! [`Disk`] sits between the server and its files: unsynced data is gone when the power is cut, and after a failed sync no later
//! one restores it, as on Linux.

use std::fs;

use countersign_store::sqlite::CLOSED;
use countersign_test_machine::{Disk, Fault};
use serde_json::{Value, json};

use crate::support::{Server, Setup, Store};

/// A server on such a disk. Each message is answered with the text `done`.
async fn server() -> (tempfile::TempDir, Disk, Server) {
    server_with(&json!({ "turns": [{ "text": "done" }], "at_end": "repeat" })).await
}

async fn server_with(script: &Value) -> (tempfile::TempDir, Disk, Server) {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(dir.path()).unwrap();
    let setup = Setup::new(Store::Sqlite, script).envs(&disk.environment()).log("warn");
    (dir, disk, setup.start().await)
}

async fn say(server: &Server, session: &str, text: &str) -> crate::support::Response {
    server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": text })).await
}

/// Ends the server as a power cut does: only what was on the disk remains of its store. It restarts on a sound disk.
async fn cut_power(disk: &Disk, server: &mut Server) {
    server.kill();
    disk.cut_power(&server.path(""), || false).unwrap();
    server.without_env(&disk.environment().map(|(name, _)| name));
    start_again(server).await;
}

async fn start_again(server: &mut Server) {
    // Its address is read from there.
    fs::remove_file(server.path("stdout.log")).unwrap();
    server.start_again().await;
}

#[track_caller]
fn closed(answer: &crate::support::Response) {
    let problem = answer.problem(503, "store_closed");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("nothing is acknowledged until it is opened again"), "{detail}");
}

async fn said(server: &Server, session: &str, text: &str) {
    let history = server.get(&format!("/v1/sessions/{session}/history")).await.ok().to_string();
    assert!(history.contains(text), "{text:?} was acknowledged, and is not in {history}");
}

#[tokio::test]
async fn r3_after_a_failed_sync_nothing_is_acknowledged_until_the_store_is_opened_again() {
    let (_dir, disk, mut server) = server().await;
    say(&server, "a", "kept").await.ok();
    let mut ws = server.ws().await;
    ws.subscribe("a", 0).await;
    ws.until_status("completed").await;
    disk.fails(Fault::SyncLog).unwrap();
    closed(&say(&server, "b", "unknown").await);
    // The disk works again, but cannot be relied on.
    assert!(!disk.is_faulty(), "the fault has come to pass");
    closed(&say(&server, "c", "lost").await);
    closed(&say(&server, "a", "lost").await);
    for path in ["/v1/sessions", "/v1/sessions/a", "/v1/sessions/a/history", "/v1/approvals", "/v1/rules", "/readyz"] {
        closed(&server.get(path).await);
    }
    server.get("/healthz").await.ok();
    let told = ws.until_type("error").await;
    let last: &Value = told.last().unwrap();
    assert_eq!((&last["code"], &last["session_id"]), (&json!("store_closed"), &json!("a")));
    let log = server.until_logged(CLOSED).await;
    assert!(log.contains("test.db") && log.contains("disk I/O error"), "{log}");

    cut_power(&disk, &mut server).await;
    said(&server, "a", "kept").await;
    server.get("/v1/sessions/c").await.problem(404, "session_not_found");
    say(&server, "c", "again").await.ok();
    server.get("/readyz").await.ok();
}

/// Data that a failed sync has lost can still be read after reopening, and must not be relied on.
#[tokio::test]
async fn r3_appends_acknowledged_after_a_failed_sync_and_a_restart_survive_a_power_cut() {
    let (_dir, disk, mut server) = server().await;
    say(&server, "a", "kept").await.ok();
    disk.fails(Fault::SyncLog).unwrap();
    closed(&say(&server, "a", "unknown").await);
    server.kill();
    start_again(&mut server).await;
    say(&server, "b", "kept too").await.ok();
    cut_power(&disk, &mut server).await;
    said(&server, "a", "kept").await;
    said(&server, "b", "kept too").await;
}

#[tokio::test]
async fn r3_a_sync_that_fails_in_a_checkpoint_closes_the_store() {
    let (_dir, disk, mut server) = server().await;
    disk.fails(Fault::SyncBase).unwrap();
    let large = "x".repeat(100_000);
    let mut acknowledged = 0;
    loop {
        assert!(acknowledged < 100, "the log was never written back");
        let answer = say(&server, &format!("s{acknowledged}"), &large).await;
        if answer.status == 503 {
            closed(&answer);
            break;
        }
        answer.ok();
        acknowledged += 1;
    }
    assert!(acknowledged > 0 && !disk.is_faulty(), "{acknowledged}");
    server.until_logged(CLOSED).await;
    closed(&say(&server, "late", "lost").await);
    closed(&server.get("/readyz").await);
    cut_power(&disk, &mut server).await;
    for i in 0..acknowledged {
        said(&server, &format!("s{i}"), &large[..100]).await;
    }
}

/// A full disk refuses what does not fit and keeps what it has: it has written nothing that could be lost.
#[tokio::test]
async fn r3_r9_a_full_disk_refuses_loses_nothing_and_recovers_when_there_is_room() {
    let (_dir, disk, mut server) = server().await;
    say(&server, "a", "kept").await.ok();
    disk.fails(Fault::Full).unwrap();
    say(&server, "b", "no room").await.problem(503, "store_unavailable");
    server.get("/readyz").await.problem(503, "store_unavailable");
    said(&server, "a", "kept").await;
    disk.mend().unwrap();
    say(&server, "c", "there is room").await.ok();
    cut_power(&disk, &mut server).await;
    said(&server, "a", "kept").await;
    said(&server, "c", "there is room").await;
    server.get("/v1/sessions/b").await.problem(404, "session_not_found");
}

#[tokio::test]
async fn r9_a_full_disk_is_logged_once_with_its_cause_and_so_is_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(dir.path()).unwrap();
    let script = json!({ "turns": [{ "text": "done" }], "at_end": "repeat" });
    let setup = Setup::new(Store::Sqlite, &script).envs(&disk.environment()).log("info");
    let server = setup.start().await;
    disk.fails(Fault::Full).unwrap();
    for session in ["a", "b", "c"] {
        say(&server, session, "no room").await.problem(503, "store_unavailable");
    }
    let log = server.until_logged("does not take what is to be stored").await;
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("does not take what is to be stored")).collect();
    assert!(matches!(refused[..], [line] if line.contains("ERROR") && line.contains("test.db")), "{log}");
    assert!(refused[0].contains("database or disk is full"), "{log}");
    disk.mend().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    for session in ["d", "e"] {
        say(&server, session, "there is room").await.ok();
    }
    let log = server.until_logged("takes what is to be stored again").await;
    assert_eq!(log.matches("takes what is to be stored again").count(), 1, "{log}");
}

/// A client that was shown an event finds it again under its `seq`, and can follow from there, whenever the power is
/// cut.
#[tokio::test]
async fn w2_an_event_that_was_shown_keeps_its_seq_after_a_power_cut() {
    let answer = json!({ "thinking": "Let me think about it.", "text": "It is done.", "delay_ms": 5 });
    let script = json!({ "turns": [answer], "at_end": "repeat", "chunk_chars": 4 });
    for shown in [3, 6, 8, 10, 12] {
        let (_dir, disk, mut server) = server_with(&script).await;
        let mut ws = server.ws().await;
        ws.message("a", "go").await;
        let mut seen: Vec<Value> = Vec::new();
        while seen.len() < shown {
            let event = ws.next().await;
            seen.extend(event["seq"].is_u64().then_some(event));
        }
        // Then the model answers differently.
        let script = json!({ "turns": [{ "text": "Something else." }], "at_end": "repeat" });
        fs::write(server.path("script.json"), script.to_string()).unwrap();
        cut_power(&disk, &mut server).await;
        let last = seen.last().unwrap()["seq"].as_u64().unwrap();
        let mut on = server.ws().await;
        on.subscribe("a", last).await;
        on.until_status("completed").await;
        let mut again = server.ws().await;
        again.subscribe("a", 0).await;
        let all = again.until_status("completed").await;
        for event in seen {
            let found = all.iter().find(|one| one["seq"] == event["seq"]);
            assert_eq!(found, Some(&event), "after {shown} events");
        }
    }
}
