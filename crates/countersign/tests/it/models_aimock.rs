//! The Chat Completions provider against a third-party server: the npm package `@copilotkit/aimock`.

use std::{path::PathBuf, process::Stdio, time::Duration};

use countersign::{
    Message,
    model::{
        ApiKey, Model as _, ModelEvent,
        openai_chat::{OpenAiChat, OpenAiChatConfig},
    },
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
};
use futures::StreamExt as _;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::models_fake::{KEY, request, tell, tool, user};

pub(crate) struct Aimock {
    pub(crate) base_url: String,
    pub(crate) key: &'static str,
    _process: Child,
    _fixtures: tempfile::TempDir,
}

impl Aimock {
    /// Starts the server on a free loopback port with these fixtures; it cuts texts into 7 characters.
    pub(crate) async fn start(fixtures: serde_json::Value, arguments: &[&str]) -> Aimock {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/third-party");
        let script = root.join("node_modules/@copilotkit/aimock/dist/cli.js");
        assert!(
            script.is_file(),
            "@copilotkit/aimock is not installed in tests/third-party: run `cargo xtask test`, which installs it \
             (or `npm ci` in that folder)"
        );
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fixtures.json");
        std::fs::write(&file, json!({"fixtures": fixtures}).to_string()).unwrap();
        let mut process = Command::new("node")
            .arg(script)
            .args(["--port", "0", "--host", "127.0.0.1", "--chunk-size", "7", "--fixtures"])
            .arg(&file)
            .args(arguments)
            .env("AIMOCK_API_KEYS", KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node must be installed to run this test");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let base_url = loop {
            let line = lines.next_line().await.unwrap().expect("aimock ended before it listened");
            if let Some((_, url)) = line.split_once("listening on ") {
                break format!("{}/v1", url.trim());
            }
        };
        // Its log must be read, or it stops when the pipe is full.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Aimock { base_url, key: KEY, _process: process, _fixtures: directory }
    }

    fn model(&self) -> OpenAiChat {
        let api_key = Some(ApiKey::new(self.key));
        OpenAiChat::new(OpenAiChatConfig {
            base_url: self.base_url.clone(),
            api_key,
            ..OpenAiChatConfig::new("gpt-4o")
        })
        .unwrap()
    }

    async fn ask(&self, conversation: Vec<Message>) -> Vec<String> {
        let tools = vec![tool("get_weather"), tool("pay")];
        tell(self.model().call(request(conversation, "You are a test.", tools)).collect().await)
    }
}

#[tokio::test]
async fn m1_aimock_streams_text_reasoning_and_usage() {
    let fixtures = json!([
        {"match": {"userMessage": "hello", "systemMessage": "You are a test."}, "response": {
            "content": "Xin chào, tôi là trợ lý giao dịch 🙂", "reasoning": "They greet me in English.",
            "usage": {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    let told = aimock.ask(user("hello")).await;
    assert_eq!(
        told,
        ["thinking They greet me in English.", "text Xin chào, tôi là trợ lý giao dịch 🙂", "usage 11 22", "stop"]
    );
}

#[tokio::test]
async fn m1_aimock_streams_calls_alone_in_parallel_and_after_text() {
    let exact = r#"{"n": 9007199254740993, "p":1.10, "s": "a \"b\" đ"}"#;
    let pay = json!({"id": "call_p", "name": "pay", "arguments": exact});
    let weather = |id: &str, city: &str| json!({"id": id, "name": "get_weather", "arguments": {"city": city}});
    let fixtures = json!([
        {"match": {"userMessage": "one"}, "response": {"toolCalls": [pay]}},
        {"match": {"userMessage": "both"}, "response": {"toolCalls": [weather("call_1", "Huế"), weather("call_2", "北京"), pay]}},
        {"match": {"userMessage": "text first"}, "response": {"content": "Let me see.", "toolCalls": [pay]}},
        {"match": {"userMessage": "call first"}, "response": {"blocks": [
            {"type": "toolCall", "id": "call_1", "name": "get_weather", "arguments": "{}"},
            {"type": "text", "text": "Now I pay."},
            {"type": "toolCall", "id": "call_p", "name": "pay", "arguments": exact}]}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    let pay = format!("call call_p pay {exact}");
    let calls = async |text: &str| -> Vec<String> {
        let told = aimock.ask(user(text)).await;
        assert_eq!(told.last().map(String::as_str), Some("stop"), "{told:?}");
        told.into_iter().filter(|part| part.starts_with("call ") || part.starts_with("text ")).collect()
    };
    assert_eq!(calls("one").await, [&*pay]);
    assert_eq!(
        calls("both").await,
        [r#"call call_1 get_weather {"city":"Huế"}"#, r#"call call_2 get_weather {"city":"北京"}"#, &*pay]
    );
    assert_eq!(calls("text first").await, ["text Let me see.", &*pay]);
    assert_eq!(calls("call first").await, ["call call_1 get_weather {}", "text Now I pay.", &*pay]);
}

#[tokio::test]
async fn m1_aimock_accepts_our_conversation_with_calls_and_results() {
    let fixtures = json!([
        {"match": {"toolCallId": "c2", "toolResultContains": "denied", "turnIndex": 1}, "response": {"content": "Understood."}},
    ]);
    let aimock = Aimock::start(fixtures, &["--strict"]).await;
    let call = |id: &str, input: &str| Block::ToolUse(ToolUse::new(id, "pay", input));
    let result = |id: &str, text: &str| Message::from(ToolResult::new(id, "pay", text.to_owned(), CallStatus::Error));
    let blocks = vec![call("c1", r#"{"p":1.10}"#), call("c2", "{broken")];
    let mut conversation = user("pay twice");
    let own = serde_json::value::RawValue::from_string(r#"{"by":"openai-chat","model":"gpt-4o"}"#.to_owned()).unwrap();
    conversation.extend([
        Message::from(AssistantMessage::new("m", blocks).opaque(Some(own))),
        result("c1", "paid"),
        result("c2", "denied by a person"),
    ]);
    assert_eq!(aimock.ask(conversation).await.first().map(String::as_str), Some("text Understood."));
}

#[tokio::test]
async fn s23_aimock_errors_are_told_apart() {
    let error = |message: &str, status: u16| json!({"error": {"message": message, "type": "x"}, "status": status, "retryAfter": 9});
    let fixtures = json!([
        {"match": {"userMessage": "busy"}, "response": error("slow down", 429)},
        {"match": {"userMessage": "broken"}, "response": error("went wrong", 500)},
        {"match": {"userMessage": "bad"}, "response": error("bad request", 400)},
    ]);
    let mut aimock = Aimock::start(fixtures, &[]).await;
    let busy = aimock.model().call(request(user("busy"), "", Vec::new())).next().await.unwrap().unwrap_err();
    assert!(busy.transient && busy.message.ends_with("429 Too Many Requests: slow down"), "{busy}");
    assert_eq!(busy.retry_after, Some(Duration::from_secs(9)));
    let broken = aimock.ask(user("broken")).await;
    assert_eq!(broken, ["transient the provider answered 500 Internal Server Error: went wrong"]);
    assert_eq!(aimock.ask(user("bad")).await, ["permanent the provider answered 400 Bad Request: bad request"]);
    aimock.key = "sk-wrong-key";
    let told = aimock.ask(user("busy")).await;
    assert!(told[0].starts_with("permanent the provider answered 401") && !told[0].contains("sk-wrong"), "{told:?}");
}

#[tokio::test]
async fn s23_aimock_streams_that_break_off_are_transient() {
    let fixtures = json!([
        {"match": {"userMessage": "text"}, "response": {"content": "a text that is cut off somewhere"}, "truncateAfterChunks": 3, "latency": 10},
        {"match": {"userMessage": "call"}, "truncateAfterChunks": 4, "latency": 10, "response": {"toolCalls": [
            {"name": "pay", "arguments": {"amount": 1_000_000, "to": "somebody"}}]}},
        {"match": {"userMessage": "dropped"}, "response": {"content": "x"}, "chaos": {"dropRate": 1}},
        {"match": {"userMessage": "malformed"}, "response": {"content": "x"}, "chaos": {"malformedRate": 1}},
        {"match": {"userMessage": "disconnect"}, "response": {"content": "x"}, "chaos": {"disconnectRate": 1}},
        {"match": {"userMessage": "limited"}, "response": {"content": "x"}, "chaos": {"rateLimitRate": 1}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    for fault in ["text", "call", "dropped", "malformed", "disconnect", "limited"] {
        let told = aimock.ask(user(fault)).await;
        assert!(told.last().unwrap().starts_with("transient "), "{fault}: {told:?}");
        assert!(!told.iter().any(|part| part == "stop"), "{fault}: {told:?}");
        let begun = matches!(fault, "text" | "call");
        assert_eq!(told.len() > 1, begun, "{fault}: {told:?}");
    }
}

#[tokio::test]
async fn s23_aimock_after_a_failure_the_same_request_succeeds() {
    let fixtures = json!([
        {"match": {"userMessage": "go", "sequenceIndex": 0}, "response": {"error": {"message": "busy"}, "status": 503}},
        {"match": {"userMessage": "go"}, "response": {"content": "here I am"}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    assert!(aimock.ask(user("go")).await[0].starts_with("transient "));
    let model = aimock.model();
    let events: Vec<_> = model.call(request(user("go"), "", Vec::new())).collect().await;
    assert!(matches!(events.last(), Some(Ok(ModelEvent::Stop))), "{events:?}");
}
