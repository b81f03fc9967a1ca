//! Answers of the Chat Completions provider: the events match what the server sends.

use countersign::{
    Message,
    model::{Model as _, ModelEvent},
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
};
use futures::{StreamExt as _, stream};
use serde_json::{json, value::RawValue};

use crate::models_fake::{Fake, KEY, chunk, deltas, end, events, plain, request, sse, tell, told, tool, user};

fn call(index: usize, id: &str, name: &str, args: &str) -> String {
    let function = json!({"name": name, "arguments": args});
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}).to_string()
}

fn more(index: usize, args: &str) -> String {
    json!({"tool_calls": [{"index": index, "function": {"arguments": args}}]}).to_string()
}

/// Thinking, text, one call and usage, as a real server sends them.
fn whole_answer() -> String {
    let role = r#"{"role":"assistant","content":null,"refusal":null}"#;
    let parts = [
        role.to_owned(),
        r#"{"reasoning_content":"Để xem…"}"#.to_owned(),
        r#"{"content":"Đặt "}"#.to_owned(),
        r#"{"content":"lệnh 🙂"}"#.to_owned(),
        call(0, "call_a", "pay", ""),
        more(0, "{\"n\": 9007199254"),
        more(0, "740993, \"p\":1.10}"),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let finish = chunk(r#"{"index":0,"delta":{},"finish_reason":"tool_calls"}"#);
    format!(
        ": keep-alive\r\n\r\n{}{finish}data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":12,\"completion_tokens\":34}}}}\n\ndata: [DONE]\n\n",
        deltas(&parts)
    )
}

const WHOLE: [&str; 6] = [
    "thinking Để xem…",
    "text Đặt lệnh 🙂",
    r#"call call_a pay {"n": 9007199254740993, "p":1.10}"#,
    "usage 12 34",
    r#"opaque {"by":"openai-chat","model":"test-model","reasoning_field":"reasoning_content"}"#,
    "stop",
];

#[tokio::test]
async fn m1_text_thinking_calls_and_usage_come_out_as_they_were_sent() {
    let fake = Fake::streaming(whole_answer()).await;
    assert_eq!(told(&fake.model()).await, WHOLE);
    let seen = fake.seen.lock().unwrap();
    assert_eq!(seen[0].path, "/v1/chat/completions");
    assert_eq!(seen[0].authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
}

#[tokio::test]
async fn m1_a_stream_cut_at_every_byte_gives_the_same_answer() {
    let text = whole_answer().into_bytes();
    let next = std::sync::atomic::AtomicUsize::new(1);
    let bytes = text.clone();
    let fake = Fake::start(move || {
        let cut = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        sse(stream::iter([bytes[..cut].to_vec(), bytes[cut..].to_vec()]), None)
    })
    .await;
    let model = fake.model();
    for cut in 1..text.len() {
        assert_eq!(told(&model).await, WHOLE, "cut at byte {cut}");
    }
    let fake = Fake::start(move || sse(stream::iter(text.clone().into_iter().map(|byte| vec![byte])), None)).await;
    assert_eq!(told(&fake.model()).await, WHOLE, "each byte alone");
}

#[tokio::test]
async fn m1_parallel_calls_stream_one_after_the_other() {
    let parts = [
        call(0, "a", "one", "{\"x\""),
        more(0, ":1}"),
        call(1, "b", "two", ""),
        more(1, "{}"),
        call(2, "c", "one", ""),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let fake = Fake::streaming(deltas(&parts) + &end("tool_calls")).await;
    let told = told(&fake.model()).await;
    assert_eq!(told, [r#"call a one {"x":1}"#, "call b two {}", "call c one ", "stop"]);
}

#[tokio::test]
async fn m1_interleaved_calls_come_out_one_block_at_a_time() {
    let parts = [
        call(0, "a", "one", ""),
        call(1, "b", "two", ""),
        more(1, "{\"y\": \"}"),
        more(0, "{\"x\": [1"),
        r#"{"content":"and a word"}"#.to_owned(),
        more(1, "\\\"{\"}"),
        more(0, ", 2]}"),
        call(2, "c", "three", "[broken"),
        more(1, " "),
    ];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let fake = Fake::streaming(deltas(&parts) + &end("tool_calls")).await;
    let told = told(&fake.model()).await;
    let want = [
        r#"call a one {"x": [1, 2]}"#,
        r#"call b two {"y": "}\"{"}"#,
        "text and a word",
        "call c three [broken",
        "stop",
    ];
    assert_eq!(told, want);
}

#[tokio::test]
async fn m1_calls_without_ids_or_indexes_are_told_apart() {
    let cases: [(&[&str], &[&str]); 6] = [
        // No ids at all.
        (
            &[
                r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"","function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":null,"function":{"name":"b","arguments":"{}"}}]}"#,
            ],
            &["call  a {}", "call  b {}"],
        ),
        // No indexes, whole calls at once.
        (
            &[
                r#"{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"{}"}},{"id":"y","function":{"name":"a","arguments":"{}"}}]}"#,
            ],
            &["call x a {}", "call y a {}"],
        ),
        // Always index 0, with other ids.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"k\":1}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"y","function":{"name":"a","arguments":"{\"k\":2}"}}]}"#,
            ],
            &[r#"call x a {"k":1}"#, r#"call y a {"k":2}"#],
        ),
        // Id and name repeated with every fragment.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{\"k\""}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":":1}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":""}}]}"#,
            ],
            &[r#"call x a {"k":1}"#],
        ),
        // The name comes late, the arguments as an object, an id twice.
        (
            &[
                r#"{"tool_calls":[{"index":0,"id":"x"}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{"p": 1.10}}}]}"#,
                r#"{"tool_calls":[{"index":4,"id":"x","function":{"name":"b"}}]}"#,
            ],
            &[r#"call x a {"p": 1.10}"#, "call  b "],
        ),
        // A call that never gets a name.
        (&[r#"{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{}"}}]}"#], &["call x  {}"]),
    ];
    for (sent, want) in cases {
        let fake = Fake::streaming(deltas(sent) + &end("tool_calls")).await;
        let mut told = told(&fake.model()).await;
        assert_eq!(told.pop().as_deref(), Some("stop"));
        assert_eq!(told, want, "{sent:?}");
    }
}

#[tokio::test]
async fn m3_arguments_that_are_cut_off_or_no_json_come_through_as_they_were_written() {
    let parts = [call(0, "a", "pay", "{\"amount\": 10"), call(1, "b", "no such tool", "not JSON \u{202e}\0")];
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let fake = Fake::streaming(deltas(&parts) + &end("length")).await;
    let told = told(&fake.model()).await;
    let want = ["call a pay {\"amount\": 10", "call b no such tool not JSON \u{202e}\0", "cut max_tokens", "stop"];
    assert_eq!(told, want);
}

#[tokio::test]
async fn m1_every_finish_reason_completes_an_answer_also_without_the_end_mark() {
    for (reason, cut) in [
        ("stop", ""),
        ("tool_calls", ""),
        ("something new", ""),
        ("length", "cut max_tokens"),
        ("MAX_TOKENS", "cut max_tokens"),
        ("content_filter", "cut content_filter"),
        ("refusal", "cut refusal"),
        ("incomplete", "cut incomplete"),
    ] {
        let text = deltas(&[r#"{"content":"x"}"#]) + &end(reason);
        let want: Vec<&str> = ["text x", cut, "stop"].into_iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(told(&Fake::streaming(&*text).await.model()).await, want, "{reason}");
        let without = text.replace("data: [DONE]\n\n", "");
        assert_eq!(told(&Fake::streaming(without).await.model()).await, want, "{reason}");
    }
    let text = deltas(&[r#"{"content":"x"}"#]) + &end("error");
    let failed = "transient the provider failed in the middle of its answer: error";
    assert_eq!(told(&Fake::streaming(text).await.model()).await, ["text x", failed]);
    let text = deltas(&[r#"{"content":"x"}"#]) + "data: [DONE]\n\n";
    assert_eq!(told(&Fake::streaming(text).await.model()).await, ["text x", "stop"]);
}

#[tokio::test]
async fn m1_reasoning_refusals_and_typed_content_are_read() {
    let sent = [
        r#"{"reasoning":"a","reasoning_content":"a","content":""}"#,
        r#"{"reasoning":"b"}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"c"}]},{"type":"text","text":"d"}]}"#,
        r#"{"refusal":"I cannot."}"#,
    ];
    let fake = Fake::streaming(deltas(&sent) + &end("stop")).await;
    assert_eq!(told(&fake.model()).await, ["thinking abc", "text dI cannot.", "cut refusal", "stop"]);
}

#[tokio::test]
async fn m1_usage_is_the_last_one_and_comes_once() {
    let usage =
        |n: u32| format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{n},\"completion_tokens\":1}}}}\n\n");
    let null = "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"weird\":[]}}\n\n";
    let text = usage(1) + &deltas(&[r#"{"content":"x"}"#]) + &usage(7) + null + &end("stop");
    assert_eq!(told(&Fake::streaming(text).await.model()).await, ["text x", "usage 7 1", "stop"]);
}

#[tokio::test]
async fn m1_a_server_that_answers_all_at_once_is_understood() {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "now", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "a", "arguments": "{}"}},
            {"id": "y", "type": "function", "function": {"name": "b", "arguments": ""}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    .to_string();
    let fake = Fake::start(move || plain(200, &[("content-type", "application/json")], body.clone())).await;
    assert_eq!(told(&fake.model()).await, ["text now", "call x a {}", "call y b ", "usage 3 4", "stop"]);
}

#[tokio::test]
async fn m1_cached_and_reasoning_tokens_are_told_where_the_server_tells_them() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}}"#;
    let fake = Fake::streaming(format!("data: {usage}\n\n{}", end("stop"))).await;
    assert_eq!(told(&fake.model()).await, ["usage 3 4, 2 cached, 1 reasoning", "stop"]);
}

#[tokio::test]
async fn m1_text_is_given_out_as_it_arrives() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
    let receiver = std::sync::Mutex::new(Some(receiver));
    let fake = Fake::start(move || {
        let receiver = receiver.lock().unwrap().take().unwrap();
        let parts = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        sse(parts, None)
    })
    .await;
    let mut stream = fake.model().call(request(user("hi"), "", Vec::new()));
    for text in ["one", "two"] {
        sender.send(deltas(&[&json!({"content": text}).to_string()]).into_bytes()).unwrap();
        // The next part is sent only after this one has come out.
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(got))) if got == text));
    }
    sender.send(end("stop").into_bytes()).unwrap();
    drop(sender);
    assert_eq!(tell(stream.collect().await), ["stop"]);
}

fn answer(model: &str, blocks: Vec<Block>, opaque: Option<&str>) -> Message {
    let opaque = opaque.map(|json| RawValue::from_string(json.to_owned()).unwrap());
    Message::from(AssistantMessage::new(model, blocks).opaque(opaque))
}

fn use_tool(id: &str, name: &str, input: &str) -> Block {
    Block::ToolUse(ToolUse::new(id, name, input))
}

fn result(id: &str, text: &str) -> Message {
    Message::from(ToolResult::new(id, "n", text.to_owned(), CallStatus::Success))
}

#[tokio::test]
async fn m1_the_whole_conversation_is_sent_in_the_apis_shape() {
    let conversation = vec![
        Message::User("first".into()),
        Message::User("and more".into()),
        answer("m", vec![Block::thinking("hm")], None),
        answer("m", vec![Block::text("a"), Block::text("b")], None),
        answer("", vec![Block::text("partial")], None),
        Message::User("go".into()),
        answer(
            "m",
            vec![
                Block::text("I call"),
                use_tool("c1", "weather", r#"{"n": 9007199254740993, "p":1.10}"#),
                use_tool("c2", "weather", r#"{"broken": "#),
                use_tool("c3", "no such tool!", ""),
                use_tool("c4", "weather", "[1]"),
            ],
            Some(r#"{"by":"openai-chat","model":"test-model"}"#),
        ),
        result("c1", "sunny"),
        result("c2", "the arguments are not valid JSON"),
        result("c3", "no such tool"),
        result("c4", "must be an object"),
        Message::User("thanks".into()),
    ];
    let fake = Fake::streaming(deltas(&[r#"{"content":"x"}"#]) + &end("stop")).await;
    let request = request(conversation, "Be brief.", vec![tool("weather")]);
    assert_eq!(tell(fake.model().call(request).collect().await), ["text x", "stop"]);
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let want = json!({
        "model": "test-model", "stream": true, "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "first\n\nand more"},
            {"role": "assistant", "content": "a\n\nb\n\npartial"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "I call", "tool_calls": [
                function("c1", "weather", r#"{"n": 9007199254740993, "p":1.10}"#),
                function("c2", "weather", "{}"),
                function("c3", "no_such_tool_", "{}"),
                function("c4", "weather", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "c2", "content": "the arguments are not valid JSON"},
            {"role": "tool", "tool_call_id": "c3", "content": "no such tool"},
            {"role": "tool", "tool_call_id": "c4", "content": "must be an object"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "description": "Does weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}],
    });
    assert_eq!(fake.seen.lock().unwrap()[0].body, want);
}

#[tokio::test]
async fn m1_the_form_of_the_answer_is_sent_with_its_schema() {
    let fake = Fake::streaming(end("stop")).await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for strict in [true, false] {
        let mut asked = request(user("hi"), "", Vec::new());
        let output = countersign_engine::model::OutputSchema::new("answer", schema.clone()).strict(strict);
        asked.output = Some(output);
        assert_eq!(tell(fake.model().call(asked).collect().await), ["stop"]);
        let want =
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}});
        assert_eq!(fake.seen.lock().unwrap().last().unwrap().body["response_format"], want);
    }
}

#[tokio::test]
async fn m1_without_instructions_tools_or_key_nothing_is_sent_for_them() {
    let fake = Fake::streaming(end("stop")).await;
    let config = countersign::model::openai_chat::OpenAiChatConfig { api_key: None, ..fake.config() };
    let model = countersign::model::openai_chat::OpenAiChat::new(config).unwrap();
    assert_eq!(told(&model).await, ["stop"]);
    let seen = fake.seen.lock().unwrap();
    assert_eq!(seen[0].authorization, None);
    let want = json!({"model": "test-model", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(seen[0].body, want);
}

#[tokio::test]
async fn m1_reasoning_signatures_go_back_to_the_model_they_came_from() {
    let sent = [
        r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.encrypted","data":"s1","n":1.10}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"t","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s2"}}}]}"#,
    ];
    let fake = Fake::streaming(deltas(&sent) + &end("tool_calls")).await;
    let model = fake.model();
    let opaque = events(&model).await.into_iter().find_map(|event| match event {
        Ok(ModelEvent::Opaque(raw)) => Some(raw.get().to_owned()),
        _ => None,
    });
    let opaque = opaque.expect("the answer has something to keep");
    let other = opaque.replace("test-model", "other-model");
    for (opaque, kept) in [(&*opaque, true), (&*other, false), (r#"{"theirs": 1}"#, false)] {
        let blocks = vec![Block::thinking("hm"), use_tool("a", "t", "{}"), use_tool("b", "t", "{}")];
        let mut conversation = user("go");
        conversation.extend([answer("m", blocks, Some(opaque)), result("a", "1"), result("b", "2")]);
        let _: Vec<_> = model.call(request(conversation, "", vec![tool("t")])).collect().await;
        let seen = fake.seen.lock().unwrap();
        let sent = &seen.last().unwrap().body["messages"][1];
        let want = |value: serde_json::Value| if kept { value } else { serde_json::Value::Null };
        assert_eq!(sent["reasoning"], want(json!("hm")));
        assert_eq!(sent["reasoning_details"], want(json!([{"type": "reasoning.encrypted", "data": "s1", "n": 1.10}])));
        assert_eq!(sent["tool_calls"][0]["extra_content"], json!(null));
        assert_eq!(sent["tool_calls"][1]["extra_content"], want(json!({"google": {"thought_signature": "s2"}})));
    }
}
