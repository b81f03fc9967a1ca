use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_core::{
    conversation::{AssistantMessage, Message, ToolResult},
    journal::record::CallStatus,
};
use futures::future::BoxFuture;

use super::*;
use countersign_engine::model::Transcript;

/// A conversation that counts how often it is asked.
#[derive(Clone, Default)]
struct Talk {
    user: String,
    result: String,
    asked: Arc<AtomicUsize>,
    messages: Vec<Message>,
}

impl Talk {
    fn answer(&self, text: &str) -> BoxFuture<'static, Result<String, ModelError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let text = text.to_owned();
        Box::pin(async move { Ok(text) })
    }
}

impl Transcript for Talk {
    fn messages(&self) -> BoxFuture<'_, Result<Arc<Vec<Message>>, ModelError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let messages = Arc::new(self.messages.clone());
        Box::pin(async move { Ok(messages) })
    }
    fn last_user(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.answer(&self.user)
    }
    fn last_tool_result(&self) -> BoxFuture<'_, Result<String, ModelError>> {
        self.answer(&self.result)
    }
}

fn script(json: &str) -> Scripted {
    Scripted::from_json(json).unwrap()
}

fn refused(json: &str) -> String {
    Scripted::from_json(json).unwrap_err().to_string()
}

fn stream(model: &Scripted, answers_before: u64, talk: &Talk) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let mut request = ModelRequest::new("s", talk.clone());
    request.answers_before = answers_before;
    model.call(request)
}

fn show(event: Result<ModelEvent, ModelError>) -> String {
    match event {
        Ok(ModelEvent::Text(text)) => format!("text {text}"),
        Ok(ModelEvent::Thinking(text)) => format!("thinking {text}"),
        Ok(ModelEvent::ToolUse { id, name }) => format!("call {id} {name}"),
        Ok(ModelEvent::Input(text)) => format!("input {text}"),
        Ok(ModelEvent::Stop) => "stop".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("error {} transient={}", error.message, error.transient),
    }
}

async fn events(model: &Scripted, answers_before: u64, talk: &Talk) -> Vec<String> {
    stream(model, answers_before, talk).map(show).collect().await
}

#[tokio::test]
async fn m4_the_nth_answer_takes_entry_n_and_the_end_says_so() {
    let model = script(r#"{"turns": [{"text": "one"}, {"thinking": "hm", "text": "two"}, {}]}"#);
    let talk = Talk::default();
    assert_eq!(events(&model, 0, &talk).await, ["text one", "stop"]);
    assert_eq!(events(&model, 0, &talk).await, ["text one", "stop"], "asked again, it answers again");
    assert_eq!(events(&model, 1, &talk).await, ["thinking hm", "text two", "stop"]);
    assert_eq!(events(&model, 2, &talk).await, ["stop"]);
    assert_eq!(events(&model, 3, &talk).await, ["text (end of script)", "stop"]);
    assert_eq!(events(&model, u64::MAX, &talk).await, ["text (end of script)", "stop"]);
    assert_eq!(talk.asked.load(Ordering::SeqCst), 0, "nothing was needed from the conversation");
}

#[tokio::test]
async fn m4_a_repeating_script_starts_over() {
    let model =
        script(r#"{"turns": [{"text": "a"}, {"tool_calls": [{"name": "t", "args": {}}]}], "at_end": "repeat"}"#);
    let talk = Talk::default();
    assert_eq!(events(&model, 2, &talk).await, ["text a", "stop"]);
    assert_eq!(events(&model, 3, &talk).await, ["call call_4_1 t", "input {}", "stop"], "ids stay unique");
    assert_eq!(events(&script(r#"{"turns":[],"at_end":"repeat"}"#), 0, &talk).await[0], "text (end of script)");
}

#[tokio::test]
async fn m4_arguments_keep_every_byte_of_their_text() {
    let model = script(
        r#"{"turns": [{"tool_calls": [
            {"name": "pay", "args": {"n": 9007199254740993, "p":1.10,  "s": "\u00e9\/", "n": 1e400}},
            {"id": "mine", "name": "broken", "args": "{\"a\": "},
            {"name": "none", "args": ""}
        ]}]}"#,
    );
    assert_eq!(
        events(&model, 0, &Talk::default()).await,
        [
            "call call_1_1 pay",
            r#"input {"n": 9007199254740993, "p":1.10,  "s": "\u00e9\/", "n": 1e400}"#,
            "call mine broken",
            r#"input {"a": "#,
            "call call_1_3 none",
            "stop",
        ]
    );
}

#[tokio::test]
async fn m4_placeholders_are_filled_in_and_escaped_inside_json_strings_only() {
    let model = script(
        r#"{"turns": [{
            "thinking": "{{last_user}}!", "text": "{{ last_user }} / {{ last_tool_result }} / {{ other }} / {{{ last_user }}}",
            "tool_calls": [
                {"name": "t", "args": {"q": "say \"{{ last_user }}\"", "r": ["{{  last_tool_result  }}"]}},
                {"name": "raw", "args": "{{ last_tool_result }}"}
            ]
        }, {"error": "no: {{ last_user }}"}]}"#,
    );
    let talk = Talk { user: "a \"b\"\n\\".into(), result: "{\"x\": 1}".into(), ..Talk::default() };
    assert_eq!(
        events(&model, 0, &talk).await,
        [
            "thinking a \"b\"\n\\!",
            "text a \"b\"\n\\ / {\"x\": 1} / {{ other }} / {a \"b\"\n\\}",
            "call call_1_1 t",
            r#"input {"q": "say \"a \"b\"\n\\\"", "r": ["{\"x\": 1}"]}"#,
            "call call_1_2 raw",
            "input {\"x\": 1}",
            "stop",
        ]
    );
    assert_eq!(talk.asked.load(Ordering::SeqCst), 2, "each is asked for once");
    assert_eq!(events(&model, 1, &talk).await, ["error no: a \"b\"\n\\ transient=false"]);
}

#[tokio::test]
async fn m4_an_error_fails_the_call_for_good_after_what_else_the_entry_has() {
    let model = script(r#"{"turns": [{"error": "on fire"}, {"text": "half", "error": "cut"}]}"#);
    assert_eq!(events(&model, 0, &Talk::default()).await, ["error on fire transient=false"]);
    assert_eq!(events(&model, 1, &Talk::default()).await, ["text half", "error cut transient=false"]);
}

#[tokio::test]
async fn m4_chunks_have_the_given_length_and_join_to_the_same_text() {
    let model = script(
        r#"{"turns": [{"text": "đặt lệnh", "tool_calls": [{"name": "t", "args": {"a": 1.0}}]},
            {"text": "<{{ last_user }}>"}], "chunk_chars": 3}"#,
    );
    let talk = Talk { user: "12345".into(), ..Talk::default() };
    assert_eq!(
        events(&model, 0, &talk).await,
        [
            "text đặt",
            "text  lệ",
            "text nh",
            "call call_1_1 t",
            "input {\"a",
            "input \": ",
            "input 1.0",
            "input }",
            "stop"
        ]
    );
    assert_eq!(events(&model, 1, &talk).await, ["text <12", "text 345", "text >", "stop"]);
    assert_eq!(events(&model, 9, &talk).await.concat().replace("text ", ""), "(end of script)stop");
}

#[tokio::test(start_paused = true)]
async fn m4_a_delay_is_spread_over_the_parts_of_the_answer() {
    let model = script(
        r#"{"turns": [{"text": "abcd", "delay_ms": 4000}, {"delay_ms": 700}, {"error": "late", "delay_ms": 30}],
            "chunk_chars": 1}"#,
    );
    let start = tokio::time::Instant::now();
    let mut seen = Vec::new();
    for entry in 0..3 {
        let mut stream = stream(&model, entry, &Talk::default());
        while let Some(event) = stream.next().await {
            seen.push((start.elapsed().as_millis(), show(event)));
        }
    }
    let want = [
        (1000, "text a"),
        (2000, "text b"),
        (3000, "text c"),
        (4000, "text d"),
        (4000, "stop"),
        (4700, "stop"),
        (4730, "error late transient=false"),
    ];
    let want: Vec<_> = want.into_iter().map(|(at, event)| (at, event.to_owned())).collect();
    assert_eq!(seen, want);
}

#[test]
fn m4_a_wrong_script_is_refused_with_the_place_and_the_nearest_right_name() {
    let error = refused("{\n  \"turns\": [\n    {\"txt\": \"x\"}]}");
    assert!(error.starts_with("line 3, column ") && error.ends_with("did you mean `text`?"), "{error}");
    assert!(error.contains("unknown key `txt`"), "{error}");
    for (json, want) in [
        (r#"{"turns": [], "at_end": "repeet"}"#, "did you mean `repeat`?"),
        (r#"{"turn": []}"#, "did you mean `turns`?"),
        (r#"{"turns": [], "zzzzzzzzzzzz": 1}"#, "expected one of `turns`, `rules`, `at_end`, `chunk_chars`"),
        (r#"{"chunk_chars": 3}"#, "neither `turns`, answers in order, nor `rules`"),
        (r#"{"turns": [], "rules": []}"#, "`turns` or `rules`, not both"),
        (r#"{"rules": [], "at_end": "repeat"}"#, "`rules` have no end"),
        (r#"{"turns": [{"when": {}, "text": "x"}]}"#, "`when` is for `rules`"),
        (r#"{"rules": [{"when": {"usr": "x"}}]}"#, "did you mean `user`?"),
        (r#"{"rules": [{"when": {"status": "refused"}}]}"#, "expected one of `success`, `error`, `rejected`"),
        (r#"{"rules": [{"when": {"user": "(a"}}]}"#, "`user` is not a regular expression: unclosed group"),
        (r#"{"rules": [{"when": {"user": 5}}]}"#, "`user` must be a regular expression"),
        (r#"{"rules": [{"when": {"result": "(\\w{1000}){1000}"}}]}"#, "size limit"),
        (
            r#"{"rules": [{"when": {"user": "(?<a>x)", "result": "(?<a>y)"}}]}"#,
            "the group `a` is in `user` and in `result`",
        ),
        (r#"{"rules": [{"when": {"user": "(?<amount>x)"}, "text": "{{ amuont }}"}]}"#, "did you mean `{{ amount }}`?"),
        (r#"{"rules": [{"text": "{{ last_user | lower }}"}]}"#, "unknown filter `lower`"),
        (r#"{"turns": [{"tool_calls": [{"name": "x"}]}]}"#, "missing field `args`"),
        (r#"{"turns": [{"tool_calls": [{"name": "x", "arguments": {}}]}]}"#, "unknown key `arguments`"),
        (r#"{"turns": [{"tool_calls": [{"name": "x", "args": 5}]}]}"#, "must be an object, or a string"),
        (r#"{"turns": [{"text": 5}]}"#, "`text` must be a string"),
        (r#"{"turns": [{"delay_ms": -1}]}"#, "expected u64"),
        (r#"{"turns": [], "chunk_chars": 0}"#, "`chunk_chars` must be at least 1"),
        (r#"{"turns": [{"text": "{{ last_usr }}"}]}"#, "did you mean `{{ last_user }}`?"),
        (r#"{"turns": [{"text": "a""#, "EOF"),
        ("", "EOF"),
        (r#"{"turns": []} x"#, "trailing characters"),
    ] {
        let error = refused(json);
        assert!(error.starts_with("line 1, column ") && error.contains(want), "{json}: {error}");
    }
}

#[test]
fn m4_an_error_about_a_value_says_where_it_begins() {
    let error =
        Scripted::from_json("{\"turns\": [\n {\"tool_calls\": [{\"name\": \"x\", \"args\": [1]}]}]}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 40));
}

#[test]
fn m4_a_script_file_is_named_in_its_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("demo.json");
    let error = Scripted::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("demo.json: the script cannot be read"), "{error}");
    std::fs::write(&path, "\u{feff}{\"turns\": [{\"tekst\": \"\"}]}").unwrap();
    let error = Scripted::from_file(&path).unwrap_err().to_string();
    assert!(error.contains("demo.json: line 1, column") && error.contains("did you mean `text`?"), "{error}");
    std::fs::write(&path, "\u{feff}{\"turns\": [{\"text\": \"hi\"}]}").unwrap();
    assert!(Scripted::from_file(&path).is_ok());
}

/// The messages and calls: `user: TEXT`, `answer`, or `TOOL STATUS: RESULT`.
fn talk(lines: &[&str]) -> Talk {
    let result = |name: &str, status, text: &str| Message::from(ToolResult::new("c", name, text.to_owned(), status));
    let message = |line: &&str| match line.split_once(": ") {
        None => Message::from(AssistantMessage::new("m", Vec::new())),
        Some(("user", text)) => Message::User(text.to_owned().into()),
        Some((call, text)) => match call.split_once(' ').expect("a status") {
            (name, "rejected") => result(name, CallStatus::Rejected, text),
            (name, "error") => result(name, CallStatus::Error, text),
            (name, _) => result(name, CallStatus::Success, text),
        },
    };
    Talk { messages: lines.iter().map(message).collect(), ..Talk::default() }
}

#[tokio::test]
async fn m4_the_first_rule_that_applies_answers_what_was_said_and_done() {
    let model = script(
        r#"{"rules": [
            {"when": {"after": "user", "user": "(?i)^sell (?<n>[0-9.]+) (?<what>[a-z]{3})(?: at (?<price>[0-9]+))?$"},
             "text": "<{{ price }}>",
             "tool_calls": [{"name": "sell", "args": "{\"what\": \"{{ what | upper }}\", \"n\": {{ n | digits }}}"}]},
            {"when": {"after": "sell", "status": "rejected"}, "text": "not sold"},
            {"when": {"after": "sell", "status": "error"}, "text": "failed"},
            {"when": {"after": "sell", "user": "(?<who>.*)", "result": "Order (?<id>[0-9]+)"}, "text": "sold by {{id}}"},
            {"when": {"status": "error"}, "text": "some error"},
            {"when": {"after": "user"}, "text": "what?"}
        ]}"#,
    );
    for (lines, want) in [
        (
            &["user: Sell 1.000 fpt"][..],
            &["text <>", "call call_1_1 sell", r#"input {"what": "FPT", "n": 1000}"#, "stop"][..],
        ),
        (&["user: sell 5 VNM at 82"], &["text <82>", "call call_1_1 sell", r#"input {"what": "VNM", "n": 5}"#, "stop"]),
        (&["user: hello"], &["text what?", "stop"]),
        (&["user: sell 5 VNM", "answer", "sell rejected: no"], &["text not sold", "stop"]),
        (&["user: sell 5 VNM", "answer", "sell rejected: no", "user: too dear"], &["text not sold", "stop"]),
        (&["user: sell 5 VNM", "answer", "sell error: no"], &["text failed", "stop"]),
        (&["user: sell 5 VNM", "answer", "sell success: [edited]\nOrder 7"], &["text sold by 7", "stop"]),
        // Only messages since the last answer count.
        (&["user: sell 5 VNM", "answer", "sell rejected: no", "answer", "user: hm"], &["text what?", "stop"]),
        (&["user: sell 5 VNM", "answer", "look error: no"], &["text some error", "stop"]),
        (&["user: sell 5 VNM", "answer", "look success: yes"], &["text (no rule applies)", "stop"]),
        (&[], &["text (no rule applies)", "stop"]),
    ] {
        assert_eq!(events(&model, 0, &talk(lines)).await, want, "{lines:?}");
    }
    // The number of the answer counts only for ids.
    assert_eq!(events(&model, 7, &talk(&["user: sell 5 VNM"])).await[1], "call call_8_1 sell");
}
