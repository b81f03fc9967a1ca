//! Spec Q2, Q4, W9, R3: what happens to a pending question, and to several that are pending together.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Provider, Setup, Store,
        ask::{ask, asks, events, said, two_questions, waiting},
        fold::{Fold, without_gaps},
    },
};

/// The question's block in the history.
async fn block(server: &crate::support::Server, session_id: &str) -> Value {
    let history = server.history(session_id).await;
    let found = history.as_array().unwrap().iter().find(|m| m["content"][0]["type"] == "approval_request");
    found.expect("a request")["content"][0].clone()
}

fn kinds(frames: &[Value]) -> Vec<&str> {
    frames.iter().filter_map(|f| f["content_block"]["type"].as_str()).collect()
}

on_both_stores! {
    async fn q4_a_question_times_out_and_the_model_is_told(store) {
        for (locale, text) in [("en", "Nobody answered in time"), ("vi", "Không ai trả lời kịp thời"), ("zh", "无人及时回答")] {
            let setup = asks(store).locale(locale).section("ask_user_question", "approval = { timeout = 1 }");
            let server = setup.start().await;
            let mut ws = server.ws().await;
            ws.message("s", "go").await;
            let asked = ws.until_status("awaiting_input").await;
            let delta = asked.iter().find(|f| f["delta"]["timeout_seconds"].is_number()).unwrap();
            assert_eq!(delta["delta"]["timeout_seconds"], 1);
            let frames = ws.until_status("completed").await;
            assert_eq!((&frames[0]["type"], &frames[0]["resolution"]), (&json!("approval_resolved"), &json!("timeout")));
            assert!(frames[0].get("answers").is_none());
            assert_eq!(frames[1]["content_block"], json!({ "type": "approval_timeout", "approval_key": "s_1" }));
            assert_eq!((&frames[2]["type"], &frames[2]["index"]), (&json!("content_block_stop"), &frames[1]["index"]));
            assert_eq!(kinds(&frames), ["approval_timeout", "text"]);
            assert_eq!(said(&frames), format!("Told: {text}"));
            server.checked("s").await;
            let block = block(&server, "s").await;
            assert_eq!((&block["isResolved"], &block["resolution"]), (&json!(true), &json!("timeout")));
            assert!(["submittedAnswers", "approval_key", "expires_at"].iter().all(|key| block.get(key).is_none()), "{block}");
        }
    }

    async fn q4_zero_waits_for_ever(store) {
        let setup = asks(store).section("ask_user_question", "approval = { timeout = 0 }");
        let (server, mut ws) = waiting(setup).await;
        let row = server.get("/v1/approvals/s_1").await.ok();
        assert!(row["timeout_seconds"] == 0 && row.get("expires_at").is_none(), "{row}");
        assert!(block(&server, "s").await.get("expires_at").is_none());
        ws.answer("s_1", json!({})).await;
        ws.until_status("completed").await;
        server.checked("s").await;
    }

    async fn w1_cancel_withdraws_a_question(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        let frames = ws.until_status("cancelled").await;
        assert_eq!((&frames[1]["type"], &frames[1]["resolution"]), (&json!("approval_resolved"), &json!("cancelled")));
        assert!(kinds(&frames).is_empty(), "nothing of it is shown: {frames:?}");
        ws.answer("s_1", json!({ "Q1": "A" })).await;
        assert_eq!(ws.error("approval_already_resolved").await["details"]["resolution"], "cancelled");
        server.checked("s").await;
        let block = block(&server, "s").await;
        assert_eq!((&block["isResolved"], &block["resolution"]), (&json!(true), &json!("cancelled")));
        // The session continues.
        ws.message("s", "again").await;
        ws.until_status("completed").await;
        server.checked("s").await;
    }

    async fn w9_a_message_that_rejects_is_what_the_model_is_told(store) {
        let script = json!({ "turns": [
            { "tool_calls": [ask(two_questions())] }, { "text": "[{{ last_tool_result }}] [{{ last_user }}]" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        ws.message("s", "hello?").await;
        let error = ws.error("approval_pending").await;
        assert_eq!(error["details"]["pending"], json!(["s_1"]));
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "never mind", "on_pending": "reject" })).await;
        let frames = events(ws.until_status("completed").await);
        assert_eq!((&frames[0]["type"], &frames[0]["resolution"]), (&json!("approval_resolved"), &json!("decided")));
        assert_eq!(kinds(&frames), ["text", "text"]);
        assert!(frames.iter().any(|f| f["delta"]["text"] == "[never mind] [never mind]"), "{frames:?}");
        server.checked("s").await;
        assert_eq!(block(&server, "s").await["resolution"], "decided");
    }

    async fn w9_a_queued_message_follows_the_answers(store) {
        let script = json!({ "turns": [
            { "tool_calls": [ask(two_questions())] }, { "text": "[{{ last_tool_result }}] [{{ last_user }}]" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "and then?", "on_pending": "queue" })).await;
        assert_eq!(ws.next().await["type"], "ack");
        ws.nothing_more().await;
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]), "it is still pending");
        ws.answer("s_1", json!({ "Q1": "A" })).await;
        let frames = ws.until_status("completed").await;
        let told = r#"[{"Q1":"A","Q2":"[No preference]"}] [and then?]"#;
        assert!(frames.iter().any(|f| f["delta"]["text"] == told), "{frames:?}");
        let replay = server.checked("s").await;
        assert_eq!(Fold::of(&replay).shape(), ["user", "approval_request", "user", "text"]);
    }

    async fn q2_beside_an_approval_and_a_free_call_each_has_its_own_key_and_any_order_will_do(store) {
        let gated = json!({ "symbol": "VNM", "quantity": 1 });
        let calls = json!([
            { "id": "gated", "name": "execute_trade", "args": gated },
            { "id": "first", "name": "ask_user_question", "args": { "questions": two_questions() } },
            { "id": "free", "name": "note", "args": { "free": true } },
            { "id": "second", "name": "ask_user_question", "args": { "questions": [{ "question": "Q3", "options": [{ "label": "E" }] }] } },
        ]);
        for order in [["s_1", "s_2", "s_3"], ["s_3", "s_2", "s_1"], ["s_2", "s_1", "s_3"]] {
            let provider = Provider::start(vec![json!({ "tool_calls": calls }), json!({ "text": "done" })]).await;
            let setup = Setup::new(store, &json!({ "turns": [] })).built_in(&["ask_user_question"]).provider(&provider);
            let server = setup.start().await;
            let mut ws = server.ws().await;
            ws.message("s", "go").await;
            let mut frames = events(ws.until_status("awaiting_input").await);
            assert_eq!(server.calls(), [r#"{"free":true}"#], "the ungated call has run");
            assert_eq!(frames.last().unwrap()["pending"], json!(["s_1", "s_2", "s_3"]));
            assert_eq!(Fold::of(&frames).shape(), [
                "user", "(", "tool_use", "tool_use", "tool_result", "approval_request", ")", "approval_request",
                "approval_request",
            ]);
            let rows = server.get("/v1/approvals?status=waiting").await.ok();
            let kinds: Vec<_> = rows["approvals"].as_array().unwrap().iter().map(|row| row["kind"].clone()).collect();
            assert_eq!(kinds, ["approval", "question", "question"], "the soonest deadline first");
            let mut pending = vec!["s_1", "s_2", "s_3"];
            for key in order {
                assert_eq!(provider.requests(), 1, "the model is asked again when all is there");
                match key {
                    "s_1" => ws.decide(key, json!([{ "type": "approve" }])).await,
                    "s_2" => ws.answer(key, json!({ "Q1": "A" })).await,
                    _ => ws.answer(key, json!({ "Q3": "E" })).await,
                }
                pending.retain(|waits| *waits != key);
                let status = if pending.is_empty() { "completed" } else { "awaiting_input" };
                let more = events(ws.until_status(status).await);
                if !pending.is_empty() {
                    assert_eq!(more.last().unwrap()["pending"], json!(pending));
                }
                frames.extend(more);
            }
            without_gaps(&frames, 0);
            assert_eq!(provider.results(1), [
                ("gated".to_owned(), r#"{"quantity":1,"symbol":"VNM"}"#.to_owned()),
                ("first".to_owned(), r#"{"Q1":"A","Q2":"[No preference]"}"#.to_owned()),
                ("free".to_owned(), r#"{"free":true}"#.to_owned()),
                ("second".to_owned(), r#"{"Q3":"E"}"#.to_owned()),
            ], "in the model's order, whatever came first");
            assert_eq!(server.calls().len(), 2);
            let replay = server.checked("s").await;
            assert_eq!(Fold::of(&frames), Fold::of(&replay));
        }
    }

    async fn m3_a_malformed_question_does_not_hold_up_the_calls_beside_it(store) {
        let calls = json!([
            { "id": "bad", "name": "ask_user_question", "args": { "questions": [] } },
            { "id": "good", "name": "ask_user_question", "args": { "questions": two_questions() } },
        ]);
        let provider = Provider::start(vec![json!({ "tool_calls": calls }), json!({ "text": "done" })]).await;
        let setup = Setup::new(store, &json!({ "turns": [] })).built_in(&["ask_user_question"]).provider(&provider);
        let (server, mut ws) = waiting(setup).await;
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]));
        ws.answer("s_1", json!({ "Q2": "C" })).await;
        ws.until_status("completed").await;
        let results = provider.results(1);
        assert_eq!((results[0].0.as_str(), results[1].0.as_str()), ("bad", "good"));
        assert!(results[0].1.contains("1 to 8 questions"), "{results:?}");
        assert_eq!(results[1].1, r#"{"Q1":"[No preference]","Q2":"C"}"#);
        server.checked("s").await;
    }
}

#[tokio::test]
async fn r3_a_question_survives_kill_9_and_is_answered_after_reconnecting() {
    let (mut server, _ws) = waiting(asks(Store::Sqlite)).await;
    let before = (server.history("s").await, server.get("/v1/approvals/s_1").await.ok());
    for _ in 0..2 {
        server.kill();
        server.start_again().await;
    }
    assert_eq!((server.history("s").await, server.get("/v1/approvals/s_1").await.ok()), before);
    let mut ws = server.ws().await;
    ws.subscribe("s", 0).await;
    let mut frames = ws.until_status("awaiting_input").await;
    assert_eq!(Fold::of(&frames).history(), before.0);
    ws.answer("s_1", json!({ "Q1": "A", "Q2": ["C", "D"] })).await;
    frames.extend(ws.until_status("completed").await);
    let frames = events(frames);
    without_gaps(&frames, 0);
    assert_eq!(said(&frames), r#"Told: {"Q1":"A","Q2":"C, D"}"#);
    assert_eq!(Fold::of(&server.checked("s").await), Fold::of(&frames));
}

#[tokio::test]
async fn r3_an_acknowledged_answer_survives_kill_9() {
    let (mut server, mut ws) = waiting(asks(Store::Sqlite)).await;
    ws.answer("s_1", json!({ "Q1": "A" })).await;
    assert_eq!(ws.next().await["type"], "ack");
    server.kill();
    server.start_again().await;
    server.until_status("s", "completed").await;
    let replay = server.checked("s").await;
    assert_eq!(said(&replay), r#"Told: {"Q1":"A","Q2":"[No preference]"}"#);
}

#[tokio::test]
async fn r6_a_question_that_expired_while_no_server_ran_times_out_at_the_start() {
    let setup = asks(Store::Sqlite).section("ask_user_question", "approval = { timeout = 1 }");
    let (mut server, _ws) = waiting(setup).await;
    server.kill();
    // The deadline passes while nothing runs; the clock is what is tested here.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    server.start_again().await;
    server.until_status("s", "completed").await;
    let replay = server.checked("s").await;
    assert_eq!(kinds(&replay).iter().filter(|kind| **kind == "approval_timeout").count(), 1);
}
