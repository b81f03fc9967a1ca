//! An altered row of a store, so that a person is shown another call than would run.

use countersign_test_postgres::Database;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Server, Setup, Store, run};

/// Puts other arguments into the approval request of a session than those of its call. The row stays well formed.
fn alter(server: &Server, session: &str) {
    let file = Connection::open(server.path("test.db")).unwrap();
    let other = "UPDATE entries SET body = replace(CAST(body AS TEXT), '\"args\":{', '\"args\":{\"more\":1,')
                 WHERE key >> 32 = (SELECT number FROM sessions WHERE id = ?1) AND body LIKE '%\"interrupted\"%'";
    assert_eq!(file.execute(other, [session]).unwrap(), 1);
}

#[tokio::test]
async fn r9_an_altered_row_is_refused_by_name_wherever_it_is_read_and_harms_no_other_session() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    for session in ["bad", "good", "past"] {
        server.post(&format!("/v1/sessions/{session}/messages"), &json!({ "content": "go" })).await.ok();
        server.until_status(session, "awaiting_input").await;
    }
    let approve = json!({ "decisions": [{ "type": "approve" }] });
    server.post("/v1/approvals/past_1?wait=true", &approve).await.ok();
    server.kill();
    alter(&server, "bad");
    alter(&server, "past");
    server.start_again().await;

    // A decision on it.
    let refused = server.post("/v1/approvals/bad_1", &approve).await.problem(500, "internal");
    let told = refused["detail"].as_str().unwrap();
    assert!(told.contains("session bad, position ") && told.contains("do not lead to it"), "{told}");
    server.post("/v1/sessions/bad/messages", &json!({ "content": "go on" })).await.problem(500, "internal");
    // Reads of its past, also where a later snapshot has its continuation.
    assert_eq!(server.get("/v1/sessions/past").await.ok()["status"], "completed");
    let refused = server.get("/v1/sessions/past/checkpoints").await.problem(500, "internal");
    assert!(refused["detail"].as_str().unwrap().contains("session past, position "), "{refused}");
    // Other sessions are neither affected nor delayed.
    let done = server.post("/v1/approvals/good_1?wait=true", &approve).await.ok();
    assert_eq!((&done["status"], server.calls().len()), (&json!("completed"), 2), "those of `past` and `good`");

    // And commands on the file.
    server.kill();
    let database = Database::new();
    for command in [&["store", "restored"][..], &["store", "copy", "sqlite:test.db", database.url()]] {
        let ended = run(&server.path(""), command, "", &[]);
        assert_eq!(ended.code, Some(1), "{command:?}: {}", ended.stderr);
        assert!(!ended.stdout.contains("ok") && !ended.stdout.contains("bad"), "{command:?}: {}", ended.stdout);
        assert!(ended.stderr.contains("session bad, position "), "{command:?}: {}", ended.stderr);
    }
}
