use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Events as a faulty provider may send them: any of them, in any order, with any index.
fn event() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("message"),
        Just("reasoning"),
        Just("function_call"),
        Just("mcp_approval_request"),
        Just("mcp_call")
    ];
    let item = (kind, 0..3_u32, "[a-z{}\" đ🙂]{0,8}").prop_map(|(kind, id, text)| {
        json!({
            "type": kind, "id": format!("i{id}"), "call_id": format!("c{id}"), "name": "t", "server_label": "s",
            "arguments": text, "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "E",
            "content": [{"type": "output_text", "text": text}, {"type": "refusal", "refusal": text}],
        })
    });
    let delta = prop_oneof![
        Just("response.output_text.delta"),
        Just("response.refusal.delta"),
        Just("response.reasoning_summary_text.delta"),
        Just("response.function_call_arguments.delta"),
    ];
    prop_oneof![
        4 => (item.clone(), 0..4_u64, any::<bool>()).prop_map(|(item, at, done)| {
            let kind = if done { "response.output_item.done" } else { "response.output_item.added" };
            json!({"type": kind, "output_index": at, "item": item})
        }),
        6 => (delta, 0..4_u64, 0..2_u64, "[a-z{}\" đ🙂]{0,8}").prop_map(|(kind, at, part, text)| {
            json!({"type": kind, "output_index": at, "content_index": part, "summary_index": part, "delta": text})
        }),
        1 => prop::collection::vec(item, 0..4).prop_map(|output| {
            json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
        }),
        1 => Just(json!({"type": "response.incomplete", "response": {"status": "incomplete"}})),
    ]
}

/// The blocks as the runner would assemble them, with neighbours of one kind joined.
fn blocks(events: &VecDeque<ModelEvent>) -> (String, usize) {
    let (mut text, mut calls, mut in_call) = (String::new(), 0, false);
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::ToolUse { .. } => calls += 1,
            ModelEvent::Input(_) => assert!(in_call, "arguments come only while their call is open"),
            _ => {}
        }
        in_call = matches!(event, ModelEvent::ToolUse { .. } | ModelEvent::Input(_));
    }
    (text, calls)
}

proptest! {
    /// Whatever the events are: nothing panics, one block is open at a time, and what is kept matches the blocks.
    #[test]
    fn m1_any_events_give_blocks_that_match_what_is_kept(events in prop::collection::vec(event(), 0..14)) {
        let mut answer = Assembler::new(&Origin::default(), HashMap::new());
        let mut ready = VecDeque::new();
        for event in events {
            let event = SseEvent { event: String::new(), data: event.to_string() };
            if answer.take(&event, &mut ready).unwrap_or(true) {
                break;
            }
        }
        if answer.is_finished() {
            let _ = answer.finish(&mut ready);
        }
        let (text, calls) = blocks(&ready);
        for event in &ready {
            let ModelEvent::Opaque(raw) = event else { continue };
            let kept: Opaque = serde_json::from_str(raw.get()).unwrap();
            let (mut bytes, mut kept_calls) = (0, 0);
            for item in &kept.items {
                match item {
                    Item::Message(said) => bytes += said.parts.iter().map(|(_, bytes)| bytes).sum::<usize>(),
                    Item::Call { .. } | Item::Approval { .. } => kept_calls += 1,
                    Item::Raw(_) => {}
                }
            }
            prop_assert_eq!((bytes, kept_calls), (text.len(), calls));
        }
    }

    #[test]
    fn m1_any_bytes_are_at_worst_an_error(data in "\\PC{0,60}") {
        let mut ready = VecDeque::new();
        let _ = Assembler::new(&Origin::default(), HashMap::new()).take_whole(&data, &mut ready);
        let event = SseEvent { event: "error".into(), data };
        let _ = Assembler::new(&Origin::default(), HashMap::new()).take(&event, &mut ready);
    }
}

#[test]
fn m146_a_repeated_request_before_another_item_does_not_fail_the_turn() {
    let asked = json!({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "bank", "name": "pay", "arguments": "{}"});
    let said = json!({"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "I asked before"}]});
    let before = Asked { server_label: "bank".to_owned(), name: "pay".to_owned(), arguments: "{}".to_owned() };
    let mut answer = Assembler::new(&Origin::default(), HashMap::from([("mcpr_1".to_owned(), before)]));
    let mut ready = VecDeque::new();
    let done = |at: u64, item: &Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let output = json!([asked, said]);
    let completed = json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    for (event, is_last) in [(done(0, &asked), false), (done(1, &said), false), (completed, true)] {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        match answer.take(&event, &mut ready) {
            Ok(over) => assert_eq!(over, is_last),
            Err(error) => panic!("{error:?}"),
        }
    }
    answer.finish(&mut ready).unwrap();
    assert_eq!(blocks(&ready), ("I asked before".to_owned(), 0));
    let kept = ready.iter().find_map(|event| match event {
        ModelEvent::Opaque(raw) => Some(raw.get().to_owned()),
        _ => None,
    });
    assert!(kept.is_some_and(|kept| !kept.contains("mcpr_1")), "the request goes back where it was made");
}
