use countersign_core::journal::record::CallStatus;

use super::*;

fn result(id: &str) -> Message {
    ToolResult::new(id, "look", "ok", CallStatus::Success).into()
}

fn answered(id: &str, opaque: Option<&Opaque>) -> [Message; 2] {
    let blocks = vec![Block::ToolUse(ToolUse::new(id, "look", "{}"))];
    let opaque = opaque.map(|opaque| serde_json::value::to_raw_value(opaque).unwrap());
    [AssistantMessage::new("m", blocks).opaque(opaque).into(), result(id)]
}

/// The kept data of an answer with reasoning and a call.
fn kept(at: Option<&Origin>) -> Opaque {
    let reasoning = RawValue::from_string(r#"{"type":"reasoning","id":"rs_1","encrypted_content":"ENC"}"#.to_owned());
    let items = vec![Item::Raw(reasoning.unwrap()), Item::Call { id: Some("fc_1".to_owned()) }];
    Opaque { by: "openai".to_owned(), model: "gpt-5".to_owned(), at: at.map(|at| at.at.to_string()), items }
}

fn origin(url: &str) -> Origin {
    Origin::new("gpt-5", url).unwrap()
}

/// The items that are sent.
fn sent(origin: &Origin, conversation: &[Message]) -> Vec<Value> {
    let items = input(origin, &[], &[], conversation);
    items.iter().map(|item| serde_json::to_value(item).unwrap()).collect()
}

#[test]
fn m1_responses_reasoning_goes_back_only_to_the_address_that_it_came_from() {
    let (one, two) = (origin("https://one.example/v1"), origin("https://two.example/v1"));
    for (to, from, goes) in [(&one, Some(&one), true), (&two, Some(&one), false), (&two, None, true)] {
        let sent = sent(to, &answered("call_1", Some(&kept(from))));
        let has = |item: &Value| item["type"] == "reasoning" || item["id"] == "fc_1";
        assert_eq!(sent.iter().any(has), goes, "{sent:?}");
        assert_eq!(sent.last().unwrap()["type"], "function_call_output");
    }
}

#[test]
fn m1_responses_ids_of_calls_fit_the_api_whoever_made_them() {
    let here = origin("https://one.example/v1");
    let long = "x".repeat(65);
    let own = kept(Some(&here));
    let conversation =
        [answered("call_1", Some(&own)), answered(&long, Some(&own)), answered("call_1", None), answered(&long, None)];
    let sent = sent(&here, &conversation.concat());
    let of = |kind: &str| {
        let calls = sent.iter().filter(|item| item["type"] == kind);
        calls.map(|item| item["call_id"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let ids = of("function_call");
    assert_eq!(ids[0], "call_1", "its own ids stay");
    for id in &ids[1..] {
        assert!(id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()), "{id}");
    }
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (4, 4));
    assert_eq!(of("function_call_output"), ids, "each result names its call");
}
