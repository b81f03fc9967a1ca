//! Gemini and Ollama through the genai crate: how their streams are read, and what is sent back.

use std::time::Duration;

use countersign::{
    Message,
    model::{
        ApiKey, Model as _, ModelEvent,
        genai::{Genai, GenaiConfig},
    },
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
};
use countersign_engine::model::OutputSchema;
use countersign_models::GENAI_PROVIDERS;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json, value::RawValue};

use crate::models_fake::{Fake, KEY, Then, kept, plain, request, sse, tell, told, tool, user};

fn model(fake: &Fake, provider: &str) -> Genai {
    let mut config = GenaiConfig::new(provider, format!("{provider}-test"), fake.base_url.as_str());
    config.api_key = Some(ApiKey::new(KEY));
    Genai::new(config).unwrap()
}

fn gemini_events(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

fn gemini(parts: &[Value], end: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(reason) = end {
        candidate["finishReason"] = json!(reason);
    }
    json!({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}})
}

fn everything() -> String {
    let call = json!({"functionCall": {"name": "pay", "args": {"n": 5}, "id": "call_a"}, "thoughtSignature": "SIG=="});
    let second = json!({"functionCall": {"name": "look", "args": {}, "id": "call_b"}});
    gemini_events(&[
        gemini(&[json!({"text": "They want it.", "thought": true})], None),
        gemini(&[json!({"text": "I pay "})], None),
        gemini(&[json!({"text": "now. đ"})], None),
        gemini(&[call, second], Some("STOP")),
    ])
}

async fn ndjson(lines: &[Value]) -> Fake {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Fake::start(move || plain(200, &[("content-type", "application/x-ndjson")], body.clone())).await
}

fn conversation(opaque: Option<Box<RawValue>>) -> Vec<Message> {
    let blocks = vec![
        Block::thinking("They want it."),
        Block::text("I pay now. đ"),
        Block::ToolUse(ToolUse::new("call_a", "pay", r#"{"n":5}"#)),
        Block::ToolUse(ToolUse::new("call_b", "look", "{}")),
    ];
    let result = |id: &str, name: &str, text: &str| {
        Message::from(ToolResult::new(id, name, text.to_owned(), CallStatus::Success))
    };
    vec![
        Message::User("pay".into()),
        Message::from(AssistantMessage::new("m", blocks).opaque(opaque)),
        result("call_a", "pay", "paid"),
        result("call_b", "look", "seen"),
    ]
}

async fn sent(fake: &Fake, model: &Genai, conversation: Vec<Message>) -> Value {
    let _: Vec<_> = model.call(request(conversation, "Be brief.", vec![tool("pay"), tool("look")])).collect().await;
    fake.seen.lock().unwrap().last().unwrap().body.clone()
}

#[tokio::test]
async fn m1_gemini_streams_become_blocks_and_signatures_go_back() {
    let fake = Fake::streaming(everything()).await;
    let model = model(&fake, "gemini");
    let told = told(&model).await;
    let want = [
        "thinking They want it.",
        "text I pay now. đ",
        r#"call call_a pay {"n":5}"#,
        "call call_b look {}",
        "usage 5 7",
    ];
    assert_eq!(told[..5], want);
    assert!(told[5].starts_with("opaque ") && told[6] == "stop", "{told:?}");
    let opaque = kept(&model).await;
    for (opaque, signature) in [(opaque, json!("SIG==")), (None, Value::Null)] {
        let body = sent(&fake, &model, conversation(opaque)).await;
        let answer = &body["contents"][1];
        assert_eq!((&answer["role"], &answer["parts"][0]), (&json!("model"), &json!({"text": "I pay now. đ"})));
        let call = &answer["parts"][1];
        assert_eq!((&call["functionCall"]["name"], &call["functionCall"]["args"]), (&json!("pay"), &json!({"n": 5})));
        assert_eq!(call["thoughtSignature"], signature);
        assert_eq!(answer["parts"][2]["thoughtSignature"], Value::Null);
        let results = &body["contents"][2]["parts"];
        assert_eq!(results[0]["functionResponse"]["response"]["content"], "paid");
        assert_eq!(results[1]["functionResponse"]["name"], "look");
        assert_eq!(
            body["systemInstruction"]["parts"]["text"]
                .as_str()
                .or_else(|| body["systemInstruction"]["parts"][0]["text"].as_str()),
            Some("Be brief.")
        );
    }
    let seen = fake.seen.lock().unwrap();
    assert_eq!(seen[0].path, "/v1/models/gemini-test:streamGenerateContent");
    assert_eq!(seen[0].headers["x-goog-api-key"], KEY);
}

#[tokio::test]
async fn m1_gemini_answers_that_end_early_or_say_nothing_are_told_apart() {
    for (events, want) in [(
        vec![gemini(&[json!({"text": "as far"})], None)],
        "transient the provider's answer ended before it was complete",
    )] {
        let fake = Fake::streaming(gemini_events(&events)).await;
        assert_eq!(told(&model(&fake, "gemini")).await.last().map(String::as_str), Some(want));
    }
}

#[tokio::test]
async fn m1_gemini_says_why_an_answer_is_not_whole() {
    for (reason, cut) in [("SAFETY", "cut content_filter"), ("MAX_TOKENS", "cut max_tokens")] {
        let fake = Fake::streaming(gemini_events(&[gemini(&[json!({"text": "as far"})], Some(reason))])).await;
        assert_eq!(told(&model(&fake, "gemini")).await[..2], ["text as far", cut]);
    }
}

#[tokio::test]
async fn m1_gemini_says_that_it_blocked_a_prompt() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}});
    let mut with_none = blocked.clone();
    with_none["candidates"] = json!([]);
    for event in [blocked, with_none] {
        let fake = Fake::streaming(gemini_events(&[event])).await;
        assert_eq!(told(&model(&fake, "gemini")).await, ["cut content_filter", "usage 5 0", "stop"]);
    }
    let fake = Fake::streaming(gemini_events(&[json!({"usageMetadata": {}})])).await;
    let want = ["transient the provider's answer ended before it was complete"];
    assert_eq!(told(&model(&fake, "gemini")).await, want);
}

#[tokio::test]
async fn m1_gemini_gets_no_tool_and_no_model_by_another_name() {
    let fake = Fake::streaming(everything()).await;
    let model = Genai::new(GenaiConfig::new("gemini", "tuned-high", fake.base_url.as_str())).unwrap();
    for name in ["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"] {
        let told = tell(model.call(request(user("hi"), "", vec![tool("pay"), tool(name)])).collect().await);
        let [error] = &told[..] else { panic!("{told:?}") };
        assert!(error.starts_with(&format!("permanent the tool \"{name}\" has the name")), "{error}");
    }
    assert!(fake.seen.lock().unwrap().is_empty(), "nothing was sent");
    let body = sent(&fake, &model, user("hi")).await;
    assert_eq!(body["generationConfig"]["thinkingConfig"], Value::Null);
    assert_eq!(fake.seen.lock().unwrap()[0].path, "/v1/models/tuned-high:streamGenerateContent");
}

#[tokio::test]
async fn s23_ollama_says_why_it_stopped_in_the_middle_of_an_answer() {
    let begun = json!({"message": {"role": "assistant", "content": "so "}, "done": false});
    let fake = ndjson(&[begun, json!({"error": format!("the runner stopped, {KEY}")})]).await;
    let want = ["text so ", "transient the provider reported an error in its answer: the runner stopped, [API key]"];
    assert_eq!(told(&model(&fake, "ollama")).await, want);
}

#[tokio::test]
async fn m1_ollama_streams_become_blocks_and_the_key_is_sent() {
    let fake = ndjson(&[
        json!({"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": false}),
        json!({"message": {"role": "assistant", "content": "so "}, "done": false}),
        json!({"message": {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "pay", "arguments": {"n": 5}}}]}, "done": false}),
        json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4}),
    ])
    .await;
    let model = model(&fake, "ollama");
    assert_eq!(told(&model).await, ["thinking hm", "text so ", r#"call c1 pay {"n":5}"#, "usage 3 4", "stop"]);
    let mut asked = request(conversation(None), "Be brief.", vec![tool("pay")]);
    let schema = json!({"type": "object"});
    asked.output = Some(OutputSchema::new("answer", schema).strict(true));
    let _: Vec<_> = model.call(asked).collect().await;
    let seen = fake.seen.lock().unwrap();
    assert_eq!(seen[0].path, "/v1/api/chat");
    assert_eq!(seen[0].authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
    let messages = seen[1].body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
    assert_eq!((&messages[3]["content"], &messages[4]["content"]), (&json!("paid"), &json!("seen")));
    assert!(messages[0]["content"].as_str().unwrap().ends_with(r#"{"type":"object"}"#));
    assert_eq!(seen[1].body["format"], "json");
}

#[tokio::test]
async fn s23_genai_errors_are_told_apart_in_our_words() {
    for provider in GENAI_PROVIDERS {
        for (status, transient) in [(429, true), (503, true), (401, false)] {
            let body = format!(r#"{{"error":{{"message":"no, {KEY}"}}}}"#);
            let fake = Fake::start(move || plain(status, &[("retry-after", "7")], body.clone())).await;
            let error =
                model(&fake, provider).call(request(user("hi"), "", Vec::new())).next().await.unwrap().unwrap_err();
            assert_eq!(error.transient, transient, "{provider} {status}: {error}");
            assert_eq!(error.retry_after, transient.then_some(Duration::from_secs(7)), "{provider} {status}");
            assert!(error.message.starts_with(&format!("the provider answered {status}")), "{error}");
            assert!(error.message.ends_with(": no, [API key]"), "{error}");
        }
        let config = GenaiConfig::new(provider, "m", "http://127.0.0.1:1/");
        let told = tell(Genai::new(config).unwrap().call(request(user("hi"), "", Vec::new())).collect().await);
        assert!(told[0].starts_with("transient ") && told.len() == 1, "{told:?}");
    }
}

#[tokio::test]
async fn s23_genai_a_stream_that_hangs_is_given_up_after_the_idle_timeout() {
    let begun = gemini_events(&[gemini(&[json!({"text": "half"})], None)]).into_bytes();
    let fake = Fake::start(move || sse(stream::iter([begun.clone()]), Some(Then::Hang))).await;
    let mut config = GenaiConfig::new("gemini", "gemini-test", fake.base_url.as_str());
    config.idle_timeout = Duration::from_secs(1);
    let mut answer = Genai::new(config).unwrap().call(request(user("hi"), "", Vec::new()));
    assert!(matches!(answer.next().await, Some(Ok(ModelEvent::Text(_)))));
    let error = answer.next().await.unwrap().unwrap_err();
    assert!(error.transient && error.message.contains("sent nothing of an answer for 1s"), "{error}");
}

#[test]
fn m1_genai_refuses_what_it_does_not_have() {
    let error = Genai::new(GenaiConfig::new("openai", "m", "http://x")).unwrap_err().to_string();
    assert_eq!(error, "`provider` is \"openai\"; it must be \"gemini\" or \"ollama\"");
    assert!(Genai::new(GenaiConfig::new("ollama", "", "http://x")).is_err());
    assert!(Genai::new(GenaiConfig::new("ollama", "m", "http://x?key=1")).is_err());
}
