use countersign_core::{
    conversation::ToolResult,
    journal::record::{CallStatus, ToolUse},
};
use serde_json::{Value, json};

use super::*;

fn answered(id: &str, opaque: Option<&Opaque>) -> [Message; 2] {
    let blocks = vec![Block::ToolUse(ToolUse::new(id, "look", "{}"))];
    let opaque = opaque.map(|opaque| serde_json::value::to_raw_value(opaque).unwrap());
    let result = ToolResult::new(id, "look", "ok", CallStatus::Success);
    [AssistantMessage::new("m", blocks).opaque(opaque).into(), result.into()]
}

/// The messages that are sent.
fn sent(origin: &Origin, conversation: &[Message]) -> Vec<Value> {
    let messages = messages(origin, "", &[], conversation);
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
