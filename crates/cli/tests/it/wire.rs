//! Spec W1, W2, W3: what clients send, what they get, and in which order.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Setup, Store,
        fold::{Fold, without_gaps},
        trade,
        ws::upgrade,
    },
};

fn hello() -> Value {
    json!({ "turns": [{ "thinking": "hm", "text": "Hello there" }], "at_end": "repeat", "chunk_chars": 3 })
}

on_both_stores! {
    async fn w1_a_message_makes_a_session_and_follows_it(store) {
        let server = Setup::new(store, &hello()).start().await;
        let mut ws = server.ws().await;
        ws.send(&json!({ "type": "message", "content": "hi", "request_id": "r1" })).await;
        let ack = ws.next().await;
        assert_eq!((&ack["type"], &ack["request_id"]), (&json!("ack"), &json!("r1")), "ack comes first");
        let session_id = ack["session_id"].as_str().unwrap().to_owned();
        let events = ws.until_status("completed").await;
        assert!(events.iter().all(|event| event["session_id"] == *session_id));
        without_gaps(&events, 0);
        ws.nothing_more().await;
        let view = server.get(&format!("/v1/sessions/{session_id}")).await.ok();
        assert_eq!((&view["status"], &view["title"]), (&json!("completed"), &json!("hi")));
    }

    async fn w1_content_may_be_blocks(store) {
        let server = Setup::new(store, &json!({ "turns": [{ "text": "[{{ last_user }}]" }] })).start().await;
        let mut ws = server.ws().await;
        let content = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "two" }]);
        ws.send(&json!({ "type": "message", "session_id": "s", "content": content })).await;
        let frames = ws.until_status("completed").await;
        let blocks = Fold::of(&frames[1..]).blocks();
        assert_eq!(blocks[..2], [("text".into(), "one".into()), ("text".into(), "two".into())]);
        assert!(blocks[2].1.contains("one") && blocks[2].1.contains("two"), "{blocks:?}");
    }

    async fn w1_the_same_request_is_done_once_and_answered_again(store) {
        let server = Setup::new(store, &hello()).start().await;
        let mut ws = server.ws().await;
        let frame = json!({ "type": "message", "session_id": "s", "content": "hi", "request_id": "r" });
        ws.send(&frame).await;
        let first = ws.next().await;
        ws.until_status("completed").await;
        ws.send(&frame).await;
        assert_eq!(ws.next().await, first);
        ws.nothing_more().await;
        let history = server.get("/v1/sessions/s/history").await.ok();
        let users = history["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "user").count();
        assert_eq!(users, 1, "{history}");
    }

    async fn w1_the_same_request_without_a_session_makes_one_session(store) {
        let server = Setup::new(store, &hello()).start().await;
        let frame = json!({ "type": "message", "content": "hi", "request_id": "r" });
        let mut ws = server.ws().await;
        ws.send(&frame).await;
        let first = ws.next().await;
        ws.until_status("completed").await;
        // The answer may have been lost with the connection.
        let mut again = server.ws().await;
        again.send(&frame).await;
        assert_eq!(again.next().await, first);
        again.nothing_more().await;
        let sessions = server.get("/v1/sessions").await.ok();
        assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
        let session = first["session_id"].as_str().unwrap();
        let history = server.history(session).await;
        assert_eq!(history.to_string().matches(r#""role":"user""#).count(), 1, "{history}");
    }

    async fn w1_a_refused_request_may_be_tried_again_under_its_id(store) {
        let server = Setup::new(store, &hello()).start().await;
        let mut ws = server.ws().await;
        let mut frame = json!({ "type": "message", "session_id": "s", "agent": "nobody", "content": "hi", "request_id": "r" });
        ws.send(&frame).await;
        let error = ws.error("unknown_agent").await;
        assert_eq!((&error["request_id"], &error["session_id"]), (&json!("r"), &json!("s")));
        server.get("/v1/sessions/s").await.problem(404, "session_not_found");
        frame["agent"] = json!("trader");
        ws.send(&frame).await;
        assert_eq!(ws.next().await, json!({ "type": "ack", "request_id": "r", "session_id": "s" }));
        ws.until_status("completed").await;
    }

    async fn w1_subscribe_replays_and_follows_and_unsubscribe_ends_it(store) {
        let server = Setup::new(store, &hello()).start().await;
        let mut sender = server.ws().await;
        sender.message("s", "one").await;
        let first = sender.until_status("completed").await;
        let mut reader = server.ws().await;
        reader.subscribe("s", 0).await;
        let replay = reader.until_status("completed").await;
        let last = without_gaps(&replay, 0);
        assert_eq!(Fold::of(&replay), Fold::of(&first[1..]));
        // A second subscription changes nothing.
        reader.subscribe("s", last).await;
        // A subscription is not answered; later requests on the same connection are, once it is active.
        reader.nothing_more().await;
        sender.message("s", "two").await;
        let live = reader.until_status("completed").await;
        let last = without_gaps(&live, last);
        reader.nothing_more().await;
        reader.send(&json!({ "type": "unsubscribe", "session_id": "s" })).await;
        reader.nothing_more().await;
        sender.until_status("completed").await;
        sender.message("s", "three").await;
        sender.until_status("completed").await;
        reader.nothing_more().await;
        // Without `after`: only new events.
        reader.send(&json!({ "type": "subscribe", "session_id": "s" })).await;
        reader.nothing_more().await;
        sender.message("s", "four").await;
        let live = reader.until_status("completed").await;
        assert!(live[0]["seq"].as_u64().unwrap() > last + 1);
        reader.subscribe("nobody", 0).await;
        let error = reader.error("session_not_found").await;
        assert_eq!(error["session_id"], "nobody");
        reader.subscribe("s", 1_000_000).await;
        reader.error("invalid_message").await;
    }

    async fn w1_cancel_stops_the_turn_and_resolves_what_is_pending(store) {
        let server = Setup::one_trade(store).start().await;
        let mut ws = server.ws().await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.error("session_not_found").await;
        ws.message("s", "go").await;
        ws.until_status("awaiting_input").await;
        ws.send(&json!({ "type": "cancel", "session_id": "s", "request_id": "c" })).await;
        assert_eq!(ws.next().await, json!({ "type": "ack", "request_id": "c", "session_id": "s" }));
        let frames = ws.until_status("cancelled").await;
        let resolved = frames.iter().find(|f| f["type"] == "approval_resolved").unwrap();
        assert_eq!((&resolved["approval_key"], &resolved["resolution"]), (&json!("s_1"), &json!("cancelled")));
        let stop = frames.iter().find(|f| f["type"] == "message_stop").unwrap();
        assert_eq!(stop["stop_reason"], "cancelled");
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.error("nothing_to_cancel").await;
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let error = ws.error("approval_already_resolved").await;
        assert_eq!(error["details"]["resolution"], "cancelled");
        assert!(server.calls().is_empty());
        // The session continues.
        ws.message("s", "again").await;
        ws.until(|f| matches!(f["status"].as_str(), Some("awaiting_input" | "completed"))).await;
    }

    async fn w1_cancel_in_the_middle_of_an_answer_keeps_what_was_said(store) {
        let script = json!({ "turns": [{ "text": "a long long long answer", "delay_ms": 60_000 }], "chunk_chars": 1 });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        ws.until_type("content_block_delta").await;
        ws.until_type("content_block_delta").await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        ws.until_status("cancelled").await;
        let mut other = server.ws().await;
        other.subscribe("s", 0).await;
        let replay = other.until_status("cancelled").await;
        without_gaps(&replay, 0);
        let said = Fold::of(&replay).blocks().last().unwrap().1.clone();
        assert!("a long long long answer".starts_with(&said) && said.len() < 20, "{said}");
    }

    async fn w2_the_order_of_a_turn(store) {
        let script = json!({ "turns": [
            { "thinking": "hm", "text": "I ask.", "tool_calls": [{ "name": "note", "args": {} }, trade(1)] },
            { "text": "done" },
        ] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let mut frames = ws.until_status("awaiting_input").await;
        assert_eq!(frames.remove(0)["type"], "ack");
        let before = frames[frames.len() - 2].clone();
        assert_eq!(before["type"], "content_block_stop", "awaiting_input comes after the last request's stop");
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let mut more = ws.until_status("completed").await;
        assert_eq!(more.remove(0)["type"], "ack");
        assert_eq!(more[more.len() - 2]["type"], "message_stop", "the last run_status comes after it");
        frames.extend(more);
        without_gaps(&frames, 0);
        assert_eq!(Fold::of(&frames).shape(), [
            "user", "(", "thinking", ")", "text", "(", "tool_use", "tool_use", "tool_result", "approval_request",
            "approval_result", "tool_result", ")", "text",
        ]);
        let starts: Vec<_> = frames.iter().filter(|f| f["type"] == "message_start").collect();
        assert_eq!(starts.len(), 2, "one assistant message for a turn");
        let indexes: Vec<_> = frames.iter()
            .filter(|f| f["type"] == "content_block_start" && f["message_id"] == starts[1]["message_id"])
            .map(|f| f["index"].as_u64().unwrap()).collect();
        assert_eq!(indexes, (0..9).collect::<Vec<_>>());
    }

    async fn w2_a_failed_model_ends_the_turn_and_says_why(store) {
        let script = json!({ "turns": [{ "text": "I am about to", "error": "the model is on fire" }, { "text": "ok" }] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("failed").await;
        let status = frames.last().unwrap();
        assert!(status["error"]["message"].as_str().unwrap().contains("on fire"), "{status}");
        let stop = &frames[frames.len() - 2];
        assert_eq!((&stop["type"], &stop["stop_reason"]), (&json!("message_stop"), &json!("error")));
    }

    async fn w2_max_turns_ends_the_turn_and_says_so(store) {
        let script = json!({ "turns": [{ "tool_calls": [{ "name": "note", "args": {} }] }], "at_end": "repeat" });
        let server = Setup::new(store, &script).max_turns(3).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("failed").await;
        assert_eq!(frames[frames.len() - 2]["stop_reason"], "max_turns");
        assert_eq!(server.calls().len(), 3);
    }

    async fn w3_deltas_are_typed_where_the_source_says_so(store) {
        let script = json!({ "turns": [
            { "thinking": "hm", "text": "hi", "tool_calls": [{ "id": "t1", "name": "note", "args": { "a": 1 } }] },
            { "text": "done" },
        ] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("completed").await;
        let after = |kind: &str| {
            let at = frames.iter().position(|f| f["content_block"]["type"] == kind).unwrap();
            (frames[at]["content_block"].clone(), frames[at + 1]["delta"].clone())
        };
        assert_eq!(after("thinking").1, json!({ "type": "thinking_delta", "thinking": "hm" }));
        assert_eq!(after("text").1["type"], "text_delta");
        assert_eq!(after("tool_use"), (
            json!({ "type": "tool_use", "id": "t1", "name": "note" }),
            json!({ "type": "input_json_delta", "partial_json": "{\"a\":1}" }),
        ));
        let (start, delta) = after("tool_result");
        assert_eq!(start, json!({ "type": "tool_result", "tool_use_id": "t1", "name": "note", "status": "success" }));
        assert_eq!(delta, json!({ "content": "{\"a\":1}" }));
    }

    async fn w2_many_sessions_share_a_connection(store) {
        let server = Setup::new(store, &hello()).start().await;
        let mut ws = server.ws().await;
        for i in 0..20 {
            ws.message(&format!("s{i}"), "hi").await;
        }
        let mut done = 0;
        let mut events: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
        while done < 20 {
            let frame = ws.next().await;
            if frame["type"] == "ack" {
                continue;
            }
            done += usize::from(frame["status"] == "completed");
            events.entry(frame["session_id"].as_str().unwrap().to_owned()).or_default().push(frame);
        }
        assert_eq!(events.len(), 20);
        for (session, events) in events {
            without_gaps(&events, 0);
            assert_eq!(Fold::of(&events).blocks().last().unwrap().1, "Hello there", "{session}");
        }
        ws.nothing_more().await;
    }
}

#[tokio::test]
async fn w_the_subprotocol_is_needed_and_the_token_is_never_echoed() {
    let server = Setup::new(Store::Memory, &hello()).start().await;
    for protocols in ["", "chat", "bearer.x"] {
        let headers: &[(&str, &str)] = &[("sec-websocket-protocol", protocols)];
        let headers = if protocols.is_empty() { &[] } else { headers };
        let (status, problem) = upgrade(server.address, headers).await.err().expect("refused");
        assert_eq!((status, &problem["code"]), (400, &json!("invalid_message")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("countersign.v1"));
    }
    for protocols in ["countersign.v1", "bearer.abc, countersign.v1", "chat, countersign.v1,bearer.abc"] {
        let (_, chosen) = upgrade(server.address, &[("sec-websocket-protocol", protocols)]).await.ok().expect("taken");
        assert_eq!(chosen.as_deref(), Some("countersign.v1"));
    }
    server.get("/v1/ws").await.problem(400, "invalid_message");
}

#[tokio::test]
async fn w2_hello_names_the_protocol_and_ping_is_answered() {
    let server = Setup::new(Store::Memory, &hello()).start().await;
    let (mut ws, _) =
        upgrade(server.address, &[("sec-websocket-protocol", "countersign.v1")]).await.ok().expect("taken");
    let hello = ws.next().await;
    assert_eq!(hello["type"], "hello");
    assert_eq!(hello["protocol"], "countersign.v1");
    assert!(hello["server"].as_str().unwrap().starts_with("countersign/"));
    assert_eq!(hello["heartbeat_seconds"], 30);
    ws.nothing_more().await;
}
