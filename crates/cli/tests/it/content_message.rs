//! Spec H5: the line that says what a call is for.

use serde_json::{Value, json};

use crate::{
    on_both_stores,
    support::{
        Provider, Server, Setup, Store,
        ask::{events, said},
        fold::Fold,
    },
};

fn tool(store: Store, script: &Value, lines: &str) -> Setup {
    let section = format!(
        "command = [\"sh\", \"-c\", \"tee -a calls.log; echo >> calls.log\"]\nparameters = {{ type = \"object\" }}\n{lines}"
    );
    Setup::new(store, script).tool("read", &section)
}

fn calls(args: &[Value]) -> Value {
    let calls: Vec<_> = args.iter().map(|args| json!({ "name": "read", "args": args })).collect();
    json!({ "turns": [{ "thinking": "a", "tool_calls": calls }, { "text": "Told: {{ last_tool_result }}" }] })
}

/// One turn: the lines in the stream, the summaries of the groups' ends, and the history.
async fn turn(setup: Setup) -> (Server, Vec<Value>, Vec<Value>, Value) {
    let server = setup.start().await;
    let mut ws = server.ws().await;
    ws.message("s", "go").await;
    let live = events(ws.until(|f| matches!(f["status"].as_str(), Some("completed" | "awaiting_input"))).await);
    let replay = server.checked("s").await;
    assert_eq!(Fold::of(&live), Fold::of(&replay));
    let lines = replay.iter().filter_map(|f| f.get("tool_content_message").cloned()).collect();
    let ends = replay.iter().filter(|f| f["type"] == "group_end").map(|f| f["summary"].clone()).collect();
    let history = server.history("s").await;
    (server, lines, ends, history)
}

on_both_stores! {
    async fn h5_a_template_says_it_and_the_newest_is_the_groups(store) {
        let script = json!({ "turns": [
            { "thinking": "a", "tool_calls": [
                { "name": "read", "args": { "path": "a.txt", "n": 9007199254740993_u64 } },
                { "name": "note", "args": {} },
            ] },
            { "tool_calls": [{ "name": "read", "args": { "path": "b.txt" } }] },
            { "text": "done" },
            { "tool_calls": [{ "name": "note", "args": {} }] },
            { "text": "done" },
        ] });
        let setup = tool(store, &script, "content_message = \"Reading {{ args.path }} {{ args.n }}\"");
        let (server, lines, ends, history) = turn(setup).await;
        assert_eq!(lines, ["Reading a.txt 9007199254740993", "Reading b.txt"]);
        assert_eq!(ends, ["Reading b.txt"]);
        let summaries: Vec<_> = history.as_array().unwrap().iter().map(|m| m["summary"].clone()).collect();
        let (none, line) = (Value::Null, json!("Reading b.txt"));
        assert_eq!(summaries, [none.clone(), line.clone(), none.clone(), none.clone(), none.clone(), none.clone(), line, none]);
        let call = &history[2]["tool_calls"][0];
        assert_eq!(call["tool_content_message"], lines[0]);
        assert!(history[2]["tool_calls"][1].get("tool_content_message").is_none());
        assert_eq!(server.calls().len(), 3);
        // A group whose calls say nothing has no summary at all.
        server.post("/v1/sessions/s/messages", &json!({ "content": "go" })).await.ok();
        let replay = server.checked("s").await;
        let end = replay.iter().rfind(|f| f["type"] == "group_end").unwrap();
        assert!(end.get("summary").is_none(), "{end}");
    }

    async fn h5_a_line_is_one_line_and_not_too_long(store) {
        let args = [json!({ "path": "a\n\n  b\tc" }), json!({ "path": "x".repeat(500) }), json!({ "path": " " })];
        let (_server, lines, _, _) = turn(tool(store, &calls(&args), "content_message = \"{{ args.path }}\"")).await;
        assert_eq!(lines, [json!("a b c"), json!(format!("{}…", "x".repeat(200)))]);
    }

    async fn h5_what_the_model_says_is_removed_before_approval_and_execution(store) {
        let args = json!({ "path": "a.txt", "tool_content_message": "Look at  a" });
        let setup = tool(store, &calls(std::slice::from_ref(&args)), "content_message = true\napproval = true");
        let (server, lines, ends, history) = turn(setup).await;
        assert_eq!((lines, ends), (vec![json!("Look at a")], vec![]));
        let request = server.get("/v1/approvals/s_1").await.ok();
        let action = &request["actions"][0];
        assert_eq!(action["args"], json!({ "path": "a.txt" }));
        // A reviewer sees what will run; the model's line is separate, in the inbox and in the history.
        assert_eq!(action["agent_says"], "Look at a");
        assert_eq!(action["display"]["text"], r#"{"path": "a.txt"}"#);
        assert_eq!((&action["display"]["bytes"], &action["display"]["warnings"]), (&json!(16), &json!([])));
        let block = history.as_array().unwrap().iter().find(|m| m["message_type"] == "step").unwrap();
        assert_eq!(&block["content"][0]["actionRequests"][0], action);
        // The digest is of what will run.
        let digest = action["args_digest"].clone();
        assert!(request["review_configs"][0]["args_schema"].get("properties").is_none_or(|p| p.get("tool_content_message").is_none()), "{request}");
        assert_eq!(history[2]["tool_calls"][0], json!({
            "id": "call_1_1", "name": "read", "args": { "path": "a.txt" }, "tool_content_message": "Look at a",
        }));
        assert_eq!(history[2]["summary"], Value::Null);
        assert_eq!((&history[1]["summary"], &history[3]["summary"]), (&json!("Look at a"), &json!("Look at a")));
        let decision = json!({ "decisions": [{ "type": "approve", "args_digest": digest }] });
        server.post("/v1/approvals/s_1?wait=true", &decision).await.ok();
        assert_eq!(server.calls(), [r#"{"path":"a.txt"}"#]);
        let replay = server.checked("s").await;
        // The stream has the input as the model wrote it.
        let input: String = replay.iter().filter_map(|f| f["delta"]["partial_json"].as_str()).collect();
        assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), args);
    }

    async fn x_a_reviewer_sees_what_would_deceive_the_eye_and_whose_words_are_whose(store) {
        let args = json!({ "path": "p\u{430}y\u{202e}", "tool_content_message": "Safe\u{200b} \u{202e}file" });
        let says = |line: &str| tool(store, &calls(std::slice::from_ref(&args)), &format!("content_message = {line}\napproval = true"));
        let (server, ..) = turn(says("true")).await;
        let request = server.get("/v1/approvals/s_1").await.ok();
        let action = &request["actions"][0];
        assert_eq!(action["args"]["path"], "p\u{430}y\u{202e}", "what will run is as it is");
        assert_eq!(action["display"]["text"], r#"{"path": "p\u{430}y\u{202E}"}"#);
        assert_eq!(action["display"]["warnings"], json!([
            { "kind": "bidirectional", "pointer": "/path", "count": 1 },
            { "kind": "confusable", "pointer": "/path", "count": 1 },
        ]));
        assert_eq!(action["agent_says"], r"Safe\u{200B} \u{202E}file");
        // The same in a replay, where it is derived from the arguments again.
        let frames = server.checked("s").await;
        let block = frames.iter().find(|f| f["content_block"]["type"] == "approval_request").unwrap();
        assert_eq!(&block["content_block"]["actions"][0], action);
        // A line from a template is the operator's, even where the model has filled it.
        let (server, ..) = turn(says("\"Reading {{ args.path }}\"")).await;
        let request = server.get("/v1/approvals/s_1").await.ok();
        assert!(request["actions"][0].get("agent_says").is_none(), "{request}");
        assert_eq!(request["review_configs"][0]["title"], r"Reading p\u{430}y\u{202E}");
        // It is about these arguments: an edited call that is requested again has none.
        let (server, ..) = turn(tool(store, &calls(std::slice::from_ref(&args)),
            "content_message = \"Reading {{ args.path }}\"\napproval = { quorum = 2, levels = [\"reader\"] }")).await;
        let request = server.get("/v1/approvals/s_1").await.ok();
        assert_eq!(request["review_configs"][0]["title"], r"Reading p\u{430}y\u{202E}");
        let edit = json!({ "decisions": [{ "type": "edit", "edited_action": { "name": "read", "args": { "path": "b" } } }] });
        server.post("/v1/approvals/s_1", &edit).await.ok();
        let again = server.get("/v1/approvals/s_2").await.ok();
        assert_eq!(again["actions"][0]["args"], json!({ "path": "b" }));
        assert!(again["review_configs"][0].get("title").is_none(), "{again}");
    }

    async fn h5_the_model_is_asked_for_it_where_the_tool_says_so(store) {
        for (lines, asked) in [("content_message = true", true), ("content_message = \"x\"", false), ("", false)] {
            let call = json!([{ "id": "t", "name": "read", "args": { "tool_content_message": "Look" } }]);
            let provider = Provider::start(vec![json!({ "tool_calls": call }), json!({ "text": "done" })]).await;
            let setup = tool(store, &json!({ "turns": [] }), lines).built_in(&["write_todos"]).provider(&provider);
            let server = setup.pending().await;
            let argument = |name: &str| provider.parameters(0, name)["properties"]["tool_content_message"].clone();
            assert_eq!(argument("read")["type"], if asked { json!("string") } else { Value::Null }, "{lines}");
            assert_eq!(argument("write_todos")["type"], "string");
            assert!(argument("note").is_null());
            // It is reserved, even where it is not requested.
            assert_eq!(server.calls(), ["{}"], "{lines}");
            server.checked("s").await;
        }
    }

    async fn h5_a_line_that_is_not_text_goes_back_to_the_model(store) {
        for (locale, text) in [("en", "the arguments do not fit"), ("vi", "tham số không khớp"), ("zh", "参数不符合")] {
            let args = [json!({ "path": "a", "tool_content_message": 7 })];
            let setup = tool(store, &calls(&args), "content_message = true\napproval = true").locale(locale);
            let (server, lines, ends, history) = turn(setup).await;
            assert_eq!((lines, ends), (vec![], vec![Value::Null]));
            let told = history.as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap();
            assert!(told.contains(text) && told.contains("/tool_content_message"), "{told}");
            assert_eq!(history[3]["status"], "error");
            assert!(server.calls().is_empty());
            assert_eq!(server.get("/v1/approvals").await.ok()["approvals"], json!([]), "nobody is asked");
        }
    }

    async fn h5_the_line_may_be_omitted(store) {
        let args = [json!({ "n": 1 }), json!({ "n": 2, "tool_content_message": "" }), json!({ "n": 3, "tool_content_message": null })];
        let (_server, lines, ends, history) = turn(tool(store, &calls(&args), "content_message = true")).await;
        assert_eq!((lines, ends), (vec![], vec![Value::Null]));
        // The tool echoes its input. Results come as they finish.
        let results = history.as_array().unwrap().iter().filter(|message| message["role"] == "tool");
        let mut ran: Vec<_> = results.map(|message| message["content"][0]["text"].as_str().unwrap()).collect();
        ran.sort_unstable();
        assert_eq!(ran, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#], "the reserved argument is never one of the tool's");
    }

    async fn h5_a_call_that_is_not_streamed_says_nothing_and_one_outside_is_no_groups(store) {
        for (rule, lines, ends) in [
            ("{ tool_use = false }", vec![], vec![Value::Null]),
            ("{ display_as_content = true }", vec![json!("Reading")], vec![Value::Null]),
        ] {
            let setup = tool(store, &calls(&[json!({})]), &format!("content_message = \"Reading\"\nstream = {rule}"));
            let (_server, said_lines, said_ends, history) = turn(setup).await;
            assert_eq!((said_lines, said_ends), (lines, ends), "{rule}");
            assert!(history.as_array().unwrap().iter().all(|m| m.get("summary").is_none()), "{history}");
        }
    }

    async fn h5_a_built_in_tool_may_have_a_template_or_none(store) {
        let write = json!({ "name": "write_todos", "args": { "todos": [{ "content": "buy", "status": "pending" }] } });
        let script = json!({ "turns": [{ "tool_calls": [write] }, { "text": "Told: {{ last_tool_result }}" }] });
        for (lines, line) in [("content_message = \"Plan: {{ args.todos.0.content }}\"", Some("Plan: buy")), ("content_message = false", None)] {
            let server = Setup::new(store, &script).built_in(&["write_todos"]).section("write_todos", lines).start().await;
            let mut ws = server.ws().await;
            ws.message("s", "go").await;
            let frames = events(ws.until_status("completed").await);
            assert!(said(&frames).contains("buy"), "{}", said(&frames));
            let end = frames.iter().find(|f| f["type"] == "group_end").unwrap();
            assert_eq!(end["summary"].as_str(), line);
            server.checked("s").await;
        }
    }
}
