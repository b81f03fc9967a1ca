use countersign_core::journal::record::Cut;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Events as a faulty provider may send them: any of them, in any order, with any index.
fn event() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        Just(json!({"type": "text", "text": "a"})),
        Just(json!({"type": "thinking", "thinking": "", "signature": ""})),
        Just(json!({"type": "redacted_thinking", "data": "x"})),
        Just(json!({"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}})),
    ];
    prop_oneof![
        3 => (block, 0..4_u64).prop_map(|(block, at)| json!({"type": "content_block_start", "index": at, "content_block": block})),
        6 => (0..4_u64, "[a-z{}\" đ🙂]{0,8}").prop_map(|(at, text)| {
            json!({"type": "content_block_delta", "index": at, "delta": {"text": text, "thinking": text, "partial_json": text, "signature": text}})
        }),
        2 => (0..4_u64).prop_map(|at| json!({"type": "content_block_stop", "index": at})),
        1 => Just(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}})),
        1 => Just(json!({"type": "message_stop"})),
    ]
}

proptest! {
    /// Whatever the events are: nothing panics, one block is open at a time, and what is kept matches the blocks.
    #[test]
    fn m1_any_events_give_blocks_that_match_what_is_kept(events in prop::collection::vec(event(), 0..16)) {
        let mut answer = Assembler::new(&Origin::default());
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
        let (mut text, mut thinking, mut calls, mut in_call) = (0, 0, 0, false);
        for event in &ready {
            match event {
                ModelEvent::Text(more) => text += more.len(),
                ModelEvent::Thinking(more) => thinking += more.len(),
                ModelEvent::ToolUse { .. } => calls += 1,
                ModelEvent::Input(_) => prop_assert!(in_call, "arguments come only while their call is open"),
                _ => {}
            }
            in_call = matches!(event, ModelEvent::ToolUse { .. } | ModelEvent::Input(_));
        }
        for event in &ready {
            let ModelEvent::Opaque(raw) = event else { continue };
            let mut kept = (0, 0, 0);
            for content in &serde_json::from_str::<Opaque>(raw.get()).unwrap().content {
                match content {
                    Content::Text(bytes) => kept.0 += bytes,
                    Content::Thinking(bytes, _) => kept.1 += bytes,
                    Content::Call => kept.2 += 1,
                    Content::Raw(_) => {}
                }
            }
            prop_assert_eq!(kept, (text, thinking, calls));
        }
    }

    #[test]
    fn m1_any_bytes_are_at_worst_an_error(data in "\\PC{0,60}") {
        let mut ready = VecDeque::new();
        let _ = Assembler::new(&Origin::default()).take_whole(&data, &mut ready);
        let event = SseEvent { event: "error".into(), data };
        let _ = Assembler::new(&Origin::default()).take(&event, &mut ready);
    }
}

/// The end of an answer that stops in or after a call, for this reason.
fn ending(partial: &str, stopped: bool, reason: &str) -> Result<Option<Cut>, ModelError> {
    let mut answer = Assembler::new(&Origin::default());
    let mut ready = VecDeque::new();
    let call = json!({"type": "tool_use", "id": "t", "name": "wipe", "input": {}});
    let mut events = vec![
        json!({"type": "content_block_start", "index": 0, "content_block": call}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"partial_json": partial}}),
    ];
    events.extend(stopped.then(|| json!({"type": "content_block_stop", "index": 0})));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
    for event in events {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        assert!(matches!(answer.take(&event, &mut ready), Ok(false)), "{event:?}");
    }
    answer.finish(&mut ready)?;
    Ok(ready.into_iter().find_map(|event| match event {
        ModelEvent::Cut(cut) => Some(cut),
        _ => None,
    }))
}

#[test]
fn m3_anthropic_a_call_that_a_provider_gave_up_is_no_call_without_arguments() {
    assert!(ending("", false, "abort").unwrap_err().transient);
    for (partial, stopped, reason, cut) in [
        ("", false, "something new", Some(Cut::Incomplete)),
        ("{\"all\": ", true, "something new", Some(Cut::Incomplete)),
        ("", true, "something new", Some(Cut::Incomplete)),
        ("{}", true, "something new", None),
        ("", true, "model_context_window_exceeded", Some(Cut::MaxTokens)),
        ("{\"all\": true}", false, "something new", None),
        ("", false, "tool_use", None),
        ("{}", true, "guardrail_intervened", Some(Cut::ContentFilter)),
    ] {
        assert_eq!(ending(partial, stopped, reason).unwrap(), cut, "{partial:?} {stopped} {reason}");
    }
}

/// The end of an answer that its reader calls complete: its calls, and why it was cut; `None` if it is not complete.
fn told(answer: &mut Assembler, mut ready: VecDeque<ModelEvent>) -> Option<(String, Option<Cut>)> {
    if !answer.is_finished() {
        return None;
    }
    answer.finish(&mut ready).unwrap();
    let (mut said, mut why) = (String::new(), None);
    for event in ready {
        match event {
            ModelEvent::ToolUse { name, .. } => said.push_str(&name),
            ModelEvent::Input(more) | ModelEvent::Text(more) => said.push_str(&more),
            ModelEvent::Cut(cut) => why = Some(cut),
            _ => {}
        }
    }
    Some((said, why))
}

#[test]
fn m3_anthropic_a_call_without_arguments_runs_where_the_server_gives_no_reason_for_its_end() {
    let (none, cut) = (json!({}), Some(Cut::Incomplete));
    let whole = |said: &str| Some((said.to_owned(), None));
    let incomplete = |said: &str| Some((said.to_owned(), cut));
    let text = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}});
    for (events, want) in [
        (vec![begun(0, "a", &none), stopped(0)], whole("wipe{}")),
        (vec![begun(0, "a", &none), part(0, ""), stopped(0)], whole("wipe{}")),
        (vec![begun(0, "a", &none), part(0, "{\"n\":1}"), stopped(0)], whole("wipe{\"n\":1}")),
        (vec![text.clone(), stopped(0)], whole("so")),
        // A call whose own end never came, or came too early.
        (vec![begun(0, "a", &none)], incomplete("wipe")),
        (vec![begun(0, "a", &none), stopped(0), begun(1, "b", &none)], incomplete("wipe{}wipe")),
        (vec![begun(0, "a", &none), part(0, "{\"n\":"), stopped(0)], incomplete("wipe{\"n\":")),
        // So also where another call came after it.
        (vec![begun(0, "a", &none), stopped(0), begun(1, "b", &none), stopped(1)], whole("wipe{}wipe{}")),
        (vec![begun(0, "a", &none), begun(1, "b", &none), stopped(1)], incomplete("wipewipe{}")),
        (vec![begun(0, "a", &none), begun(0, "b", &none), part(0, "{}"), stopped(0)], incomplete("wipewipe{}")),
        (
            vec![begun(0, "a", &none), part(0, "{\"n\":"), stopped(0), begun(1, "b", &none), part(1, "{}"), stopped(1)],
            incomplete("wipe{\"n\":wipe{}"),
        ),
        (vec![], None),
    ] {
        let ends = [json!({"type": "message_stop"})];
        let empty = [json!({"type": "message_delta", "delta": {"stop_reason": ""}}), ends[0].clone()];
        let null = [json!({"type": "message_delta", "delta": {"stop_reason": null}}), ends[0].clone()];
        for end in [&ends[..], &null] {
            assert_eq!(streamed(&[&events[..], end].concat()), want, "{events:?} {end:?}");
        }
        if want.is_some() {
            assert_eq!(streamed(&[&events[..], &empty].concat()), want, "{events:?}");
        }
    }
    // Without `message_stop` a stream has broken off.
    assert_eq!(streamed(&[begun(0, "a", &none), stopped(0)]), None);
}

fn streamed(events: &[Value]) -> Option<(String, Option<Cut>)> {
    let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
    for event in events {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        assert!(answer.take(&event, &mut ready).is_ok(), "{event:?}");
    }
    told(&mut answer, ready)
}

#[test]
fn m3_anthropic_an_answer_in_one_piece_is_whole_without_a_reason() {
    let call = |input: Option<Value>| {
        let mut call = json!({"type": "tool_use", "id": "a", "name": "wipe"});
        if let Some(input) = input {
            call["input"] = input;
        }
        call
    };
    let whole = |said: &str| Some((said.to_owned(), None));
    let cut = |said: &str, why| Some((said.to_owned(), Some(why)));
    for (block, reason, want) in [
        (call(Some(json!({}))), Value::Null, whole("wipe{}")),
        (call(Some(json!({}))), json!(""), whole("wipe{}")),
        (call(None), Value::Null, whole("wipe")),
        (call(Some(json!({"n": 1}))), Value::Null, whole("wipe{\"n\":1}")),
        (json!({"type": "text", "text": "so"}), Value::Null, whole("so")),
        (call(Some(json!({}))), json!("tool_use"), whole("wipe{}")),
        (call(Some(json!({"n": 1}))), json!("something new"), whole("wipe{\"n\":1}")),
        (call(Some(json!({}))), json!("something new"), cut("wipe{}", Cut::Incomplete)),
        (call(Some(json!({}))), json!("max_tokens"), cut("wipe{}", Cut::MaxTokens)),
        (call(Some(json!({}))), json!("model_context_window_exceeded"), cut("wipe{}", Cut::MaxTokens)),
    ] {
        let message = json!({"type": "message", "content": [block], "stop_reason": reason}).to_string();
        let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
        assert!(answer.take_whole(&message, &mut ready).is_ok(), "{message}");
        assert_eq!(told(&mut answer, ready), want, "{message}");
    }
}

/// The calls of a finished answer with these events.
fn calls(events: &[Value]) -> Vec<String> {
    let mut answer = Assembler::new(&Origin::default());
    let mut ready = VecDeque::new();
    for event in events {
        let event = SseEvent { event: String::new(), data: event.to_string() };
        if let Err(error) = answer.take(&event, &mut ready) {
            panic!("{error:?} of {event:?}");
        }
    }
    answer.finish(&mut ready).unwrap();
    let mut calls: Vec<String> = Vec::new();
    for event in ready {
        match event {
            ModelEvent::ToolUse { id, name } => calls.push(format!("{id} {name} ")),
            ModelEvent::Input(more) => calls.last_mut().unwrap().push_str(&more),
            ModelEvent::Text(text) => calls.push(format!("text {text}")),
            _ => {}
        }
    }
    calls
}

fn begun(at: u64, id: &str, input: &Value) -> Value {
    let block = json!({"type": "tool_use", "id": id, "name": "wipe", "input": input});
    json!({"type": "content_block_start", "index": at, "content_block": block})
}

fn part(at: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": at, "delta": {"type": "input_json_delta", "partial_json": text}})
}

fn stopped(at: u64) -> Value {
    json!({"type": "content_block_stop", "index": at})
}

fn over() -> [Value; 2] {
    let usage = json!({"output_tokens": 42});
    [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn m3_anthropic_arguments_that_a_call_begins_with_are_not_lost_where_its_end_never_comes() {
    let prod = json!({"target": "prod"});
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}});
    for (events, want) in [
        (vec![begun(0, "a", &prod)], vec![r#"a wipe {"target":"prod"}"#]),
        (vec![begun(0, "a", &prod), stopped(0)], vec![r#"a wipe {"target":"prod"}"#]),
        (vec![begun(0, "a", &prod), begun(1, "b", &json!({}))], vec![r#"a wipe {"target":"prod"}"#, "b wipe "]),
        (vec![begun(0, "a", &json!({})), part(0, "{\"target\":"), part(0, "1}")], vec![r#"a wipe {"target":1}"#]),
        (vec![begun(0, "a", &prod), part(0, "{\"target\":1}")], vec![r#"a wipe {"target":1}"#]),
    ] {
        assert_eq!(calls(&[&[start.clone()][..], &events, &over()].concat()), want, "{events:?}");
    }
}

#[test]
fn m1_anthropic_blocks_that_share_an_index_are_told_apart() {
    let text = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "so"}});
    let none = json!({});
    let events = [
        text,
        stopped(0),
        begun(0, "a", &none),
        part(0, "{\"n\":1}"),
        stopped(0),
        begun(0, "b", &none),
        // Its beginning again.
        begun(0, "b", &none),
        part(0, "{\"n\":2}"),
        stopped(0),
        // All of it again.
        begun(0, "b", &none),
        part(0, "{\"n\":2}"),
        stopped(0),
    ];
    assert_eq!(calls(&[&events[..], &over()].concat()), ["text so", r#"a wipe {"n":1}"#, r#"b wipe {"n":2}"#]);
}

#[test]
fn m1_anthropic_a_call_that_a_stream_says_twice_is_made_once() {
    let none = json!({});
    let said = |at: u64, n: u32| [begun(at, "a", &none), part(at, &format!("{{\"n\":{n}}}")), stopped(at)];
    let text = json!({"type": "content_block_start", "index": 8, "content_block": {"type": "text", "text": "so"}});
    for again in [0, 1, 5] {
        let events = [&said(0, 1)[..], &said(again, 1), &[text.clone(), stopped(8)], &said(again + 1, 1), &over()];
        assert_eq!(calls(&events.concat()), [r#"a wipe {"n":1}"#, "text so"], "{again}");
        // With other arguments it is another call, which a server gave the same id.
        let events = [&said(0, 1)[..], &said(again, 2), &said(again + 1, 1), &over()];
        assert_eq!(calls(&events.concat()), [r#"a wipe {"n":1}"#, r#"a wipe {"n":2}"#], "{again}");
    }
    // Both at once, in parts.
    let events = [begun(0, "a", &none), begun(1, "a", &none), part(1, "{\"n\""), part(0, "{\"n\":1}"), part(1, ":1}")];
    assert_eq!(calls(&[&events[..], &over()].concat()), [r#"a wipe {"n":1}"#]);
    let events = [begun(0, "a", &none), stopped(0), begun(1, "a", &none), stopped(1)];
    assert_eq!(calls(&[&events[..], &over()].concat()), ["a wipe {}"]);
}

#[test]
fn m1_anthropic_an_answer_that_ends_for_a_call_and_has_none_is_tried_again() {
    let block = |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let thought = block(json!({"type": "thinking", "thinking": "I call."}));
    let text = block(json!({"type": "text", "text": "Done."}));
    let searched = block(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}));
    for (events, is_lost) in [(vec![], true), (vec![thought], true), (vec![text], false), (vec![searched], false)] {
        let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
        for event in events.into_iter().chain([over()[0].clone()]) {
            let event = SseEvent { event: String::new(), data: event.to_string() };
            assert!(matches!(answer.take(&event, &mut ready), Ok(false)), "{event:?}");
        }
        let ended = answer.finish(&mut ready);
        assert_eq!(ended.as_ref().is_err_and(|error| error.transient), is_lost, "{ended:?} {ready:?}");
    }
}

#[test]
fn s23_anthropic_an_error_of_another_form_keeps_its_words() {
    for (data, transient) in [
        (r#"{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}"#, false),
        (r#"{"object":"error","message":"no such model","code":503}"#, true),
        (r#"{"error":{"message":"no such model","code":400}}"#, false),
        (r#"{"type":"error","error":{"type":"not_found_error","message":"no such model"}}"#, false),
        (r#"{"detail":"no such model"}"#, true),
    ] {
        let new = || Assembler::new(&Origin::default());
        let event = |name: &str| SseEvent { event: name.to_owned(), data: data.to_owned() };
        let errors = [
            new().take(&event(""), &mut VecDeque::new()).map(drop),
            new().take(&event("error"), &mut VecDeque::new()).map(drop),
            new().take_whole(data, &mut VecDeque::new()),
        ];
        for error in errors {
            let Err(ReadError::Said(error)) = error else { panic!("{data}: {error:?}") };
            let error = error.into_error("said", &[]);
            assert_eq!((error.transient, &*error.message), (transient, "said: no such model"), "{data}");
        }
    }
    let error = Assembler::new(&Origin::default()).take_whole("{}", &mut VecDeque::new()).unwrap_err();
    let ReadError::Other(error) = error else { panic!("{error:?}") };
    assert!(!error.transient && error.message.contains("JSON that is no message"), "{error}");
}
