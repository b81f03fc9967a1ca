//! Spec R9, X: what the server's edge exposes to any client.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use futures::{SinkExt as _, StreamExt as _};
use rustix::process::Signal;
use serde_json::json;
use tokio_tungstenite::tungstenite::{
    Error, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use crate::support::{DEADLINE, Setup, Store, Ws};

#[tokio::test]
async fn x_a_readiness_check_does_not_cost_a_commit_each_time() {
    let server = Setup::one_trade(Store::Sqlite).start().await;
    let log = || fs::read(server.path("test.db-wal")).unwrap();
    let (since, mut before, mut commits) = (Instant::now(), log(), 0);
    for _ in 0..60 {
        assert_eq!(server.get("/readyz").await.ok(), json!({ "status": "ok" }));
        let now = log();
        commits += u64::from(now != before);
        before = now;
    }
    let may = 1 + since.elapsed().as_secs() / 5;
    assert!((1..=may).contains(&commits), "{commits} commits, at most {may}");
}

#[tokio::test]
async fn x_the_files_of_a_store_are_their_owners_only() {
    let server = Setup::one_trade(Store::Sqlite).start().await;
    server.post("/v1/sessions", &json!({})).await.ok();
    for name in ["test.db", "test.db-wal", "test.db-shm", "test.db.lock"] {
        let mode = fs::metadata(server.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
}

#[tokio::test]
async fn x_a_store_that_others_may_read_is_named_in_the_log() {
    let mut server = Setup::one_trade(Store::Sqlite).log("warn").start().await;
    server.kill();
    fs::set_permissions(server.path("test.db"), fs::Permissions::from_mode(0o644)).unwrap();
    server.start_again().await;
    server.until_logged("test.db may be used by other users of this machine (mode 644)").await;
}

#[tokio::test]
async fn x_the_console_connects_to_its_own_server_only() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let page = server.get("/").await;
    let policy = page.header("content-security-policy").unwrap();
    let connect = policy.split(';').map(str::trim).find(|part| part.starts_with("connect-src")).unwrap();
    assert_eq!(connect, "connect-src 'self'");
}

#[tokio::test]
async fn w1_a_close_is_answered() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let mut ws = server.ws().await;
    let bye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    ws.0.send(Message::Close(Some(bye))).await.unwrap();
    match tokio::time::timeout(DEADLINE, ws.0.next()).await.unwrap() {
        Some(Ok(Message::Close(Some(answer)))) => assert_eq!(answer.code, CloseCode::Normal),
        other => panic!("{other:?} instead of a close"),
    }
    assert!(matches!(ended(&mut ws).await, None | Some(Err(Error::ConnectionClosed))));
}

#[tokio::test]
async fn w1_a_client_that_still_sends_when_the_server_closes_is_told_why() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let mut ws = server.ws().await;
    // More than is read while the server stops.
    for _ in 0..200 {
        ws.send(&json!({ "type": "ping" })).await;
    }
    server.signal(Signal::TERM);
    let close = loop {
        match tokio::time::timeout(DEADLINE, ws.0.next()).await.unwrap() {
            Some(Ok(Message::Close(close))) => break close.unwrap(),
            Some(Ok(_)) => {}
            other => panic!("{other:?} instead of a close"),
        }
    };
    assert_eq!(close.code, CloseCode::Away);
    assert!(matches!(ended(&mut ws).await, None | Some(Err(Error::ConnectionClosed))));
}

async fn ended(ws: &mut Ws) -> Option<Result<Message, Error>> {
    tokio::time::timeout(DEADLINE.min(Duration::from_secs(20)), ws.0.next()).await.unwrap()
}

#[tokio::test]
async fn w1_a_misspelt_key_is_refused_by_name_and_starts_nothing() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let mut ws = server.ws().await;
    let mut refused = async |frame: serde_json::Value, name: &str| {
        ws.send(&frame).await;
        let error = ws.error("invalid_message").await;
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    };
    refused(json!({ "type": "message", "session_id": "s", "content": "go", "agnet": "other" }), "agnet: ").await;
    refused(json!({ "type": "subscribe", "session_id": "s", "from": 3 }), "from: ").await;
    refused(json!({ "type": "ping", "session_id": "s" }), "session_id: ").await;
    let blocks = json!([{ "type": "text", "text": "go", "txt": "" }]);
    refused(json!({ "type": "message", "session_id": "s", "content": blocks }), "content").await;
    for (path, body, name) in [
        ("/v1/sessions", json!({ "session": "s" }), "session: "),
        ("/v1/sessions/s/messages", json!({ "content": "go", "agnet": "other" }), "agnet: "),
        ("/v1/sessions/s/cancel", json!({ "force": true }), "force: "),
        ("/v1/sessions/s/fork", json!({ "chekpoint": 1 }), "chekpoint: "),
        ("/v1/graphs/g/runs", json!({ "imput": {} }), "imput: "),
        ("/v1/sessions/s/state", json!({ "vlaues": {} }), "vlaues: "),
        ("/v1/sessions/s/retry", json!({ "frmo": 1 }), "frmo: "),
        ("/v1/approvals/s_1", json!({ "decision": [] }), "decision: "),
        ("/v1/approvals/s_1/comments", json!({ "txet": "" }), "txet: "),
        ("/v1/approvals/s_1/reassign", json!({ "rloe": "" }), "rloe: "),
    ] {
        let problem = server.post(path, &body).await.problem(400, "invalid_message");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(name) && detail.contains("known: "), "{path}: {detail}");
    }
    assert_eq!(server.get("/v1/sessions").await.ok()["sessions"], json!([]));
}
