//! The Anthropic Messages API: how its streams are read, and what is sent back.

use std::time::Duration;

use countersign::{
    Message,
    model::{
        ApiKey, Model as _,
        anthropic::{Anthropic, AnthropicConfig, Thinking},
    },
};
use countersign_core::journal::record::{Block, ToolUse};
use countersign_engine::model::OutputSchema;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    models_fake::{Fake, KEY, kept, plain, request, sse, tell, told, tool, typed, user},
    models_responses::{answered, result},
};

fn config(fake: &Fake) -> AnthropicConfig {
    AnthropicConfig {
        base_url: fake.base_url.clone(),
        api_key: Some(ApiKey::new(KEY)),
        ..AnthropicConfig::new("claude-test")
    }
}

fn model(fake: &Fake) -> Anthropic {
    Anthropic::new(config(fake)).unwrap()
}

fn thinking(fake: &Fake) -> Anthropic {
    Anthropic::new(AnthropicConfig { thinking: Some(Thinking::Budget(2000)), ..config(fake) }).unwrap()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "claude-test", "stop_reason": null, "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 300, "output_tokens": 1}}})
}

fn block(at: u64, block: Value) -> Value {
    let mut event = json!({"type": "content_block_start", "index": at});
    event["content_block"] = block;
    event
}

fn delta(at: u64, delta: Value) -> Value {
    let mut event = json!({"type": "content_block_delta", "index": at});
    event["delta"] = delta;
    event
}

fn stop(at: u64) -> Value {
    json!({"type": "content_block_stop", "index": at})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 42}}),
        json!({"type": "message_stop"}),
    ]
}

const EXACT: &str = r#"{"n": 9007199254740993, "p":1.10}"#;

/// A stream with everything: thinking that is shown and that is not, text, calls.
fn everything() -> Vec<Value> {
    let mut events = vec![
        start(),
        json!({"type": "ping"}),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "They want "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "it. đ"})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
        delta(0, json!({"type": "signature_delta", "signature": "CgIY=="})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "EmwKAhgB"})),
        stop(1),
        block(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "I pay"})),
        delta(2, json!({"type": "text_delta", "text": " now."})),
        stop(2),
        block(3, json!({"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": &EXACT[..12]})),
        delta(3, json!({"type": "input_json_delta", "partial_json": &EXACT[12..]})),
        stop(3),
        block(4, json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}})),
        stop(4),
    ];
    events.extend(end("tool_use"));
    events
}

fn everything_blocks() -> Vec<Block> {
    vec![
        Block::thinking("They want it. đ"),
        Block::text("I pay now."),
        Block::ToolUse(ToolUse::new("toolu_1", "pay", EXACT)),
        Block::ToolUse(ToolUse::new("toolu_2", "look", "{}")),
    ]
}

/// It may think for minutes, and says with `ping` that it does.
#[tokio::test]
async fn s23_pings_are_waited_for_longer_than_silence() {
    let (pings, rest) = (typed(&[start(), json!({"type": "ping"})]), typed(&everything()[2..]));
    let parts = move || {
        let begun = stream::iter([pings.clone().into_bytes()]);
        let again = stream::iter(0..40).then(|_| async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            typed(&[json!({"type": "ping"})]).into_bytes()
        });
        begun.chain(again).chain(stream::iter([rest.clone().into_bytes()]))
    };
    let fake = Fake::start(move || sse(parts(), None)).await;
    let model = AnthropicConfig { idle_timeout: Duration::from_secs(3), ..config(&fake) };
    let told = told(&Anthropic::new(model).unwrap()).await;
    assert_eq!(told.last().map(String::as_str), Some("stop"), "{told:?}");
}

/// The body that is sent with this conversation.
async fn sent(fake: &Fake, model: &Anthropic, conversation: Vec<Message>) -> Value {
    let _: Vec<_> = model.call(request(conversation, "", vec![tool("pay"), tool("look")])).collect().await;
    fake.seen.lock().unwrap().last().unwrap().body.clone()
}

#[tokio::test]
async fn m1_anthropic_a_stream_becomes_blocks_in_order() {
    let fake = Fake::streaming(typed(&everything())).await;
    let told = told(&model(&fake)).await;
    let want = [
        "thinking They want it. đ",
        "text I pay now.",
        &format!("call toolu_1 pay {EXACT}"),
        "call toolu_2 look {}",
        "usage 330 42, 300 cached",
    ];
    assert_eq!(told[..5], want);
    assert!(told[5].starts_with("opaque ") && told[6] == "stop", "{told:?}");
    let seen = fake.seen.lock().unwrap();
    assert_eq!((&*seen[0].path, seen[0].authorization.as_deref()), ("/v1/messages", None));
    assert_eq!(seen[0].headers["x-api-key"], KEY);
    assert_eq!(seen[0].headers["anthropic-version"], "2023-06-01");
}

#[tokio::test]
async fn m1_anthropic_thinking_goes_back_unchanged_with_its_signature_to_the_same_model_only() {
    let fake = Fake::streaming(typed(&everything())).await;
    let model = thinking(&fake);
    let opaque = kept(&model).await.expect("there is something to keep");
    assert!(!opaque.get().contains("They want") && !opaque.get().contains("9007199254740993"), "{opaque}");
    let conversation = || {
        vec![
            Message::User("pay".into()),
            answered(everything_blocks(), Some(opaque.clone())),
            result("toolu_1", "paid", false),
            result("toolu_2", "no", true),
            Message::User("and?".into()),
        ]
    };
    let body = sent(&fake, &model, conversation()).await;
    let rest = [
        json!({"type": "text", "text": "I pay now."}),
        json!({"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"n": 9_007_199_254_740_993_u64, "p": 1.10}}),
        json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}}),
    ];
    let thoughts = [
        json!({"type": "thinking", "thinking": "They want it. đ", "signature": "EqQBCgIY=="}),
        json!({"type": "redacted_thinking", "data": "EmwKAhgB"}),
    ];
    let want = |content: Vec<&Value>| {
        json!([
            {"role": "user", "content": [{"type": "text", "text": "pay"}]},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": true},
                {"type": "text", "text": "and?"},
            ]},
        ])
    };
    assert_eq!(body["messages"], want(thoughts.iter().chain(&rest).collect()));
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 2000}));
    assert_eq!(body["max_tokens"], 10_192);
    let config =
        AnthropicConfig { model: "claude-other".into(), thinking: Some(Thinking::Budget(2000)), ..config(&fake) };
    let body = sent(&fake, &Anthropic::new(config).unwrap(), conversation()).await;
    assert_eq!(body["messages"], want(rest.iter().collect()));
    assert_eq!(body["thinking"], Value::Null, "the API refuses thinking after calls that began without it");
}

#[tokio::test]
async fn m1_anthropic_the_request_is_in_the_apis_shape() {
    let fake = Fake::streaming(typed(&[&[start()][..], &end("end_turn")].concat())).await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    for strict in [true, false] {
        let mut asked = request(user("hi"), "Be brief.", vec![tool("pay")]);
        asked.output = Some(OutputSchema::new("answer", schema.clone()).strict(strict));
        assert_eq!(tell(model(&fake).call(asked).collect().await), ["usage 330 42, 300 cached", "stop"]);
    }
    let seen = fake.seen.lock().unwrap();
    let want = json!({
        "model": "claude-test", "max_tokens": 8192, "system": "Be brief.", "stream": true,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [{"name": "pay", "description": "Does pay.",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    });
    assert_eq!(seen[0].body, want);
    assert_eq!(seen[1].body.get("output_config"), None);
    let system = seen[1].body["system"].as_str().unwrap();
    assert!(system.starts_with("Be brief.\n\n") && system.ends_with(&schema.to_string()), "{system}");
}

#[tokio::test]
async fn m1_anthropic_a_conversation_of_other_models_is_made_to_fit() {
    let fake = Fake::streaming(typed(&everything())).await;
    let call = |id: &str, input: &str| Block::ToolUse(ToolUse::new(id, "no such tool!", input));
    let conversation = vec![
        Message::User("one".into()),
        Message::User("two".into()),
        answered(vec![Block::thinking("hm"), Block::text(" \n")], None),
        answered(vec![Block::text("a"), call("call_1", "{broken"), call("call_1~2", "{}")], None),
        result("call_1", "", true),
        result("call_1~2", "ok", false),
        answered(vec![call("call_1", "{}")], None),
        result("call_1", "ok", false),
    ];
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "no_such_tool_", "input": {}});
    let got = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "ok"});
    let want = json!([
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, used("call_1"), used("call_1_7e2")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "is_error": true}, got("call_1_7e2")]},
        {"role": "assistant", "content": [used("call_1_2")]},
        {"role": "user", "content": [got("call_1_2")]},
    ]);
    assert_eq!(sent(&fake, &model(&fake), conversation).await["messages"], want);
}

#[tokio::test]
async fn m1_anthropic_thinking_that_was_cut_off_does_not_go_back() {
    let mut events = vec![start(), block(0, json!({"type": "thinking", "thinking": "hm", "signature": ""})), stop(0)];
    events.extend([block(1, json!({"type": "text", "text": "so"})), stop(1)]);
    events.extend([
        block(2, json!({"type": "thinking", "thinking": "and"})),
        delta(2, json!({"signature": "S"})),
        stop(2),
    ]);
    events.extend(end("max_tokens"));
    let fake = Fake::streaming(typed(&events)).await;
    let model = thinking(&fake);
    assert_eq!(told(&model).await[..3], ["thinking hm", "text so", "thinking and"]);
    let blocks = vec![Block::thinking("hm"), Block::text("so"), Block::thinking("and")];
    let conversation = vec![Message::User("x".into()), answered(blocks, kept(&model).await), Message::User("y".into())];
    let body = sent(&fake, &model, conversation).await;
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": [{"type": "text", "text": "so"}]}));
    assert_eq!(body["thinking"]["type"], "enabled");
}

#[tokio::test]
async fn m1_anthropic_an_answer_that_is_not_streamed_is_understood() {
    let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"a": 1.10}}],
        "usage": {"input_tokens": 1, "output_tokens": 2}})
    .to_string();
    let fake = Fake::start(move || plain(200, &[("content-type", "application/json")], body.clone())).await;
    assert_eq!(
        told(&model(&fake)).await[..4],
        ["thinking hm", "text so", r#"call toolu_1 pay {"a":1.1}"#, "usage 1 2"]
    );
}

#[tokio::test]
async fn s23_anthropic_failures_are_told_apart() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": format!("no, {KEY}")}});
    let begun = [start(), block(0, json!({"type": "text", "text": "as far"}))];
    let reported = "the provider reported an error in its answer: no, [API key]";
    for (events, want) in [
        (vec![error("overloaded_error")], vec![format!("transient {reported}")]),
        (vec![error("api_error")], vec![format!("transient {reported}")]),
        (vec![error("invalid_request_error")], vec![format!("permanent {reported}")]),
        (
            begun.to_vec(),
            vec!["text as far".to_owned(), "transient the provider's answer ended before it was complete".to_owned()],
        ),
        (
            [&begun[..], &end("refusal")].concat(),
            vec![
                "text as far".to_owned(),
                "cut refusal".to_owned(),
                "usage 330 42, 300 cached".to_owned(),
                "stop".to_owned(),
            ],
        ),
        (
            vec![delta(0, json!({"text": "x"}))],
            vec!["transient the provider continued a block that it had not begun".to_owned()],
        ),
    ] {
        let fake = Fake::streaming(typed(&events)).await;
        assert_eq!(told(&model(&fake)).await, want, "{events:?}");
    }
    for (status, transient) in [(529, true), (429, true), (500, true), (401, false), (400, false)] {
        let body = r#"{"type":"error","error":{"type":"x","message":"no"}}"#;
        let fake = Fake::start(move || plain(status, &[("retry-after", "7")], body)).await;
        let error = model(&fake).call(request(user("hi"), "", Vec::new())).next().await.unwrap().unwrap_err();
        assert_eq!(error.transient, transient, "{status}");
        assert_eq!(error.retry_after.map(|wait| wait.as_secs()), transient.then_some(7), "{status}");
        assert!(error.message.ends_with(": no"), "{error}");
    }
}

#[test]
fn m1_anthropic_limits_that_cannot_be_are_refused() {
    let wrong = |config: AnthropicConfig| Anthropic::new(config).unwrap_err().to_string();
    let base = AnthropicConfig::new("m");
    let small = AnthropicConfig { thinking: Some(Thinking::Budget(100)), ..base.clone() };
    assert_eq!(wrong(small), "`thinking` must have at least 1024 tokens");
    let more = AnthropicConfig { thinking: Some(Thinking::Budget(2000)), max_tokens: Some(2000), ..base };
    assert!(wrong(more).starts_with("`max_tokens` must be more than the 2000 tokens for thinking"));
}
