//! Compression (spec G5): what models read of a long session, and what happens while it is compressed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    Agent, Decision, Locale, Message, Principal, RunState, Status, Usage,
    compression::Compression,
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy, scripted::Scripted},
    run::{NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use countersign_core::{
    journal::{
        draft::OnPending,
        record::{Record, records},
    },
    locale::Text,
};
use countersign_runtime::run::{Direction, HistoryQuery};
use futures::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::json;
use tokio::sync::Notify;

use crate::{
    models_fake::{Fake, deltas, end},
    support::{Ledger, decide, entry, send, stores},
};

/// The requests to a model: the instructions, and the messages as text.
type Seen = Arc<Mutex<Vec<(String, Vec<String>)>>>;

enum Reply {
    Text(&'static str),
    Fail(ModelError),
    Hang,
    Panic,
}

/// A model that records its requests.
#[derive(Clone)]
struct Witness {
    seen: Seen,
    asked: Arc<Notify>,
    reply: Arc<dyn Fn(usize) -> Reply + Send + Sync>,
}

impl Witness {
    /// `reply` is given the number of the call, from 0.
    fn new(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Witness {
        Witness { seen: Seen::default(), asked: Arc::default(), reply: Arc::new(reply) }
    }

    fn seen(&self) -> Vec<(String, Vec<String>)> {
        self.seen.lock().expect("seen").clone()
    }

    fn last(&self) -> Vec<String> {
        self.seen().last().expect("it was asked").1.clone()
    }
}

impl Model for Witness {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let me = self.clone();
        let answer = async move {
            let words = request.conversation.messages().await?.iter().map(word).collect();
            let n = {
                let mut seen = me.seen.lock().expect("seen");
                seen.push((request.instructions.to_string(), words));
                seen.len() - 1
            };
            me.asked.notify_one();
            match (me.reply)(n) {
                Reply::Text(text) => Ok(vec![
                    Ok(ModelEvent::Text(text.to_owned())),
                    Ok(ModelEvent::Usage(Usage { input_tokens: 0, output_tokens: 3, ..Usage::default() })),
                    Ok(ModelEvent::Stop),
                ]),
                Reply::Fail(error) => Err(error),
                Reply::Hang => std::future::pending().await,
                Reply::Panic => panic!("a broken adapter"),
            }
        };
        answer
            .map(|events: Result<Vec<_>, ModelError>| stream::iter(events.unwrap_or_else(|error| vec![Err(error)])))
            .flatten_stream()
            .boxed()
    }
}

fn word(message: &Message) -> String {
    match message {
        Message::User(text) => format!("u {text}"),
        Message::Assistant(_) => "a".to_owned(),
        Message::ToolResult(result) => format!("r {}", result.text),
    }
}

/// A text that is longer than any summary of it here.
fn long(text: &str) -> String {
    format!("{text}, {}", "and more of it, ".repeat(20))
}

/// Retries without waits.
fn at_once() -> RetryPolicy {
    RetryPolicy { initial_delay: Duration::from_millis(1), ..RetryPolicy::default() }
}

fn with(store: &Arc<dyn Store>, agent: Agent) -> Runtime {
    Runtime::builder(store.clone()).agent(agent).retry(at_once()).build().expect("runtime")
}

fn noted(summary: &str) -> String {
    format!("u [{}]\n{summary}", Locale::En.text(Text::SummaryNote))
}

async fn compressions(store: &Arc<dyn Store>) -> usize {
    let entries = store.read("s", 0, 10_000).await.expect("entries");
    records(&entries).filter(|record| matches!(record, Record::Compressed(_))).count()
}

/// Spec G5, M4: a summary is an answer of its model, also of a scripted one; history has every message; a new process
/// continues from the summary.
#[tokio::test]
async fn g5_a_scripted_model_summarises_and_history_keeps_everything() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        // The second answer is the summary, the third the one after it.
        let script = r#"{"turns":[
            {"text":"I look.","tool_calls":[{"name":"look","args":{}}]},
            {"text":"One."},
            {"text":"They looked."},
            {"text":"Two, after {{ last_user }}"},
            {"text":"A summary of: {{ last_user }}"},
            {"text":"Three, and {{ last_tool_result }}."}]}"#;
        let agent = || {
            Agent::new("trader", ("demo", Arc::new(Scripted::from_json(script).expect("script"))))
                .tool(entry("look", Approval::never(), &ledger))
                .compression(Compression::summary(60).keep_turns(1))
        };
        let runtime = with(&store, agent());
        assert_eq!(send(&runtime, "s", &long("first")).await.expect("one").text, "One.", "{name}");
        let two = send(&runtime, "s", &long("second")).await.expect("two").text;
        assert_eq!(two, format!("Two, after {}", long("second")), "{name}");
        assert_eq!(compressions(&store).await, 1, "{name}");
        // In another process.
        let runtime = with(&store, agent());
        let said = send(&runtime, "s", &"third ".repeat(40)).await.expect("three").text;
        assert_eq!(said, "Three, and .", "{name}: the result that was summarised is read by no model any more");
        assert_eq!(compressions(&store).await, 2, "{name}");
        let query = HistoryQuery { direction: Direction::Forward, cursor: None, limit: 100 };
        let page = runtime.history(&Principal::trusted(), "s", query).await.expect("history");
        let text = serde_json::to_string(&page.messages).expect("history");
        for said in ["first", "One.", "second", "Two, after second", "ran look {}", "third third"] {
            assert!(text.contains(said), "{name}: {said} in {text}");
        }
        assert!(!text.contains("They looked"), "{name}: {text}");
        let state = RunState::load(&*store, "s").await.expect("saved");
        assert_eq!((state.state().answers.of("demo"), state.state().turn_calls), (6, 1), "{name}");
    }
}

/// Spec G5: the request for the summary has the cut part alone, without tools, in the session's language; then the
/// agent's own call reads the summary in place of that part.
#[tokio::test]
async fn g5_what_is_cut_is_summarised_and_what_is_kept_is_read_as_it_is() {
    for (name, store, _dir) in stores() {
        let witness = Witness::new(|n| Reply::Text(if n == 2 { "They greeted." } else { "Well." }));
        let agent = Agent::new("trader", ("demo", Arc::new(witness.clone())))
            .instructions("Be kind.")
            .compression(Compression::summary(12).keep_turns(2));
        let runtime = with(&store, agent);
        let first = long("one");
        for text in [&*first, "two", "three"] {
            send(&runtime, "s", text).await.expect(text);
        }
        let seen = witness.seen();
        assert_eq!(seen.len(), 4, "{name}");
        assert_eq!(seen[1].1, [&format!("u {first}"), "a", "u two"], "{name}: two turns are kept");
        assert_eq!(seen[2].0, Locale::En.text(Text::Summarise), "{name}");
        assert_eq!(seen[2].1, [format!("u <user>\n{first}\n</user>\n<assistant>\nWell.\n</assistant>\n")], "{name}");
        assert_eq!(seen[3].0, "Be kind.", "{name}");
        assert_eq!(seen[3].1, [&noted("They greeted."), "u two", "a", "u three"], "{name}");
        // Spec S22: its tokens are in the session's usage.
        let state = runtime.state(&Principal::trusted(), "s").await.expect("state");
        assert_eq!(state.usage.output_tokens, 12, "{name}");
    }
}

/// Spec G5: a missing or unusable summary never fails the turn: the oldest turns are dropped.
#[tokio::test]
async fn g5_without_a_summary_the_oldest_turns_are_dropped_and_the_turn_goes_on() {
    let replies: [fn(usize) -> Reply; 5] = [
        |_| Reply::Fail(ModelError::permanent("no")),
        |_| Reply::Fail(ModelError::transient("not now")),
        |_| Reply::Text("  "),
        |_| Reply::Text("much longer than all that was ever said in this session, which was not much at all"),
        |_| Reply::Panic,
    ];
    for (i, reply) in replies.into_iter().enumerate() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (witness, summariser) = (Witness::new(|_| Reply::Text("Well.")), Witness::new(reply));
        let compression = Compression::summary(8).keep_turns(1).model("small", Arc::new(summariser.clone()));
        let runtime = with(&store, Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(compression));
        send(&runtime, "s", "one").await.expect("one");
        let outcome = send(&runtime, "s", "two").await.expect("two");
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "Well."), "{i}");
        assert_eq!(witness.last(), ["u two"], "{i}");
        // Only transient errors are retried.
        assert_eq!(summariser.seen().len(), if i == 1 { 4 } else { 1 }, "{i}");
        let state = RunState::load(&*store, "s").await.expect("saved");
        let answers = state.state().answers.of("small");
        assert_eq!(answers, u64::from(i == 2 || i == 3), "{i}: an answer that is of no use is one all the same");
        assert_eq!(state.state().usage.output_tokens, 6 + 3 * answers, "{i}");
    }
}

/// Spec G5, S23: a transient failure is retried.
#[tokio::test]
async fn g5_a_summary_is_tried_again_as_any_model_call() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let witness = Witness::new(|_| Reply::Text("Well."));
    let summariser = Witness::new(|n| match n {
        0 => Reply::Fail(ModelError::transient("503")),
        _ => Reply::Text("."),
    });
    let compression = Compression::summary(8).keep_turns(1).model("small", Arc::new(summariser.clone()));
    let runtime = with(&store, Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(compression));
    send(&runtime, "s", "one, and a little more to be worth it: a whole line, which is longer than its summary")
        .await
        .expect("one");
    send(&runtime, "s", "two").await.expect("two");
    assert_eq!(witness.last(), [&noted("."), "u two"]);
    assert_eq!(summariser.seen().len(), 2);
}

/// Spec G5: without a model, the oldest turns are dropped.
#[tokio::test]
async fn g5_trimming_asks_no_model() {
    for (name, store, _dir) in stores() {
        let witness = Witness::new(|_| Reply::Text("Well."));
        let agent =
            Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(Compression::trim(12).keep_turns(2));
        let runtime = with(&store, agent);
        for text in ["one", "two", "three", "four"] {
            send(&runtime, "s", text).await.expect(text);
        }
        assert_eq!(witness.seen().len(), 4, "{name}");
        assert_eq!(witness.last(), ["u three", "a", "u four"], "{name}");
    }
}

/// Spec G5, R4: a crash in the middle of it loses nothing; it starts over.
#[tokio::test]
async fn g5_a_crash_in_the_middle_repeats_it() {
    for (name, store, _dir) in stores() {
        let witness = Witness::new(|_| Reply::Text("Well."));
        let agent = |summariser: &Witness| {
            let compression = Compression::summary(8).keep_turns(1).model("small", Arc::new(summariser.clone()));
            Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(compression)
        };
        let hangs = Witness::new(|_| Reply::Hang);
        let runtime = with(&store, agent(&hangs));
        send(&runtime, "s", &long("one")).await.expect("one");
        tokio::select! {
            _ = send(&runtime, "s", "two") => unreachable!("it hangs"),
            () = hangs.asked.notified() => {}
        }
        drop(runtime);
        let answers = Witness::new(|_| Reply::Text("."));
        let runtime = with(&store, agent(&answers));
        runtime.start().await.expect("start");
        let outcome = runtime.wait(&Principal::trusted(), "s").await.expect("wait");
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "Well."), "{name}");
        assert_eq!(witness.last(), [&noted("."), "u two"], "{name}");
        assert_eq!((answers.seen().len(), compressions(&store).await), (1, 1), "{name}");
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// Spec G5, W1, W9: a cancel ends the turn in the middle of it, and messages queued meanwhile get their turn.
#[tokio::test]
async fn g5_a_cancel_in_the_middle_ends_the_turn_and_a_queued_message_is_kept() {
    for (name, store, _dir) in stores() {
        let witness = Witness::new(|_| Reply::Text("Well."));
        let summariser = Witness::new(|n| if n == 0 { Reply::Hang } else { Reply::Text(".") });
        let compression = Compression::summary(8).keep_turns(1).model("small", Arc::new(summariser.clone()));
        let runtime = with(&store, Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(compression));
        let me = Principal::trusted();
        send(&runtime, "s", &long("one")).await.expect("one");
        runtime.message(&me, NewMessage::text("s", "two")).await.expect("two");
        summariser.asked.notified().await;
        let state = runtime.state(&me, "s").await.expect("state");
        assert_eq!(state.nodes, ["compression"], "{name}");
        let queued = NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text("s", "three") };
        runtime.message(&me, queued).await.expect("queued");
        runtime.cancel(&me, "s", None).await.expect("cancel");
        let outcome = runtime.wait(&me, "s").await.expect("wait");
        assert_eq!((outcome.status, &*outcome.text), (Status::Completed, "Well."), "{name}");
        assert_eq!(witness.last().last().map(String::as_str), Some("u three"), "{name}");
        assert_eq!(witness.seen().len(), 2, "{name}: the cancelled turn asked nothing");
        assert_eq!((summariser.seen().len(), compressions(&store).await), (2, 1), "{name}");
    }
}

/// Spec G5: a turn with a pending request is never compressed; the next model call after the decision compresses.
#[tokio::test]
async fn g5_what_waits_is_never_compressed() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let script = r#"{"turns":[
            {"text":"One."},
            {"tool_calls":[{"name":"trade","args":{"n":1}}]},
            {"text":"Done: {{ last_tool_result }}"}]}"#;
        let small = Witness::new(|_| Reply::Text("."));
        let agent = |budget| {
            Agent::new("a", ("demo", Arc::new(Scripted::from_json(script).expect("script"))))
                .tool(entry("trade", Approval::always(), &ledger))
                .compression(Compression::summary(budget).keep_turns(1).model("small", Arc::new(small.clone())))
        };
        let runtime = with(&store, agent(10_000));
        send(&runtime, "s", &long("one")).await.expect("one");
        let waits = send(&runtime, "s", "trade").await.expect("two");
        assert_eq!(waits.status, Status::AwaitingInput, "{name}");
        // Another process, with a budget that is used up.
        let runtime = with(&store, agent(10));
        runtime.start().await.expect("start");
        runtime.wait(&Principal::trusted(), "s").await.expect("wait");
        assert_eq!((small.seen().len(), compressions(&store).await), (0, 0), "{name}");
        let done = decide(&runtime, &waits.pending[0], vec![Decision::approve()]).await.expect("decided");
        assert_eq!(done.text, r#"Done: ran trade {"n":1}"#, "{name}");
        assert_eq!(compressions(&store).await, 1, "{name}");
        runtime.shutdown(Duration::from_secs(1)).await;
    }
}

/// Spec G5, S17: a compressed session can be saved, restored elsewhere and resumed; one whose compression was tampered
/// with, so that it would separate a call from its result, is refused.
#[tokio::test]
async fn g5_a_compressed_session_is_saved_loaded_and_checked() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let witness = Witness::new(|n| Reply::Text(if n == 2 { "." } else { "Well." }));
    let agent =
        || Agent::new("a", ("demo", Arc::new(witness.clone()))).compression(Compression::summary(60).keep_turns(2));
    let runtime = with(&store, agent());
    for text in ["one", "two", "three"] {
        let text = format!("{text}, and more: {}", "more ".repeat(20));
        send(&runtime, "s", &text).await.expect("sent");
    }
    assert_eq!(compressions(&store).await, 1);
    let saved = RunState::load(&*store, "s").await.expect("saved");
    let text = saved.to_json();
    let elsewhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let loaded = RunState::from_json(&text).expect("loaded");
    assert_eq!(loaded.state(), saved.state());
    loaded.save(&*elsewhere).await.expect("restored");
    let runtime = with(&elsewhere, agent());
    send(&runtime, "s", "four").await.expect("four");
    assert!(witness.last().contains(&"u four".to_owned()));
    let through = saved.state().window.from;
    for other in [through - 1, through + 1, 0] {
        let tampered = text.replacen(&format!("\"through\":{through}"), &format!("\"through\":{other}"), 1);
        assert_ne!(tampered, text);
        let error = RunState::from_json(&tampered).expect_err("tampered").to_string();
        assert!(error.contains("does not cover whole turns"), "{other}: {error}");
    }
}

/// Spec G5, M: the exact requests that a provider gets.
#[tokio::test]
async fn g5_a_provider_gets_the_summary_as_a_user_message() {
    let answer = deltas(&[r#"{"role":"assistant","content":"Fine."}"#]) + &end("stop");
    let fake = Fake::streaming(answer).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ledger = Ledger::default();
    let agent = Agent::new("a", ("m", Arc::new(fake.model())))
        .instructions("Be kind.")
        .tool(entry("look", Approval::never(), &ledger))
        .compression(Compression::summary(1).keep_turns(1));
    let runtime = Runtime::builder(store).locale(Locale::Zh).agent(agent).build().expect("runtime");
    let question = "你好,我想知道今天的天气怎么样,还有明天的天气,以及后天的天气,请告诉我,谢谢你了,非常感谢";
    send(&runtime, "s", question).await.expect("one");
    send(&runtime, "s", "再见").await.expect("two");
    let seen = fake.seen.lock().expect("seen");
    assert_eq!(seen.len(), 3);
    let [_, summary, next] = seen.as_slice() else { unreachable!("three") };
    assert_eq!(
        summary.body["messages"],
        json!([
            { "role": "system", "content": Locale::Zh.text(Text::Summarise) },
            { "role": "user", "content": format!("<user>\n{question}\n</user>\n<assistant>\nFine.\n</assistant>\n") },
        ])
    );
    assert!(summary.body.get("tools").is_none());
    let note = Locale::Zh.text(Text::SummaryNote);
    assert_eq!(
        next.body["messages"],
        json!([
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": format!("[{note}]\nFine.\n\n再见") },
        ])
    );
    assert_eq!(next.body["tools"][0]["function"]["name"], "look");
}
