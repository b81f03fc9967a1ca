//! The other APIs against a third-party server: the npm package `@copilotkit/aimock`.

use std::sync::Arc;

use countersign::{
    Message,
    model::{
        ApiKey, Model, ModelEvent,
        anthropic::{Anthropic, AnthropicConfig, Thinking},
        openai::{OpenAi, OpenAiConfig},
    },
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
};
use futures::StreamExt as _;
use serde_json::{Value, json, value::RawValue};

use crate::{
    models_aimock::Aimock,
    models_fake::{request, tell, tool, user},
};

/// The APIs that are not spoken through a library.
const OWN: [&str; 2] = ["responses", "anthropic"];

/// A model behind each of the APIs, of a kind that reasons.
fn models(aimock: &Aimock) -> Vec<(&'static str, Arc<dyn Model>)> {
    let key = || Some(ApiKey::new(aimock.key));
    let openai = OpenAiConfig {
        base_url: aimock.base_url.clone(),
        api_key: key(),
        reasoning_summary: true,
        ..OpenAiConfig::new("gpt-5")
    };
    let anthropic = AnthropicConfig {
        base_url: aimock.base_url.clone(),
        api_key: key(),
        thinking: Some(Thinking::Budget(2000)),
        ..AnthropicConfig::new("claude-sonnet-4-5")
    };
    vec![
        ("responses", Arc::new(OpenAi::new(openai).unwrap()) as Arc<dyn Model>),
        ("anthropic", Arc::new(Anthropic::new(anthropic).unwrap())),
        #[cfg(feature = "genai")]
        ("gemini", genai(aimock, "gemini", "gemini-2.5-pro", "/v1beta")),
        #[cfg(feature = "genai")]
        ("ollama", genai(aimock, "ollama", "llama3", "")),
    ]
}

#[cfg(feature = "genai")]
fn genai(aimock: &Aimock, provider: &str, model: &str, path: &str) -> Arc<dyn Model> {
    use countersign::model::genai::{Genai, GenaiConfig};
    let root = aimock.base_url.trim_end_matches("/v1");
    let mut config = GenaiConfig::new(provider, model, format!("{root}{path}"));
    config.api_key = Some(ApiKey::new(aimock.key));
    Arc::new(Genai::new(config).unwrap())
}

async fn ask(model: &Arc<dyn Model>, conversation: Vec<Message>) -> (Vec<String>, Option<Box<RawValue>>) {
    let tools = vec![tool("get_weather"), tool("pay")];
    let events: Vec<_> = model.call(request(conversation, "You are a test.", tools)).collect().await;
    let opaque = events.iter().find_map(|event| match event {
        Ok(ModelEvent::Opaque(raw)) => Some(raw.clone()),
        _ => None,
    });
    let told = tell(events).into_iter().filter(|part| !part.starts_with("opaque ")).collect();
    (told, opaque)
}

#[tokio::test]
async fn m1_aimock_streams_text_reasoning_and_usage_of_each_api() {
    let fixtures = json!([
        {"match": {"userMessage": "hello", "systemMessage": "You are a test."}, "response": {
            "content": "Xin chào, tôi là trợ lý giao dịch.", "reasoning": "They greet me in English."}},
        {"match": {"userMessage": "smile"}, "response": {"content": "123456🙂"}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    for (name, model) in models(&aimock) {
        let (told, _) = ask(&model, user("hello")).await;
        let told: Vec<&str> = told.iter().map(String::as_str).filter(|part| !part.starts_with("usage ")).collect();
        let text = "text Xin chào, tôi là trợ lý giao dịch.";
        assert_eq!(told, ["thinking They greet me in English.", text, "stop"], "{name}");
        if OWN.contains(&name) {
            let (told, _) = ask(&model, user("smile")).await;
            assert!(told.contains(&"text 123456🙂".to_owned()), "{name}, cut inside a character: {told:?}");
        }
    }
}

#[tokio::test]
async fn m1_aimock_streams_parallel_calls_of_each_api() {
    let weather = |id: &str, city: &str| json!({"id": id, "name": "get_weather", "arguments": {"city": city}});
    let exact = r#"{"n": 9007199254740993, "p":1.10, "s": "a \"b\" đ"}"#;
    let pay = json!({"id": "call_p", "name": "pay", "arguments": exact});
    let fixtures = json!([
        {"match": {"userMessage": "both"}, "response": {"content": "Let me see.", "toolCalls": [weather("call_1", "Huế"), weather("call_2", "北京")]}},
        {"match": {"userMessage": "exact"}, "response": {"toolCalls": [pay]}},
    ]);
    let aimock = Aimock::start(fixtures, &[]).await;
    for (name, model) in models(&aimock) {
        let (told, _) = ask(&model, user("both")).await;
        // Some protocols have their own ids.
        let said = |part: &String| match part.strip_prefix("call ").and_then(|call| call.split_once(' ')) {
            Some((_, call)) => call.to_owned(),
            None => part.clone(),
        };
        let calls: Vec<String> = told.iter().filter(|part| part.starts_with("call ")).map(said).collect();
        assert_eq!(calls, [r#"get_weather {"city":"Huế"}"#, r#"get_weather {"city":"北京"}"#], "{name}: {told:?}");
        assert!(told.contains(&"text Let me see.".to_owned()), "{name}: {told:?}");
        assert_eq!(told.last().map(String::as_str), Some("stop"), "{name}: {told:?}");
        // The server itself parses arguments for the other APIs.
        if name == "responses" {
            let (told, _) = ask(&model, user("exact")).await;
            assert!(told.contains(&format!("call call_p pay {exact}")), "{name}: {told:?}");
        }
    }
}

#[tokio::test]
async fn m1_aimock_accepts_our_conversation_with_reasoning_calls_and_results() {
    let fixtures = json!([
        {"match": {"toolCallId": "call_p", "toolResultContains": "denied"}, "response": {"content": "Understood."}},
        {"match": {"userMessage": "go"}, "response": {
            "content": "I pay.", "reasoning": "They want it.", "toolCalls": [{"id": "call_p", "name": "pay", "arguments": "{\"p\":15}"}]}},
    ]);
    let aimock = Aimock::start(fixtures, &["--strict"]).await;
    for (name, model) in models(&aimock).into_iter().filter(|(name, _)| OWN.contains(name)) {
        let (told, opaque) = ask(&model, user("go")).await;
        assert!(told.contains(&r#"call call_p pay {"p":15}"#.to_owned()), "{name}: {told:?}");
        assert!(opaque.is_some(), "{name}: there is reasoning to keep");
        let blocks = vec![
            Block::thinking("They want it."),
            Block::text("I pay."),
            Block::ToolUse(ToolUse::new("call_p", "pay", r#"{"p":15}"#)),
        ];
        let mut conversation = user("go");
        conversation.push(Message::from(AssistantMessage::new("m", blocks).opaque(opaque)));
        let text = "denied by a person".to_owned();
        conversation.push(Message::from(ToolResult::new("call_p", "pay", text, CallStatus::Error)));
        let (told, _) = ask(&model, conversation).await;
        assert!(told.contains(&"text Understood.".to_owned()), "{name}: {told:?}");
    }
}

#[tokio::test]
async fn s23_aimock_errors_of_each_api_are_told_apart() {
    let error = |message: &str, status: u16| json!({"error": {"message": message, "type": "x"}, "status": status, "retryAfter": 9});
    let mut fixtures = vec![
        json!({"match": {"userMessage": "busy"}, "response": error("slow down", 429)}),
        json!({"match": {"userMessage": "broken"}, "response": error("went wrong", 500)}),
        json!({"match": {"userMessage": "bad"}, "response": error("bad request", 400)}),
        json!({"match": {"userMessage": "cut"}, "response": {"content": "a text that is cut off somewhere"}, "truncateAfterChunks": 4, "latency": 10}),
    ];
    for fault in ["drop", "malformed", "disconnect", "rateLimit"] {
        let mut chaos = serde_json::Map::new();
        chaos.insert(format!("{fault}Rate"), Value::from(1));
        fixtures.push(json!({"match": {"userMessage": fault}, "response": {"content": "x"}, "chaos": chaos}));
    }
    let mut aimock = Aimock::start(fixtures.into(), &[]).await;
    for (name, model) in models(&aimock) {
        let busy = model.call(request(user("busy"), "", Vec::new())).next().await.unwrap().unwrap_err();
        assert!(busy.transient && busy.message.ends_with("429 Too Many Requests: slow down"), "{name}: {busy}");
        assert_eq!(busy.retry_after.map(|wait| wait.as_secs()), Some(9), "{name}");
        let (told, _) = ask(&model, user("broken")).await;
        assert_eq!(told, ["transient the provider answered 500 Internal Server Error: went wrong"], "{name}");
        let (told, _) = ask(&model, user("bad")).await;
        assert_eq!(told, ["permanent the provider answered 400 Bad Request: bad request"], "{name}");
        for fault in ["cut", "drop", "malformed", "disconnect", "rateLimit"] {
            let (told, _) = ask(&model, user(fault)).await;
            assert!(told.last().unwrap().starts_with("transient "), "{name} {fault}: {told:?}");
            assert!(!told.iter().any(|part| part == "stop"), "{name} {fault}: {told:?}");
        }
    }
    aimock.key = "sk-wrong-key";
    for (name, model) in models(&aimock) {
        let (told, _) = ask(&model, user("busy")).await;
        assert!(told[0].starts_with("permanent the provider answered 401"), "{name}: {told:?}");
        assert!(!told[0].contains("sk-wrong"), "{name}: {told:?}");
    }
}
