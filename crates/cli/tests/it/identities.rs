//! Spec R11: identities are never reused, seen from outside.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Store,
        ask::{ask, two_questions, waiting},
        trade,
    },
};

/// A trade that an admin approves, in sessions of alice's.
async fn traded(store: Store) -> Server {
    let script = json!({ "turns": [{ "tool_calls": [trade(100)] }, { "text": "done" }], "at_end": "repeat" });
    let setup = Setup::new(store, &script).trade(r#"approval = { levels = ["admin"] }"#);
    setup.person("alice", &["user"]).person("carol", &["admin"]).start().await
}

async fn digest(server: &Server, who: &str, key: &str) -> String {
    let asked = server.ask_as(who, "GET", &format!("/v1/approvals/{key}"), None).await.ok();
    asked["actions"][0]["digest"].as_str().unwrap().to_owned()
}

on_both_stores! {
    async fn x_an_approval_of_a_deleted_session_counts_for_no_other(store) {
        let mut server = traded(store).await;
        let go = json!({ "content": "go" });
        server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&go)).await.ok();
        let shown = digest(&server, "carol", "s_1").await;
        server.ask_as("alice", "POST", "/v1/sessions/t/messages", Some(&go)).await.ok();
        let deleted = server.ask_as("alice", "DELETE", "/v1/sessions/s", None).await;
        assert_eq!(deleted.status, 204);
        for restarted in [false, true] {
            if restarted && matches!(store, Store::Memory) {
                break;
            }
            if restarted {
                server.kill();
                server.start_again().await;
            }
            let made = json!({ "session_id": "s" });
            for (method, path, body) in [
                ("POST", "/v1/sessions/s/messages", &go),
                ("POST", "/v1/sessions", &made),
                ("POST", "/v1/sessions/t/fork", &made),
                ("POST", "/v1/sessions/s/fork", &json!({})),
                ("POST", "/v1/sessions/s/cancel", &json!({})),
                ("GET", "/v1/sessions/s", &Value::Null),
                ("GET", "/v1/sessions/s/history", &Value::Null),
                ("GET", "/v1/sessions/s/state", &Value::Null),
                ("GET", "/v1/sessions/s/checkpoints", &Value::Null),
                ("GET", "/v1/sessions/s/graph", &Value::Null),
                ("DELETE", "/v1/sessions/s", &Value::Null),
            ] {
                let body = (!body.is_null()).then_some(body);
                server.ask_as("alice", method, path, body).await.problem(410, "session_deleted");
            }
            // The admin's view of the deleted request decides nothing, with or without its digest.
            for decision in [
                json!({ "type": "approve" }),
                json!({ "type": "approve", "digest": shown }),
            ] {
                let body = json!({ "decisions": [decision], "request_id": "r1" });
                let late = server.ask_as("carol", "POST", "/v1/approvals/s_1", Some(&body)).await;
                late.problem(410, "session_deleted");
            }
            server.ask_as("carol", "GET", "/v1/approvals/s_1", None).await.problem(410, "session_deleted");
            let mut ws = server.ws_as("alice").await;
            ws.message("s", "again").await;
            ws.error("session_deleted").await;
            ws.send(&json!({ "type": "subscribe", "session_id": "s" })).await;
            ws.error("session_deleted").await;
        }
        // Nor does its digest count in another session with the same call.
        let body = json!({ "decisions": [{ "type": "approve", "digest": shown }] });
        let other = server.ask_as("carol", "POST", "/v1/approvals/t_1", Some(&body)).await;
        other.problem(409, "stale_action");
        assert!(server.calls().is_empty());
        let shown = digest(&server, "carol", "t_1").await;
        let body = json!({ "decisions": [{ "type": "approve", "digest": shown }] });
        server.ask_as("carol", "POST", "/v1/approvals/t_1", Some(&body)).await.ok();
        server.ask_as("alice", "GET", "/v1/sessions/t", None).await.ok();
    }

    async fn r11_a_digest_is_the_same_wherever_it_is_shown(store) {
        let server = Setup::one_trade(store).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("awaiting_input").await;
        let block = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        let shown = block["content_block"]["actions"][0]["digest"].clone();
        assert!(shown.as_str().is_some_and(|digest| digest.len() == 64 && !digest.contains(char::is_uppercase)), "{shown}");
        let row = server.get("/v1/approvals/s_1").await.ok();
        let list = server.get("/v1/approvals").await.ok();
        assert_eq!((&row["actions"][0]["digest"], &list["approvals"][0]["actions"][0]["digest"]), (&shown, &shown));
        let history = server.history("s").await;
        let step = history.as_array().unwrap().iter().find(|m| m["message_type"] == "step").unwrap();
        assert_eq!(step["content"][0]["actionRequests"][0]["digest"], shown);
        let audit = server.get("/v1/audit").await.ok();
        assert_eq!(audit["records"][0]["body"]["actions"][0]["digest"], shown, "{audit}");
        for wrong in [json!("00"), json!(shown.as_str().unwrap().to_uppercase()), row["actions"][0]["args_digest"].clone()] {
            let body = json!({ "decisions": [{ "type": "approve", "digest": wrong }] });
            server.post("/v1/approvals/s_1", &body).await.problem(409, "stale_action");
            let body = json!({ "decisions": [{ "type": "approve" }], "digest": wrong });
            server.post("/v1/approvals/s_1", &body).await.problem(409, "stale_action");
            let body = json!({ "resume": "yes", "digest": wrong });
            server.post("/v1/approvals/s_1", &body).await.problem(409, "stale_action");
        }
        assert!(server.calls().is_empty());
        ws.send(&json!({
            "type": "approval", "session_id": "s", "approval_key": "s_1", "digest": shown,
            "decisions": [{ "type": "approve", "digest": shown }],
        }))
        .await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
    }

    async fn r11_an_answer_names_the_question_it_was_given_to(store) {
        let script = json!({ "turns": [
            { "tool_calls": [ask(two_questions())] }, { "tool_calls": [ask(two_questions())] }, { "text": "done" },
        ] });
        let setup = Setup::new(store, &script).built_in(&["ask_user_question"]);
        let (server, mut ws) = waiting(setup).await;
        let of = async |key: &str| server.get(&format!("/v1/approvals/{key}")).await.ok()["digest"].clone();
        let first = of("s_1").await;
        let history = server.history("s").await;
        let step = history.as_array().unwrap().iter().find(|m| m["message_type"] == "step").unwrap();
        assert_eq!(step["content"][0]["digest"], first, "{step}");
        let body = json!({ "answers": { "Q1": "A" }, "digest": first });
        server.post("/v1/approvals/s_1", &body).await.ok();
        ws.until_status("awaiting_input").await;
        assert_ne!(of("s_2").await, first, "the same words, asked again");
        server.post("/v1/approvals/s_2", &body).await.problem(409, "stale_action");
        let body = json!({ "answers": { "Q1": "A" }, "digest": of("s_2").await });
        server.post("/v1/approvals/s_2", &body).await.ok();
        ws.until_status("completed").await;
        server.checked("s").await;
    }
}
