//! Spec Q6: `share_thought` and `write_todos`.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Provider, Setup, Store,
        ask::{events, said},
        fold::Fold,
    },
};

fn todo(content: &str, status: &str) -> Value {
    json!({ "content": content, "status": status })
}

fn write(todos: Value) -> Value {
    json!({ "name": "write_todos", "args": { "todos": todos } })
}

on_both_stores! {
    async fn q6_a_shared_thought_is_a_text_of_its_own(store) {
        let thought = |text: &str| json!({ "name": "share_thought", "args": { "text": text } });
        let script = json!({ "turns": [
            { "thinking": "a", "text": "one", "tool_calls": [thought("two **bold**"), { "name": "note", "args": {} }, thought("three")] },
            { "tool_calls": [thought(" ")] },
            { "tool_calls": [thought("")] },
            { "text": "Told: {{ last_tool_result }}" },
        ] });
        let server = Setup::new(store, &script).locale("vi").built_in(&["share_thought"]).start().await;
        let mut ws = server.ws().await;
        ws.message("s", "go").await;
        let live = events(ws.until_status("completed").await);
        let fold = Fold::of(&live);
        assert_eq!(fold.shape(), [
            "user", "(", "thinking", ")", "text", "text", "(", "tool_use", ")", "text", "(", "tool_result", ")", "text",
        ]);
        assert_eq!(Fold::of(&server.checked("s").await), fold);
        let history = server.history("s").await;
        let texts: Vec<_> = history.as_array().unwrap().iter().filter(|m| m["content"][0]["type"] == "text" && m["role"] == "assistant").collect();
        assert_eq!(*texts[1], json!({
            "role": "assistant", "content": [{ "type": "text", "text": "two **bold**" }], "display_type": "content",
        }));
        assert_eq!(texts[2]["content"][0]["text"], "three");
        let told = texts.last().unwrap()["content"][0]["text"].as_str().unwrap();
        assert!(told.contains("/text"), "an empty one goes back to the model: {told}");
        assert!(!history.to_string().contains("share_thought"));
    }

    async fn q6_the_model_is_told_that_its_thought_was_shown(store) {
        let calls = json!([{ "id": "t", "name": "share_thought", "args": { "text": "look" } }]);
        let provider = Provider::start(vec![json!({ "tool_calls": calls }), json!({ "text": "done" })]).await;
        let setup = Setup::new(store, &json!({ "turns": [] })).locale("zh").built_in(&["share_thought"]).provider(&provider);
        let _server = setup.pending().await;
        assert_eq!(provider.results(1), [("t".to_owned(), "已展示给用户".to_owned())]);
        let call = provider.conversation(1).into_iter().find(|m| m["tool_calls"].is_array()).unwrap();
        assert_eq!(call["tool_calls"][0]["function"]["name"], "share_thought", "to the model it is a call: {call}");
    }

    async fn q6_the_list_of_todos_is_kept_and_returned(store) {
        let first = json!([todo("look", "in_progress"), todo("buy", "pending")]);
        let second = json!([todo("look", "completed")]);
        let script = json!({ "turns": [
            { "tool_calls": [write(first.clone())] }, { "text": "Told: {{ last_tool_result }}" },
            { "tool_calls": [write(second.clone())] }, { "text": "Told: {{ last_tool_result }}" },
            { "tool_calls": [write(json!([todo("x", "maybe")]))] }, { "text": "Told: {{ last_tool_result }}" },
            { "tool_calls": [write(json!([todo("", "pending")]))] }, { "text": "Told: {{ last_tool_result }}" },
            { "tool_calls": [write(json!(vec![todo("x", "pending"); 101]))] }, { "text": "Told: {{ last_tool_result }}" },
            { "tool_calls": [write(json!([]))] }, { "text": "Told: {{ last_tool_result }}" },
        ] });
        let server = Setup::new(store, &script).built_in(&["write_todos"]).start().await;
        let mut ws = server.ws().await;
        server.post("/v1/sessions", &json!({ "session_id": "s" })).await.ok();
        assert_eq!(server.get("/v1/sessions/s/state").await.ok()["todos"], json!([]));
        // The kept list after each turn, and the result for the model.
        for (kept, told) in [
            (&first, "The list now: "), (&second, "The list now: "), (&second, "/todos/0/status"),
            (&second, "/todos/0/content"), (&second, "/todos"), (&json!([]), "The list now: []"),
        ] {
            ws.message("s", "go").await;
            let frames = events(ws.until_status("completed").await);
            let text = said(&frames);
            assert!(text.contains(told), "{text} has no {told}");
            if told == "The list now: " {
                assert!(text.ends_with(&kept.to_string()), "{text}: the list comes back as it was written");
            }
            assert_eq!(server.get("/v1/sessions/s/state").await.ok()["todos"], *kept);
            server.checked("s").await;
        }
    }
}

#[tokio::test]
async fn r3_the_list_of_todos_survives_kill_9() {
    let list = json!([todo("look", "in_progress")]);
    let script = json!({ "turns": [{ "tool_calls": [write(list.clone())] }, { "text": "ok" }] });
    let mut server = Setup::new(Store::Sqlite, &script).built_in(&["write_todos"]).pending().await;
    server.kill();
    server.start_again().await;
    assert_eq!(server.get("/v1/sessions/s/state").await.ok()["todos"], list);
}
