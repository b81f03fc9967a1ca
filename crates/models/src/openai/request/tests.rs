use std::collections::VecDeque;

use countersign_core::journal::record::CallStatus;
use countersign_engine::model::ModelEvent;
use proptest::prelude::*;

use super::{super::answer::Assembler, *};
use crate::{reading::Reader as _, sse::SseEvent};

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
    let crm = HostedMcp::new("crm", "https://crm.example/mcp").unwrap();
    let items = input(origin, &[], &[crm], conversation);
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

/// The answer that these events give, as the journal has it.
fn heard(events: &[Value]) -> AssistantMessage {
    let (mut reader, mut ready) = (Assembler::new(&origin(URL), HashMap::new()), VecDeque::new());
    for event in events {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        assert!(reader.take(&event, &mut ready).is_ok(), "{event:?}");
    }
    reader.finish(&mut ready).unwrap();
    let (mut blocks, mut opaque) = (Vec::new(), None);
    for event in ready {
        match (event, blocks.last_mut()) {
            (ModelEvent::Text(more), Some(Block::Text { text, .. })) => text.push_str(&more),
            (ModelEvent::Text(text), _) => blocks.push(Block::text(text)),
            (ModelEvent::ToolUse { id, name }, _) => blocks.push(Block::ToolUse(ToolUse::new(id, name, ""))),
            (ModelEvent::Input(more), Some(Block::ToolUse(call))) => call.input.push_str(&more),
            (ModelEvent::Opaque(kept), _) => opaque = Some(kept),
            _ => {}
        }
    }
    AssistantMessage::new("m", blocks).opaque(opaque)
}

const URL: &str = "https://one.example/v1";

/// The answer with a result for each of its calls: those of the provider with an `n` that is even are approved, the
/// others rejected, and a call of ours results in `approved` too.
fn decided(answer: AssistantMessage) -> Vec<Message> {
    let result = |block: &Block| {
        let Block::ToolUse(call) = block else { return None };
        let n: u64 = serde_json::from_str::<Value>(&call.input).unwrap()["n"].as_u64().unwrap();
        let is_rejected = call.name.starts_with("mcp__") && n % 2 == 1;
        let (text, status) = if is_rejected { ("no", CallStatus::Rejected) } else { ("approved", CallStatus::Success) };
        Some(ToolResult::new(call.id.clone(), call.name.clone(), text, status).into())
    };
    let results: Vec<Message> = answer.blocks.iter().filter_map(result).collect();
    [vec![answer.into()], results].concat()
}

/// The `n`th item, complete or as it is added: a request (0), a call (1), a message (2) or reasoning.
fn item(kind: u8, n: usize, is_complete: bool) -> Value {
    let arguments = if is_complete { format!("{{\"n\":{n}}}") } else { String::new() };
    let part = json!({"type": "output_text", "text": format!("text {n}.")});
    match kind {
        0 => json!({"type": "mcp_approval_request", "id": format!("id{n}"), "server_label": "crm", "name": "delete",
            "arguments": arguments}),
        1 => json!({"type": "function_call", "id": format!("id{n}"), "call_id": format!("call{n}"), "name": "status",
            "arguments": arguments}),
        2 => {
            json!({"type": "message", "id": format!("id{n}"), "content": if is_complete { vec![part] } else { vec![] }})
        }
        _ => json!({"type": "reasoning", "id": format!("id{n}"), "summary": [], "encrypted_content": "E"}),
    }
}

/// A stream of these items, of which each step is the next event of one: added (in their order), written, done. Those that
/// are not done are completed by the list at the end.
fn stream(kinds: &[u8], steps: &[usize]) -> Vec<Value> {
    let mut taken = vec![0; kinds.len()];
    let event = |at: &usize| {
        let (n, kind) = (*at, *kinds.get(*at)?);
        if taken[..n].contains(&0) {
            return None;
        }
        taken[n] += 1;
        let event = |kind: &str, is_done| json!({"type": kind, "output_index": n, "item": item(kinds[n], n, is_done)});
        let delta =
            |kind: &str, text| json!({"type": kind, "output_index": n, "item_id": format!("id{n}"), "delta": text});
        match (taken[n], kind) {
            (1, _) => Some(event("response.output_item.added", false)),
            (2, 1) => Some(delta("response.function_call_arguments.delta", format!("{{\"n\":{n}}}"))),
            (2, 2) => Some(delta("response.output_text.delta", format!("text {n}."))),
            (3, _) => Some(event("response.output_item.done", true)),
            _ => None,
        }
    };
    let events: Vec<Value> = steps.iter().filter_map(event).collect();
    let output: Vec<Value> = kinds.iter().enumerate().map(|(n, kind)| item(*kind, n, true)).collect();
    let completed = json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    [events, vec![completed]].concat()
}

/// What is sent of such a stream: each item is itself, with its own text, arguments and result.
fn is_sent_as_it_was_decided(kinds: &[u8], steps: &[usize]) {
    let sent = sent(&origin(URL), &decided(heard(&stream(kinds, steps))));
    let with = |name: &str, id: &str| {
        let found: Vec<&Value> = sent.iter().filter(|item| item[name] == id).collect();
        assert_eq!(found.len(), 1, "{name} {id}: {sent:?}");
        found[0].clone()
    };
    for (n, kind) in kinds.iter().enumerate() {
        let (id, arguments) = (format!("id{n}"), json!(format!("{{\"n\":{n}}}")));
        match kind {
            0 => {
                assert_eq!(with("id", &id)["arguments"], arguments, "{sent:?}");
                assert_eq!(with("approval_request_id", &id)["approve"], json!(n % 2 == 0), "{sent:?}");
            }
            1 => {
                let call = with("id", &id);
                let of_call = (&call["call_id"], &call["arguments"]);
                assert_eq!(of_call, (&json!(format!("call{n}")), &arguments), "{sent:?}");
            }
            2 => assert_eq!(with("id", &id)["content"][0]["text"], json!(format!("text {n}.")), "{sent:?}"),
            _ => {
                let at = |id: &str| sent.iter().position(|item| item["id"] == id);
                // Reasoning that nothing follows is left out.
                if let Some(more) = kinds[n..].iter().position(|kind| *kind < 3) {
                    assert!(
                        at(&id) < at(&format!("id{}", n + more)),
                        "reasoning goes back before what it led to: {sent:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn r1_s13_a_decision_is_sent_for_the_request_that_it_was_made_about_in_whatever_order_items_are_written() {
    for (kinds, steps) in [
        // A call is written before the request that was added first is complete, or is completed by the list alone.
        (&[1, 0, 1][..], &[1, 2, 2, 1, 1, 2][..]),
        (&[1, 0, 1], &[1, 2, 2, 2]),
        // Two requests are completed in the other order.
        (&[0, 0], &[0, 1, 1, 1, 0, 0]),
        (&[0, 0], &[0, 1, 1, 1]),
    ] {
        is_sent_as_it_was_decided(kinds, steps);
    }
}

#[test]
fn m1_responses_messages_that_are_written_in_turns_keep_their_own_texts() {
    is_sent_as_it_was_decided(&[2, 2], &[0, 1, 1, 0, 0, 1]);
    is_sent_as_it_was_decided(&[3, 2, 3, 2, 0], &[3, 1, 3, 1, 1]);
    // Parts in another order than that of their numbers.
    let delta = |at: u64, part: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": at, "content_index": part, "delta": text});
    let added = |n: usize| json!({"type": "response.output_item.added", "output_index": n, "item": item(2, n, false)});
    let completed = json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let texts = |events: &[Value]| -> Vec<Value> {
        let sent = sent(&origin(URL), &[heard(&[events, std::slice::from_ref(&completed)].concat()).into()]);
        let of = |item: &Value| item["content"].clone();
        sent.iter().map(of).collect()
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    assert_eq!(texts(&[added(0), delta(0, 1, "late"), delta(0, 0, "r")]), [json!([part("late"), part("r")])]);
    // No order of two such messages is that of their texts: they go back as one text.
    let in_turns = [added(0), added(1), delta(0, 0, "one "), delta(1, 0, "long two "), delta(0, 1, "three")];
    assert_eq!(texts(&in_turns), [json!("one long two three")]);
}

#[test]
fn r1_s13_no_decision_on_another_call_is_taken_for_one_on_a_request() {
    let name = "mcp__crm__delete";
    let approval =
        || Item::Approval { id: "id1".to_owned(), server_label: "crm".to_owned(), name: "delete".to_owned() };
    let call = |id: &str, name: &str| Block::ToolUse(ToolUse::new(id, name, "{\"n\":2}"));
    for (items, blocks) in [
        // The calls of an answer that was kept in another order, by an earlier version.
        (vec![Item::Call { id: None }, approval()], vec![call("id1", name), call("call2", "status")]),
        (vec![approval()], vec![call("call2", "status")]),
        (vec![approval()], vec![call("id1", "status")]),
        (vec![approval()], vec![call("id1~2", name)]),
    ] {
        let opaque = Opaque { items, ..kept(Some(&origin(URL))) };
        let opaque = Some(serde_json::value::to_raw_value(&opaque).unwrap());
        let conversation = decided(AssistantMessage::new("m", blocks).opaque(opaque));
        let sent = sent(&origin(URL), &conversation);
        assert!(sent.iter().all(|item| item["type"] != "mcp_approval_response"), "{sent:?}");
        assert_eq!(sent.iter().filter(|item| item["type"] == "function_call").count(), conversation.len() - 1);
        let known = asked_before(&origin(URL), &conversation);
        assert!(known.get("id1").is_none_or(|asked| conversation.len() == 3 && asked.arguments == "{\"n\":2}"));
    }
}

proptest! {
    /// Whatever is written before what, and whatever the list at the end completes.
    #[test]
    fn r1_m1_every_item_goes_back_with_what_belongs_to_it(
        kinds in prop::collection::vec(0..4_u8, 1..6),
        steps in prop::collection::vec(0..6_usize, 0..24),
    ) {
        is_sent_as_it_was_decided(&kinds, &steps);
    }
}
