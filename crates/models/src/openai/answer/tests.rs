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

/// The text, the calls, and the kept data of an answer of these events.
fn read(events: &[Value]) -> (String, Vec<String>, String) {
    let mut answer = Assembler::new(&Origin::default(), HashMap::new());
    let mut ready = VecDeque::new();
    for event in events {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        if let Err(error) = answer.take(&event, &mut ready) {
            panic!("{error:?} of {event:?}");
        }
    }
    answer.finish(&mut ready).unwrap();
    let (mut text, mut calls, mut kept) = (String::new(), Vec::<String>::new(), String::new());
    for event in &ready {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::ToolUse { id, name } => calls.push(format!("{id} {name} ")),
            ModelEvent::Input(more) => calls.last_mut().unwrap().push_str(more),
            ModelEvent::Opaque(raw) => kept = raw.get().to_owned(),
            _ => {}
        }
    }
    (text, calls, kept)
}

fn call(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments})
}

fn said(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn added(at: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": at, "item": item})
}

fn done(at: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

fn arguments(at: u64, item: &str, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": at, "item_id": item, "delta": delta})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// The events of one call, as they are streamed.
fn streamed(at: u64, item: &Value) -> [Value; 3] {
    let (id, text) = (item["id"].as_str().unwrap(), item["arguments"].as_str().unwrap());
    let mut begun = item.clone();
    begun["arguments"] = json!("");
    [added(at, &begun), arguments(at, id, text), done(at, item)]
}

#[test]
fn m1_responses_a_call_that_the_final_response_lists_elsewhere_is_made_once() {
    let pay = call("fc0", "cc", "pay", r#"{"n":1}"#);
    let reasoning = json!({"type": "reasoning", "id": "rs0", "summary": [], "encrypted_content": "E"});
    let web = json!({"type": "web_search_call", "id": "ws0"});
    for (how, at, list) in [
        ("behind what was not streamed", 0, vec![reasoning.clone(), pay.clone()]),
        ("behind more", 0, vec![reasoning.clone(), web, said("m", ""), pay.clone()]),
        ("before its index", 1, vec![pay.clone()]),
        ("nowhere", 1, vec![]),
        ("twice", 0, vec![pay.clone(), pay.clone()]),
        ("with new ids", 0, vec![reasoning.clone(), call("fc9", "c9", "pay", r#"{"n":1}"#)]),
        ("with no ids", 3, vec![json!({"type": "function_call", "name": "pay", "arguments": "{\"n\":1}"})]),
    ] {
        let (text, calls, kept) = read(&[&streamed(at, &pay)[..], &[completed(&list)]].concat());
        assert_eq!((&*text, calls), ("", vec![r#"cc pay {"n":1}"#.to_owned()]), "{how}");
        if let Some(reasoned) = kept.find("rs0") {
            assert!(Some(reasoned) < kept.find("fc0"), "reasoning goes back before its call: {kept}");
        }
    }
}

#[test]
fn m1_responses_text_that_the_final_response_lists_elsewhere_is_said_once() {
    let reasoning = json!({"type": "reasoning", "id": "rs0", "summary": [], "encrypted_content": "E"});
    let delta = |at: u64, id: &str, text: &str| json!({"type": "response.output_text.delta", "output_index": at, "item_id": id, "content_index": 0, "delta": text});
    // A new id each time, for an item that is listed without those before it.
    let events = [
        done(0, &reasoning),
        added(1, &json!({"type": "message", "id": "m_a", "content": []})),
        delta(1, "m_b", "Xin "),
        delta(1, "m_c", "chào"),
        done(1, &said("m_d", "Xin chào")),
        completed(&[said("m_e", "Xin chào")]),
    ];
    assert_eq!(read(&events).0, "Xin chào");
    // Listed after items that were not streamed, and between them.
    let events =
        [done(0, &said("m1", "b")), completed(&[reasoning, said("m0", "a"), said("m1", "b"), said("m2", "c")])];
    assert_eq!(read(&events).0, "bac");
}

#[test]
fn r9_responses_parts_of_a_message_end_once_however_many_there_are() {
    let (mut answer, mut ready) = (Assembler::new(&Origin::default(), HashMap::new()), VecDeque::new());
    let parts = 1_000;
    let delta = |part: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": part, "delta": text});
    let begun = [added(0, &said("m", ""))].into_iter();
    let written = (0..parts).flat_map(|part| [delta(part, "a"), delta(part, "b")]);
    // An earlier part has ended.
    let late = [delta(0, "late"), delta(parts - 1, "c"), done(0, &said("m", "other")), completed(&[])];
    for event in begun.chain(written).chain(late) {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        assert!(answer.take(&event, &mut ready).is_ok());
    }
    assert_eq!(answer.blocks.ends, 1_000, "each part ends once: when the next one begins, or the message is complete");
    answer.finish(&mut ready).unwrap();
    assert_eq!(blocks(&ready).0, "ab".repeat(1_000) + "c");
}

#[test]
fn m1_responses_items_that_share_an_index_are_told_apart() {
    let (one, two) = (call("fc1", "c1", "pay", r#"{"n":1}"#), call("fc2", "c2", "pay", r#"{"n":2}"#));
    let want = [r#"c1 pay {"n":1}"#, r#"c2 pay {"n":2}"#];
    let message = [done(0, &said("m", "so"))];
    let list = completed(&[said("m", "so"), one.clone(), two.clone()]);
    let one_after_the_other = [&message[..], &streamed(0, &one), &streamed(0, &two)].concat();
    let [begun, sent, ended] = streamed(0, &one);
    let [begun_2, sent_2, ended_2] = streamed(0, &two);
    let interleaved = [&message[..], &[begun, begun_2, sent_2, sent, ended, ended_2]].concat();
    let at_once = [&message[..], &[done(0, &one), done(0, &two)]].concat();
    for events in [one_after_the_other, interleaved, at_once] {
        for last in [&list, &completed(&[])] {
            let (text, calls, _) = read(&[&events[..], std::slice::from_ref(last)].concat());
            assert_eq!((&*text, calls), ("so", want.map(str::to_owned).to_vec()), "{events:?}");
        }
    }
}

#[test]
fn e56_responses_two_items_with_one_call_id_are_two_calls() {
    let (one, two) = (call("fc1", "x", "note", r#"{"n":1}"#), call("fc2", "x", "note", r#"{"n":2}"#));
    let list = completed(&[one.clone(), two.clone()]);
    let want = vec![r#"x note {"n":1}"#.to_owned(), r#"x note {"n":2}"#.to_owned()];
    for events in [
        [&streamed(0, &one)[..], &streamed(1, &two)].concat(),
        vec![done(0, &one), done(1, &two)],
        vec![done(1, &one)],
        vec![],
    ] {
        assert_eq!(read(&[&events[..], std::slice::from_ref(&list)].concat()).1, want, "{events:?}");
    }
}

#[test]
fn m1_responses_a_call_that_is_complete_twice_is_made_once_though_its_item_has_another_id() {
    let (one, again) = (call("fc1", "c", "pay", r#"{"n":1}"#), call("fc9", "c", "pay", r#"{"n":1}"#));
    let events = [done(0, &one), done(0, &again), completed(&[again])];
    assert_eq!(read(&events).1, [r#"c pay {"n":1}"#]);
}

#[test]
fn m3_responses_arguments_that_came_only_once_are_not_lost() {
    let whole = call("fc0", "cc", "wipe", r#"{"target":"prod"}"#);
    let begun = call("fc0", "cc", "wipe", "");
    let placeholder = call("fc0", "cc", "wipe", "{}");
    let all = json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc0",
        "arguments": r#"{"target":"prod"}"#});
    let part = arguments(0, "fc0", r#"{"target":"prod"}"#);
    for events in [
        vec![added(0, &whole)],
        vec![added(0, &whole), done(0, &begun)],
        vec![added(0, &begun), all.clone()],
        vec![added(0, &placeholder), all.clone(), done(0, &whole)],
        vec![added(0, &whole), part.clone(), all.clone(), done(0, &whole)],
        vec![added(0, &placeholder), part, all, done(0, &placeholder)],
    ] {
        let calls = read(&[&events[..], &[completed(&[])]].concat()).1;
        assert_eq!(calls, [r#"cc wipe {"target":"prod"}"#], "{events:?}");
    }
}

proptest! {
    /// Each call comes out once, whether it is streamed, listed, or both, and whichever of its ids and index are kept.
    #[test]
    fn m1_responses_every_call_is_made_once_whatever_the_server_keeps(
        sent in prop::collection::vec((prop::sample::select(vec!["pay", "note"]), any::<bool>()), 1..6),
        (keeps_ids, keeps_call_ids, counts, lists_all) in any::<(bool, bool, bool, bool)>(),
    ) {
        let mut fresh = 0;
        let mut item = |i: usize, arguments: &str| {
            fresh += 1;
            let id = if keeps_ids { format!("fc{i}") } else { format!("new{fresh}") };
            let call_id = if keeps_call_ids { format!("c{i}") } else { format!("newc{fresh}") };
            call(&id, &call_id, sent[i].0, arguments)
        };
        let (mut events, mut list) = (Vec::new(), Vec::new());
        for (i, (_, is_both)) in sent.iter().enumerate() {
            let (at, text) = (if counts { i as u64 } else { 0 }, format!("{{\"n\":{i}}}"));
            if *is_both || !lists_all {
                let (begun, ended) = (item(i, ""), item(i, &text));
                let id = begun["id"].as_str().unwrap_or_default().to_owned();
                events.extend([added(at, &begun), arguments(at, &id, &text), done(at, &ended)]);
            }
            if *is_both || lists_all {
                list.push(item(i, &text));
            }
        }
        events.push(completed(&list));
        let mut made: Vec<String> = read(&events).1.iter().map(|call| call.split_once(' ').unwrap().1.to_owned()).collect();
        let mut want: Vec<String> = sent.iter().enumerate().map(|(i, (name, _))| format!("{name} {{\"n\":{i}}}")).collect();
        // Without any of them it is unknown which one of the same name was streamed.
        if lists_all && !keeps_ids && !keeps_call_ids && !counts {
            made.iter_mut().chain(&mut want).for_each(|call| call.truncate(4));
        }
        made.sort();
        want.sort();
        prop_assert_eq!(made, want);
    }
}

fn failure(outcome: Result<impl std::fmt::Debug, ReadError>) -> (bool, String) {
    match outcome {
        Err(ReadError::Said(error)) => (error.is_transient(), error.into_error("said", &[]).message),
        Err(ReadError::Other(error)) => (error.transient, error.message),
        Ok(read) => panic!("{read:?}"),
    }
}

#[test]
fn m3_responses_an_answer_that_only_its_last_event_calls_incomplete_is_cut() {
    for (kind, response, want) in [
        ("response.incomplete", json!({}), Some(Cut::Incomplete)),
        ("response.incomplete", json!({"incomplete_details": {"reason": "max_output_tokens"}}), Some(Cut::MaxTokens)),
        ("response.completed", json!({}), None),
    ] {
        let (mut answer, mut ready) = (Assembler::new(&Origin::default(), HashMap::new()), VecDeque::new());
        let event = SseEvent { event: kind.to_owned(), data: json!({"response": response}).to_string() };
        assert!(matches!(answer.take(&event, &mut ready), Ok(true)), "{kind}");
        answer.finish(&mut ready).unwrap();
        let cut = ready.iter().find_map(|event| match event {
            ModelEvent::Cut(cut) => Some(*cut),
            _ => None,
        });
        assert_eq!(cut, want, "{kind}");
    }
}

#[test]
fn s23_responses_an_error_of_another_form_keeps_its_words() {
    for (data, want) in [
        (
            r#"{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}"#,
            (false, "said: no such model"),
        ),
        (r#"{"error":{"message":"overloaded","code":503}}"#, (true, "said: overloaded")),
        (r#"{"detail":"Not Found"}"#, (true, "said: Not Found")),
    ] {
        let want = (want.0, want.1.to_owned());
        let new = || Assembler::new(&Origin::default(), HashMap::new());
        let event = SseEvent { event: String::new(), data: data.to_owned() };
        assert_eq!(failure(new().take(&event, &mut VecDeque::new())), want, "{data}");
        assert_eq!(failure(new().take_whole(data, &mut VecDeque::new())), want, "{data}");
    }
}
