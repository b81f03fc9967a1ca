//! Spec R9: what a session of forty megabytes costs the server when its past is read, and how large one may grow.

use std::time::Duration;

use serde_json::json;

use crate::support::{Server, Setup, Store};

/// A server that answers every message with one word.
async fn server(lines: &str) -> Server {
    let script = json!({ "turns": [{ "text": "Noted." }], "at_end": "repeat" });
    Setup::new(Store::Sqlite, &script).server(lines).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_forks_and_old_states_of_a_large_session_need_little_memory() {
    let mut server = server("").await;
    let text = "x".repeat(200_000);
    for _ in 0..200 {
        server.post("/v1/sessions/s/messages", &json!({ "content": text })).await.ok();
    }
    // One that has none of it in memory.
    server.kill();
    server.start_again().await;
    server.post("/v1/sessions/other/messages", &json!({ "content": "hello" })).await;
    let old = server.get("/v1/sessions/s/checkpoints?limit=100").await.ok()["checkpoints"][99]["checkpoint"].clone();
    let before = server.memory();
    let (path, forks) = (format!("/v1/sessions/s/state?checkpoint={old}"), "/v1/sessions/s/fork");
    let ids: Vec<_> = (0..8).map(|n| json!({ "session_id": format!("f{n}") })).collect();
    let asked = futures::future::join(
        futures::future::join_all((0..8).map(|_| server.get(&path))),
        futures::future::join_all(ids.iter().map(|id| server.post(forks, id))),
    );
    let mut asked = std::pin::pin!(asked);
    let (mut most, mut samples) = (0, 0);
    let (states, forks) = loop {
        tokio::select! {
            answers = &mut asked => break answers,
            () = tokio::time::sleep(Duration::from_millis(2)) => {
                most = most.max(server.memory().saturating_sub(before));
                samples += 1;
            }
        }
    };
    states.iter().chain(&forks).for_each(|answer| drop(answer.ok()));
    assert!(samples >= 20 && most > 0, "{samples} samples, {most} bytes: it was not watched");
    assert!(most < 20_000_000, "{most} bytes for a session of 40 MB");
    let one = server.get("/v1/sessions/f7/history?limit=1&direction=backward").await.ok();
    assert_eq!(one["messages"][0]["role"], "assistant", "{one}");
}

#[tokio::test]
async fn r9_a_session_grows_as_far_as_the_file_says() {
    let server = server("session_bytes = 1048576").await;
    let text = "x".repeat(200_000);
    for _ in 0..5 {
        server.post("/v1/sessions/s/messages", &json!({ "content": text })).await.ok();
    }
    let last = server.post("/v1/sessions/s/messages", &json!({ "content": text })).await;
    assert_eq!(last.ok()["error"]["code"], "session_full", "{}", last.body);
    server.post("/v1/sessions/s/messages", &json!({ "content": "more" })).await.problem(409, "session_full");
    // Nor does a retry make it grow: the next thing is a model call.
    server.post("/v1/sessions/s/retry", &json!({})).await.problem(409, "session_full");
    server.post("/v1/sessions/other/messages", &json!({ "content": "hello" })).await.ok();
}
