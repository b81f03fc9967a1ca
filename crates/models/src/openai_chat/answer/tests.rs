use proptest::prelude::*;
use serde_json::json;

use super::*;

/// One call of the model's answer.
#[derive(Clone, Debug)]
struct Sent {
    args: String,
    /// Where the argument text is cut, in characters.
    cut: usize,
}

fn sent() -> impl Strategy<Value = Sent> {
    let args = prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(r#"{"n": 9007199254740993, "p":1.10}"#.to_owned()),
        Just("{\"s\": \"}{\\\"[\\\\\", \"a\": [{}, []]} \n".to_owned()),
        Just("{\"broken\": [1".to_owned()),
        Just("}{".to_owned()),
        "[a-z{}\"\\\\ đ🙂]{0,20}",
    ];
    (args, 1..9_usize).prop_map(|(args, cut)| Sent { args, cut })
}

fn told(error: ReadError) -> ModelError {
    match error {
        ReadError::Said(error) => error.into_error("", &[]),
        ReadError::Other(error) => error,
    }
}

/// Takes chunks and returns the calls that come out, checking that one block is open at a time.
fn calls(chunks: &[String]) -> Vec<(String, String, String)> {
    let mut answer = Assembler::new(&Origin::default());
    let mut ready = VecDeque::new();
    for chunk in chunks {
        answer.take_chunk(chunk, &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
    }
    answer.finished |= answer.any;
    answer.finish(&mut ready).unwrap();
    assert!(matches!(ready.pop_back(), Some(ModelEvent::Stop)));
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for event in ready {
        match event {
            ModelEvent::ToolUse { id, name } => calls.push((id, name, String::new())),
            ModelEvent::Input(text) => calls.last_mut().unwrap().2.push_str(&text),
            ModelEvent::Cut(Cut::Incomplete) | ModelEvent::Opaque(_) => {}
            other => panic!("{other:?}"),
        }
    }
    calls
}

fn chunk(call: &serde_json::Value) -> String {
    json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).to_string()
}

proptest! {
    /// Calls whose fragments come in any order, after all their beginnings, keep their exact argument text.
    #[test]
    fn m1_interleaved_fragments_are_put_together_exactly(
        sent in prop::collection::vec(sent(), 1..5),
        turns in prop::collection::vec(0..5_usize, 0..60),
    ) {
        let mut chunks = Vec::new();
        let mut rest: Vec<Vec<String>> = Vec::new();
        for (i, call) in sent.iter().enumerate() {
            let id = format!("id{i}");
            chunks.push(chunk(&json!({"index": i, "id": id, "function": {"name": format!("t{i}"), "arguments": ""}})));
            let chars: Vec<char> = call.args.chars().collect();
            rest.push(chars.chunks(call.cut).rev().map(|part| part.iter().collect()).collect());
        }
        let mut turns = turns.into_iter();
        while rest.iter().any(|rest| !rest.is_empty()) {
            // When the given turns are used up, the rest comes call by call.
            let at = turns.next().unwrap_or_else(|| rest.iter().position(|rest| !rest.is_empty()).unwrap());
            if let Some(part) = rest.get_mut(at).and_then(Vec::pop) {
                chunks.push(chunk(&json!({"index": at, "function": {"arguments": part}})));
            }
        }
        // Only white space may follow a complete value, and it may be lost once the call has ended; any other text
        // after one is refused, and cannot come from these.
        let whole = |args: &str| {
            let mut scan = Scan::default();
            scan.feed(args.as_bytes());
            scan.is_whole()
        };
        prop_assume!(sent.iter().all(|call| whole(&call.args) || (1..call.args.len()).all(|end| {
            !call.args.is_char_boundary(end) || !whole(&call.args[..end])
        })));
        let got = calls(&chunks);
        prop_assert_eq!(got.len(), sent.len());
        for (i, ((id, name, args), call)) in got.iter().zip(&sent).enumerate() {
            prop_assert_eq!((id, name), (&format!("id{i}"), &format!("t{i}")));
            if whole(&call.args) {
                prop_assert_eq!(args.trim_end(), call.args.trim_end());
            } else {
                prop_assert_eq!(args, &call.args);
            }
        }
    }

    /// Whatever a provider sends, nothing panics.
    #[test]
    fn r9_any_chunk_is_an_answer_or_an_error(
        chunks in prop::collection::vec(prop_oneof![
            "\\PC{0,40}",
            (any::<Option<u8>>(), "[ab]{0,1}", "[tu]{0,1}", prop::option::of("[{}\"\\[,a ]{0,6}")).prop_map(
                |(index, id, name, args)| chunk(&json!({"index": index, "id": id, "function": {"name": name, "arguments": args}})),
            ),
            "[a-z]{0,3}".prop_map(|text| json!({"choices": [{"delta": {"content": text}}]}).to_string()),
        ], 0..30),
    ) {
        let mut answer = Assembler::new(&Origin::default());
        let mut ready = VecDeque::new();
        for chunk in chunks {
            let _ = answer.take_chunk(&chunk, &mut ready);
        }
        answer.finished |= answer.any;
        let _ = answer.finish(&mut ready);
        let mut open = false;
        for event in ready {
            match event {
                ModelEvent::ToolUse { .. } => open = true,
                ModelEvent::Input(_) => prop_assert!(open),
                _ => open = false,
            }
        }
    }
}

/// The end of an answer whose calls have these arguments.
fn ending(arguments: &[&str], reason: Option<&str>) -> Result<Option<Cut>, ModelError> {
    let mut answer = Assembler::new(&Origin::default());
    let mut ready = VecDeque::new();
    for (i, arguments) in arguments.iter().enumerate() {
        let call = json!({"index": i, "id": i.to_string(), "function": {"name": "wipe", "arguments": arguments}});
        answer.take_chunk(&chunk(&call), &mut ready).map_err(told)?;
    }
    if let Some(reason) = reason {
        let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        answer.take_chunk(&last.to_string(), &mut ready).map_err(told)?;
    }
    let done = SseEvent { event: String::new(), data: "[DONE]".to_owned() };
    assert!(answer.take(&done, &mut ready).map_err(told)?);
    answer.finish(&mut ready)?;
    Ok(ready.into_iter().find_map(|event| match event {
        ModelEvent::Cut(cut) => Some(cut),
        _ => None,
    }))
}

#[test]
fn m3_a_call_that_a_provider_gave_up_is_no_call_without_arguments() {
    for given_up in ["abort", "aborted", "error", "cancelled"] {
        let error = ending(&[""], Some(given_up)).unwrap_err();
        assert!(error.transient && error.message.ends_with(given_up), "{error}");
    }
    for unsaid in [None, Some(""), Some("something new")] {
        let before_others = [&["", "{}"][..], &["{\"a\": [1", "{}"], &["{}", "", "{}"]];
        let last = [&[""][..], &[" \n"], &["{\"all\": "], &["{}", ""], &["{}", "{\"a\": [1"]];
        for broken in [&last[..], &before_others].concat() {
            assert_eq!(ending(broken, unsaid).unwrap(), Some(Cut::Incomplete), "{broken:?} {unsaid:?}");
        }
        // Some servers say nothing of a proper end.
        for whole in [&[][..], &["{}"], &["{\"all\": true} "], &["{}", "{\"n\": 1}"]] {
            if !whole.is_empty() || unsaid == Some("something new") {
                assert_eq!(ending(whole, unsaid).unwrap(), None, "{whole:?} {unsaid:?}");
            }
        }
    }
    // A statement that the answer is whole is believed: some models send nothing for no arguments.
    for whole in ["stop", "tool_calls", "function_call"] {
        assert_eq!(ending(&[""], Some(whole)).unwrap(), None, "{whole}");
    }
    assert_eq!(ending(&["{}"], Some("guardrail_intervened")).unwrap(), Some(Cut::ContentFilter));
}

#[test]
fn m3_chat_a_cut_call_is_not_whole_where_another_one_began_after_it() {
    let fragment = |index: u32, arguments: &str, text: &str| {
        let call =
            json!({"index": index, "id": index.to_string(), "function": {"name": "wipe", "arguments": arguments}});
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call], "content": text}}]}).to_string()
    };
    let arguments = |fragments: &[String], reason: &str| -> Vec<String> {
        let mut answer = Assembler::new(&Origin::default());
        let mut ready = VecDeque::new();
        let last = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string();
        for chunk in fragments.iter().chain([&last]) {
            answer.take_chunk(chunk, &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
        }
        answer.finish(&mut ready).unwrap();
        let mut calls = Vec::new();
        for event in ready {
            match event {
                ModelEvent::ToolUse { .. } => calls.push(String::new()),
                ModelEvent::Input(text) => calls.last_mut().unwrap().push_str(&text),
                _ => {}
            }
        }
        calls
    };
    let (begun, other, closed) = (fragment(0, "{\"path\": \"/", ""), fragment(1, "{}", ""), fragment(0, "\"}", ""));
    let in_turns = [begun.clone(), other.clone(), closed.clone()];
    assert_eq!(arguments(&in_turns, "length"), ["{\"path\": \"/\"}…", "{}"]);
    assert_eq!(arguments(&in_turns, "tool_calls"), ["{\"path\": \"/\"}", "{}"]);
    // Something comes after it, so it was whole.
    let goes_on = [begun.clone(), fragment(1, "{", ""), closed.clone(), fragment(1, "}", "")];
    assert_eq!(arguments(&goes_on, "length"), ["{\"path\": \"/\"}", "{}"]);
    let one_by_one = [begun, closed, other];
    assert_eq!(arguments(&one_by_one, "length"), ["{\"path\": \"/\"}", "{}"]);
}

#[test]
fn m1_chat_an_answer_that_ends_for_a_call_and_has_none_is_tried_again() {
    let of = |delta: serde_json::Value, reason: &str| {
        let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        answer.take_chunk(&chunk.to_string(), &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
        answer.finish(&mut ready)
    };
    for reason in ["tool_calls", "function_call"] {
        for nothing in [json!({}), json!({"content": ""}), json!({"content": null, "reasoning": "I call."})] {
            let error = of(nothing, reason).unwrap_err();
            assert!(error.transient && error.message.contains(reason), "{error}");
        }
        // Tools of the provider itself may have run, or the model changed its mind.
        assert!(of(json!({"content": "Done."}), reason).is_ok());
    }
    assert!(of(json!({}), "stop").is_ok());
}

#[test]
fn m1_arguments_continued_after_their_end_are_refused_and_not_lost() {
    let mut answer = Assembler::new(&Origin::default());
    let mut ready = VecDeque::new();
    for call in [
        json!({"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}),
        json!({"index": 1, "id": "b", "function": {"name": "t", "arguments": "{}"}}),
        json!({"index": 0, "function": {"arguments": " \n"}}),
    ] {
        answer.take_chunk(&chunk(&call), &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
    }
    let late = chunk(&json!({"index": 0, "function": {"arguments": ",1"}}));
    assert!(told(answer.take_chunk(&late, &mut ready).unwrap_err()).transient);
}

#[test]
fn x_text_in_the_wrong_place_is_not_repeated() {
    let mut answer = Assembler::new(&Origin::default());
    for (chunk, kind) in [
        (r#"{"choices":"a \"secret\", expected nowhere"}"#, "invalid type: string, expected a sequence"),
        (r#"{"choices":[{"delta":"a secret"}]}"#, "invalid type: string, expected struct Delta"),
        (r#"{"choices":7}"#, "invalid type: integer `7`, expected a sequence"),
    ] {
        let error = told(answer.take_chunk(chunk, &mut VecDeque::new()).unwrap_err());
        assert!(error.message.contains(kind) && !error.message.contains("secret"), "{}", error.message);
    }
}

fn made(calls: &[(String, String, String)]) -> Vec<String> {
    calls.iter().map(|(id, name, args)| format!("{id} {name} {args}")).collect()
}

#[test]
fn e56_chat_whole_calls_with_one_id_are_each_a_call() {
    let call = |index: Option<u64>, args: &str| {
        let mut call = json!({"id": "x", "function": {"name": "note", "arguments": args}});
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        call
    };
    let want = [r#"x note {"n":1}"#, r#" note {"n":2}"#];
    for index in [Some(0), None] {
        let (one, two) = (call(index, "{\"n\":1}"), call(index, "{\"n\":2}"));
        assert_eq!(made(&calls(&[chunk(&one), chunk(&two)])), want, "{index:?}");
        // In fragments, each with everything.
        let parts = ["{\"n\"", ":1}", "", "{\"n\"", ":2}", ""].map(|part| chunk(&call(index, part)));
        assert_eq!(made(&calls(&parts)), want, "{index:?}");
        // A fragment may have the id alone.
        let rest = json!({"id": "x", "function": {"arguments": ":2}"}});
        let parts = [chunk(&one), chunk(&call(index, "{\"n\"")), chunk(&rest)];
        assert_eq!(made(&calls(&parts)), want, "{index:?}");
    }
    for (one, two) in [("{\"n\":1}", "{\"n\":2}"), ("", ""), ("{}", "")] {
        let message = json!({"tool_calls": [call(None, one), call(Some(0), two), call(Some(0), two)]});
        let whole = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]});
        let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
        answer.take_whole(&whole.to_string(), &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
        answer.finish(&mut ready).unwrap();
        let begun = ready.iter().filter(|event| matches!(event, ModelEvent::ToolUse { .. })).count();
        assert_eq!(begun, 3, "{ready:?}");
    }
}

#[test]
fn m3_a_fragment_belongs_to_the_call_whose_id_it_names() {
    let begun = |index: u64, id: &str, name: &str| {
        chunk(&json!({"index": index, "id": id, "function": {"name": name, "arguments": ""}}))
    };
    let part = |index: u64, id: Option<&str>, name: Option<&str>, args: &str| {
        chunk(&json!({"index": index, "id": id, "function": {"name": name, "arguments": args}}))
    };
    let want = [r#"a wipe {"dir":"/tmp/x"}"#, "b list {}"];
    // Index 0 for all, whether or not a fragment has the name again.
    for name in [None, Some("wipe")] {
        let list = name.map(|_| "list");
        let parts = [
            begun(0, "a", "wipe"),
            begun(0, "b", "list"),
            part(0, Some("a"), name, "{\"dir\":"),
            part(0, Some("b"), list, "{}"),
            part(0, Some("a"), name, "\"/tmp/x\"}"),
        ];
        assert_eq!(made(&calls(&parts)), want, "{name:?}");
    }
    // What has no id goes on with the call that was named last.
    let parts = [
        begun(0, "a", "wipe"),
        begun(0, "b", "list"),
        part(0, Some("a"), None, "{\"dir\":"),
        part(0, None, None, "\"/tmp/x\"}"),
        part(0, Some("b"), None, "{}"),
    ];
    assert_eq!(made(&calls(&parts)), want);
    // An index that nothing began at.
    let parts = [begun(0, "a", "wipe"), begun(1, "b", "list"), part(7, Some("a"), None, "{\"dir\":\"/tmp/x\"}")];
    assert_eq!(made(&calls(&parts)), [want[0], "b list "]);
    // Where an id is that of several calls, or new in each fragment, the index tells them apart.
    for (first, second) in [(Some("x"), Some("x")), (Some("y"), Some("z")), (None, None)] {
        let parts = [
            begun(0, "x", "wipe"),
            begun(1, if first == Some("x") { "x" } else { "b" }, "list"),
            part(0, first, None, "{\"dir\":\"/tmp/x\"}"),
            part(1, second, None, "{}"),
        ];
        let made = made(&calls(&parts));
        let of = |call: &str| call.split_once(' ').map(|(_, rest)| rest.to_owned());
        assert_eq!(
            made.iter().filter_map(|call| of(call)).collect::<Vec<_>>(),
            want.iter().filter_map(|call| of(call)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn m3_chat_another_name_is_another_call_though_the_one_before_has_no_arguments() {
    let named = |name: &str, args: &str| chunk(&json!({"function": {"name": name, "arguments": args}}));
    assert_eq!(made(&calls(&[named("wipe", ""), named("list", "")])), [" wipe ", " list "]);
    assert_eq!(
        made(&calls(&[named("wipe", "{}"), named("list", ""), named("list", "{\"n\":1}")])),
        [" wipe {}", " list {\"n\":1}"]
    );
    // The same name goes on with it.
    assert_eq!(made(&calls(&[named("wipe", ""), named("wipe", "{\"n\""), named("wipe", ":1}")])), [" wipe {\"n\":1}"]);
}

#[test]
fn m1_chat_a_call_that_a_stream_says_twice_is_made_once() {
    let call = |index: u64| json!({"index": index, "id": "x", "function": {"name": "pay", "arguments": "{\"n\":1}"}});
    let part = |args: &str| json!({"index": 0, "id": "x", "function": {"name": "pay", "arguments": args}});
    for again in [0, 1] {
        let at_once = [chunk(&call(0)), chunk(&call(again))];
        let in_parts = [chunk(&part("{\"n\"")), chunk(&part(":1}")), chunk(&call(again))];
        for chunks in [&at_once[..], &in_parts] {
            assert_eq!(made(&calls(chunks)), [r#"x pay {"n":1}"#], "{chunks:?}");
        }
    }
}

#[test]
fn m1_chat_a_message_that_repeats_the_stream_is_not_said_again() {
    let call = json!({"index": 0, "id": "x", "function": {"name": "pay", "arguments": "{\"n\":1}"}});
    let message = json!({"content": "so", "tool_calls": [call]});
    let last = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}).to_string();
    assert_eq!(made(&calls(&[chunk(&call), last.clone()])), [r#"x pay {"n":1}"#]);
    let (mut answer, mut ready) = (Assembler::new(&Origin::default()), VecDeque::new());
    let role = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}).to_string();
    for chunk in [role, last] {
        answer.take_chunk(&chunk, &mut ready).unwrap_or_else(|e| panic!("{}", told(e)));
    }
    assert!(matches!(ready.front(), Some(ModelEvent::Text(text)) if text == "so"), "nothing was streamed: {ready:?}");
}

#[test]
fn s23_chat_an_error_of_another_form_keeps_its_words() {
    let new = || Assembler::new(&Origin::default());
    for (data, transient) in [
        (r#"{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}"#, false),
        (r#"{"object":"error","message":"no such model","code":503}"#, true),
        (r#"{"code":"InvalidApiKey","message":"no such model","request_id":"r"}"#, true),
        (r#"[{"error":{"message":"no such model","code":400}}]"#, false),
        (r#"{"detail":"no such model"}"#, true),
    ] {
        let event = SseEvent { event: String::new(), data: data.to_owned() };
        let errors = [new().take(&event, &mut VecDeque::new()).map(drop), new().take_whole(data, &mut VecDeque::new())];
        for error in errors {
            let Err(ReadError::Said(error)) = error else { panic!("{data}: {error:?}") };
            let error = error.into_error("said", &[]);
            assert_eq!((error.transient, &*error.message), (transient, "said: no such model"), "{data}");
        }
    }
    // Data that is no part of an answer changes nothing in a stream, and is no answer by itself.
    for other in ["{}", r#"{"type":"ping"}"#, r#"{"message":"loading"}"#] {
        assert!(new().take_chunk(other, &mut VecDeque::new()).is_ok());
        let error = told(new().take_whole(other, &mut VecDeque::new()).unwrap_err());
        assert!(!error.transient && error.message.contains("JSON that is no chat completion"), "{error}");
    }
}
