//! Questions, groups and history, field for field (spec Q, H): the printed examples, which are in `source_003/` as
//! printed.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Setup, Store,
        ask::{ask, events},
        fold::Fold,
    },
};

const TWO_TURNS: &str = include_str!("source_003/history.json");
const RESOLVED: &str = include_str!("source_003/resolved_block.json");
const STREAM: &str = include_str!("source_003/stream.json");

// ------------------------------------------------------------------ "Ví dụ History đầy đủ — 2 lượt ask_user_question"

const THOUGHTS: [&str; 2] = ["Tôi sẽ hỏi lần thứ nhất.", "Bây giờ hỏi lần thứ hai."];

/// The questions of the n-th turn, as the model writes them.
fn questions(n: usize) -> Value {
    json!([{ "question": format!("Q{n}"), "multiSelect": false, "options": [{ "label": format!("A{n}") }] }])
}

fn todos(n: usize) -> Value {
    json!([{ "content": format!("Hỏi lần {n}"), "status": "in_progress" }])
}

/// The example, with what the script says where it prints `"..."`.
fn two_turns() -> Value {
    let mut example: Value = serde_json::from_str(TWO_TURNS).unwrap();
    let mut thoughts = THOUGHTS.iter();
    let mut turns = 1..;
    for message in example.as_array_mut().unwrap() {
        let Some(block) = message.get_mut("content").and_then(|content| content.get_mut(0)) else { continue };
        if block["thinking"] == "..." {
            block["thinking"] = json!(thoughts.next().unwrap());
        }
        if let Some(asked) = block.pointer_mut("/actionRequests/0/args/questions") {
            assert_eq!(*asked, json!(["..."]));
            *asked = questions(turns.next().unwrap());
            // Spec Q1: the option that the server adds.
            asked[0]["options"].as_array_mut().unwrap().push(json!({ "label": "Khác", "input": true }));
        }
    }
    assert_eq!((thoughts.next(), turns.next()), (None, Some(3)), "every placeholder was found");
    example
}

/// Removes what the API says and the example does not print, each with the value it must have.
fn take_out_what_is_not_printed(history: &mut Value) {
    let mut turns = 1..;
    for message in history.as_array_mut().unwrap() {
        let message = message.as_object_mut().unwrap();
        if let Some(calls) = message.get_mut("tool_calls") {
            let args = calls[0].as_object_mut().unwrap().remove("args");
            assert_eq!(args, Some(json!({ "todos": todos(turns.next().unwrap()) })), "tool_calls[].args");
        }
        if message["content"][0]["type"] == "approval_request" {
            assert_eq!(message.remove("message_type"), Some(json!("step")), "message_type of a question");
        }
        if message["role"] == "tool" {
            let content = message.remove("content").unwrap();
            assert_eq!(
                (content.as_array().unwrap().len(), &content[0]["type"]),
                (1, &json!("text")),
                "a result's content"
            );
            assert!(content[0]["text"].as_str().unwrap().starts_with("Danh sách hiện tại: ["), "{content}");
        }
    }
}

on_both_stores! {
    async fn h_the_history_is_the_one_of_source_003(store) {
        let plan = |n: usize| json!({ "id": format!("tc-{n}"), "name": "write_todos", "args": {
            "todos": todos(n), "tool_content_message": format!("Chuẩn bị câu hỏi lần {n}"),
        } });
        let script = json!({ "turns": [
            { "thinking": THOUGHTS[0], "tool_calls": [plan(1)] },
            { "tool_calls": [ask(questions(1))] },
            { "thinking": THOUGHTS[1], "tool_calls": [plan(2)] },
            { "tool_calls": [ask(questions(2))] },
            { "text": "Cảm ơn! Tổng kết..." },
        ] });
        let setup = Setup::new(store, &script).locale("vi").built_in(&["ask_user_question", "write_todos"]);
        let server = setup.start().await;
        let mut ws = server.ws().await;
        ws.message("s", "hãy hỏi 2 lần").await;
        ws.until_status("awaiting_input").await;
        ws.answer("s_1", json!({ "Q1": "A1" })).await;
        ws.until_status("awaiting_input").await;
        ws.answer("s_2", json!({ "Q2": "A2" })).await;
        ws.until_status("completed").await;
        server.checked("s").await;
        let mut history = server.history("s").await;
        take_out_what_is_not_printed(&mut history);
        assert_eq!(history, two_turns());
    }
}

// ------------------------------------------------------------------ "Ví dụ stream events", and the blocks beside it

fn printed_stream() -> [Value; 3] {
    serde_json::from_str(STREAM).unwrap()
}

/// The conversation of the stream example; the questions are those of the printed delta.
fn setup(store: Store) -> Setup {
    let [_, delta, _] = printed_stream();
    let questions = delta["delta"]["action_requests"][0]["args"]["questions"].clone();
    let script = json!({ "turns": [
        { "tool_calls": [{ "name": "share_thought", "args": { "text": "Để tôi xem." } }] },
        { "tool_calls": [{ "name": "write_todos", "args": { "todos": [] } }] },
        { "tool_calls": [ask(questions)] },
        { "tool_calls": [{ "name": "analyze_price", "args": {} }] },
        { "text": "Xong." },
    ] });
    let analyze = "command = [\"cat\"]\nparameters = { type = \"object\" }";
    Setup::new(store, &script)
        .locale("vi")
        .built_in(&["share_thought", "write_todos", "ask_user_question"])
        .tool("analyze_price", analyze)
}

fn printed_answers() -> Value {
    let resolved: Value = serde_json::from_str(RESOLVED).unwrap();
    resolved["content"][0]["submittedAnswers"].clone()
}

on_both_stores! {
    async fn q2_the_stream_is_the_one_of_source_003(store) {
        let server = setup(store).start().await;
        let mut ws = server.ws().await;
        ws.message("session-id", "tư vấn giúp tôi").await;
        let frames = events(ws.until_status("awaiting_input").await);
        let mut fold = Fold::of(&frames);
        assert_eq!(fold.shape(), ["user", "text", "(", "tool_use", "tool_result", ")", "approval_request"]);
        let at = frames.len() - 5;
        let ids = |frame: &Value| (frame["session_id"].clone(), frame["message_id"].clone());
        let ours = (json!("session-id"), json!("msg-2"));
        assert_eq!((&frames[at]["type"], ids(&frames[at])), (&json!("group_end"), ours.clone()));
        let seq = frames[at]["seq"].as_u64().unwrap();
        // The three events, with what is not printed removed by name.
        for (i, (printed, seq)) in printed_stream().into_iter().zip([Some(seq + 1), None, Some(seq + 2)]).enumerate() {
            let mut frame = frames[at + 1 + i].clone();
            assert_eq!(ids(&frame), ours);
            let event = frame.as_object_mut().unwrap();
            event.remove("session_id");
            event.remove("message_id");
            assert_eq!(event.remove("seq"), seq.map(Value::from));
            if i == 0 {
                let block = event["content_block"].as_object_mut().unwrap();
                let expires = block.remove("expires_at").unwrap();
                assert!(expires.as_str().unwrap().ends_with('Z'), "{expires}");
                assert_eq!(block.remove("digest").unwrap().as_str().unwrap().len(), 64);
            }
            assert_eq!(frame, printed);
        }
        assert_eq!(frames[at + 4], json!({
            "type": "run_status", "session_id": "session-id", "seq": seq + 3, "status": "awaiting_input",
            "pending": ["session-id_1"],
        }));

        ws.send(&json!({
            "type": "approval", "session_id": "session-id", "approval_key": "session-id_1", "answers": printed_answers(),
        })).await;
        assert_eq!(ws.next().await, json!({ "type": "ack", "session_id": "session-id" }));
        let more = ws.until_status("completed").await;
        assert_eq!(more[0], json!({
            "type": "approval_resolved", "session_id": "session-id", "seq": seq + 4, "approval_key": "session-id_1",
            "resolution": "decided", "answers": printed_answers(),
        }));
        assert_eq!(more[1], json!({
            "type": "run_status", "session_id": "session-id", "seq": seq + 5, "status": "running", "pending": [],
        }));
        assert_eq!(more[2], json!({
            "type": "group_start", "session_id": "session-id", "seq": seq + 6, "message_id": "msg-2",
            "group_id": "group-2",
        }));
        more.iter().for_each(|event| fold.add(event));
        assert_eq!(fold.shape()[6..], ["approval_request", "(", "tool_use", "tool_result", ")", "text"]);
        // Nothing of the question's call is ever streamed as a call.
        let all = frames.iter().chain(&more).filter(|f| f["type"] == "content_block_start");
        assert!(all.clone().all(|f| f["content_block"]["name"] != "ask_user_question"));
        assert!(all.clone().all(|f| f["content_block"]["type"] != "approval_result"));
    }

    async fn h2_the_resolved_block_is_the_one_of_source_003(store) {
        let server = setup(store).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "tư vấn giúp tôi").await;
        ws.until_status("awaiting_input").await;
        ws.answer("s_1", printed_answers()).await;
        ws.until_status("completed").await;
        server.checked("s").await;
        let history = server.history("s").await;
        let steps: Vec<_> = history.as_array().unwrap().iter().filter(|m| m["message_type"] == "step").collect();
        // The printed block says "..." for the descriptions that the printed delta has in full.
        let mut printed: Value = serde_json::from_str(RESOLVED).unwrap();
        let [_, delta, _] = printed_stream();
        let full = &delta["delta"]["action_requests"][0]["args"]["questions"];
        for (q, question) in printed["content"][0]["actionRequests"][0]["args"]["questions"].as_array_mut().unwrap().iter_mut().enumerate() {
            for (o, option) in question["options"].as_array_mut().unwrap().iter_mut().enumerate() {
                if option["description"] == "..." {
                    option["description"] = full[q]["options"][o]["description"].clone();
                }
            }
        }
        assert_eq!(steps, [&printed]);
        assert!(history.as_array().unwrap().iter().all(|m| m["name"] != "ask_user_question"));
        let mut calls = history.as_array().unwrap().iter().filter_map(|m| m["tool_calls"].as_array()).flatten();
        assert!(calls.all(|call| call["name"] != "ask_user_question"));
    }
}
