//! Requests and decisions about actions, field for field (spec W4 to W7): the printed examples, with this server's
//! extra fields removed by name.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Setup, ask::waiting, trade},
};

/// The fields of `frame` that `example` has, deeply; everything else is an extra.
fn only(frame: &Value, example: &Value) -> Value {
    match (frame, example) {
        (Value::Object(frame), Value::Object(example)) => {
            let kept = example.iter().filter_map(|(key, value)| Some((key.clone(), only(frame.get(key)?, value))));
            Value::Object(kept.collect())
        }
        (Value::Array(frame), Value::Array(example)) => {
            let last = example.last().unwrap_or(&Value::Null);
            let all = frame.iter().enumerate().map(|(i, value)| only(value, example.get(i).unwrap_or(last)));
            Value::Array(all.collect())
        }
        (frame, _) => frame.clone(),
    }
}

#[track_caller]
fn is(frame: &Value, example: Value) {
    assert_eq!(only(frame, &example), example, "{frame}");
}

fn script() -> Value {
    json!({ "turns": [
        { "tool_calls": [{
            "id": "toolu_01XyzAbc",
            "name": "execute_trade",
            "args": { "symbol": "VNM", "quantity": 100, "side": "buy", "price": 82000 }
        }] },
        { "text": "done" },
    ] })
}

on_both_stores! {
    async fn w4_the_request_is_the_one_of_source_000(store) {
        let server = Setup::new(store, &script()).start().await;
        let mut ws = server.ws().await;
        ws.message("abc-123", "mua").await;
        let frames = ws.until_status("awaiting_input").await;
        let at = frames.iter().position(|f| f["content_block"]["type"] == "approval_request").expect("a request");
        let request = &frames[at];
        is(request, json!({
            "type": "content_block_start",
            "index": 1,
            "content_block": {
                "type": "approval_request",
                "approval_key": "abc-123_1",
                "actions": [{
                    "name": "execute_trade",
                    "args": { "symbol": "VNM", "quantity": 100, "side": "buy", "price": 82000 },
                    "tool_use_id": "toolu_01XyzAbc"
                }],
                "review_configs": [{ "require_approval": true, "timeout": 300 }]
            },
        }));
        assert!(request["message_id"].is_string());
        is(&frames[at + 1], json!({ "type": "content_block_stop", "index": 1 }));
        // What this server adds (spec W4), and nothing else.
        let block = &request["content_block"];
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(block), ["actions", "approval_key", "expires_at", "kind", "review_configs", "type"]);
        assert_eq!(block["kind"], "approval");
        assert_eq!(
            keys(&block["actions"][0]),
            ["agent", "args", "args_digest", "description", "digest", "display", "id", "name", "tool_use_id"]
        );
        assert_eq!(keys(&block["actions"][0]["display"]), ["bytes", "digest", "text", "warnings"]);
        assert_eq!(
            keys(&block["review_configs"][0]),
            ["action_name", "allowed_decisions", "args_schema", "require_approval", "timeout"]
        );
        assert_eq!(block["review_configs"][0]["action_name"], "execute_trade");
        is(&frames[at + 2], json!({ "type": "run_status", "status": "awaiting_input", "pending": ["abc-123_1"] }));
        assert_eq!(frames.len(), at + 3);
    }

    async fn w6_the_result_is_the_one_of_source_000(store) {
        let server = Setup::new(store, &script()).start().await;
        let mut ws = server.ws().await;
        ws.message("abc-123", "mua").await;
        ws.until_status("awaiting_input").await;
        ws.send(&json!({
            "type": "approval",
            "session_id": "abc-123",
            "approval_key": "abc-123_1",
            "decisions": [{ "type": "approve" }]
        })).await;
        let ack = ws.next().await;
        assert_eq!(ack, json!({ "type": "ack", "session_id": "abc-123" }));
        is(&ws.next().await, json!({
            "type": "approval_resolved", "approval_key": "abc-123_1", "resolution": "decided"
        }));
        is(&ws.next().await, json!({
            "type": "content_block_start",
            "index": 2,
            "content_block": { "type": "approval_result", "approval_key": "abc-123_1" }
        }));
        let delta = ws.next().await;
        is(&delta, json!({ "type": "content_block_delta", "index": 2, "delta": { "decisions": [{ "type": "approve" }] } }));
        assert_eq!(delta["delta"], json!({ "decisions": [{ "type": "approve" }] }), "without a type of its own");
        is(&ws.next().await, json!({ "type": "content_block_stop", "index": 2 }));
        ws.until_status("completed").await;
        assert_eq!(server.calls(), [r#"{"price":82000,"quantity":100,"side":"buy","symbol":"VNM"}"#]);
    }

    async fn w5_an_edit_of_source_000_runs_what_was_edited(store) {
        let server = Setup::new(store, &script()).start().await;
        let mut ws = server.ws().await;
        ws.message("abc-123", "mua").await;
        ws.until_status("awaiting_input").await;
        ws.send(&json!({
            "type": "approval",
            "session_id": "abc-123",
            "approval_key": "abc-123_1",
            "decisions": [{
                "type": "edit",
                "edited_action": {
                    "name": "execute_trade",
                    "args": { "symbol": "VNM", "quantity": 50, "side": "buy", "price": 82000 }
                }
            }],
            "user_edit_content": "OK nhưng chỉ mua 50 cổ thôi"
        })).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls(), [r#"{"price":82000,"quantity":50,"side":"buy","symbol":"VNM"}"#]);
        let history = server.get("/v1/sessions/abc-123/history").await.ok();
        let said = history["messages"].as_array().unwrap().iter().any(|m| {
            m["role"] == "user" && m["content"][0]["text"] == "OK nhưng chỉ mua 50 cổ thôi"
        });
        assert!(said, "{history}");
    }

    async fn w5_missing_decisions_of_source_000_take_the_first(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1), trade(2), trade(3)] }, { "text": "done" }] });
        let (_server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.decide("s_1", json!([{ "type": "reject" }, { "type": "approve" }])).await;
        let frames = ws.until_status("completed").await;
        let decided = frames.iter().find(|f| f["delta"]["decisions"].is_array()).unwrap();
        assert_eq!(
            decided["delta"]["decisions"],
            json!([{ "type": "reject" }, { "type": "approve" }, { "type": "reject" }])
        );
        let results: Vec<_> = frames.iter().filter(|f| f["content_block"]["type"] == "tool_result").collect();
        let mut statuses: Vec<_> = results
            .iter()
            .map(|f| (f["content_block"]["tool_use_id"].as_str().unwrap(), f["content_block"]["status"].as_str().unwrap()))
            .collect();
        statuses.sort_unstable();
        assert_eq!(statuses.iter().map(|(_, status)| *status).collect::<Vec<_>>(), ["rejected", "success", "rejected"]);
    }

    async fn w7_the_timeout_is_the_one_of_source_000(store) {
        let server = Setup::new(store, &script()).trade("approval = { timeout = 1 }").start().await;
        let mut ws = server.ws().await;
        ws.message("abc-123", "mua").await;
        ws.until_status("awaiting_input").await;
        is(&ws.next().await, json!({
            "type": "approval_resolved", "approval_key": "abc-123_1", "resolution": "timeout"
        }));
        is(&ws.next().await, json!({
            "type": "content_block_start",
            "index": 2,
            "content_block": { "type": "approval_timeout", "approval_key": "abc-123_1" }
        }));
        is(&ws.next().await, json!({ "type": "content_block_stop", "index": 2 }));
        ws.until_status("completed").await;
        assert!(server.calls().is_empty());
    }
}
