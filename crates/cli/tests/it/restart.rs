//! Spec R3, R4: the server dies between request and answer.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    DEADLINE, FILE_BLOCKS, Setup, Store,
    ask::{events, waiting},
    fold::{Fold, without_gaps},
};

#[tokio::test]
async fn r3_a_pending_request_survives_kill_9_and_continues_once_decided() {
    let mut server = Setup::one_trade(Store::Sqlite).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let before = ws.until_status("awaiting_input").await;
    let last = without_gaps(&before[1..], 0);
    for _ in 0..2 {
        server.kill();
        server.start_again().await;
    }
    let waiting = server.get("/v1/approvals?status=waiting").await.ok();
    assert_eq!(waiting["approvals"][0]["approval_key"], "s_1");
    let mut ws = server.ws().await;
    ws.subscribe("s", last).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    let after = ws.until_status("completed").await;
    let after: Vec<_> = after.into_iter().filter(|f| f["type"] != "ack").collect();
    without_gaps(&after, last);
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn r3_an_acknowledged_message_survives_kill_9() {
    let script = json!({ "turns": [{ "text": "thought about for long", "delay_ms": 1000 }] });
    let mut server = Setup::new(Store::Sqlite, &script).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "remember me").await;
    ws.until_type("ack").await;
    server.kill();
    server.start_again().await;
    // It continues by itself.
    server.until_status("s", "completed").await;
    let history = server.get("/v1/sessions/s/history").await.body;
    assert!(history.contains("remember me") && history.contains("thought about for long"), "{history}");
}

#[tokio::test]
async fn r3_an_acknowledged_decision_survives_kill_9() {
    let (mut server, mut ws) =
        waiting(Setup::one_trade(Store::Sqlite).trade("approval = true\nidempotent = true")).await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    ws.until_type("ack").await;
    server.kill();
    server.start_again().await;
    server.until_status("s", "completed").await;
    let calls = server.calls();
    assert!(!calls.is_empty() && calls.len() <= 2, "idempotent: begun again at most once: {calls:?}");
}

#[tokio::test]
async fn r4_a_crash_in_the_middle_of_a_call_asks_a_person() {
    let slow = "description = \"Slow.\"\ncommand = [\"sh\", \"-c\", \"echo begun >> calls.log; sleep 30\"]\n\
                parameters = { type = \"object\" }";
    let script =
        json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "{{ last_tool_result }}" }] });
    let mut server = Setup::new(Store::Sqlite, &script).tool("slow", slow).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let begun = async {
        while server.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the call begins");
    server.kill();
    server.start_again().await;
    server.until_status("s", "awaiting_input").await;
    assert_eq!(server.calls().len(), 1, "it is not run again");
    let approval = server.get("/v1/approvals/s_1").await.ok();
    assert_eq!(approval["kind"], "in_doubt", "{approval}");
    assert!(approval.get("expires_at").is_none());
    let mut ws = server.ws().await;
    ws.decide("s_1", json!([{ "type": "respond", "output": "it had worked" }])).await;
    ws.until_status("completed").await;
    assert_eq!(server.calls().len(), 1);
    assert!(server.get("/v1/sessions/s/history").await.body.contains("it had worked"));
}

/// The events before a crash and those after it, from the client's `seq` on, are one session.
async fn crash_while(script: &serde_json::Value, seen: impl Fn(&serde_json::Value) -> bool) {
    let mut server = Setup::new(Store::Sqlite, script).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let mut frames = events(ws.until(seen).await);
    server.kill();
    server.start_again().await;
    let last = frames.iter().rev().find_map(|frame| frame["seq"].as_u64()).unwrap();
    let mut ws = server.ws().await;
    ws.subscribe("s", last).await;
    frames.extend(ws.until_status("completed").await);
    assert_eq!(Fold::of(&frames), Fold::of(&server.checked("s").await));
}

#[tokio::test]
async fn r7_a_crash_in_the_middle_of_a_block_in_a_group_or_outside_is_repaired() {
    let script = json!({ "turns": [
        { "thinking": "a b c d e f g", "text": "h i j k l m n", "tool_calls": [{ "name": "note", "args": { "x": "o p q r" } }], "delay_ms": 400 },
        { "text": "done" },
    ], "chunk_chars": 2 });
    for kind in ["thinking_delta", "text_delta", "input_json_delta"] {
        let of_the_answer = |frame: &serde_json::Value| frame["message_id"] == "msg-2";
        crash_while(&script, |frame| of_the_answer(frame) && frame["delta"]["type"] == kind).await;
    }
    for kind in ["group_start", "group_end"] {
        crash_while(&script, |frame| frame["type"] == kind).await;
    }
}

/// Whatever the model says after the crash.
#[tokio::test]
async fn w2_every_seq_that_was_shown_before_kill_9_names_the_same_event_after_it() {
    let before = json!({ "turns": [
        { "thinking": "a b c d", "text": "e f g h", "tool_calls": [{ "name": "note", "args": { "x": "i j k l" } }], "delay_ms": 300 },
    ], "chunk_chars": 2 });
    let others = [
        json!({ "text": "Something else." }),
        json!({ "thinking": "Otherwise.", "text": "Something else." }),
        json!({ "thinking": "a b c d", "text": "And then something else." }),
        json!({ "text": "I note it.", "tool_calls": [{ "name": "note", "args": {} }] }),
    ];
    for kind in ["thinking_delta", "text_delta", "input_json_delta"] {
        for other in &others {
            let mut server = Setup::new(Store::Sqlite, &before).start().await;
            let mut ws = server.ws().await;
            ws.message("s", "go").await;
            let in_block = |frame: &serde_json::Value| frame["message_id"] == "msg-2" && frame["delta"]["type"] == kind;
            let mut seen = events(ws.until(in_block).await);
            server.kill();
            let after = json!({ "turns": [other, { "text": "done" }], "at_end": "repeat" });
            std::fs::write(server.path("script.json"), after.to_string()).unwrap();
            server.start_again().await;
            let last = seen.iter().rev().find_map(|frame| frame["seq"].as_u64()).unwrap();
            let mut ws = server.ws().await;
            ws.subscribe("s", last).await;
            let rest = ws.until_status("completed").await;
            assert_eq!(
                (&rest[0]["type"], &rest[0]["seq"]),
                (&json!("content_block_start"), &json!(last)),
                "{}",
                rest[0]
            );
            let all = server.checked("s").await;
            for event in seen.iter().filter(|event| event["seq"].is_u64()) {
                let now = all.iter().find(|one| one["seq"] == event["seq"]);
                assert_eq!(now, Some(event), "{kind}, then {other}");
            }
            seen.extend(rest);
            assert_eq!(Fold::of(&seen), Fold::of(&all), "{kind}, then {other}");
        }
    }
}

#[tokio::test]
async fn r4_a_call_that_is_cut_off_by_the_end_of_the_server_is_logged_with_its_session_and_tool() {
    let slow = "description = \"Slow.\"\nparameters = { type = \"object\" }\n\
                command = [\"sh\", \"-c\", \"echo begun >> calls.log; sleep 300\"]";
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "done" }] });
    let mut server = Setup::new(Store::Sqlite, &script).tool("slow", slow).log("warn").start().await;
    server.ws().await.message("cut", "go").await;
    let begun = async {
        while server.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the program runs");
    server.signal(Signal::TERM);
    assert!(server.ended().await.success());
    let log = std::fs::read_to_string(server.path("stderr.log")).unwrap();
    let cut: Vec<&str> = log.lines().filter(|line| line.contains("the call was cut off")).collect();
    assert!(matches!(cut[..], [one] if one.contains("session=\"cut\"") && one.contains("tool=\"slow\"")), "{log}");
}

/// By default the signal of a file that is too long (`ulimit -f`) ends a process.
#[tokio::test]
async fn r9_a_file_that_may_not_get_longer_fails_what_does_not_fit_and_ends_no_server() {
    let script = json!({ "turns": [{ "text": "done" }], "at_end": "repeat" });
    let setup = Setup::new(Store::Sqlite, &script).env(FILE_BLOCKS, "3000");
    let mut server = setup.start().await;
    let long = "x".repeat(200_000);
    let mut last = 200;
    for n in 0..50 {
        let path = format!("/v1/sessions/s{n}/messages");
        last = server.post(&path, &json!({ "content": long })).await.status;
        if last != 200 {
            break;
        }
    }
    assert_eq!(last, 503);
    server.get("/healthz").await.ok();
    server.signal(Signal::TERM);
    assert!(server.ended().await.success(), "it ended in order");
}

#[tokio::test]
async fn u3_sigterm_stops_gracefully_and_a_second_signal_at_once() {
    let (mut server, mut ws) = waiting(Setup::one_trade(Store::Sqlite)).await;
    server.signal(Signal::TERM);
    let closed = ws.frame().await;
    assert!(matches!(closed, tokio_tungstenite::tungstenite::Message::Close(_)), "{closed:?}");
    assert!(server.ended().await.success());
    server.start_again().await;
    let mut ws = server.ws().await;
    ws.decide("s_1", json!([{ "type": "approve" }])).await;
    ws.until_status("completed").await;
    assert_eq!(server.calls().len(), 1);

    // A program that runs keeps the server up for a while.
    let slow = "description = \"Slow.\"\nparameters = { type = \"object\" }\n\
                command = [\"sh\", \"-c\", \"while echo on >> calls.log; do sleep 0.1; done\"]";
    let script = json!({ "turns": [{ "tool_calls": [{ "name": "slow", "args": {} }] }, { "text": "done" }] });
    let mut server = Setup::new(Store::Memory, &script).tool("slow", slow).start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let begun = async {
        while server.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, begun).await.expect("the program runs");
    server.signal(Signal::INT);
    let stops = async {
        while server.get("/readyz").await.status == 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, stops).await.expect("the first signal is handled");
    let problem = server.get("/readyz").await.problem(503, "shutting_down");
    assert_eq!(problem["detail"], "the server is shutting down, and begins nothing new");
    server.signal(Signal::INT);
    assert_eq!(server.ended().await.code(), Some(130));
    // Its program ends with it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let done = server.calls().len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.calls().len(), done, "its loop writes no more");
}
