//! Spec Q1, Q3: valid questions, and valid answers.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Setup,
        ask::{ask, asks, events, said, two_questions, waiting},
        fold::Fold,
    },
};

fn asked(frames: &[Value]) -> Value {
    let delta = frames.iter().find(|f| f["delta"]["action_requests"].is_array()).expect("questions");
    delta["delta"]["action_requests"][0]["args"]["questions"].clone()
}

const KEYS: [&str; 2] = ["Q1", "Q2"];

on_both_stores! {
    async fn q1_an_option_with_free_text_is_added_in_the_sessions_language(store) {
        let questions = json!([
            { "question": "Q1", "options": [{ "label": "A" }] },
            { "question": "Q2", "multiSelect": true, "options": [{ "label": "Mine", "input": true }, { "label": "B" }] },
        ]);
        let script = json!({ "turns": [{ "tool_calls": [ask(questions)] }], "at_end": "repeat" });
        let server = Setup::new(store, &script).built_in(&["ask_user_question"]).start().await;
        let mut ws = server.ws().await;
        for (locale, label) in [("en", "Other"), ("vi", "Khác"), ("zh", "其他")] {
            server.post("/v1/sessions", &json!({ "session_id": locale, "locale": locale })).await.ok();
            ws.message(locale, "go").await;
            let frames = ws.until_status("awaiting_input").await;
            let wanted = json!([
                { "question": "Q1", "multiSelect": false, "options": [{ "label": "A" }, { "label": label, "input": true }] },
                { "question": "Q2", "multiSelect": true, "options": [{ "label": "Mine", "input": true }, { "label": "B" }] },
            ]);
            assert_eq!(asked(&frames), wanted);
            let row = server.get(&format!("/v1/approvals/{locale}_1")).await.ok();
            assert_eq!(row["action_requests"][0]["args"]["questions"], wanted);
            server.checked(locale).await;
        }
    }

    async fn q1_the_most_that_may_be_asked_is_asked(store) {
        let options: Vec<_> = (0..20).map(|i| json!({ "label": format!("o{i}") })).collect();
        let questions: Vec<_> = (0..8).map(|i| json!({ "question": format!("q{i}?"), "options": options })).collect();
        let script = json!({ "turns": [{ "tool_calls": [ask(json!(questions))] }, { "text": "done" }] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        let row = server.get("/v1/approvals/s_1").await.ok();
        let shown = row["action_requests"][0]["args"]["questions"].as_array().unwrap();
        assert_eq!(shown.len(), 8);
        assert!(shown.iter().all(|question| question["options"].as_array().unwrap().len() == 21));
        ws.answer("s_1", json!({})).await;
        ws.until_status("completed").await;
    }

    async fn q1_a_null_where_something_may_be_left_out_is_asked_and_answered_as_if_it_was(store) {
        let option = json!({ "label": "A", "description": null, "input": null });
        let asked = json!([{ "question": "Q?", "header": null, "multiSelect": null, "options": [option] }]);
        let script = json!({ "turns": [{ "tool_calls": [ask(asked)] }, { "text": "Told: {{ last_tool_result }}" }] });
        let setup = Setup::new(store, &script).built_in(&["ask_user_question"]);
        let (server, mut ws) = waiting(setup).await;
        let row = server.get("/v1/approvals/s_1").await.ok();
        let shown = json!([{ "question": "Q?", "multiSelect": false, "options": [{ "label": "A" }, { "label": "Other", "input": true }] }]);
        assert_eq!(row["action_requests"][0]["args"]["questions"], shown);
        ws.answer("s_1", json!({ "Q?": "A" })).await;
        assert_eq!(said(&ws.until_status("completed").await), r#"Told: {"Q?":"A"}"#);
        server.checked("s").await;
    }

    async fn q1_questions_that_break_a_rule_go_back_to_the_model_in_the_sessions_language(store) {
        let one = |question: &str, options: Value| json!([{ "question": question, "options": options }]);
        let many = |n: usize| (0..n).map(|i| json!({ "label": format!("o{i}") })).collect::<Vec<_>>();
        let nine: Vec<_> = (0..9).map(|i| json!({ "question": format!("q{i}"), "options": [{ "label": "a" }] })).collect();
        let twice = json!([
            { "question": "same", "options": [{ "label": "a" }] }, { "question": "same ", "options": [{ "label": "a" }] },
        ]);
        // The model's input, and the result. What cannot be parsed is named by its pointer.
        let cannot = ["The questions cannot be asked", "Không thể đặt các câu hỏi này", "无法提出这些问题"];
        let schema = ["the arguments do not fit", "tham số không khớp", "参数不符合"];
        let cases = [
            (json!([]), cannot, ["1 to 8 questions, not 0", "từ 1 đến 8 câu hỏi, không phải 0", "1 到 8 个，而不是 0"]),
            (json!(nine), cannot, ["not 9", "không phải 9", "而不是 9"]),
            (one("q", json!([])), cannot, ["question 1 must have 1 to 20 options, not 0", "không phải 0", "而不是 0"]),
            (one("q", json!(many(21))), cannot, ["not 21", "không phải 21", "而不是 21"]),
            (json!([{ "question": "q" }]), schema, ["\"options\""; 3]),
            (json!("q"), schema, ["/questions:"; 3]),
            (json!([{ "question": 7, "options": [{ "label": "a" }] }]), schema, ["/questions/0/question:"; 3]),
            (one(" ", json!([{ "label": "a" }])), cannot, ["question 1 has no text", "câu hỏi 1 không có nội dung", "第 1 个问题没有内容"]),
            (twice, cannot, ["the same text as question 1", "trùng nội dung với câu hỏi 1", "与第 1 个问题内容相同"]),
            (
                one("q", json!([{ "label": "a" }, { "label": "a" }])), cannot,
                ["the same label as option 1", "trùng nhãn với lựa chọn 1", "与第 1 个选项标签相同"],
            ),
            (one("q", json!([{ "label": "" }])), cannot, ["no label", "không có nhãn", "没有标签"]),
        ];
        let mut turns = Vec::new();
        for (questions, ..) in &cases {
            turns.push(json!({ "tool_calls": [ask(questions.clone())] }));
            turns.push(json!({ "text": "Told: {{ last_tool_result }}" }));
        }
        turns.push(json!({ "tool_calls": [{ "name": "ask_user_question", "args": "{\"questions\": [" }] }));
        turns.push(json!({ "text": "Told: {{ last_tool_result }}" }));
        let server = Setup::new(store, &json!({ "turns": turns })).built_in(&["ask_user_question"]).start().await;
        let mut ws = server.ws().await;
        for (i, locale) in ["en", "vi", "zh"].into_iter().enumerate() {
            server.post("/v1/sessions", &json!({ "session_id": locale, "locale": locale })).await.ok();
            for (questions, begins, part) in &cases {
                ws.message(locale, "go").await;
                let frames = events(ws.until(|f| matches!(f["status"].as_str(), Some("awaiting_input" | "completed"))).await);
                let text = frames.iter().filter_map(|f| f["delta"]["text"].as_str()).find(|t| t.starts_with("Told:"));
                let text = text.unwrap_or_else(|| panic!("{locale} {questions}: {frames:?}"));
                assert!(text.contains(begins[i]) && text.contains(part[i]), "{locale} {questions}: {text}");
                // Neither the call nor its result is shown, and no one was asked.
                let kinds: Vec<_> = frames.iter().filter_map(|f| f["content_block"]["type"].as_str()).collect();
                assert_eq!(kinds, ["text", "text"], "{questions}");
            }
            ws.message(locale, "go").await;
            let frames = ws.until_status("completed").await;
            assert!(said(&frames).contains("JSON"), "{}", said(&frames));
            server.checked(locale).await;
        }
        assert_eq!(server.get("/v1/approvals").await.ok()["approvals"], json!([]));
    }

    async fn q3_answers_over_the_websocket_reach_the_model_and_all_followers(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let mut other = server.ws().await;
        other.subscribe("s", 0).await;
        other.until_status("awaiting_input").await;
        ws.answer("s_1", json!({ "Q1": "A", "Q2": "C, D" })).await;
        let frames = ws.until_status("completed").await;
        let full = json!({ "Q1": "A", "Q2": "C, D" });
        assert_eq!(frames[0]["type"], "ack");
        let seen = other.until_status("completed").await;
        assert_eq!(seen, frames[1..]);
        assert_eq!((&seen[0]["type"], &seen[0]["resolution"], &seen[0]["answers"]), (&json!("approval_resolved"), &json!("decided"), &full));
        assert_eq!(said(&frames), format!("Told: {full}"));
        server.checked("s").await;
    }

    async fn q3_answers_over_http_are_shown_in_the_inbox(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let request = server.get("/v1/approvals?status=waiting").await.ok()["approvals"][0].clone();
        assert_eq!((&request["kind"], &request["approval_key"], &request["session_id"]), (&json!("question"), &json!("s_1"), &json!("s")));
        assert_eq!((&request["timeout_seconds"], &request["action_requests"][0]["name"]), (&json!(600), &json!("ask_user_question")));
        assert_eq!(request["review_configs"], json!([{
            "action_name": "ask_user_question", "allowed_decisions": ["approve", "edit", "reject"],
        }]));
        assert!(request["expires_at"].is_string() && request.get("answers").is_none() && request.get("actions").is_none(), "{request}");
        let answered = server.post("/v1/approvals/s_1", &json!({ "answers": { "Q1": "my own words" } })).await.ok();
        let full = json!({ "Q1": "my own words", "Q2": "[No preference]" });
        assert_eq!((&answered["status"], &answered["resolution"], &answered["answers"]), (&json!("resolved"), &json!("decided"), &full));
        assert!(answered["resolved_at"].is_string(), "{answered}");
        let frames = ws.until_status("completed").await;
        assert_eq!(said(&frames), format!("Told: {full}"));
        server.checked("s").await;
        // With `wait` the outcome is returned.
        server.post("/v1/sessions/t/messages", &json!({ "content": "go" })).await.ok();
        let outcome = server.post("/v1/approvals/t_1?wait=true", &json!({ "answers": {} })).await.ok();
        assert_eq!(outcome["text"], r#"Told: {"Q1":"[No preference]","Q2":"[No preference]"}"#);
    }

    async fn q3_an_omitted_answer_is_no_preference_and_several_are_joined(store) {
        let server = asks(store).start().await;
        let mut ws = server.ws().await;
        let no = "[No preference]";
        for (i, (answers, full)) in [
            (json!({}), [no, no]),
            (json!({ "Q1": "", "Q2": "  " }), [no, no]),
            (json!({ "Q1": no, "Q2": [] }), [no, no]),
            (json!({ "Q1": ["B"], "Q2": ["C", "D"] }), ["B", "C, D"]),
            (json!({ "Q2": "C, D" }), [no, "C, D"]),
            (json!({ "Q1": " A ", "Q2": ["my own", "", "C"] }), ["A", "my own, C"]),
            (json!({ "Q1": "A, B", "Q2": ["D"] }), ["A, B", "D"]),
        ].into_iter().enumerate() {
            let key = format!("s{i}_1");
            ws.message(&format!("s{i}"), "go").await;
            ws.until_status("awaiting_input").await;
            ws.answer(&key, answers.clone()).await;
            let frames = ws.until_status("completed").await;
            let full: serde_json::Map<_, _> = KEYS.into_iter().map(str::to_owned).zip(full.map(Value::from)).collect();
            let full = Value::Object(full);
            assert_eq!(frames[1]["answers"], full, "{answers}");
            assert_eq!(said(&frames), format!("Told: {full}"), "{answers}");
            let history = server.history(&format!("s{i}")).await;
            let block = &history[1]["content"][0];
            assert_eq!((&block["submittedAnswers"], &block["actionRequests"][0]["args"]["answers"]), (&full, &full));
        }
    }

    async fn q3_a_reject_declines_with_and_without_a_message(store) {
        let told = |text: &str| format!("Told: {text}");
        for (locale, decisions, text) in [
            ("en", json!([{ "type": "reject" }]), "The user did not want to answer"),
            ("vi", json!([{ "type": "reject" }]), "Người dùng không muốn trả lời"),
            ("zh", json!([{ "type": "reject" }]), "用户选择不回答"),
            ("vi", json!([{ "type": "reject", "message": "none of your business" }]), "none of your business"),
        ] {
            let (server, mut ws) = waiting(asks(store).locale(locale)).await;
            ws.decide("s_1", decisions.clone()).await;
            let frames = ws.until_status("completed").await;
            let resolved = &frames[1];
            assert_eq!((&resolved["type"], &resolved["resolution"]), (&json!("approval_resolved"), &json!("decided")));
            assert!(resolved.get("answers").is_none(), "{resolved}");
            assert_eq!(said(&frames), told(text));
            // No approval_result is sent for a question.
            assert!(frames.iter().all(|f| f["content_block"]["type"] != "approval_result"));
            server.checked("s").await;
            let block = server.history("s").await[1]["content"][0].clone();
            assert_eq!((&block["isResolved"], &block["resolution"]), (&json!(true), &json!("decided")));
            assert!(block.get("submittedAnswers").is_none() && block.get("approval_key").is_none(), "{block}");
            let row = server.get("/v1/approvals/s_1").await.ok();
            assert_eq!((&row["resolution"], &row["decisions"]), (&json!("decided"), &decisions), "{row}");
        }
    }

    async fn q3_the_answerers_own_words_follow_as_a_user_message(store) {
        let script = json!({ "turns": [
            { "tool_calls": [ask(two_questions())] }, { "text": "[{{ last_tool_result }}] [{{ last_user }}]" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        ws.send(&json!({
            "type": "approval", "session_id": "s", "approval_key": "s_1", "answers": { "Q1": "A" },
            "user_edit_content": "and be quick",
        })).await;
        let frames = ws.until_status("completed").await;
        let text: String = frames.iter().filter(|f| f["message_id"] == "msg-2").filter_map(|f| f["delta"]["text"].as_str()).collect();
        assert_eq!(text, r#"[{"Q1":"A","Q2":"[No preference]"}] [and be quick]"#);
        let replay = server.checked("s").await;
        assert_eq!(Fold::of(&replay).shape(), ["user", "approval_request", "user", "text"]);
    }

    async fn q2_the_same_request_is_answered_again_and_done_once(store) {
        let (server, mut ws) = waiting(asks(store)).await;
        let frame = json!({
            "type": "approval", "session_id": "s", "approval_key": "s_1", "answers": { "Q1": "A" }, "request_id": "r",
        });
        ws.send(&frame).await;
        let ack = ws.next().await;
        assert_eq!(ack, json!({ "type": "ack", "session_id": "s", "request_id": "r" }));
        ws.until_status("completed").await;
        ws.send(&frame).await;
        assert_eq!(ws.next().await, ack);
        ws.nothing_more().await;
        server.checked("s").await;
    }
}
