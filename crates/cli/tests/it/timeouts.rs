//! Spec W7 and R6: deadlines.

use std::time::{Duration, Instant};

use countersign_test_machine::Clocks;
use serde_json::json;

use crate::{
    on_both_stores,
    support::{Setup, Store, ask::waiting, trade},
};

on_both_stores! {
    async fn w7_at_the_deadline_everything_is_rejected_once_and_in_time(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1), trade(2)] }, { "text": "done" }] });
        let (server, mut ws) = waiting(Setup::new(store, &script).trade("approval = { timeout = 1 }")).await;
        let asked = Instant::now();
        let frames = ws.until_status("completed").await;
        assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
        let timeouts = frames.iter().filter(|f| f["content_block"]["type"] == "approval_timeout").count();
        assert_eq!(timeouts, 1);
        let rejected = frames.iter().filter(|f| f["content_block"]["status"] == "rejected").count();
        assert_eq!(rejected, 2);
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let error = ws.error("approval_already_resolved").await;
        assert_eq!(error["details"]["resolution"], "timeout");
        assert_eq!(error["message"], "\"s_1\" is already resolved: its deadline passed");
        assert!(server.calls().is_empty());
        let approval = server.get("/v1/approvals/s_1").await.ok();
        assert_eq!((&approval["status"], &approval["resolution"]), (&json!("resolved"), &json!("timeout")));
    }

    async fn w7_zero_waits_for_ever(store) {
        let server = Setup::one_trade(store).trade("approval = { timeout = 0 }").start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("awaiting_input").await;
        let request = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        assert!(request["content_block"].get("expires_at").is_none(), "{request}");
        assert_eq!(request["content_block"]["review_configs"][0]["timeout"], 0);
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
    }

    async fn w7_a_decision_before_the_deadline_wins(store) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clocks::new(dir.path()).unwrap().clock("clock");
        let (server, mut ws) = waiting(Setup::one_trade(store).envs(&clock.environment())).await;
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let frames = ws.until_status("completed").await;
        assert!(frames.iter().all(|f| f["content_block"]["type"] != "approval_timeout"));
        // A second session's deadline has passed after this one's: nothing more came for this one.
        ws.message("t", "go").await;
        ws.until_status("awaiting_input").await;
        clock.set(300).unwrap();
        let frames = ws.until_status("completed").await;
        assert!(frames.iter().all(|f| f["session_id"] == "t"), "{frames:?}");
        assert_eq!(server.calls().len(), 1);
    }
}

#[tokio::test]
async fn r6_what_expired_while_no_server_ran_times_out_at_the_start() {
    let (mut server, _ws) = waiting(Setup::one_trade(Store::Sqlite).trade("approval = { timeout = 1 }")).await;
    server.kill();
    // The deadline passes while nothing runs; the clock is what is tested here.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    server.start_again().await;
    server.until_status("s", "completed").await;
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    let frames = ws.until_status("completed").await;
    let timeouts = frames.iter().filter(|f| f["content_block"]["type"] == "approval_timeout").count();
    assert_eq!(timeouts, 1);
    server.kill();
    server.start_again().await;
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    let again = ws.until_status("completed").await;
    assert_eq!(frames, again, "it fires once");
    assert!(server.calls().is_empty());
}
