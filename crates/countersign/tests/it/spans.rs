//! Spans of runs, as a collector of OTLP gets them: the collector is a server of the tests on loopback. The numbers are those
//! of `docs/openai-agents.md`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use countersign::{
    Agent, Principal, RunConfig, RunState, Runner,
    otlp::{self, Traces},
    policy::Timeout,
    run::{NewMessage, NewRetry, Runtime},
    store::memory::MemoryStore,
    tool::{Approval, ToolEntry},
};
use countersign_runtime::run::spans;
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    support::{Ledger, entry},
    team::{agent, call, teller, text},
};

type Received = Arc<Mutex<Vec<Value>>>;

/// A separate process: its tracing, and its collector's spans.
pub struct Process {
    traces: Traces,
    received: Received,
    _default: tracing::subscriber::DefaultGuard,
}

impl Process {
    pub async fn begin() -> Process {
        let received = Received::default();
        let take = |State(received): State<Received>, Json(body): Json<Value>| async move {
            received.lock().expect("received").push(body);
        };
        let app = Router::new().route("/v1/traces", post(take)).with_state(received.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        let (traces, sending) = otlp::traces(&format!("http://{address}/v1/traces")).expect("traces");
        tokio::spawn(sending.run());
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        Process { _default: tracing::subscriber::set_default(subscriber), traces, received }
    }

    /// All spans that have ended.
    pub async fn spans(&self) -> Vec<Span> {
        self.traces.flush().await;
        let bodies = self.received.lock().expect("received").clone();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let scopes = bodies.iter().flat_map(|body| list(&body["resourceSpans"])).flat_map(|of| list(&of["scopeSpans"]));
        scopes.flat_map(|scope| list(&scope["spans"])).map(Span).collect()
    }
}

pub struct Span(pub Value);

impl Span {
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }
    pub fn id(&self) -> &str {
        self.text("spanId")
    }
    pub fn attributes(&self) -> HashMap<String, String> {
        pairs(&self.0["attributes"])
    }
    pub fn events(&self) -> Vec<(String, HashMap<String, String>)> {
        let events = self.0["events"].as_array().cloned().unwrap_or_default();
        let name = |event: &Value| event["name"].as_str().unwrap_or_default().to_owned();
        events.iter().map(|event| (name(event), pairs(&event["attributes"]))).collect()
    }
}

fn pairs(attributes: &Value) -> HashMap<String, String> {
    let text = |value: &Value| {
        let values = value.as_object().expect("a typed value").values();
        values.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect::<String>()
    };
    let all = attributes.as_array().cloned().unwrap_or_default();
    all.iter().map(|one| (one["key"].as_str().expect("key").to_owned(), text(&one["value"]))).collect()
}

pub fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.text("name") == name).collect();
    let all: Vec<&str> = spans.iter().map(|span| span.text("name")).collect();
    assert_eq!(found.len(), 1, "one {name:?} of {all:?}");
    found[0]
}

fn gated(name: &str, ledger: &Ledger) -> ToolEntry {
    entry(name, Approval::always().timeout(Timeout::Never), ledger)
}

/// A runner of one session.
fn runner(content: bool) -> Runner {
    Runner::new(RunConfig::new().session("s").trace_content(content))
}

/// What no span may contain.
const SECRET: &str = "4711";

#[tokio::test]
async fn j121_a_run_that_goes_on_in_another_process_stays_in_its_trace() {
    let ledger = Ledger::default();
    let make = |says: Vec<_>| Agent::new("Payer", ("m", teller(says))).tool(gated("pay", &ledger));
    let first = Process::begin().await;
    let paused =
        runner(false).run(&make(vec![vec![call("c1", "pay", r#"{"n":4711}"#)]]), "pay 4711").await.expect("run");
    let before = first.spans().await;
    let saved = paused.state.to_json();
    drop(first);

    let second = Process::begin().await;
    let mut state = RunState::from_json(&saved).expect("state");
    let item = state.interruptions().remove(0);
    state.approve(&item).expect("approved");
    let done = runner(false).run(&make(vec![text("paid 4711")]), state).await.expect("goes on");
    assert_eq!(done.final_output, "paid 4711");
    let after = second.spans().await;

    let trace = spans::trace_id("s", 1);
    for span in before.iter().chain(&after) {
        assert_eq!(span.text("traceId"), trace, "{}", span.0);
        assert_eq!(span.attributes()["gen_ai.conversation.id"], "s");
    }
    let turn = named(&before, "invoke_agent Payer");
    assert_eq!((turn.id(), turn.text("parentSpanId")), (&*spans::first_span_id("s", 1), ""));
    assert_eq!(named(&before, "chat m").text("parentSpanId"), turn.id());
    let asked = &turn.events()[0];
    assert_eq!((&*asked.0, &*asked.1["gen_ai.tool.name"]), ("approval.requested", "pay"));

    let later = named(&after, "invoke_agent Payer");
    assert_ne!(later.id(), turn.id());
    assert_eq!(later.text("parentSpanId"), turn.id());
    assert_eq!(later.0["links"][0]["spanId"], turn.id());
    assert_eq!(later.0["links"][0]["traceId"], trace);
    let ran = named(&after, "execute_tool pay");
    assert_eq!(ran.text("parentSpanId"), later.id());
    assert_eq!(ran.attributes()["gen_ai.tool.call.id"], "c1");
    let decided = named(&after, "decide").events().remove(0);
    assert_eq!((&*decided.0, &*decided.1["countersign.approval.decision"]), ("approval.decided", "approve"));
    assert_eq!(decided.1["gen_ai.tool.call.id"], "c1");

    // They contain no text of a person, a model or a tool.
    let all =
        serde_json::to_string(&before.iter().chain(&after).map(|span| &span.0).collect::<Vec<_>>()).expect("text");
    let attributes = before.iter().chain(&after).flat_map(Span::attributes);
    assert!(attributes.into_iter().all(|(_, value)| !value.contains(SECRET)), "{all}");

    // The next turn is another trace.
    assert_ne!(spans::trace_id("s", 2), trace);
    assert_ne!(spans::trace_id("t", 1), trace);
}

#[tokio::test]
async fn j120_nothing_of_tracing_is_in_a_state() {
    let process = Process::begin().await;
    let ledger = Ledger::default();
    let payer = Agent::new("Payer", ("m", teller([vec![call("c1", "pay", "{}")]]))).tool(gated("pay", &ledger));
    let paused = runner(true).run(&payer, "pay").await.expect("run");
    assert!(!process.spans().await.is_empty());
    let saved = paused.state.to_json();
    for word in ["trace", "span", "otlp", "v1/traces", &spans::trace_id("s", 1)] {
        assert!(!saved.contains(word), "{word}: {saved}");
    }
}

#[tokio::test]
async fn nested_agents_lie_under_the_call_that_they_work_for() {
    let process = Process::begin().await;
    let ledger = Ledger::default();
    let inner = teller([vec![call("i1", "look", r#"{"n":1}"#)], text("seen")]);
    let outer = teller([vec![call("o1", "ask", r#"{"input":"look"}"#)], text("done")]);
    let helper = agent("Helper", &inner).tool(entry("look", Approval::never(), &ledger));
    let boss = agent("Boss", &outer).tool(helper.as_tool("ask", "Asks."));
    runner(false).run(&boss, "go").await.expect("run");

    let spans = process.spans().await;
    let (turn, call) = (named(&spans, "invoke_agent Boss"), named(&spans, "execute_tool ask"));
    let (nested, tool) = (named(&spans, "invoke_agent Helper"), named(&spans, "execute_tool look"));
    assert_eq!(call.text("parentSpanId"), turn.id());
    assert_eq!(call.attributes()["gen_ai.tool.call.id"], "o1");
    assert_eq!(nested.text("parentSpanId"), call.id());
    assert_eq!(tool.text("parentSpanId"), nested.id());
    let chats = spans.iter().filter(|span| span.attributes()["gen_ai.operation.name"] == "chat");
    let mut under: Vec<(String, &str)> =
        chats.map(|span| (span.attributes()["gen_ai.agent.name"].clone(), span.text("parentSpanId"))).collect();
    under.sort();
    let (boss, helper) = (("Boss".to_owned(), turn.id()), ("Helper".to_owned(), nested.id()));
    assert_eq!(under, [boss.clone(), boss, helper.clone(), helper]);
    for span in &spans {
        let (start, end) = (span.text("startTimeUnixNano"), span.text("endTimeUnixNano"));
        assert!(start.parse::<u64>().expect("start") <= end.parse().expect("end"));
        assert_eq!(span.0["kind"], if span.text("name").starts_with("chat") { 3 } else { 1 });
    }
}

#[tokio::test]
async fn arguments_results_and_answers_are_in_spans_only_when_they_are_wanted() {
    for content in [false, true] {
        let process = Process::begin().await;
        let ledger = Ledger::default();
        let model = teller([vec![call("c1", "look", r#"{"n":4711}"#)], text("it is 4711")]);
        let looker = Agent::new("Looker", ("m", model)).tool(entry("look", Approval::never(), &ledger));
        runner(content).run(&looker, "what is 4711?").await.expect("run");
        let spans = process.spans().await;
        let tool = named(&spans, "execute_tool look").attributes();
        let wanted = |text: &str| content.then(|| text.to_owned());
        assert_eq!(tool.get("gen_ai.tool.call.arguments").cloned(), wanted(r#"{"n":4711}"#));
        assert_eq!(tool.get("gen_ai.tool.call.result").cloned(), wanted(r#"ran look {"n":4711}"#));
        let said = spans.iter().filter_map(|span| span.attributes().remove("gen_ai.output.messages"));
        assert_eq!(said.filter(|said| said.contains(SECRET)).count(), if content { 2 } else { 0 });
    }
}

#[tokio::test]
async fn a_model_that_fails_marks_its_span_and_its_turn() {
    let process = Process::begin().await;
    let model = teller([vec![crate::team::Say::Fail("no 4711")]]);
    runner(false).run(&Agent::new("Looker", ("m", model)), "go").await.expect_err("fails");
    let spans = process.spans().await;
    for name in ["chat m", "invoke_agent Looker"] {
        let span = named(&spans, name);
        assert_eq!(span.attributes()["error.type"], "model_error");
        assert_eq!(span.0["status"]["code"], 2);
        assert!(!span.attributes().values().any(|value| value.contains(SECRET)));
    }
}

/// Spec S22: two spans with one id would be one to a collector.
#[tokio::test]
async fn s22_a_retry_before_the_first_answer_is_a_later_part_of_the_turn() {
    let process = Process::begin().await;
    let model = teller([vec![crate::team::Say::Fail("no")], text("yes")]);
    let runtime = Runtime::builder(Arc::new(MemoryStore::new())).agent(Agent::new("Looker", ("m", model)));
    let (runtime, me) = (runtime.build().expect("runtime"), Principal::trusted());
    let failed = runtime.run(&me, NewMessage::text("s", "go")).await.expect("an outcome");
    assert_eq!(failed.error.expect("failed").code, "model_error");
    runtime.retry(&me, "s", NewRetry::default()).await.expect("retried");
    assert_eq!(runtime.wait(&me, "s").await.expect("an outcome").text, "yes");
    runtime.shutdown(Duration::from_secs(10)).await;
    let spans = process.spans().await;
    let parts: Vec<&Span> = spans.iter().filter(|span| span.text("name") == "invoke_agent Looker").collect();
    let [first, later] = parts[..] else { panic!("{} parts", parts.len()) };
    assert_eq!(first.id(), spans::first_span_id("s", 1));
    assert_eq!((later.text("parentSpanId"), later.id() == first.id()), (first.id(), false));
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_nothing_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("address");
    drop(listener);
    let (traces, _sending) = otlp::traces(&format!("http://{address}/v1/traces")).expect("traces");
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
    let model = teller((0..countersign_runtime::otlp::WAITING).map(|_| text("yes")));
    let agent = Agent::new("Yes", ("m", model));
    // Twice as many spans as the queue holds, without a sender.
    for _ in 0..countersign_runtime::otlp::WAITING {
        Runner::default().run(&agent, "go").await.expect("run");
    }
}

#[test]
fn an_address_that_is_none_is_refused() {
    for (address, why) in [
        ("127.0.0.1:4318", "URL"),
        ("grpc://127.0.0.1:4317", "http://"),
        ("http://me:secret@127.0.0.1:4318/v1/traces", "password"),
    ] {
        let error = countersign_runtime::otlp::check(address).expect_err(address).to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
}
