//! Spec Q5, W2, H1: what is in groups, what is outside, and what is not streamed at all.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Server, Setup, Store,
        ask::{ask, events, said, two_questions, waiting},
        fold::Fold,
        trade,
    },
};

fn call(name: &str, n: u64) -> Value {
    json!({ "id": format!("t{n}"), "name": name, "args": { "n": n } })
}

/// The tool `other`, whose calls are shown by this rule.
fn with_rule(store: Store, script: &Value, rule: &str) -> Setup {
    let section = format!("command = [\"cat\"]\nparameters = {{ type = \"object\" }}\nstream = {rule}");
    Setup::new(store, script).tool("other", &section)
}

/// Each message of the history in short: its kind and its place.
async fn short(server: &Server, session_id: &str) -> Vec<String> {
    let history = server.history(session_id).await;
    let short = history.as_array().unwrap().iter().map(|message| {
        let what = match (message["role"].as_str().unwrap(), message["tool_calls"].as_array()) {
            ("tool", _) => format!("result {}", message["tool_call_id"].as_str().unwrap()),
            (_, Some(calls)) => {
                let ids: Vec<_> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
                format!("calls {}", ids.join(" "))
            }
            ("user", None) => "user".to_owned(),
            (_, None) => message["content"][0]["type"].as_str().unwrap().to_owned(),
        };
        format!("{what}: {}", message["display_type"].as_str().unwrap())
    });
    short.collect()
}

/// One turn: the shape of the stream, and the history in short.
async fn turn(setup: Setup) -> (Server, Vec<Value>, Vec<String>, Vec<String>) {
    let server = setup.start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let live = events(ws.until_status("completed").await);
    let fold = Fold::of(&live);
    assert_eq!(Fold::of(&server.checked("s").await), fold, "live and replay");
    let shape = fold.shape().into_iter().map(str::to_owned).collect();
    let history = short(&server, "s").await;
    (server, live, shape, history)
}

on_both_stores! {
    async fn q5_thinking_calls_and_results_are_a_group_that_text_closes(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [call("note", 1), call("note", 2)] },
            { "thinking": "b", "tool_calls": [call("note", 3)] },
            { "thinking": "c", "text": "so far", "tool_calls": [call("note", 4)] },
            { "text": "done" },
        ] });
        let (_server, live, shape, history) = turn(Setup::new(store, &script)).await;
        assert_eq!(shape, [
            "user", "(", "thinking", "tool_use", "tool_use", "tool_result", "tool_result", "thinking", "tool_use",
            "tool_result", "thinking", ")", "text", "(", "tool_use", "tool_result", ")", "text",
        ]);
        // Results come as they finish.
        let history: Vec<_> = history.iter().map(|m| m.replace("result t2", "result t1")).collect();
        assert_eq!(history, [
            "user: content", "thinking: group_start", "calls t1 t2: group_item", "result t1: group_item",
            "result t1: group_item", "thinking: group_item", "calls t3: group_item", "result t3: group_item",
            "thinking: group_end", "text: content", "calls t4: group_start", "result t4: group_end", "text: content",
        ]);
        let ids: Vec<_> = live.iter().filter(|f| f["type"] == "group_start").map(|f| f["group_id"].clone()).collect();
        assert_eq!(ids, ["group-1", "group-2"]);
    }

    async fn q5_groups_have_ids_of_their_own_in_the_whole_session(store) {
        let script = json!({ "turns": [{ "thinking": "a", "text": "b" }], "at_end": "repeat" });
        let server = Setup::new(store, &script).start().await;
        for _ in 0..3 {
            server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        }
        let replay = server.checked("s").await;
        let of = |kind: &str| replay.iter().filter(|f| f["type"] == kind).map(|f| (f["group_id"].clone(), f["message_id"].clone())).collect::<Vec<_>>();
        let wanted = [("group-1", "msg-2"), ("group-2", "msg-4"), ("group-3", "msg-6")].map(|(g, m)| (json!(g), json!(m)));
        assert_eq!(of("group_start"), wanted);
        assert_eq!(of("group_end"), wanted);
        assert_eq!(short(&server, "s").await[..3], ["user: content", "thinking: group_start", "text: content"]);
    }

    async fn q5_a_call_that_is_not_streamed_has_a_result(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [call("other", 1)] }, { "text": "Told: {{ last_tool_result }}" },
        ] });
        let (_server, live, shape, history) = turn(with_rule(store, &script, "{ tool_use = false }")).await;
        assert_eq!(shape, ["user", "(", "thinking", "tool_result", ")", "text"]);
        assert_eq!(history, ["user: content", "thinking: group_start", "result t1: group_end", "text: content"]);
        let result = live.iter().find(|f| f["content_block"]["type"] == "tool_result").unwrap();
        assert_eq!(result["content_block"]["tool_use_id"], "t1");
        assert_eq!(said(&live), r#"Told: {"n":1}"#);
    }

    async fn q5_a_result_that_is_not_streamed_reaches_the_model(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [call("other", 1), call("note", 2)] }, { "text": "done" },
            { "tool_calls": [call("other", 3)] }, { "text": "Told: {{ last_tool_result }}" },
        ] });
        let (server, _live, shape, history) = turn(with_rule(store, &script, "{ tool_result = false }")).await;
        assert_eq!(shape, ["user", "(", "thinking", "tool_use", "tool_use", "tool_result", ")", "text"]);
        assert_eq!(history, [
            "user: content", "thinking: group_start", "calls t1 t2: group_item", "result t2: group_end", "text: content",
        ]);
        let outcome = server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        assert_eq!(outcome["text"], r#"Told: {"n":3}"#);
        server.checked("s").await;
    }

    async fn q5_nothing_streamed_is_no_group(store) {
        let script = json!({ "turns": [{ "tool_calls": [call("other", 1)] }, { "text": "Told: {{ last_tool_result }}" }] });
        let (_server, live, shape, history) = turn(with_rule(store, &script, "{ tool_use = false, tool_result = false }")).await;
        assert_eq!(shape, ["user", "text"]);
        assert_eq!(history, ["user: content", "text: content"]);
        assert_eq!(said(&live), r#"Told: {"n":1}"#);
    }

    async fn q5_a_call_displayed_as_content_is_outside_groups(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [call("other", 1)] },
            { "tool_calls": [call("note", 2)] },
            { "tool_calls": [call("other", 3), call("other", 4), call("note", 5)] },
            { "text": "done" },
        ] });
        let (_server, _live, shape, history) = turn(with_rule(store, &script, "{ display_as_content = true }")).await;
        assert_eq!(shape[..11], [
            "user", "(", "thinking", ")", "tool_use", "tool_result", "(", "tool_use", "tool_result", ")", "tool_use",
        ]);
        assert_eq!(history[..7], [
            "user: content", "thinking: group_start", "calls t1: content", "result t1: content", "calls t2: group_start",
            "result t2: group_end", "calls t3 t4: content",
        ]);
        // The last three results come as they finish.
        assert_eq!(history[7], "calls t5: group_start");
        let mut rest = history[8..].to_vec();
        rest.sort();
        assert!(rest.contains(&"result t3: content".to_owned()) && rest.contains(&"result t4: content".to_owned()), "{rest:?}");
        assert!(rest.iter().any(|m| m.starts_with("result t5: group_")), "{rest:?}");
    }

    async fn h3_q5_an_approval_is_in_the_group_of_its_calls_with_its_decisions(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [trade(1), call("note", 2)] }, { "thinking": "b", "text": "done" },
        ] });
        let server = Setup::new(store, &script).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let mut live = events(ws.until_status("awaiting_input").await);
        assert_eq!(short(&server, "s").await, [
            "user: content", "thinking: group_start", "calls call_1_1 t2: group_item", "result t2: group_item",
            "approval_request: group_end",
        ]);
        assert_eq!(Fold::of(&live).history(), server.history("s").await, "a group that is open is shown as if it ended now");
        ws.decide("s_1", json!([{ "type": "approve" }])).await;
        live.extend(events(ws.until_status("completed").await));
        assert_eq!(Fold::of(&live).shape(), [
            "user", "(", "thinking", "tool_use", "tool_use", "tool_result", "approval_request", "approval_result",
            "tool_result", "thinking", ")", "text",
        ]);
        server.checked("s").await;
        assert_eq!(short(&server, "s").await, [
            "user: content", "thinking: group_start", "calls call_1_1 t2: group_item", "result t2: group_item",
            "approval_request: group_item", "result call_1_1: group_item", "thinking: group_end", "text: content",
        ]);
        let block = &server.history("s").await[4]["content"][0];
        assert_eq!((&block["isResolved"], &block["submittedDecisions"]), (&json!(true), &json!([{ "type": "approve" }])));
        assert_eq!(block["reviewConfigs"][0]["action_name"], block["actionRequests"][0]["name"]);
    }

    async fn q5_an_approval_of_a_call_displayed_as_content_is_outside_groups(store) {
        let script = json!({ "turns": [{ "thinking": "a", "tool_calls": [trade(1)] }, { "text": "done" }] });
        let rule = "approval = true\nstream = { display_as_content = true }";
        let (server, mut ws) = waiting(Setup::new(store, &script).trade(rule)).await;
        ws.decide("s_1", json!([{ "type": "reject" }])).await;
        ws.until_status("completed").await;
        assert_eq!(Fold::of(&server.checked("s").await).shape(), [
            "user", "(", "thinking", ")", "tool_use", "approval_request", "approval_result", "tool_result", "text",
        ]);
        assert_eq!(short(&server, "s").await, [
            "user: content", "thinking: group_start", "calls call_1_1: content", "approval_request: content",
            "result call_1_1: content", "text: content",
        ]);
        assert!(server.calls().is_empty());
    }

    async fn w4_a_call_that_is_not_streamed_is_named_in_its_approval(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "text": "done" }] });
        let rule = "approval = { timeout = 1 }\nstream = { tool_use = false, tool_result = false }";
        let server = Setup::new(store, &script).trade(rule).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let live = events(ws.until_status("awaiting_input").await);
        let request = live.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        assert_eq!(request["content_block"]["actions"][0]["tool_use_id"], "call_1_1");
        assert_eq!(Fold::of(&live).shape(), ["user", "(", "approval_request"]);
        ws.until_status("completed").await;
        assert_eq!(Fold::of(&server.checked("s").await).shape(), ["user", "(", "approval_request", "approval_timeout", ")", "text"]);
        assert_eq!(short(&server, "s").await, ["user: content", "approval_request: group_start", "text: content"]);
    }

    async fn q2_a_question_closes_the_group_and_a_later_decision_opens_none(store) {
        // A decision on an approval from before the question is shown without a group.
        let script = json!({ "turns": [
            { "tool_calls": [trade(1), ask(two_questions())] }, { "text": "done" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script).built_in(&["ask_user_question"])).await;
        ws.decide("s_1", json!([{ "type": "reject" }])).await;
        ws.until_status("awaiting_input").await;
        ws.answer("s_2", json!({})).await;
        ws.until_status("completed").await;
        assert_eq!(Fold::of(&server.checked("s").await).shape(), [
            "user", "(", "tool_use", "approval_request", ")", "approval_request", "approval_result", "(", "tool_result",
            ")", "text",
        ]);
    }

    async fn w2_a_turn_that_is_cancelled_or_fails_closes_its_group(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [trade(1)] },
            { "thinking": "b", "error": "on fire" },
        ] });
        let (server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.send(&json!({ "type": "cancel", "session_id": "s" })).await;
        let frames = events(ws.until_status("cancelled").await);
        let kinds: Vec<_> = frames.iter().map(|f| f["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, [
            "approval_resolved", "content_block_start", "content_block_delta", "content_block_stop", "group_end",
            "message_stop", "run_status",
        ]);
        ws.message("s", "go").await;
        ws.until_status("failed").await;
        let replay = server.checked("s").await;
        assert_eq!(Fold::of(&replay).shape(), [
            "user", "(", "thinking", "tool_use", "approval_request", "tool_result", ")", "user", "(", "thinking", ")",
        ]);
        // None of their texts is final.
        assert!(!server.history("s").await.to_string().contains("is_final"));
    }

    async fn w2_a_message_in_mid_turn_closes_the_group(store) {
        let script = json!({ "turns": [{ "tool_calls": [trade(1)] }, { "tool_calls": [call("note", 2)] }, { "text": "done" }] });
        let (server, mut ws) = waiting(Setup::new(store, &script)).await;
        ws.send(&json!({
            "type": "approval", "session_id": "s", "approval_key": "s_1", "decisions": [{ "type": "reject" }],
            "user_edit_content": "something else",
        })).await;
        ws.until_status("completed").await;
        let replay = server.checked("s").await;
        let shape = Fold::of(&replay).shape().join(" ");
        assert!(shape.starts_with("user ( tool_use approval_request approval_result ) user ( "), "{shape}");
        let open: i32 = shape.split(' ').map(|part| i32::from(part == "(") - i32::from(part == ")")).sum();
        assert_eq!(open, 0);
    }

    async fn q5_groups_are_the_same_with_and_without_followers(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "text": "b", "tool_calls": [call("note", 1), call("other", 2)] },
            { "thinking": "c", "text": "d" },
        ], "at_end": "repeat", "chunk_chars": 1 });
        let server = with_rule(store, &script, "{ display_as_content = true, tool_result = false }").start().await;
        server.post("/v1/sessions/unseen/messages", &json!({ "content": "go" })).await.ok();
        let mut ws = server.ws().await;
        ws.message("seen", "go").await;
        let live = events(ws.until_status("completed").await);
        let renamed: Vec<Value> = live.iter().map(|f| serde_json::from_str(&f.to_string().replace("\"seen\"", "\"unseen\"")).unwrap()).collect();
        let (unseen, seen) = (Fold::of(&server.checked("unseen").await), Fold::of(&renamed));
        assert_eq!(unseen, seen);
        assert_eq!(seen.shape(), [
            "user", "(", "thinking", ")", "text", "(", "tool_use", ")", "tool_use", "(", "tool_result", "thinking", ")", "text",
        ]);
        let numbered = |events: &[Value]| events.iter().filter(|f| f["seq"].is_u64()).map(|f| (f["seq"].clone(), f["type"].clone())).collect::<Vec<_>>();
        assert_eq!(numbered(&server.checked("unseen").await), numbered(&live));
    }
}
