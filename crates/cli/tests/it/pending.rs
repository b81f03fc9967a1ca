//! Spec W9: a message while a request is pending or a turn is running.

use serde_json::json;

use crate::{
    on_both_stores,
    support::{Provider, Setup, ask::waiting, fold::results, trade},
};

on_both_stores! {
    async fn w9_a_message_while_a_request_is_pending_is_refused_with_the_keys(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "hello?", "request_id": "r" })).await;
        let error = ws.error("approval_pending").await;
        assert!(error.to_string().contains("s_1"), "{error}");
        assert_eq!(error["request_id"], "r");
        ws.nothing_more().await;
        let problem = server.post("/v1/sessions/s/messages", &json!({ "content": "hello?" })).await;
        problem.problem(409, "approval_pending");
    }

    async fn w9_reject_makes_the_message_the_reason(store) {
        let script = json!({ "turns": [
            { "tool_calls": [trade(1), trade(2)] }, { "text": "[{{ last_tool_result }}] [{{ last_user }}]" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.send(&json!({
            "type": "message", "session_id": "s", "content": "sell instead", "on_pending": "reject"
        })).await;
        let frames = ws.until_status("completed").await;
        assert_eq!(frames[0]["type"], "ack");
        assert_eq!(results(&frames), vec![("rejected".to_owned(), "sell instead".to_owned()); 2]);
        let text = server.get("/v1/sessions/s/history").await.body;
        assert!(text.contains("[sell instead] [sell instead]"), "{text}");
        assert!(server.calls().is_empty());
    }

    async fn w9_a_queued_message_waits_for_the_results(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "[{{ last_user }}]" }] });
        let (server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "and then?", "on_pending": "queue" })).await;
        assert_eq!(ws.next().await["type"], "ack");
        ws.nothing_more().await;
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]), "it is still pending");
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        let text = server.get("/v1/sessions/s/history").await.body;
        assert!(text.contains("[and then?]"), "{text}");
        assert_eq!(server.calls().len(), 1);
    }

    // A queued message is distinguished from the reviewer's text by its number, not by its content.
    async fn w9_a_queued_message_is_not_mistaken_for_a_comment_with_the_same_text(store) {
        let answers = vec![json!({ "tool_calls": [{ "id": "c", "name": "execute_trade", "args": trade(1)["args"] }] }), json!({ "text": "done" })];
        let provider = Provider::start(answers).await;
        let (server, mut ws) = waiting(Setup::new(store, &json!({ "turns": [] })).provider(&provider)).await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "hurry", "on_pending": "queue" })).await;
        assert_eq!(ws.next().await["type"], "ack");
        ws.send(&json!({
            "type": "approval", "session_id": "s", "approval_key": "s_1", "decisions": [{ "type": "approve" }],
            "user_edit_content": "hurry"
        }))
        .await;
        ws.until_status("completed").await;
        let told = provider.conversation(1);
        let told: String = told.iter().filter(|m| m["role"] == "user").map(|m| m["content"].to_string()).collect();
        assert_eq!(told.matches("hurry").count(), 2, "{told}");
        let history = server.history("s").await;
        let said = history.as_array().unwrap().iter().filter(|m| m["role"] == "user" && m["content"][0]["text"] == "hurry");
        assert_eq!(said.count(), 2, "{history}");
    }

    async fn w9_a_running_session_is_busy(store) {
        let script = json!({ "turns": [{ "text": "slow", "delay_ms": 1500 }, { "text": "[{{ last_user }}]" }] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        ws.until_status("running").await;
        ws.message("s", "now").await;
        ws.until(|f| f["type"] == "error" && f["code"] == "session_busy").await;
        let reject = json!({ "type": "message", "session_id": "s", "content": "now", "on_pending": "reject" });
        ws.send(&reject).await;
        ws.until(|f| f["type"] == "error" && f["code"] == "session_busy").await;
        ws.send(&json!({ "type": "message", "session_id": "s", "content": "next", "on_pending": "queue" })).await;
        ws.until_type("ack").await;
        // It starts another turn, since the running one ends first.
        ws.until_status("completed").await;
        ws.until_status("completed").await;
        assert!(server.get("/v1/sessions/s/history").await.body.contains("[next]"));
    }
}
