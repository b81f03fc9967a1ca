//! Spec R9: bad input of any kind gets a clear error, and everything else continues.

use futures::SinkExt as _;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use crate::{
    on_both_stores,
    support::{
        Setup, Store,
        fold::{Fold, results, without_gaps},
        trade,
    },
};

#[tokio::test]
async fn r9_bad_frames_get_an_error_and_the_connection_stays_up() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let mut ws = server.ws().await;
    let deep = format!(r#"{{"type":"message","content":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    for (frame, code) in [
        ("", "bad_json"),
        ("nonsense", "bad_json"),
        ("{\"type\":\"ping\"", "bad_json"),
        ("{\"type\":\"ping\"} {}", "bad_json"),
        ("{\"type\":\"ping\",\"type\":\"ping\"}", "bad_json"),
        ("{\"type\":\"message\",\"content\":\"\\ud800\"}", "bad_json"),
        ("{\"type\":\"message\",\"content\":\"\\udc00\\ud800\"}", "bad_json"),
        ("{\"type\":\"message\",\"content\":\"a\u{0}b\"}", "bad_json"),
        ("{\"type\":\"message\",\"content\":NaN}", "bad_json"),
        ("\u{feff}{\"type\":\"ping\"}", "bad_json"),
        (deep.as_str(), "bad_json"),
        ("[]", "invalid_message"),
        ("7", "invalid_message"),
        ("null", "invalid_message"),
        ("{}", "invalid_message"),
        ("{\"type\":7}", "invalid_message"),
        ("{\"type\":\"shout\"}", "unknown_type"),
        ("{\"type\":\"message\"}", "invalid_message"),
        ("{\"type\":\"message\",\"content\":\"\"}", "invalid_message"),
        ("{\"type\":\"message\",\"content\":[]}", "invalid_message"),
        ("{\"type\":\"message\",\"content\":[{\"type\":\"image\"}]}", "invalid_message"),
        ("{\"type\":\"message\",\"content\":\"x\",\"on_pending\":\"maybe\"}", "invalid_message"),
        ("{\"type\":\"message\",\"content\":\"x\",\"session_id\":\"../etc\"}", "invalid_session_id"),
        ("{\"type\":\"message\",\"content\":\"x\",\"session_id\":\"\"}", "invalid_session_id"),
        // No client of URLs reaches these.
        ("{\"type\":\"message\",\"content\":\"x\",\"session_id\":\".\"}", "invalid_session_id"),
        ("{\"type\":\"message\",\"content\":\"x\",\"session_id\":\"..\"}", "invalid_session_id"),
        ("{\"type\":\"message\",\"content\":\"x\",\"request_id\":\"\"}", "invalid_message"),
        ("{\"type\":\"subscribe\",\"session_id\":\"s\",\"after\":-1}", "invalid_message"),
        ("{\"type\":\"subscribe\",\"session_id\":\"s\",\"after\":1.5}", "invalid_message"),
        ("{\"type\":\"cancel\"}", "invalid_message"),
    ] {
        ws.send_text(frame).await;
        ws.error(code).await;
    }
    ws.0.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    ws.error("bad_json").await;
    ws.nothing_more().await;
    assert_eq!(server.get("/v1/sessions").await.ok()["sessions"], json!([]), "and no session was touched");
}

#[tokio::test]
async fn r9_a_huge_frame_is_refused_and_only_its_connection_ends() {
    let server = Setup::one_trade(Store::Memory).start().await;
    let mut other = server.ws().await;
    let mut ws = server.ws().await;
    let frame = format!(r#"{{"type":"message","content":"{}"}}"#, "x".repeat(16 * 1024 * 1024));
    let _ = ws.0.send(Message::text(frame)).await;
    ws.error("too_large").await;
    match ws.frame().await {
        Message::Close(Some(close)) => assert_eq!(close.code, CloseCode::Size),
        other => panic!("{other:?}"),
    }
    other.nothing_more().await;
    let mut again = server.ws().await;
    again.message("s", "go").await;
    again.until_status("awaiting_input").await;
}

#[tokio::test]
async fn r9_a_message_may_have_a_nul_and_any_other_character() {
    let server = Setup::new(Store::Sqlite, &json!({ "turns": [{ "text": "[{{ last_user }}]" }] })).start().await;
    let mut ws = server.ws().await;
    let text = "a\u{0}b\u{7}\u{202e}\u{10ffff} \"\\ é 漢 🦀";
    ws.message("s", text).await;
    ws.until_status("completed").await;
    let outcome = server.get("/v1/sessions/s/history").await.ok();
    assert_eq!(outcome["messages"][0]["content"][0]["text"], text);
    assert_eq!(outcome["messages"][1]["content"][0]["text"], format!("[{text}]"));
}

on_both_stores! {
    async fn r9_numbers_are_shown_and_run_exactly(store) {
        let script = r#"{"turns":[{"tool_calls":[{"name":"execute_trade","args":{"symbol":"VNM","quantity":9007199254740993,"price":0.10,"small":1e-7}}]},{"text":"done"}]}"#;
        let server = Setup::one_trade(store).script_text(script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        // The frame's text, not a parser's value of it.
        let shown = loop {
            let Message::Text(text) = ws.frame().await else { panic!("text") };
            if text.contains("\"approval_request\"") {
                break text.to_string();
            }
        };
        let exact = r#"{"price":0.10,"quantity":9007199254740993,"small":1e-7,"symbol":"VNM"}"#;
        assert!(shown.contains(exact), "{shown}");
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls(), [exact]);
        assert!(server.get("/v1/approvals/s_1").await.body.contains(exact));
        assert!(server.get("/v1/sessions/s/history").await.body.contains("9007199254740993"));
    }

    async fn r9_calls_that_cannot_run_go_back_to_the_model(store) {
        // Arguments as strings are the argument text itself.
        let script = json!({ "turns": [
            { "tool_calls": [
                { "id": "a", "name": "launch_missiles", "args": {} },
                { "id": "b", "name": "execute_trade", "args": "{\"symbol\": " },
                { "id": "c", "name": "execute_trade", "args": "{\"symbol\":\"A\",\"symbol\":\"B\",\"quantity\":1}" },
                { "id": "d", "name": "execute_trade", "args": "[1]" },
                { "id": "e", "name": "execute_trade", "args": { "symbol": "VNM", "quantity": 0 } },
                { "id": "f", "name": "execute_trade", "args": "{\"symbol\":\"\\ud800\",\"quantity\":1}" },
                { "id": "g", "name": "execute_trade", "args": format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)) },
                { "id": "h", "name": "execute_trade", "args": "" },
            ] },
            { "text": "sorry" },
        ] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("completed").await;
        let results = results(&frames);
        assert_eq!(results.len(), 8, "{results:?}");
        for (status, text) in &results {
            assert_eq!(status, "error", "{text}");
            assert!(!text.is_empty());
        }
        assert!(frames.iter().all(|f| f["content_block"]["type"] != "approval_request"), "nobody is asked");
        assert!(server.calls().is_empty());
    }

    async fn r9_repeated_call_ids_are_different_calls(store) {
        let call = |n: u64| json!({ "id": "same", "name": "execute_trade", "args": { "symbol": "VNM", "quantity": n } });
        let script = json!({ "turns": [{ "tool_calls": [call(1), call(2)] }, { "tool_calls": [call(3)] }, { "text": "done" }] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("awaiting_input").await;
        let request = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        let ids: Vec<_> = request["content_block"]["actions"].as_array().unwrap().iter().map(|a| a["id"].clone()).collect();
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
        ws.decide("s_1", json!([{ "type": "approve" }, { "type": "reject" }])).await;
        ws.until_status("awaiting_input").await;
        assert_eq!(server.calls(), [r#"{"quantity":1,"symbol":"VNM"}"#]);
        ws.decide("s_2", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 2);
    }

    async fn r9_two_hundred_calls_at_once(store) {
        let calls: Vec<_> = (1..=200).map(trade).collect();
        let script = json!({ "turns": [{ "tool_calls": calls }, { "text": "done" }] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let mut frames = ws.until_status("awaiting_input").await;
        let request = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        assert_eq!(request["content_block"]["actions"].as_array().unwrap().len(), 200);
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let more = ws.until_status("completed").await;
        let results = results(&more);
        assert_eq!(results.len(), 200);
        // On the wire they come as they finish; the model gets them in the order of its calls.
        for i in 1..=200 {
            let wanted = format!("\"quantity\":{i},");
            assert!(results.iter().any(|(status, text)| status == "success" && text.contains(&wanted)), "{wanted}");
        }
        assert_eq!(server.calls().len(), 200);
        frames.extend(more);
        frames.retain(|f| f["type"] != "ack");
        without_gaps(&frames, 0);
    }

    async fn r9_bad_input_of_one_session_does_not_hold_up_another(store) {
        let script = json!({ "turns": [{ "tool_calls": [{ "name": "stuck", "args": {} }] }, { "text": "done" }] });
        let stuck = "description = \"Sleeps.\"\ncommand = [\"sleep\", \"30\"]\nparameters = { type = \"object\" }";
        let server = Setup::new(store, &script).tool("stuck", stuck).start().await;
        let mut ws = server.ws().await;
        ws.message("stuck", "go").await;
        ws.until(|f| f["content_block"]["type"] == "tool_use").await;
        let mut other = server.ws().await;
        other.message("other", "go").await;
        other.until(|f| f["content_block"]["type"] == "tool_use").await;
        // Both can be stopped although neither tool reacts.
        for (ws, session) in [(&mut ws, "stuck"), (&mut other, "other")] {
            ws.send(&json!({ "type": "cancel", "session_id": session })).await;
            ws.until_status("cancelled").await;
        }
    }
}

#[tokio::test]
async fn r9_a_connection_follows_a_bounded_number_of_sessions_and_decides_in_any_number() {
    let server = Setup::one_trade(Store::Memory).start().await;
    server.post("/v1/sessions/asks/messages", &json!({ "content": "go" })).await.ok();
    let mut ws = server.ws().await;
    for i in 0..256 {
        let id = format!("s{i}");
        server.post("/v1/sessions", &json!({ "session_id": id })).await.ok();
        ws.subscribe(&id, 0).await;
    }
    ws.nothing_more().await;
    ws.message("one-more", "hi").await;
    ws.error("too_many_followed").await;
    let approve = json!([{ "type": "approve" }]);
    ws.send(&json!({ "type": "approval", "session_id": "asks", "approval_key": "asks_1", "decisions": approve, "request_id": "r" }))
        .await;
    ws.until(|frame| frame["type"] == "ack" && frame["request_id"] == "r").await;
    server.until_status("asks", "completed").await;
    ws.subscribe("s7", 0).await;
    ws.nothing_more().await;
    ws.send(&json!({ "type": "unsubscribe", "session_id": "s0" })).await;
    ws.message("one-more", "hi").await;
    ws.until_status("awaiting_input").await;
}

#[tokio::test]
async fn r9_a_reader_that_stalls_holds_up_no_one_and_loses_nothing() {
    let script = json!({ "turns": [{ "text": "x".repeat(100_000) }], "at_end": "repeat", "chunk_chars": 1000 });
    let server = Setup::new(Store::Memory, &script).start().await;
    server.post("/v1/sessions", &json!({ "session_id": "s" })).await.ok();
    let mut slow = server.ws().await;
    slow.subscribe("s", 0).await;
    // More than all buffers on the way hold.
    let mut last = 0;
    for _ in 0..80 {
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        last = server.get("/v1/sessions/s/state").await.ok()["seq"].as_u64().unwrap();
    }
    let frames = slow.until(|frame| frame["seq"] == last).await;
    without_gaps(&frames, 0);
    let blocks = Fold::of(&frames).blocks();
    assert_eq!(blocks.len(), 160);
    assert!(blocks.iter().all(|(_, text)| text == "go" || text.len() == 100_000));
    slow.nothing_more().await;
}
