//! Spec W5 and W6: what may be decided, and what it does.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::{
    on_both_stores,
    support::{Setup, Ws, ask::waiting, fold::results, trade},
};

fn two() -> Value {
    json!({ "turns": [{ "tool_calls": [trade(1), trade(2)] }, { "text": "done" }] })
}

on_both_stores! {
    async fn w5_a_late_decision_is_told_who_won(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let mut other = server.ws().await;
        other.subscribe("s", 0).await;
        other.until_status("awaiting_input").await;
        ws.decide("s_1", json!([{ "type": "reject", "message": "no" }])).await;
        let seen = other.until_type("approval_resolved").await;
        assert_eq!(seen.last().unwrap()["resolution"], "decided");
        ws.until_status("completed").await;
        other.until_status("completed").await;
        other.decide("s_1", json!([{ "type": "approve" }])).await;
        let error = other.error("approval_already_resolved").await;
        assert_eq!(error["approval_key"], "s_1");
        let details = &error["details"];
        assert_eq!(details["resolution"], "decided");
        assert_eq!(details["decisions"], json!([{ "type": "reject", "message": "no" }]));
        assert_eq!(details["by"], Value::Null);
        assert!(details["at"].as_str().unwrap().contains('T'), "{details}");
        assert_eq!(error["message"], "\"s_1\" is already resolved: decided (reject)", "there is no name to say");
        assert!(server.calls().is_empty());
    }

    async fn w5_a_late_decision_reads_who_was_first_and_how_it_ended(store) {
        let setup = Setup::one_trade(store).trade(r#"approval = { levels = ["admin"] }"#);
        let server = setup.person("alice", &[]).person("olga", &["admin"]).person("dan", &["admin"]).start().await;
        let go = json!({ "content": "go" });
        let late = async |key: &str, answer: &Value| {
            let path = format!("/v1/approvals/{key}");
            let late = server.ask_as("dan", "POST", &path, Some(answer)).await;
            late.problem(409, "approval_already_resolved")["detail"].as_str().unwrap().to_owned()
        };
        let yes = json!({ "decisions": [{ "type": "approve" }] });
        server.ask_as("alice", "POST", "/v1/sessions/s/messages", Some(&go)).await.ok();
        server.decide_as("olga", "s_1", json!({ "type": "approve" })).await.ok();
        assert_eq!(late("s_1", &yes).await, r#""s_1" is already resolved: decided (approve) by "olga""#);
        server.ask_as("alice", "POST", "/v1/sessions/t/messages", Some(&go)).await.ok();
        server.ask_as("alice", "POST", "/v1/sessions/t/cancel", None).await.ok();
        assert_eq!(late("t_1", &yes).await, r#""t_1" is already resolved: its turn was ended by "alice""#);
    }

    async fn w5_r1_a_late_decision_reads_the_numbers_of_the_first_as_they_were_written(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let args = r#"{"big":1000000000000000000000,"cents":1.10,"exp":1e2,"quantity":1,"symbol":"VNM"}"#;
        let edit = format!(r#"[{{"type":"edit","edited_action":{{"name":"execute_trade","args":{args}}}}}]"#);
        let frame = format!(r#"{{"type":"approval","session_id":"s","approval_key":"s_1","decisions":{edit}}}"#);
        ws.send_text(&frame).await;
        ws.until_status("completed").await;
        ws.send_text(&frame).await;
        let Message::Text(late) = ws.frame().await else { panic!("a text frame") };
        assert!(late.contains("approval_already_resolved") && late.contains(args), "{late}");
        let yes = json!({ "decisions": [{ "type": "approve" }] });
        let late = server.post("/v1/approvals/s_1", &yes).await;
        late.problem(409, "approval_already_resolved");
        assert!(late.body.contains(args), "{}", late.body);
    }

    async fn w8_the_frames_of_the_websocket_are_bodies_too_where_they_name_what_the_path_names(store) {
        let server = Setup::one_trade(store).start().await;
        let path = "/v1/sessions/s/messages";
        let message = |kind: &str, of: &str| json!({ "type": kind, "session_id": of, "content": "go" });
        let wrong = server.post(path, &message("approval", "s")).await.problem(400, "invalid_message");
        assert!(wrong["detail"].as_str().unwrap().contains("`approval`, expected `message`"), "{wrong}");
        let wrong = server.post(path, &message("message", "t")).await.problem(400, "invalid_message");
        let told = r#"session_id: is "t", but the path names "s"; leave it out, or name the same"#;
        assert_eq!(wrong["detail"], told);
        server.post(path, &message("message", "s")).await.ok();

        let path = "/v1/approvals/s_1";
        let approval = |kind: &str, of: &str, key: &str| {
            json!({ "type": kind, "session_id": of, "approval_key": key, "decisions": [{ "type": "approve" }] })
        };
        for (frame, told) in [
            (approval("message", "s", "s_1"), "`message`, expected `approval`"),
            (approval("approval", "t", "s_1"), told),
            (approval("approval", "s", "s_2"), r#"approval_key: is "s_2", but the path names "s_1""#),
        ] {
            let wrong = server.post(path, &frame).await.problem(400, "invalid_message");
            assert!(wrong["detail"].as_str().unwrap().contains(told), "{wrong}");
        }
        assert!(server.calls().is_empty());
        server.post(path, &approval("approval", "s", "s_1")).await.ok();
        server.until_status("s", "completed").await;
        assert_eq!(server.calls().len(), 1);
        // An invalid key is still not found, even with the right session.
        server.post("/v1/approvals/s", &approval("approval", "s", "s")).await.problem(404, "approval_not_found");
    }

    async fn w5_a_key_of_another_session_than_the_named_one_is_not_said_to_be_unknown(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let mut frame = json!({ "type": "approval", "session_id": "other", "approval_key": "s_1" });
        frame["decisions"] = json!([{ "type": "approve" }]);
        ws.send(&frame).await;
        let error = ws.error("approval_not_found").await;
        let told = error["message"].as_str().unwrap();
        assert!(told.ends_with(r#"pending under the key "s_1" in the session "other""#), "{told}");
        ws.send(&json!({ "type": "comment", "session_id": "other", "approval_key": "s_1", "text": "hm" })).await;
        assert_eq!(ws.error("approval_not_found").await["message"], told);
        assert_eq!(server.get("/v1/approvals/s_1").await.ok()["status"], "waiting");
    }

    async fn r2_of_many_decisions_at_once_one_wins(store) {
        let (server, _ws) = waiting(Setup::one_trade(store)).await;
        let address = server.address;
        let deciders: Vec<_> = (0..16).map(|i| tokio::spawn(async move {
            let kind = if i % 2 == 0 { "approve" } else { "reject" };
            let mut ws = Ws::connect(address, &[]).await;
            ws.decide("s_1", json!([{ "type": kind }])).await;
            ws.next().await
        })).collect();
        let mut answers = Vec::new();
        for decider in deciders {
            answers.push(decider.await.unwrap());
        }
        let acks = answers.iter().filter(|a| a["type"] == "ack").count();
        assert_eq!(acks, 1, "{answers:?}");
        let winner = &answers.iter().find(|a| a["type"] == "error").unwrap()["details"]["decisions"];
        assert!(answers.iter().filter(|a| a["type"] == "error").all(|a| a["details"]["decisions"] == *winner));
        let done = server.until_status("s", "completed").await;
        assert_eq!(done["pending"], json!([]));
        assert_eq!(server.calls().len(), usize::from(winner[0]["type"] == "approve"));
    }

    async fn w5_refused_decisions_leave_it_pending(store) {
        let (server, mut ws) = waiting(Setup::new(store, &two())).await;
        let edit = |args: Value| json!({ "type": "edit", "edited_action": { "name": "execute_trade", "args": args } });
        let right = json!({ "symbol": "VNM", "quantity": 5 });
        for (decisions, code) in [
            (json!([]), "decisions_mismatch"),
            (json!([{ "type": "approve" }, { "type": "approve" }, { "type": "approve" }]), "decisions_mismatch"),
            (json!([edit(right.clone())]), "decisions_mismatch"),
            (json!([{ "type": "respond", "output": "x" }, { "type": "approve" }]), "decision_not_allowed"),
            (json!([edit(json!({ "symbol": "VNM", "quantity": 0 })), { "type": "approve" }]), "invalid_edit"),
            (json!([edit(json!({ "symbol": 7, "quantity": 1 })), { "type": "approve" }]), "invalid_edit"),
            (json!([{ "type": "approve", "args_digest": "00" }]), "stale_action"),
            (json!([{ "type": "approve", "message": "why" }]), "invalid_message"),
            (json!([{ "type": "edit" }, { "type": "approve" }]), "invalid_message"),
            (json!([{ "type": "maybe" }]), "invalid_message"),
            (json!({ "type": "approve" }), "invalid_message"),
        ] {
            ws.decide("s_1", decisions.clone()).await;
            let error = ws.error(code).await;
            assert_eq!((&error["session_id"], &error["approval_key"]), (&json!("s"), &json!("s_1")), "{decisions}");
        }
        let state = server.get("/v1/sessions/s/state").await.ok();
        assert_eq!((&state["status"], &state["pending"]), (&json!("awaiting_input"), &json!(["s_1"])));
        assert!(server.calls().is_empty());
        ws.nothing_more().await;
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 2);
    }

    async fn w5_an_invalid_edit_says_where(store) {
        let (_server, mut ws) = waiting(Setup::one_trade(store)).await;
        let args = json!({ "symbol": "VNM", "quantity": "many" });
        ws.decide("s_1", json!([{ "type": "edit", "edited_action": { "name": "execute_trade", "args": args } }])).await;
        let error = ws.error("invalid_edit").await;
        let first = &error["details"]["errors"][0];
        assert_eq!(first["pointer"], "/quantity", "{error}");
        assert!(first["message"].as_str().is_some_and(|m| !m.is_empty()));
        // A number as it was written, and no pointer to what is missing from all of it.
        let edit = |args: &str| {
            let decision = format!(r#"{{"type":"edit","edited_action":{{"name":"execute_trade","args":{args}}}}}"#);
            format!(r#"{{"type":"approval","session_id":"s","approval_key":"s_1","decisions":[{decision}]}}"#)
        };
        for (args, told) in [
            (r#"{"symbol":"VNM","quantity":1.10}"#, r#"/quantity: 1.10 is not of type "integer""#),
            (r#"{"symbol":"VNM"}"#, r#""quantity" is a required property"#),
        ] {
            ws.send_text(&edit(args)).await;
            let error = ws.error("invalid_edit").await;
            assert_eq!(error["message"], format!("decisions[0]: the arguments do not fit the tool's schema: {told}"));
        }
    }

    async fn w5_an_edit_to_another_tool_must_be_one_of_the_agents(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let to = |name: &str| json!([{ "type": "edit", "edited_action": { "name": name, "args": { "n": 1 } } }]);
        ws.decide("s_1", to("rm_rf")).await;
        ws.error("invalid_edit").await;
        ws.decide("s_1", to("note")).await;
        let frames = ws.until_status("completed").await;
        assert_eq!(server.calls(), [r#"{"n":1}"#]);
        let (status, text) = results(&frames).remove(0);
        assert_eq!(status, "success");
        assert_eq!(text, r#"{"n":1}"#);
        let ran = frames.iter().find(|f| f["content_block"]["type"] == "tool_result").unwrap();
        assert_eq!(ran["content_block"]["name"], "note", "the result is that of what really ran");
    }

    async fn w5_both_or_neither_is_refused_and_answers_are_for_questions(store) {
        let (server, mut ws) = waiting(Setup::one_trade(store)).await;
        let approval = |more: Value| {
            let mut frame = json!({ "type": "approval", "session_id": "s", "approval_key": "s_1", "request_id": "r" });
            frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            frame
        };
        for (more, code) in [
            (json!({}), "invalid_message"),
            (json!({ "decisions": [{ "type": "approve" }], "answers": {} }), "invalid_message"),
            (json!({ "answers": { "q": "a" } }), "decisions_required"),
        ] {
            ws.send(&approval(more)).await;
            let error = ws.error(code).await;
            assert_eq!((&error["request_id"], &error["approval_key"]), (&json!("r"), &json!("s_1")));
        }
        assert_eq!(server.get("/v1/sessions/s").await.ok()["pending"], json!(["s_1"]));
    }

    async fn w5_an_unknown_key_is_not_found(store) {
        let (_server, mut ws) = waiting(Setup::one_trade(store)).await;
        for (session, key) in [("s", "s_2"), ("s", "s_01"), ("s", "s"), ("s", ""), ("other", "s_1"), ("s", "other_1")] {
            ws.send(&json!({
                "type": "approval", "session_id": session, "approval_key": key, "decisions": [{ "type": "approve" }]
            })).await;
            let error = ws.error("approval_not_found").await;
            assert_eq!(error["approval_key"], key);
        }
    }

    async fn w5_a_digest_is_of_what_is_pending(store) {
        let server = Setup::one_trade(store).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let frames = ws.until_status("awaiting_input").await;
        let request = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        let digest = &request["content_block"]["actions"][0]["args_digest"];
        assert_eq!(digest.as_str().unwrap().len(), 64);
        ws.decide("s_1", json!([{ "type": "approve", "args_digest": digest }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
    }

    async fn w5_defer_comes_back_under_a_new_key(store) {
        let (server, mut ws) = waiting(Setup::new(store, &two())).await;
        ws.decide("s_1", json!([{ "type": "approve" }, { "type": "defer" }])).await;
        let frames = ws.until_status("awaiting_input").await;
        let again = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        assert_eq!(again["content_block"]["approval_key"], "s_2");
        assert_eq!(again["content_block"]["actions"][0]["args"]["quantity"], 2);
        assert_eq!(server.calls().len(), 1);
        ws.decide("s_2", json!([{ "type": "approve" }])).await;
        let frames = ws.until_status("completed").await;
        assert_eq!(results(&frames).len(), 1);
        assert_eq!(server.calls().len(), 2);
    }

    async fn w5_always_approves_later_calls_of_the_tool(store) {
        let script = json!({ "turns": [
            { "tool_calls": [trade(1)] }, { "tool_calls": [trade(2)] }, { "text": "done" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.decide("s_1", json!([{ "type": "approve", "always": true }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 2);
    }

    async fn w5_respond_supplies_the_result_where_it_is_allowed(store) {
        let allowed = r#"approval = { allowed_decisions = ["respond", "reject"] }"#;
        let (server, mut ws) = waiting(Setup::one_trade(store).trade(allowed)).await;
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let error = ws.error("decision_not_allowed").await;
        assert!(error["message"].as_str().unwrap().contains("respond"), "{error}");
        ws.decide("s_1", json!([{ "type": "respond", "output": "bought elsewhere" }])).await;
        let frames = ws.until_status("completed").await;
        assert!(results(&frames)[0].1.contains("bought elsewhere"));
        assert!(server.calls().is_empty());
    }

    async fn w5_levels_ask_one_after_the_other(store) {
        let levels = r#"approval = { levels = ["user", "admin"] }"#;
        let (server, mut ws) = waiting(Setup::one_trade(store).trade(levels)).await;
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        let frames = ws.until_status("awaiting_input").await;
        let next = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        let config = &next["content_block"]["review_configs"][0];
        assert_eq!(next["content_block"]["approval_key"], "s_2");
        assert_eq!((&config["role"], &config["level"]), (&json!("admin"), &json!(2)), "{config}");
        assert!(server.calls().is_empty());
        ws.decide("s_2", json!([{ "type": "approve" }])).await;
        ws.until_status("completed").await;
        assert_eq!(server.calls().len(), 1);
    }

    async fn w6_a_rejection_says_so_in_the_sessions_language(store) {
        for (locale, text) in [
            ("en", "The user rejected this action"),
            ("vi", "Thao tác đã bị người dùng từ chối"),
            ("zh", "操作已被用户取消"),
        ] {
            let (_server, mut ws) = waiting(Setup::one_trade(store).locale(locale)).await;
            ws.decide("s_1", json!([{ "type": "reject" }])).await;
            let frames = ws.until_status("completed").await;
            assert_eq!(results(&frames), [("rejected".to_owned(), text.to_owned())]);
        }
    }

    async fn w6_a_rejection_says_what_the_reviewer_said(store) {
        let (_server, mut ws) = waiting(Setup::one_trade(store)).await;
        ws.decide("s_1", json!([{ "type": "reject", "message": "too expensive" }])).await;
        let frames = ws.until_status("completed").await;
        assert_eq!(results(&frames), [("rejected".to_owned(), "too expensive".to_owned())]);
    }

    async fn w4_ungated_calls_run_before_anybody_is_asked(store) {
        let script = json!({ "turns": [
            { "tool_calls": [trade(1), { "name": "note", "args": { "free": true } }] }, { "text": "done" },
        ] });
        let (server, _ws) = waiting(Setup::new(store, &script)).await;
        assert_eq!(server.calls(), [r#"{"free":true}"#]);
    }

    async fn w4_other_roles_get_their_own_request(store) {
        let script = json!({ "turns": [
            { "tool_calls": [trade(1), { "name": "pay", "args": {} }, trade(2)] }, { "text": "done" },
        ] });
        let pay = "description = \"Pays.\"\ncommand = [\"cat\"]\nparameters = { type = \"object\" }\n\
                   approval = { levels = [\"admin\"] }";
        let (_server, mut ws) = waiting(Setup::new(store, &script).tool("pay", pay)).await;
        let mut all = ws_replay(&mut ws).await;
        all.retain(|f| f["content_block"]["type"] == "approval_request");
        let asked: Vec<_> = all.iter().map(|f| {
            let names = f["content_block"]["actions"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap());
            (f["content_block"]["approval_key"].as_str().unwrap().to_owned(), names.collect::<Vec<_>>().join(","))
        }).collect();
        assert_eq!(asked, [
            ("s_1".to_owned(), "execute_trade,execute_trade".to_owned()),
            ("s_2".to_owned(), "pay".to_owned()),
        ]);
        // Each is decided on its own.
        ws.decide("s_2", json!([{ "type": "reject" }])).await;
        let frames = ws.until_type("run_status").await;
        assert_eq!(frames.last().unwrap()["pending"], json!(["s_1"]));
    }
}

async fn ws_replay(ws: &mut Ws) -> Vec<Value> {
    ws.subscribe("s", 0).await;
    ws.until_status("awaiting_input").await
}
