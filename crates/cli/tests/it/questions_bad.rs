//! Spec Q3, W5, R2: replies to a question that are refused, each with its own code, and change nothing.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Ws,
        ask::{asks, said, waiting},
        http::request,
        trade,
    },
};

/// Everything that a refused reply must not change.
async fn snapshot(server: &Server) -> [Value; 3] {
    let state = server.get("/v1/sessions/s/state").await.ok();
    let row = server.get("/v1/approvals/s_1").await.ok();
    [state, row, server.history("s").await]
}

fn approval(more: &Value) -> Value {
    let mut frame = json!({ "type": "approval", "session_id": "s", "approval_key": "s_1", "request_id": "r" });
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

/// The request, its error code, and the status over HTTP.
fn refused() -> Vec<(Value, &'static str, u16)> {
    let answers = |answers: Value| json!({ "answers": answers });
    let decisions = |decisions: Value| json!({ "decisions": decisions });
    vec![
        (answers(json!({ "Q3": "A" })), "invalid_answers", 400),
        (answers(json!({ "q1": "A" })), "invalid_answers", 400),
        (answers(json!({ "Q1": 7 })), "invalid_answers", 400),
        (answers(json!({ "Q1": null })), "invalid_answers", 400),
        (answers(json!({ "Q1": { "label": "A" } })), "invalid_answers", 400),
        (answers(json!({ "Q1": true, "Q2": "C" })), "invalid_answers", 400),
        (answers(json!({ "Q2": ["C", 7] })), "invalid_answers", 400),
        (answers(json!({ "Q2": [["C"]] })), "invalid_answers", 400),
        (answers(json!({ "Q1": "x".repeat(64 * 1024 + 1) })), "invalid_answers", 400),
        (answers(json!(["A", "C"])), "invalid_answers", 400),
        (answers(json!("A")), "invalid_answers", 400),
        (decisions(json!([{ "type": "approve" }])), "answers_required", 400),
        (decisions(json!([{ "type": "reject" }, { "type": "reject" }])), "answers_required", 400),
        (decisions(json!([{ "type": "reject", "always": true }])), "answers_required", 400),
        (decisions(json!([{ "type": "defer" }])), "answers_required", 400),
        (decisions(json!([{ "type": "respond", "output": "A" }])), "answers_required", 400),
        (
            decisions(
                json!([{ "type": "edit", "edited_action": { "name": "ask_user_question", "args": { "questions": [] } } }]),
            ),
            "answers_required",
            400,
        ),
        (decisions(json!([])), "answers_required", 400),
        (decisions(json!([{ "type": "maybe" }])), "invalid_message", 400),
        (json!({ "decisions": [{ "type": "reject" }], "answers": { "Q1": "A" } }), "invalid_message", 400),
        (json!({}), "invalid_message", 400),
        (json!({ "decisions": null, "answers": null }), "invalid_message", 400),
        (json!({ "answers": { "Q1": "A" }, "user_edit_content": "x".repeat(64 * 1024 + 1) }), "invalid_message", 400),
    ]
}

on_both_stores! {
    async fn q3_a_misfit_is_refused_on_both_transports_and_changes_nothing(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let before = snapshot(&server).await;
        for (reply, code, status) in refused() {
            ws.send(&approval(&reply)).await;
            let error = ws.error(code).await;
            assert_eq!((&error["request_id"], &error["session_id"]), (&json!("r"), &json!("s")), "{reply}");
            let problem = server.post("/v1/approvals/s_1", &reply).await.problem(status, code);
            assert_eq!(problem["detail"], error["message"], "{reply}");
            assert_eq!(problem.get("details"), error.get("details"), "{reply}");
        }
        assert_eq!(snapshot(&server).await, before);
        ws.nothing_more().await;
        // It can still be answered, even under the refused id.
        ws.send(&approval(&json!({ "answers": { "Q1": "A" } }))).await;
        let frames = ws.until_status("completed").await;
        assert_eq!(frames[0], json!({ "type": "ack", "session_id": "s", "request_id": "r" }));
        assert_eq!(said(&frames), r#"Told: {"Q1":"A","Q2":"[No preference]"}"#);
        server.checked("s").await;
    }

    async fn q3_a_rejection_for_later_calls_too_is_told_that_this_does_not_go_with_a_question(store) {
        let (_server, mut ws) = waiting(asks(store)).await;
        ws.send(&approval(&json!({ "decisions": [{ "type": "reject", "always": true }] }))).await;
        let error = ws.error("answers_required").await;
        let told = "decisions[0]: \"always\" does not go with a question";
        assert!(error["message"].as_str().unwrap().starts_with(told), "{error}");
        ws.send(&approval(&json!({ "decisions": [{ "type": "reject" }, { "type": "reject" }] }))).await;
        let error = ws.error("answers_required").await;
        assert!(error["message"].as_str().unwrap().starts_with("a question is pending under this key"), "{error}");
    }

    async fn q3_every_answer_that_does_not_fit_is_named(store) {
        let (_server, mut ws) = waiting(asks(store)).await;
        ws.answer("s_1", json!({ "Q1": ["A", 7], "Q2": 7, "Who?": "me" })).await;
        let error = ws.error("invalid_answers").await;
        assert_eq!(error["approval_key"], "s_1");
        let errors = error["details"]["errors"].as_array().unwrap();
        let mut named: Vec<_> = errors.iter().map(|e| e["question"].as_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(named, ["Q1", "Q2", "Who?"]);
        assert!(errors.iter().all(|e| !e["message"].as_str().unwrap().is_empty()), "{error}");
        assert_eq!(error["details"]["questions"], json!(["Q1", "Q2"]), "what can be answered");
        assert_eq!(error["details"].as_object().unwrap().len(), 2);
    }

    async fn q3_answers_that_are_not_json_are_refused(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let before = snapshot(&server).await;
        for (answers, code) in [
            (r#"{"Q1":"A","Q1":"B"}"#, "bad_json"),
            (r#"{"Q1":"\ud800"}"#, "bad_json"),
            (r#"{"Q1":"#, "bad_json"),
            ("NaN", "bad_json"),
        ] {
            ws.send_text(&format!(r#"{{"type":"approval","session_id":"s","approval_key":"s_1","answers":{answers}}}"#)).await;
            ws.error(code).await;
            let body = format!(r#"{{"answers":{answers}}}"#);
            let answer = request(server.address, "POST", "/v1/approvals/s_1", &[], Some(&body)).await;
            answer.problem(400, code);
        }
        assert_eq!(snapshot(&server).await, before);
    }

    async fn q3_answers_to_an_action_need_decisions(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let before = snapshot(&server).await;
        for answers in [json!({}), json!({ "Q1": "A" }), json!([]), json!(7)] {
            let reply = json!({ "answers": answers });
            ws.send(&approval(&reply)).await;
            ws.error("decisions_required").await;
            server.post("/v1/approvals/s_1", &reply).await.problem(400, "decisions_required");
        }
        assert_eq!(snapshot(&server).await, before);
        assert!(server.calls().is_empty());
    }

    async fn q3_answers_to_an_unknown_key_are_not_found(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let before = snapshot(&server).await;
        for (session, key) in [("s", "s_2"), ("s", "s_01"), ("s", "s"), ("s", ""), ("t", "t_1"), ("s", "t_1"), ("t", "s_1")] {
            ws.send(&json!({
                "type": "approval", "session_id": session, "approval_key": key, "answers": { "Q1": "A" },
            })).await;
            let error = ws.error("approval_not_found").await;
            assert_eq!(error["approval_key"], key);
        }
        for key in ["s_2", "s_01", "s", "t_1", "%20"] {
            let answer = server.post(&format!("/v1/approvals/{key}"), &json!({ "answers": { "Q1": "A" } })).await;
            answer.problem(404, "approval_not_found");
        }
        assert_eq!(snapshot(&server).await, before);
    }

    async fn w5_a_late_answer_is_told_what_was_answered(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        ws.answer("s_1", json!({ "Q1": "A" })).await;
        ws.until_status("completed").await;
        let before = snapshot(&server).await;
        for reply in [
            json!({ "answers": { "Q1": "B" } }), json!({ "decisions": [{ "type": "reject" }] }),
            json!({ "answers": { "no such": "B" } }), json!({ "answers": { "Q1": "A" } }),
        ] {
            ws.send(&approval(&reply)).await;
            let error = ws.error("approval_already_resolved").await;
            let mut details = error["details"].clone();
            assert!(details["at"].as_str().unwrap().ends_with('Z'), "{details}");
            details["at"] = json!("then");
            assert_eq!(details, json!({
                "resolution": "decided", "answers": { "Q1": "A", "Q2": "[No preference]" }, "at": "then",
            }));
            let problem = server.post("/v1/approvals/s_1", &reply).await.problem(409, "approval_already_resolved");
            assert_eq!(problem["details"], error["details"]);
        }
        assert_eq!(snapshot(&server).await, before);
    }

    async fn w5_a_declined_question_is_told_the_decision(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        ws.decide("s_1", json!([{ "type": "reject", "message": "no" }])).await;
        ws.until_status("completed").await;
        let late = server.post("/v1/approvals/s_1", &json!({ "answers": {} })).await;
        let details = late.problem(409, "approval_already_resolved")["details"].clone();
        assert_eq!((&details["resolution"], &details["decisions"]), (&json!("decided"), &json!([{ "type": "reject", "message": "no" }])));
        assert!(details.get("answers").is_none(), "{details}");
    }

    async fn w5_an_answer_after_the_deadline_is_told_that_it_timed_out(store) {
        let setup = asks(store).section("ask_user_question", "approval = { timeout = 1 }");
        let (server, mut ws) = waiting(setup).await;
        ws.until_status("completed").await;
        ws.answer("s_1", json!({ "Q1": "A" })).await;
        let details = ws.error("approval_already_resolved").await["details"].clone();
        assert_eq!((&details["resolution"], &details["by"]), (&json!("timeout"), &Value::Null));
        assert!(details["at"].is_string() && details.get("answers").is_none(), "{details}");
        let late = server.post("/v1/approvals/s_1", &json!({ "answers": { "Q1": "A" } })).await;
        assert_eq!(late.problem(409, "approval_already_resolved")["details"], details);
    }

    async fn r2_of_many_answers_at_once_one_wins_and_all_others_are_told(store) {
        let people = asks(store).person("alice", &["user"]);
        let server = people.start().await;
        let mut ws = server.ws_as("alice").await;
        ws.message("s", "go").await;
        ws.until_status("awaiting_input").await;
        let address = server.address;
        let tabs: Vec<_> = (0..12).map(|i| tokio::spawn(async move {
            let mut tab = Ws::connect(address, &[("authorization", "Bearer alice-secret")]).await;
            if i % 4 == 3 {
                tab.decide("s_1", json!([{ "type": "reject" }])).await;
            } else {
                tab.answer("s_1", json!({ "Q1": format!("tab {i}") })).await;
            }
            tab.next().await
        })).collect();
        let mut replies = Vec::new();
        for tab in tabs {
            replies.push(tab.await.unwrap());
        }
        let (acks, errors): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply["type"] == "ack");
        assert_eq!((acks.len(), errors.len()), (1, 11), "{errors:?}");
        let row = server.ask_as("alice", "GET", "/v1/approvals/s_1", None).await.ok();
        for error in &errors {
            assert_eq!(error["code"], "approval_already_resolved", "{error}");
            let details = &error["details"];
            assert_eq!((&details["resolution"], &details["by"]), (&json!("decided"), &json!("alice")));
            assert_eq!(details.get("answers"), row.get("answers"), "{error}");
            assert_eq!(details.get("decisions"), row.get("decisions"), "{error}");
            assert_eq!(details["at"], row["resolved_at"], "{error}");
        }
        let frames = ws.until_status("completed").await;
        let resolved: Vec<_> = frames.iter().filter(|f| f["type"] == "approval_resolved").collect();
        assert_eq!(resolved.len(), 1);
        assert_eq!((resolved[0].get("answers"), &resolved[0]["by"]), (row.get("answers"), &json!("alice")));
    }

    async fn q3_an_action_cannot_be_edited_into_a_question(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        let args = json!({ "questions": [{ "question": "q", "options": [{ "label": "a" }] }] });
        ws.decide("s_1", json!([{ "type": "edit", "edited_action": { "name": "ask_user_question", "args": args } }])).await;
        ws.error("invalid_edit").await;
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]));
        assert!(server.calls().is_empty());
    }
}
