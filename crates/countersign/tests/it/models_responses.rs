//! The OpenAI Responses API: how its streams are read, and what is sent back.

use countersign::{
    Message,
    model::{
        ApiKey, Model as _,
        openai::{OpenAi, OpenAiConfig},
    },
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
};
use countersign_engine::model::OutputSchema;
use futures::StreamExt as _;
use serde_json::{Value, json, value::RawValue};

use crate::models_fake::{Fake, KEY, foreign, kept, plain, request, tell, told, tool, typed, user};

pub(crate) fn config(fake: &Fake) -> OpenAiConfig {
    OpenAiConfig { base_url: fake.base_url.clone(), api_key: Some(ApiKey::new(KEY)), ..OpenAiConfig::new("gpt-test") }
}

pub(crate) fn model(fake: &Fake) -> OpenAi {
    OpenAi::new(config(fake)).unwrap()
}

pub(crate) fn added(at: u64, item: Value) -> Value {
    let mut event = json!({"type": "response.output_item.added", "output_index": at});
    event["item"] = item;
    event
}

pub(crate) fn done(at: u64, item: Value) -> Value {
    let mut event = json!({"type": "response.output_item.done", "output_index": at});
    event["item"] = item;
    event
}

fn text_delta(at: u64, part: u64, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": at, "content_index": part, "item_id": "x", "delta": text})
}

fn args_delta(at: u64, text: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": at, "item_id": "x", "delta": text})
}

pub(crate) fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [],
        "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 12}}})
}

fn reasoning(n: u32, summary: &[&str]) -> Value {
    let summary: Vec<Value> = summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    json!({"id": format!("rs_{n}"), "type": "reasoning", "summary": summary, "encrypted_content": format!("gAAA{n}=="),
        "status": "completed", "of the future": {"kept": 1.5}})
}

fn call(n: u32, name: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{n}"), "type": "function_call", "call_id": format!("call_{n}"), "name": name,
        "arguments": arguments, "status": "completed"})
}

fn message(id: &str, phase: Option<&str>, parts: &[Value]) -> Value {
    let mut item = json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": parts});
    if let Some(phase) = phase {
        item["phase"] = json!(phase);
    }
    item
}

fn text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

/// A stream of several reasoning items and calls, one after the other.
fn interleaved() -> Vec<Value> {
    let exact = r#"{"n": 9007199254740993, "p":1.10}"#;
    let mut begun = call(1, "pay", "");
    begun["status"] = json!("in_progress");
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "They wa"}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "nt it."}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "So pay."}),
        done(0, reasoning(1, &["They want it.", "So pay."])),
        added(1, message("msg_1", Some("commentary"), &[])),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0, "part": text("")}),
        text_delta(1, 0, "I pay "),
        text_delta(1, 0, "now. đ"),
        json!({"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "I pay now. đ"}),
        done(1, message("msg_1", Some("commentary"), &[text("I pay now. đ")])),
        added(2, begun),
        args_delta(2, &exact[..10]),
        args_delta(2, &exact[10..]),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": exact}),
        done(2, call(1, "pay", exact)),
        added(3, reasoning(2, &[])),
        done(3, reasoning(2, &[])),
        added(4, call(2, "look", "")),
        done(4, call(2, "look", "{}")),
        completed(),
    ]
}

fn interleaved_blocks() -> Vec<Block> {
    vec![
        Block::thinking("They want it.\n\nSo pay."),
        Block::text("I pay now. đ"),
        Block::ToolUse(ToolUse::new("call_1", "pay", r#"{"n": 9007199254740993, "p":1.10}"#)),
        Block::ToolUse(ToolUse::new("call_2", "look", "{}")),
    ]
}

pub(crate) fn answered(blocks: Vec<Block>, opaque: Option<Box<RawValue>>) -> Message {
    Message::from(AssistantMessage::new("m", blocks).opaque(opaque))
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> Message {
    Message::from(ToolResult::new(
        id,
        "n",
        text.to_owned(),
        if is_error { CallStatus::Error } else { CallStatus::Success },
    ))
}

/// The input that is sent with this conversation.
pub(crate) async fn sent(fake: &Fake, model: &OpenAi, conversation: Vec<Message>) -> Vec<Value> {
    let tools = vec![tool("pay"), tool("look")];
    let _: Vec<_> = model.call(request(conversation, "", tools)).collect().await;
    let seen = fake.seen.lock().unwrap();
    seen.last().unwrap().body["input"].as_array().unwrap().clone()
}

#[tokio::test]
async fn m1_responses_a_stream_becomes_blocks_in_order() {
    let fake = Fake::streaming(typed(&interleaved())).await;
    let told = told(&model(&fake)).await;
    let want = [
        "thinking They want it.\n\nSo pay.",
        "text I pay now. đ",
        r#"call call_1 pay {"n": 9007199254740993, "p":1.10}"#,
        "call call_2 look {}",
        "usage 5 7, 2 cached, 3 reasoning",
    ];
    assert_eq!(told[..5], want);
    assert!(told[5].starts_with("opaque ") && told[6] == "stop", "{told:?}");
    let seen = fake.seen.lock().unwrap();
    assert_eq!(seen[0].path, "/v1/responses");
    assert_eq!(seen[0].authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
}

#[tokio::test]
async fn m1_responses_reasoning_goes_back_exactly_in_order_and_with_the_calls_it_belongs_to() {
    let fake = Fake::streaming(typed(&interleaved())).await;
    let model = model(&fake);
    let opaque = kept(&model).await.expect("there is something to keep");
    let texts = opaque.get().matches("I pay now").count() + opaque.get().matches("9007199254740993").count();
    assert_eq!(texts, 0, "what the journal has anyway is not kept twice");
    let conversation = vec![
        Message::User("pay".into()),
        answered(interleaved_blocks(), Some(opaque)),
        result("call_1", "paid", false),
        result("call_2", "no", true),
        Message::User("thanks".into()),
    ];
    let mut first = call(1, "pay", r#"{"n": 9007199254740993, "p":1.10}"#);
    let mut second = call(2, "look", "{}");
    for call in [&mut first, &mut second] {
        call.as_object_mut().unwrap().remove("status");
    }
    let want = [
        json!({"role": "user", "content": "pay"}),
        reasoning(1, &["They want it.", "So pay."]),
        message("msg_1", Some("commentary"), &[text("I pay now. đ")]),
        first,
        reasoning(2, &[]),
        second,
        json!({"type": "function_call_output", "call_id": "call_1", "output": "paid"}),
        json!({"type": "function_call_output", "call_id": "call_2", "output": "no"}),
        json!({"role": "user", "content": "thanks"}),
    ];
    assert_eq!(sent(&fake, &model, conversation).await, want);
}

#[tokio::test]
async fn m1_responses_another_model_gets_the_conversation_without_what_is_not_its_own() {
    let fake = Fake::streaming(typed(&interleaved())).await;
    let opaque = kept(&model(&fake)).await.unwrap();
    let other = OpenAi::new(OpenAiConfig { model: "gpt-other".into(), ..config(&fake) }).unwrap();
    let conversation = |blocks, opaque: &str| {
        let opaque = RawValue::from_string(opaque.to_owned()).unwrap();
        vec![Message::User("pay".into()), answered(blocks, Some(opaque)), result("call_1", "paid", false)]
    };
    let (one, two) = (foreign("call_1"), foreign("call_2"));
    let want = [
        json!({"role": "user", "content": "pay"}),
        json!({"role": "assistant", "content": "I pay now. đ"}),
        json!({"type": "function_call", "call_id": one, "name": "pay", "arguments": r#"{"n": 9007199254740993, "p":1.10}"#}),
        json!({"type": "function_call", "call_id": two, "name": "look", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": one, "output": "paid"}),
    ];
    assert_eq!(sent(&fake, &other, conversation(interleaved_blocks(), opaque.get())).await, want);
    let this = model(&fake);
    assert_eq!(sent(&fake, &this, conversation(interleaved_blocks(), r#"{"theirs": 1}"#)).await, want);
    // Opaque data of another answer is not truncated to fit this one.
    let blocks = vec![Block::text("đ")];
    let want = [&want[0], &json!({"role": "assistant", "content": "đ"}), &want[4]].map(Clone::clone);
    assert_eq!(sent(&fake, &this, conversation(blocks, opaque.get())).await, want);
}

#[tokio::test]
async fn m1_responses_reasoning_that_nothing_followed_or_that_is_only_a_reference_is_left_out() {
    let mut bare = reasoning(1, &["hm"]);
    bare["encrypted_content"] = Value::Null;
    let events =
        [done(0, bare), done(1, message("msg_1", None, &[text("ok")])), done(2, reasoning(2, &[])), completed()];
    let fake = Fake::streaming(typed(&events)).await;
    let model = model(&fake);
    let opaque = kept(&model).await;
    let blocks = vec![Block::thinking("hm"), Block::text("ok")];
    let mut without_id = message("", None, &[text("ok")]);
    without_id.as_object_mut().unwrap().remove("id");
    assert_eq!(sent(&fake, &model, vec![answered(blocks, opaque)]).await, [without_id]);
}

#[tokio::test]
async fn m1_responses_the_request_is_in_the_apis_shape() {
    let fake = Fake::streaming(typed(&[completed()])).await;
    let config = OpenAiConfig {
        reasoning_effort: Some("low".into()),
        reasoning_summary: true,
        max_tokens: Some(900),
        ..config(&fake)
    };
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let mut asked = request(user("hi"), "Be brief.", vec![tool("pay")]);
    asked.output = Some(OutputSchema::new("answer", schema.clone()).strict(true));
    assert_eq!(
        tell(OpenAi::new(config).unwrap().call(asked).collect().await),
        ["usage 5 7, 2 cached, 3 reasoning", "stop"]
    );
    let want = json!({
        "model": "gpt-test", "instructions": "Be brief.", "store": false, "stream": true,
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 900,
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": true}},
        "input": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "name": "pay", "description": "Does pay.", "strict": false,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}],
    });
    assert_eq!(fake.seen.lock().unwrap()[0].body, want);
}

#[tokio::test]
async fn m1_responses_models_that_cannot_reason_are_not_asked_for_reasoning() {
    let fake = Fake::streaming(typed(&[completed()])).await;
    for (name, set, asked) in [("gpt-4o", None, false), ("gpt-5", None, true), ("mine", Some(false), false)] {
        let config = OpenAiConfig { model: name.into(), encrypted_reasoning: set, ..config(&fake) };
        told(&OpenAi::new(config).unwrap()).await;
        let seen = fake.seen.lock().unwrap();
        assert_eq!(seen.last().unwrap().body.get("include").is_some(), asked, "{name}");
    }
}

#[tokio::test]
async fn m1_responses_refusals_are_text_and_go_back_as_refusals() {
    let parts = [text("Well. "), json!({"type": "refusal", "refusal": "I will not."})];
    let events = [
        added(0, message("msg_1", None, &[])),
        text_delta(0, 0, "Well. "),
        json!({"type": "response.refusal.delta", "output_index": 0, "content_index": 1, "delta": "I will not."}),
        done(0, message("msg_1", None, &parts)),
        completed(),
    ];
    let fake = Fake::streaming(typed(&events)).await;
    let model = model(&fake);
    assert_eq!(told(&model).await[..2], ["text Well. I will not.", "cut refusal"]);
    let opaque = kept(&model).await;
    let blocks = vec![Block::text("Well. I will not.")];
    assert_eq!(sent(&fake, &model, vec![answered(blocks, opaque)]).await, [message("msg_1", None, &parts)]);
}

#[tokio::test]
async fn m1_responses_servers_that_stream_less_are_understood() {
    let output = json!([message("msg_1", None, &[text("hello")]), call(1, "pay", "{}"), {"type": "web_search_call", "id": "ws_1", "content": "?"}]);
    let whole =
        json!({"id": "r", "status": "completed", "output": output, "usage": {"input_tokens": 1, "output_tokens": 2}});
    let last = json!({"type": "response.completed", "response": whole});
    let want = ["text hello", "call call_1 pay {}", "usage 1 2"];
    let fake = Fake::streaming(typed(&[last])).await;
    assert_eq!(told(&model(&fake)).await[..3], want);
    let body = whole.to_string();
    let fake = Fake::start(move || plain(200, &[("content-type", "application/json")], body.clone())).await;
    let told = told(&model(&fake)).await;
    assert_eq!(told[..3], want);
    assert!(told[3].contains("web_search_call"), "{told:?}");
}

/// A server of another API, or a proxy, may answer with success and its own JSON.
#[tokio::test]
async fn s23_responses_json_of_something_else_is_no_empty_answer() {
    for body in [r#"{"choices":[{"message":{"content":"hi"}}]}"#, r#"{"error":null}"#, "{}"] {
        let fake = Fake::start(move || plain(200, &[("content-type", "application/json")], body)).await;
        let told = told(&model(&fake)).await;
        assert_eq!(told.len(), 1, "{body}: {told:?}");
        assert!(told[0].starts_with("permanent the provider answered with JSON that is no response"), "{told:?}");
    }
}

#[tokio::test]
async fn s23_responses_failures_are_told_apart() {
    let failed = |code: &str| json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": format!("it broke, {KEY}")}}});
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}});
    let cut = done(0, message("msg_1", None, &[text("as far as")]));
    let error = "the provider reported an error in its answer: ";
    for (events, want) in [
        (vec![failed("server_error")], vec![format!("transient {error}it broke, [API key]")]),
        (vec![failed("rate_limit_exceeded")], vec![format!("transient {error}it broke, [API key]")]),
        (vec![failed("invalid_prompt")], vec![format!("permanent {error}it broke, [API key]")]),
        (
            vec![json!({"type": "error", "code": "server_error", "message": "sorry", "param": null})],
            vec![format!("transient {error}sorry")],
        ),
        (
            vec![json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})],
            vec![format!("permanent {error}no")],
        ),
        (vec![incomplete("max_output_tokens")], vec!["cut max_tokens".to_owned(), "stop".to_owned()]),
        (vec![text_delta(0, 0, "x")], vec!["transient the provider sent text of no message".to_owned()]),
        (vec![args_delta(0, "x")], vec!["transient the provider sent arguments of no call".to_owned()]),
        (
            vec![cut.clone()],
            vec![
                "text as far as".to_owned(),
                "transient the provider's answer ended before it was complete".to_owned(),
            ],
        ),
    ] {
        let fake = Fake::streaming(typed(&events)).await;
        assert_eq!(told(&model(&fake)).await, want, "{events:?}");
    }
    let fake = Fake::streaming(typed(&[cut, incomplete("max_output_tokens")])).await;
    let told = told(&model(&fake)).await;
    assert_eq!(told[..2], ["text as far as", "cut max_tokens"], "what was said counts");
}

#[tokio::test]
async fn s23_responses_rate_limits_say_when_to_come_back() {
    let fake = Fake::start(|| plain(429, &[("retry-after", "3")], r#"{"error":{"message":"slow down"}}"#)).await;
    let error = model(&fake).call(request(user("hi"), "", Vec::new())).next().await.unwrap().unwrap_err();
    assert_eq!((error.transient, error.retry_after), (true, Some(std::time::Duration::from_secs(3))));
}
