use std::sync::Arc;

use countersign_core::{
    conversation::ToolResult,
    journal::record::{CallStatus, ToolUse},
};
use countersign_engine::model::{ModelError, Transcript};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use super::{
    super::{OpenAiChat, OpenAiChatConfig},
    *,
};

fn answered(id: &str, opaque: Option<&Opaque>) -> [Message; 2] {
    let blocks = vec![Block::ToolUse(ToolUse::new(id, "look", "{}"))];
    let opaque = opaque.map(|opaque| serde_json::value::to_raw_value(opaque).unwrap());
    let result = ToolResult::new(id, "look", "ok", CallStatus::Success);
    [AssistantMessage::new("m", blocks).opaque(opaque).into(), result.into()]
}

/// The messages that are sent to a server that is like OpenAI's.
fn sent(origin: &Origin, conversation: &[Message]) -> Vec<Value> {
    sent_as(origin, Dialect::of("https://a.example/v1", "m"), conversation)
}

fn sent_as(origin: &Origin, dialect: Dialect, conversation: &[Message]) -> Vec<Value> {
    let messages = messages(origin, dialect, "", &[], conversation);
    messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

#[test]
fn m1_ids_of_calls_fit_the_server_whoever_made_them() {
    let here = Origin::new("mistral-large", "https://api.mistral.ai/v1").unwrap();
    let there = Origin::new("mistral-large", "https://vllm.example/v1").unwrap();
    let long = "chatcmpl-tool-0123456789abcdef0123456789abcdef";
    let (own, foreign) = (Opaque::new(&here), Opaque::new(&there));
    let conversation = [
        answered("D681PevKs", Some(&own)),
        answered("functions.look:0", Some(&own)),
        answered(long, Some(&foreign)),
        answered(long, Some(&own)),
        answered("call_1", None),
        answered("call_1", None),
    ];
    let sent = sent(&here, &conversation.concat());
    let ids: Vec<&str> = sent.iter().filter_map(|message| message["tool_calls"][0]["id"].as_str()).collect();
    assert_eq!(ids[..2], ["D681PevKs", "functions.look:0"], "its own ids stay");
    for id in &ids[2..] {
        assert!(id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()), "{id}");
    }
    let unique: std::collections::HashSet<&&str> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (6, 6));
    let results: Vec<&str> = sent.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(results, ids, "each result names its call");
}

#[test]
fn m1_reasoning_goes_back_only_to_the_address_that_it_came_from() {
    let origin = |url: &str| Origin::new("gpt-5", url).unwrap();
    let (one, two) = (origin("https://one.example/v1"), origin("https://two.example/v1"));
    let detail = || RawValue::from_string(r#"{"type":"reasoning.encrypted","data":"ENC"}"#.to_owned()).unwrap();
    let kept = Opaque { reasoning_details: vec![detail()], ..Opaque::new(&one) };
    let before = Opaque { at: None, reasoning_details: vec![detail()], ..Opaque::new(&one) };
    for (to, kept, goes) in [(&one, &kept, true), (&two, &kept, false), (&two, &before, true)] {
        let sent = sent(to, &answered("c", Some(kept)));
        let want = if goes { json!([{"type": "reasoning.encrypted", "data": "ENC"}]) } else { Value::Null };
        assert_eq!(sent[0]["reasoning_details"], want);
    }
}

fn said(text: &str) -> Message {
    Message::User(text.into())
}

fn roles(sent: &[Value]) -> Vec<&str> {
    sent.iter().filter_map(|message| message["role"].as_str()).collect()
}

/// A reviewer's comment, a queued message, or the next one after a turn that was given up.
#[test]
fn m1_w5_what_a_person_says_after_results_is_never_refused_by_mistrals_models() {
    let origin = Origin::default();
    let conversation =
        [vec![said("go")], answered("c", None).to_vec(), vec![said("only half"), said("please")]].concat();
    for (url, model, between) in [
        ("https://api.mistral.ai/v1", "mistral-large-latest", true),
        ("http://localhost:8000/v1", "mistralai/Devstral-Small-2507", true),
        ("https://openrouter.ai/api/v1", "mistralai/mixtral-8x22b", true),
        ("https://api.openai.com/v1", "gpt-4.1", false),
    ] {
        let sent = sent_as(&origin, Dialect::of(url, model), &conversation);
        let want = if between {
            vec!["user", "assistant", "tool", "assistant", "user"]
        } else {
            vec!["user", "assistant", "tool", "user"]
        };
        assert_eq!(roles(&sent), want, "{model}");
        assert_eq!(sent.last().unwrap()["content"], "only half\n\nplease");
    }
    // The model's own answer is enough.
    let conversation = [
        answered("c", None).to_vec(),
        vec![AssistantMessage::new("m", vec![Block::text("done")]).into(), said("thanks")],
    ];
    let sent = sent_as(&origin, Dialect::of("https://api.mistral.ai/v1", "m"), &conversation.concat());
    assert_eq!(roles(&sent), ["assistant", "tool", "assistant", "user"]);
}

/// Of every turn, and whoever made the calls.
#[test]
fn m1_deepseek_and_moonshot_get_reasoning_with_each_answer() {
    for url in ["https://api.deepseek.com/v1", "https://api.moonshot.ai/v1", "https://api.moonshot.cn/v1"] {
        let origin = Origin::new("m", url).unwrap();
        let own = Opaque { reasoning_field: Some("reasoning_content".to_owned()), ..Opaque::new(&origin) };
        let thought = |opaque: Option<&Opaque>| -> Vec<Message> {
            let blocks = vec![Block::thinking("Hm."), Block::ToolUse(ToolUse::new("c", "look", "{}"))];
            let opaque = opaque.map(|opaque| serde_json::value::to_raw_value(opaque).unwrap());
            let result = ToolResult::new("c", "look", "ok", CallStatus::Success);
            vec![AssistantMessage::new("m", blocks).opaque(opaque).into(), result.into()]
        };
        let text = vec![AssistantMessage::new("m", vec![Block::text("done")]).into(), said("again")];
        let conversation = [thought(Some(&own)), text, thought(None), answered("d", Some(&own)).to_vec()].concat();
        let sent = sent_as(&origin, Dialect::of(url, "m"), &conversation);
        let reasoning: Vec<&Value> = sent
            .iter()
            .filter(|message| message["role"] == "assistant")
            .map(|message| &message["reasoning_content"])
            .collect();
        assert_eq!(reasoning, ["Hm.", " ", " ", " "], "its own, and something in place of what it has not: {url}");
    }
}

#[test]
fn m1_mistral_is_not_asked_for_the_usage_that_it_tells() {
    let asks = |url: &str| Dialect::of(url, "m").asks_for_usage;
    assert!(!asks("https://api.mistral.ai/v1") && !asks("https://codestral.mistral.ai/v1"));
    assert!(asks("https://api.openai.com/v1") && asks("https://mistral.ai.example/v1") && asks("nothing"));
}

struct Nothing;

impl Transcript for Nothing {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        async { Ok(Arc::default()) }.boxed()
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        async { Ok(String::new()) }.boxed()
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        async { Ok(String::new()) }.boxed()
    }
}

#[test]
fn m1_s23_deepseek_and_zai_are_told_the_form_of_the_answer_that_they_cannot_enforce() {
    let sent = |base_url: &str| -> Value {
        let config = OpenAiChatConfig { base_url: base_url.to_owned(), ..OpenAiChatConfig::new("m") };
        let chat = OpenAiChat::new(config).unwrap();
        let mut request = ModelRequest::new("s", Nothing);
        request.instructions = "Be brief.".into();
        request.output = Some(OutputSchema::new("answer", json!({"type": "object", "required": ["n"]})));
        serde_json::from_slice(&body(chat.http.protocol(), &request, &[]).unwrap()).unwrap()
    };
    for url in ["https://api.deepseek.com/v1", "https://api.z.ai/api/paas/v4"] {
        let told = sent(url);
        let system = told["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("Be brief.\n\n") && system.contains(r#""required":["n"]"#), "{system}");
        assert_eq!(told["response_format"], Value::Null);
    }
    let enforced = sent("https://api.openai.com/v1");
    assert_eq!(enforced["messages"][0]["content"], "Be brief.");
    assert_eq!(enforced["response_format"]["json_schema"]["schema"]["required"], json!(["n"]));
}
