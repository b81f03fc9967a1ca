//! Behaviour of chat completion servers beyond the API's documentation: all of it is understood, and nothing is lost
//! (spec M1).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use countersign::{
    Message,
    model::{
        ApiKey, Model, ModelError,
        anthropic::{Anthropic, AnthropicConfig},
        openai::{OpenAi, OpenAiConfig},
        openai_chat::{OpenAiChat, OpenAiChatConfig},
    },
};
use countersign_core::{
    conversation::{AssistantMessage, ToolResult},
    journal::record::{Block, CallStatus, ToolUse},
    limits,
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::models_fake::{Fake, Then, deltas, end, events, kept, plain, request, sse, told, tool, typed, user};

/// A short answer, as gzip.
const GZIP: &[u8] = b"\
    \x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\x49\x2c\x49\xb4\x52\xa8\x56\x4a\xce\xc8\xcf\x4c\x4e\x2d\x56\
    \xb2\x8a\xae\x56\xca\xcc\x4b\x49\xad\x50\xb2\x32\xd0\x51\x4a\x49\xcd\x29\x49\x54\xb2\x02\x4a\xe7\xe7\x95\
    \xa4\xe6\x95\x28\x59\x29\x55\x64\xe6\x29\x24\x67\x1c\x5e\x90\xaf\x54\xab\xa3\x94\x96\x99\x97\x59\x9c\x11\
    \x5f\x94\x9a\x58\x9c\x9f\xa7\x64\x95\x57\x9a\x93\x53\x1b\x5b\xcb\xc5\x95\x42\x94\xa9\x98\x06\x28\x15\x97\
    \xe4\x17\x28\x21\x19\x11\xed\xe2\xef\xe7\x1a\xcb\xc5\x05\x00\xe1\xff\x92\x59\xa7\x00\x00\x00\
    ";

#[tokio::test]
async fn m1_an_answer_that_is_compressed_is_understood() {
    let fake = Fake::start(|| {
        let mut response = sse(stream::iter(GZIP.chunks(7).map(<[u8]>::to_vec)), None);
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    })
    .await;
    assert_eq!(told(&fake.model()).await, ["text xin chào", "stop"]);
    let accepted = fake.seen.lock().unwrap()[0].headers["accept-encoding"].clone();
    assert!(accepted.to_str().unwrap().contains("gzip"), "{accepted:?}");
}

#[tokio::test]
async fn m1_tokens_that_are_written_as_floats_are_counted() {
    let usage = |usage: Value| format!("data: {}\n\n{}", json!({"choices": [], "usage": usage}), end("stop"));
    for (told_as, want) in [
        (json!({"prompt_tokens": 12.0, "completion_tokens": 3.0}), "usage 12 3"),
        (json!({"prompt_tokens": "12", "completion_tokens": 3}), "usage 12 3"),
        (json!({"prompt_tokens": 12, "completion_tokens": null}), "usage 12 0"),
        (json!({"prompt_tokens": 12, "completion_tokens": [3]}), "usage 12 0"),
        (
            json!({"prompt_tokens": 12, "completion_tokens": -3, "prompt_tokens_details": {"cached_tokens": 2.0}}),
            "usage 12 0, 2 cached",
        ),
    ] {
        assert_eq!(told(&Fake::streaming(usage(told_as.clone())).await.model()).await, [want, "stop"], "{told_as}");
    }
    let message = json!({"type": "message_start", "message": {"usage": {"input_tokens": 5.0, "output_tokens": "x"}}});
    let rest = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7.0}}),
    ];
    let fake = Fake::streaming(typed(&[&[message][..], &rest].concat())).await;
    let model = Anthropic::new(AnthropicConfig { base_url: fake.base_url.clone(), ..AnthropicConfig::new("m") });
    assert_eq!(told(&model.unwrap()).await, ["text so", "usage 5 7", "stop"]);
}

#[tokio::test]
async fn m1_the_end_mark_may_stand_anywhere() {
    let text = deltas(&[r#"{"content":"x"}"#]);
    let last = end("stop");
    for (how, sent) in [
        ("before everything", format!("data: [DONE]\n\n{text}{last}")),
        ("without the empty line after it", format!("{text}data: [DONE]\n")),
        ("without the line before it", format!("{}\ndata: [DONE]\n\n", text.trim_end())),
        ("twice", format!("{text}{last}data: [DONE]\n\n")),
    ] {
        assert_eq!(told(&Fake::streaming(sent).await.model()).await, ["text x", "stop"], "{how}");
    }
    let events = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ];
    for sent in
        [format!("data: [DONE]\n\n{}data: [DONE]\n\n", typed(&events)), format!("{}data: [DONE]\n", typed(&events))]
    {
        let fake = Fake::streaming(sent).await;
        let model = Anthropic::new(AnthropicConfig { base_url: fake.base_url.clone(), ..AnthropicConfig::new("m") });
        assert_eq!(told(&model.unwrap()).await, ["text so", "stop"]);
    }
    let output = json!([{"type": "message", "id": "m", "content": [{"type": "output_text", "text": "so"}]}]);
    let response = json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    let fake = Fake::streaming(format!("data: [DONE]\n\n{}data: [DONE]\n\n", typed(&[response]))).await;
    let model = OpenAi::new(OpenAiConfig { base_url: fake.base_url.clone(), ..OpenAiConfig::new("m") }).unwrap();
    assert_eq!(told(&model).await[0], "text so");
}

#[tokio::test]
async fn m3_arguments_of_null_are_no_arguments() {
    let call = |arguments: Value| {
        let function = json!({"name": "look", "arguments": arguments});
        json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]}).to_string()
    };
    let more =
        |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}).to_string();
    for (sent, want) in [
        (vec![call(json!("null"))], "call a look "),
        (vec![call(Value::Null)], "call a look "),
        (vec![call(json!("null")), more("{\"n\":"), more("null"), more("}")], "call a look {\"n\":null}"),
    ] {
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let told = told(&Fake::streaming(deltas(&sent) + &end("tool_calls")).await.model()).await;
        assert_eq!(told, [want, "stop"]);
    }
    for input in ["", "null", " null "] {
        assert_eq!(ToolUse::new("a", "look", input).args().expect("no arguments").text(), "{}", "{input:?}");
    }
    assert!(ToolUse::new("a", "look", "nul").args().is_err());
}

/// A model of each provider, at this server.
fn models(fake: &Fake, headers: &BTreeMap<String, ApiKey>, max_tokens: Option<u32>) -> Vec<Box<dyn Model>> {
    let (base_url, headers) = (fake.base_url.clone(), headers.clone());
    let api_key = Some(ApiKey::new("sk-key-of-the-test"));
    let chat = OpenAiChatConfig {
        base_url: base_url.clone(),
        api_key: api_key.clone(),
        headers: headers.clone(),
        max_tokens,
        ..OpenAiChatConfig::new("m")
    };
    let responses = OpenAiConfig {
        base_url: base_url.clone(),
        api_key: api_key.clone(),
        headers: headers.clone(),
        max_tokens,
        ..OpenAiConfig::new("m")
    };
    let anthropic = AnthropicConfig { base_url, api_key, headers, max_tokens, ..AnthropicConfig::new("m") };
    vec![
        Box::new(OpenAiChat::new(chat).unwrap()),
        Box::new(OpenAi::new(responses).unwrap()),
        Box::new(Anthropic::new(anthropic).unwrap()),
    ]
}

/// The text is cut where the header's value is.
#[tokio::test]
async fn x_no_half_of_a_secret_header_is_left_where_a_providers_error_is_cut() {
    let said = json!({ "error": { "message": format!("{}team-secret-77 is wrong", "x".repeat(990)) } }).to_string();
    let headers: BTreeMap<_, _> = [("X-Team".to_owned(), ApiKey::new("team-secret-77"))].into();
    let event = format!("data: {said}\n\n");
    // Only chat completions have an error as an event of no type.
    for (status, kind, body, some) in [(401, "application/json", said, 3), (200, "text/event-stream", event, 1)] {
        let fake = Fake::start(move || plain(status, &[("content-type", kind)], body.clone())).await;
        for model in models(&fake, &headers, None).into_iter().take(some) {
            let asked = model.call(request(user("hi"), "", Vec::new()));
            let error: ModelError = asked.collect::<Vec<_>>().await.pop().unwrap().unwrap_err();
            assert!(error.message.contains("xxx") && !error.message.contains("team"), "{error}");
        }
    }
}

#[tokio::test]
async fn m1_headers_and_the_bound_on_answers_are_sent_by_every_provider() {
    let fake = Fake::start(|| plain(401, &[], r#"{"error":{"message":"not with team-secret-77"}}"#)).await;
    let headers = [("X-Team", "team-secret-77"), ("x-short", "1")];
    let headers = headers.map(|(name, value)| (name.to_owned(), ApiKey::new(value))).into();
    for (model, key) in
        models(&fake, &headers, Some(50)).into_iter().zip(["max_tokens", "max_output_tokens", "max_tokens"])
    {
        let asked = model.call(request(user("hi"), "", Vec::new()));
        let error: ModelError = asked.collect::<Vec<_>>().await.pop().unwrap().unwrap_err();
        assert!(error.message.ends_with("401 Unauthorized: not with [API key]"), "{error}");
        let seen = fake.seen.lock().unwrap();
        let seen = seen.last().unwrap();
        assert_eq!(
            (&seen.headers["x-team"], &seen.headers["x-short"]),
            (&"team-secret-77".parse().unwrap(), &"1".parse().unwrap())
        );
        assert_eq!(seen.body[key], 50, "{}", seen.body);
        assert_eq!(seen.headers.get_all("content-type").iter().count(), 1);
    }
    for (name, value, why) in [
        ("Content-Type", "text/plain", "which cannot be set"),
        ("a b", "x", "which is not a header name"),
        ("x", "a\nb", "whose value has characters that cannot be sent"),
        ("Authorization", "x", "which is sent already"),
    ] {
        let headers = BTreeMap::from([(name.to_owned(), ApiKey::new(value))]);
        let api_key = Some(ApiKey::new("k"));
        let error = OpenAiChat::new(OpenAiChatConfig { headers, api_key, ..OpenAiChatConfig::new("m") }).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// The message that is sent back of an answer with `thinking` and a call of `look`.
async fn sent_back(fake: &Fake, thinking: &str) -> Value {
    let model = fake.model();
    let opaque = kept(&model).await;
    let blocks = vec![Block::thinking(thinking), Block::ToolUse(ToolUse::new("a", "look", "{}"))];
    let mut conversation = user("go");
    let text = "seen".to_owned();
    conversation.push(Message::from(AssistantMessage::new("m", blocks).opaque(opaque)));
    conversation.push(Message::from(ToolResult::new("a", "look", text, CallStatus::Success)));
    let _: Vec<_> = model.call(request(conversation, "", vec![tool("look")])).collect().await;
    fake.seen.lock().unwrap().last().unwrap().body["messages"][1].clone()
}

const LOOK: &str = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}]}"#;

#[tokio::test]
async fn m1_thinking_blocks_go_back_whole_and_signed() {
    // As LiteLLM streams what Anthropic's models think: in pieces, the signature at the end.
    let sent = [
        r#"{"reasoning_content":"Hm","thinking_blocks":[{"type":"thinking","thinking":"Hm","signature":""}]}"#,
        r#"{"reasoning_content":", so","thinking_blocks":[{"type":"thinking","thinking":", so","signature":""}]}"#,
        r#"{"reasoning_content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"EqQB=="}]}"#,
        r#"{"thinking_blocks":[{"type":"redacted_thinking","data":"R1","n":1.10}]}"#,
        r#"{"thinking_blocks":[{"type":"thinking","thinking":"And","signature":""}]}"#,
        r#"{"thinking_blocks":[{"type":"thinking","thinking":"","signature":"S2"}]}"#,
        LOOK,
    ];
    let fake = Fake::streaming(deltas(&sent) + &end("tool_calls")).await;
    let told = told(&fake.model()).await;
    assert_eq!(told[..2], ["thinking Hm, soAnd", "call a look {}"], "each thought is said once");
    let back = sent_back(&fake, "Hm, soAnd").await;
    let want = json!([
        {"type": "thinking", "thinking": "Hm, so", "signature": "EqQB=="},
        {"type": "redacted_thinking", "data": "R1", "n": 1.10},
        {"type": "thinking", "thinking": "And", "signature": "S2"},
    ]);
    assert_eq!((&back["thinking_blocks"], &back["reasoning_content"]), (&want, &json!("Hm, soAnd")));

    // A server that streams nothing: the block goes back byte for byte.
    let block = r#"{"signature":"S\u002f1","type":"thinking","thinking":"Hm","more":[1.0]}"#;
    let body = format!(
        r#"{{"choices":[{{"index":0,"finish_reason":"tool_calls","message":{{"thinking_blocks":[{block}],{}}}]}}"#,
        &LOOK[1..]
    );
    let fake = Fake::start(move || plain(200, &[("content-type", "application/json")], body.clone())).await;
    assert!(kept(&fake.model()).await.expect("kept").get().contains(block));
    assert_eq!(
        sent_back(&fake, "Hm").await["thinking_blocks"],
        serde_json::from_str::<Value>(&format!("[{block}]")).unwrap()
    );
}

#[tokio::test]
async fn m1_reasoning_details_that_come_in_pieces_go_back_whole() {
    let detail = |detail: Value| json!({"reasoning_details": [detail]}).to_string();
    let text = |index: u32, text: &str| {
        detail(json!({"type": "reasoning.text", "text": text, "index": index, "signature": null, "format": "f"}))
    };
    let sent = [
        text(0, "Hm"),
        text(0, ", so"),
        detail(json!({"type": "reasoning.text", "signature": "S1", "index": 0})),
        text(1, "And"),
        detail(json!({"type": "reasoning.encrypted", "data": "E1", "index": 2})),
        detail(json!({"type": "reasoning.encrypted", "data": "E2", "index": 3})),
        LOOK.to_owned(),
    ];
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    let fake = Fake::streaming(deltas(&sent) + &end("tool_calls")).await;
    let want = json!([
        {"type": "reasoning.text", "text": "Hm, so", "signature": "S1", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "And", "signature": null, "index": 1, "format": "f"},
        {"type": "reasoning.encrypted", "data": "E1", "index": 2},
        {"type": "reasoning.encrypted", "data": "E2", "index": 3},
    ]);
    assert_eq!(sent_back(&fake, "").await["reasoning_details"], want);
}

#[tokio::test]
async fn m1_a_signature_of_the_message_itself_goes_back() {
    let sent = [LOOK, r#"{"content":"","extra_content":{"google":{"thought_signature":"s2"}}}"#];
    let fake = Fake::streaming(deltas(&sent) + &end("tool_calls")).await;
    assert_eq!(sent_back(&fake, "").await["extra_content"], json!({"google": {"thought_signature": "s2"}}));
    let sent = [LOOK, r#"{"thinking_blocks":["no object"]}"#];
    let last = events(&Fake::streaming(deltas(&sent) + &end("stop")).await.model()).await.pop();
    assert!(last.unwrap().unwrap_err().transient);
}

/// Text as servers in Python write it.
fn in_ascii(text: &str) -> String {
    let escaped = |unit: u16| match u8::try_from(unit).ok().filter(u8::is_ascii) {
        Some(byte) => char::from(byte).to_string(),
        None => format!("\\u{unit:04x}"),
    };
    text.encode_utf16().map(escaped).collect()
}

#[tokio::test]
async fn r9_an_answer_below_the_bound_is_read_however_long_its_json_is() {
    let text = "đ".repeat(800_000);
    let written = in_ascii(&text);
    assert!(written.len() > limits::RESPONSE_BYTES);
    let message = format!(
        r#"{{"type":"message","id":"m","role":"assistant","content":[{{"type":"output_text","text":"{written}"}}]}}"#
    );
    let (begin, end) = written.split_at(400_000 * 6);
    let delta = |text: &str| {
        format!("data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{text}\"}}\n\n")
    };
    let added = r#"data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m"}}"#;
    let response = format!(
        r#"{{"status":"completed","instructions":"{}","output":[{message}],"usage":{{"input_tokens":5,"output_tokens":7}}}}"#,
        "x".repeat(500_000)
    );
    let last = format!("data: {{\"type\":\"response.completed\",\"response\":{response}}}\n\n");
    let streamed = format!("{added}\n\n{}{}{last}", delta(begin), delta(end));
    let json = ("content-type", "application/json");
    let fakes = [Fake::streaming(streamed).await, Fake::start(move || plain(200, &[json], response.clone())).await];
    for fake in fakes {
        let model = OpenAi::new(OpenAiConfig { base_url: fake.base_url.clone(), ..OpenAiConfig::new("m") }).unwrap();
        let told = told(&model).await;
        assert!(told[0] == format!("text {text}"), "{}", told[0].len());
        assert_eq!(told[1], "usage 5 7");
    }
}

/// A chat completion in one piece.
fn one_piece(text: &str) -> String {
    json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": text}}]}).to_string()
}

#[tokio::test]
async fn r9_an_answer_in_one_piece_that_is_too_large_is_refused_once_and_for_all() {
    let json = ("content-type", "application/json");
    for (bytes, why) in [
        (limits::RESPONSE_BYTES, "text"),
        (limits::RESPONSE_BYTES + 1, "permanent the model's answer is larger than 4194304 bytes"),
        (4 * limits::RESPONSE_BYTES, "permanent the provider's answer is larger than 16777216 bytes"),
    ] {
        // A block counts beside its text.
        let body = one_piece(&"x".repeat(if why == "text" { bytes - 100 } else { bytes }));
        let told = told(&Fake::start(move || plain(200, &[json], body.clone())).await.model()).await;
        assert!(told[0].starts_with(why), "{bytes}: {:.100}", told[0]);
    }
}

#[tokio::test]
async fn s23_an_answer_in_one_piece_is_waited_for_part_by_part() {
    let body = one_piece("all of it");
    // White space before the answer says that the connection lives.
    let mut parts = vec![b"\n".to_vec(); 4];
    parts.extend(body.as_bytes().chunks(body.len() / 8).map(<[u8]>::to_vec));
    // A cut may lose what is sent last.
    parts.push(b" ".to_vec());
    let idle_timeout = Duration::from_secs(2);
    let answered = |parts: &[Vec<u8>], then: Option<Then>| {
        let parts = parts.to_vec();
        async move {
            let fake = Fake::start(move || {
                let parts = stream::iter(parts.clone()).then(|part| async {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    part
                });
                let mut response = sse(parts, then.clone());
                response.headers_mut().insert("content-type", "application/json".parse().unwrap());
                response
            })
            .await;
            told(&OpenAiChat::new(OpenAiChatConfig { idle_timeout, ..fake.config() }).unwrap()).await
        }
    };
    let cut = || {
        let now = Arc::new(Notify::new());
        now.notify_one();
        Some(Then::Cut(now))
    };
    let half = &parts[..8];
    let (whole, whole_cut, silent, broken) = tokio::join!(
        answered(&parts, None),
        answered(&parts, cut()),
        answered(half, Some(Then::Hang)),
        answered(half, cut())
    );
    assert_eq!(whole, ["text all of it", "stop"]);
    assert_eq!(whole_cut, whole, "what is whole is an answer, however its connection ends");
    assert!(
        silent[0].starts_with("transient ") && silent[0].contains("sent nothing of an answer for 2s"),
        "{silent:?}"
    );
    assert!(broken[0].starts_with("transient the answer broke off from "), "{broken:?}");
}
