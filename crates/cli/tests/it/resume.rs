//! Spec G3, W1: `resume` beside decisions and answers, and what a program without graphs answers about graphs.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{Setup, trade},
};

fn two() -> Value {
    json!({ "turns": [{ "tool_calls": [trade(1), trade(2)] }, { "text": "done" }] })
}

on_both_stores! {
    async fn g3_yes_and_no_decide_all_calls_pending_under_a_key(store) {
        let server = Setup::new(store, &two()).start().await;
        let mut ws = server.ws().await;
        for (session, answer) in [("y", "yes"), ("n", "no")] {
            ws.message(session, "go").await;
            ws.until_status("awaiting_input").await;
            let key = format!("{session}_1");
            let wrong = json!({ "type": "approval", "session_id": session, "approval_key": key, "resume": "maybe" });
            ws.send(&wrong).await;
            let refused = ws.error("invalid_resume").await;
            assert!(refused["message"].as_str().unwrap().contains("\"yes\""), "{refused}");
            ws.send(&json!({ "type": "approval", "session_id": session, "approval_key": key, "resume": answer })).await;
            ws.until_status("completed").await;
            let resolved = server.get(&format!("/v1/approvals/{key}")).await.ok();
            let kind = if answer == "yes" { "approve" } else { "reject" };
            assert_eq!(resolved["decisions"], json!([{ "type": kind }, { "type": kind }]));
        }
        assert_eq!(server.calls().len(), 2, "those of the yes only");
        let over = server.post("/v1/sessions/h/messages", &json!({ "content": "go" })).await.ok();
        assert_eq!(over["status"], "awaiting_input");
        let over = server.post("/v1/approvals/h_1?wait=true", &json!({ "resume": "no" })).await.ok();
        assert_eq!(over["status"], "completed");
    }

    async fn w1_exactly_one_of_decisions_answers_and_resume_is_accepted(store) {
        let server = Setup::one_trade(store).pending().await;
        let mut ws = server.ws().await;
        let approve = json!([{ "type": "approve" }]);
        for body in [
            json!({}),
            json!({ "decisions": approve, "resume": null }),
            json!({ "answers": {}, "resume": false }),
            json!({ "decisions": approve, "answers": {}, "resume": "yes" }),
        ] {
            let problem = server.post("/v1/approvals/s_1", &body).await.problem(400, "invalid_message");
            assert!(problem["detail"].as_str().unwrap().contains("\"resume\""), "{problem}");
            let mut frame = body;
            frame["type"] = "approval".into();
            frame["session_id"] = "s".into();
            frame["approval_key"] = "s_1".into();
            ws.send(&frame).await;
            ws.error("invalid_message").await;
        }
        // It is present, so it is an answer, though not a valid one here.
        server.post("/v1/approvals/s_1", &json!({ "resume": null })).await.problem(400, "invalid_resume");
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]));
    }

    async fn g3_a_program_without_graphs_says_so(store) {
        let server = Setup::one_trade(store).pending().await;
        assert_eq!(server.get("/v1/graphs").await.ok(), json!({ "graphs": [], "next_cursor": null }));
        server.get("/v1/graphs/essay/graph").await.problem(404, "unknown_graph");
        server.post("/v1/graphs/essay/runs", &json!({ "state": {} })).await.problem(404, "unknown_graph");
        server.post("/v1/graphs/essay/runs", &json!({})).await.problem(400, "invalid_message");
        let edit = server.post("/v1/sessions/s/state", &json!({ "update": {} })).await;
        assert!(edit.problem(400, "invalid_message")["detail"].as_str().unwrap().contains("runs no graph"));
        server.post("/v1/sessions/s/retry", &json!({})).await.problem(409, "nothing_to_retry");
        assert!(server.get("/v1/sessions/s/state").await.ok().get("values").is_none());
    }
}
