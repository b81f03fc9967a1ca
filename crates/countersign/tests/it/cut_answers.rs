//! Truncated answers: what the stream, the history and the library say of them, and what follows (spec W2, S23).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Cut, Message, OnCut, Price, Principal, RunConfig, RunErrorKind, Runner, Status,
    graph::{
        Context, NodeError,
        agent_loop::{AfterAgent, AgentLoop, AgentState, AgentUpdate, after_agent},
    },
    model::{Model, ModelError, ModelEvent, ModelRequest, retry::RetryPolicy, scripted::Scripted},
    run,
    run::{Runtime, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use countersign_core::{
    journal::record::{Block, Record, records},
    wire::event::StopReason,
};
use countersign_runtime::run::subscription::Subscription;
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};

use crate::support::{Ledger, entry, send};

const CUTS: [(&str, Cut, StopReason); 4] = [
    ("max_tokens", Cut::MaxTokens, StopReason::MaxTokens),
    ("refusal", Cut::Refusal, StopReason::Refusal),
    ("content_filter", Cut::ContentFilter, StopReason::ContentFilter),
    ("incomplete", Cut::Incomplete, StopReason::Incomplete),
];

fn agent(script: &Value, ledger: &Ledger) -> Agent {
    let model = Scripted::from_json(&script.to_string()).expect("script");
    Agent::new("trader", ("demo", Arc::new(model))).tool(entry("look", Approval::never(), ledger)).tool(entry(
        "trade",
        Approval::always(),
        ledger,
    ))
}

fn over(store: &Arc<dyn Store>, agent: Agent) -> Runtime {
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

fn one(script: &Value, ledger: &Ledger) -> Runtime {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    over(&store, agent(script, ledger))
}

/// The events of a session so far.
async fn events(runtime: &Runtime) -> Vec<Value> {
    let mut following: Subscription = runtime.subscribe(&Principal::trusted(), "s", Some(0)).await.expect("subscribed");
    let last = runtime.state(&Principal::trusted(), "s").await.expect("state").seq;
    let mut events = Vec::new();
    while events.iter().filter_map(|event: &Value| event["seq"].as_u64()).max().unwrap_or(0) < last {
        events.push(serde_json::from_str(&following.next().await.expect("frame").json).expect("json"));
    }
    events
}

#[tokio::test]
async fn w2_an_answer_that_is_not_whole_does_not_look_finished() {
    for (name, cut, stop_reason) in CUTS {
        let script = json!({"turns": [{"text": "As far as", "stop_reason": name}, {"text": "Whole."}]});
        let runtime = one(&script, &Ledger::default());
        let TurnOutcome { status, stop_reason: said, text, .. } = send(&runtime, "s", "go").await.expect("outcome");
        assert_eq!((status, said, &*text), (Status::Completed, Some(stop_reason), "As far as"), "{name}");
        let events = events(&runtime).await;
        let stop = events.iter().rfind(|event| event["type"] == "message_stop").expect("a stop");
        assert_eq!(stop["stop_reason"], name);
        let history = runtime.whole_history(&Principal::trusted(), "s").await.expect("history");
        let last = serde_json::to_value(history.last()).expect("json");
        assert_eq!(last["content"][0], json!({"type": "text", "text": "As far as", "stop_reason": name}));
        // The next turn is not affected.
        let next = send(&runtime, "s", "go on").await.expect("outcome");
        assert_eq!((next.stop_reason, &*next.text), (Some(StopReason::EndTurn), "Whole."));
        let result = run(&agent(&script, &Ledger::default()), "go").await.expect("result");
        assert_eq!((result.cut, &*result.final_output), (Some(cut), "As far as"), "the library says it too");
    }
}

/// Whatever nodes the agent's loop has.
#[tokio::test]
async fn w2_g2_an_answer_that_is_not_whole_does_not_look_finished_in_a_loop_of_its_own_either() {
    for (name, cut, stop_reason) in CUTS {
        let script = json!({"turns": [{"text": "As far as", "stop_reason": name}]});
        let graph = AgentLoop::new().graph.compile().expect("graph");
        let agent = || agent(&script, &Ledger::default()).graph(&graph);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let outcome = send(&over(&store, agent()), "s", "go").await.expect("outcome");
        assert_eq!((outcome.status, outcome.stop_reason), (Status::Completed, Some(stop_reason)), "{name}");
        assert_eq!(run(&agent(), "go").await.expect("result").cut, Some(cut), "{name}");
    }
}

/// The model has said all, so it cannot be asked again before somebody says something.
#[tokio::test]
async fn g1_a_loop_that_leads_back_to_the_model_after_its_last_answer_fails_and_says_so() {
    let AgentLoop { mut graph, compression, agent: asks, approval, tools, .. } = AgentLoop::new();
    let critic = graph.node("critic", |_: Context<AgentState>| async { Ok::<_, NodeError>(AgentUpdate::new()) });
    graph.detach(asks);
    graph.route(asks, after_agent, move |way| match way {
        AfterAgent::Tools => tools,
        AfterAgent::Approval => approval,
        AfterAgent::Compression => compression,
        AfterAgent::End => critic,
    });
    graph.edge(critic, asks);
    let graph = graph.compile().expect("graph");
    let script = json!({"turns": [{"text": "Done."}]});
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(&store, agent(&script, &Ledger::default()).graph(&graph));
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    let error = outcome.error.expect("an error");
    assert_eq!((outcome.status, &*error.code), (Status::Failed, "invalid_loop"), "{}", error.message);
}

#[tokio::test]
async fn s23_an_answer_that_was_cut_before_it_said_anything_is_a_failure() {
    for (name, ..) in CUTS {
        for entry in [json!({"stop_reason": name}), json!({"thinking": "Hm", "text": " ", "stop_reason": name})] {
            let runtime = one(&json!({"turns": [entry]}), &Ledger::default());
            let outcome = send(&runtime, "s", "go").await.expect("outcome");
            let error = outcome.error.expect("an error");
            assert_eq!((outcome.status, outcome.stop_reason), (Status::Failed, Some(StopReason::Error)));
            assert_eq!(
                (&*error.code, error.message),
                ("model_error", format!("the model's answer ended before it had any content: {name}"))
            );
        }
    }
}

#[tokio::test]
async fn s23_an_agent_may_take_no_answer_that_is_not_whole() {
    let script = json!({"turns": [{"text": "As far as", "stop_reason": "max_tokens"}]});
    let agent = agent(&script, &Ledger::default()).on_cut(OnCut::Fail);
    let error = run(&agent, "go").await.expect_err("it fails");
    assert_eq!(error.kind(), RunErrorKind::Model);
    assert_eq!(error.to_string(), "the model failed: the model's answer is incomplete: max_tokens");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(&store, agent);
    assert_eq!(send(&runtime, "s", "go").await.expect("outcome").status, Status::Failed);
    let history = runtime.whole_history(&Principal::trusted(), "s").await.expect("history");
    let last = serde_json::to_value(history.last()).expect("json");
    assert_eq!(last["content"][0]["text"], "As far as", "what was said stays to be read");
}

#[tokio::test]
async fn m3_a_call_that_was_cut_never_reaches_a_person_or_a_tool() {
    // What the call was cut to, and why.
    for (args, reason) in [
        (json!("{\"n\": 1"), "max_tokens"),
        (json!(""), "max_tokens"),
        (json!("  "), "incomplete"),
        // Servers begin a call with `{}`, and close the JSON of arguments that stopped.
        (json!({}), "max_tokens"),
        (json!({"n": 1}), "incomplete"),
        (json!({"n": 1}), "refusal"),
        (json!({"n": 1}), "content_filter"),
    ] {
        for tool in ["trade", "look"] {
            let call = json!({"name": tool, "args": args});
            let script = json!({"turns": [{"tool_calls": [call], "stop_reason": reason}, {"text": "Told: {{ last_tool_result }}"}]});
            let ledger = Ledger::default();
            let outcome = send(&one(&script, &ledger), "s", "go").await.expect("outcome");
            assert_eq!((outcome.status, outcome.pending.len()), (Status::Completed, 0), "{tool} {args} {reason}");
            let told =
                format!("Told: this call was not run: your answer was cut off ({reason}) before the call was complete");
            assert_eq!((outcome.text, outcome.stop_reason), (told, Some(StopReason::EndTurn)));
            assert!(ledger.lock().expect("ledger").is_empty());
        }
    }
    // Calls that were complete by then are ordinary calls.
    let calls = json!([{"name": "trade", "args": {"n": 1}}, {"name": "trade", "args": "{\"n\": 2"}]);
    let script = json!({"turns": [{"tool_calls": calls, "stop_reason": "max_tokens"}]});
    let outcome = send(&one(&script, &Ledger::default()), "s", "go").await.expect("outcome");
    assert_eq!((outcome.status, outcome.pending.len()), (Status::AwaitingInput, 1));
    assert_eq!(outcome.interruptions[0].actions().len(), 1);
}

/// Gives these parts of one answer, one for each call, and records its requests.
#[derive(Default)]
struct Piecemeal {
    parts: Vec<(&'static str, Option<Cut>)>,
    calls: AtomicU64,
    asked: Arc<Mutex<Vec<Vec<Message>>>>,
}

impl Model for Piecemeal {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.answers_before, n, "every call counts");
        let (text, cut) = self.parts[usize::try_from(n).expect("small") % self.parts.len()];
        let asked = self.asked.clone();
        stream::once(async move {
            let messages = request.conversation.messages().await.expect("messages");
            asked.lock().expect("asked").push(messages.to_vec());
            let usage = countersign::Usage { input_tokens: 10, output_tokens: 1, ..Default::default() };
            let cut = cut.map(ModelEvent::Cut);
            let events =
                [Some(ModelEvent::Text(text.to_owned())), Some(ModelEvent::Usage(usage)), cut, Some(ModelEvent::Stop)];
            stream::iter(events.into_iter().flatten().map(Ok))
        })
        .flatten()
        .boxed()
    }
}

fn piecemeal(parts: &[(&'static str, Option<Cut>)]) -> (Agent, Arc<Mutex<Vec<Vec<Message>>>>) {
    let model = Piecemeal { parts: parts.to_vec(), ..Piecemeal::default() };
    let asked = model.asked.clone();
    (Agent::new("writer", ("demo", Arc::new(model))).on_cut(OnCut::Continue), asked)
}

#[tokio::test]
async fn s23_a_model_may_go_on_where_its_answer_was_cut() {
    let more = Some(Cut::MaxTokens);
    let (agent, asked) = piecemeal(&[("One, ", more), ("two, ", Some(Cut::Incomplete)), ("three.", None)]);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = over(&store, agent.clone());
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    assert_eq!((&*outcome.text, outcome.stop_reason), ("One, two, three.", Some(StopReason::EndTurn)));
    let state = runtime.state(&Principal::trusted(), "s").await.expect("state");
    assert_eq!((state.usage.input_tokens, state.usage.output_tokens, state.turn_calls), (30, 3, 3));
    // It is one text of one answer, for followers and for the model later.
    let texts: Vec<Value> =
        events(&runtime).await.into_iter().filter(|event| event["content_block"]["type"] == "text").collect();
    assert_eq!(texts.len(), 2, "the user's and the answer's: {texts:?}");
    let answers = store.read("s", 0, 100).await.expect("entries");
    let answers: Vec<_> = records(&answers).filter(|record| matches!(record, Record::ModelResponded(_))).collect();
    assert_eq!(answers.len(), 1);
    // Its requests: the conversation, then its own beginning, then the request to continue.
    let asked = asked.lock().expect("asked");
    let [Message::User(go), Message::Assistant(so_far), Message::User(on)] = &asked[2][..] else {
        panic!("{:?}", asked[2])
    };
    assert_eq!((go.text().as_str(), &so_far.blocks[..]), ("go", &[Block::text("One, two, ")][..]));
    assert!(on.text().contains("Go on exactly where it stopped"), "{on}");
}

#[tokio::test]
async fn s23_going_on_has_its_bounds() {
    let more = Some(Cut::MaxTokens);
    let (agent, asked) = piecemeal(&[("x", more)]);
    let result = run(&agent, "go").await.expect("result");
    assert_eq!((&*result.final_output, result.cut), ("xxxxxxxxx", more), "at most 8 times");
    assert_eq!((asked.lock().expect("asked").len(), result.model_calls), (9, 9));
    let (agent, _) = piecemeal(&[("x", more)]);
    let result = run(&agent.max_turns(3), "go").await.expect("result");
    assert_eq!((&*result.final_output, result.cut, result.model_calls), ("xxx", more, 3), "within the turn's calls");
    // A refusal is not continued.
    let (agent, asked) = piecemeal(&[("I won't", Some(Cut::Refusal))]);
    assert_eq!(run(&agent, "go").await.expect("result").cut, Some(Cut::Refusal));
    assert_eq!(asked.lock().expect("asked").len(), 1);
}

#[tokio::test]
async fn s22_a_cut_answer_is_continued_only_within_the_budget() {
    let more = Some(Cut::MaxTokens);
    // Each call uses 11 tokens, and costs 11.
    let priced = RunConfig::new().price("demo", Price::new(1e6, 1e6));
    for config in [RunConfig::new().max_tokens(20), priced.max_cost(20.0)] {
        let (agent, asked) = piecemeal(&[("x", more)]);
        let result = Runner::new(config).run(&agent, "go").await.expect("result");
        assert_eq!((&*result.final_output, result.cut, result.model_calls), ("xx", more, 2));
        assert_eq!(asked.lock().expect("asked").len(), 2);
    }
}

/// Gives half an answer, and breaks off in the middle of the rest, for which it charges.
#[derive(Default)]
struct Half(AtomicU64);

impl Model for Half {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let usage = ModelEvent::Usage(countersign::Usage { input_tokens: 10, output_tokens: 1, ..Default::default() });
        let events = match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => vec![
                Ok(ModelEvent::Text("x".to_owned())),
                Ok(usage),
                Ok(ModelEvent::Cut(Cut::MaxTokens)),
                Ok(ModelEvent::Stop),
            ],
            _ => vec![Ok(usage), Err(ModelError::transient("gone"))],
        };
        stream::iter(events).boxed()
    }
}

#[tokio::test]
async fn s22_an_answer_that_breaks_off_is_not_asked_for_again_once_its_parts_have_used_up_the_budget() {
    let priced = RunConfig::new().price("demo", Price::new(1e6, 1e6));
    for config in [RunConfig::new().max_tokens(20), priced.max_cost(20.0)] {
        let model = Arc::new(Half::default());
        let agent = Agent::new("writer", ("demo", model.clone() as Arc<dyn Model>)).on_cut(OnCut::Continue);
        let retry = RetryPolicy { initial_delay: Duration::from_millis(1), ..RetryPolicy::default() };
        let error = Runner::new(config.retry(retry)).run(&agent, "go").await.expect_err("spent");
        assert_eq!((error.kind(), model.0.load(Ordering::SeqCst)), (RunErrorKind::Budget, 2), "{error}");
        let state = error.into_state().expect("its state");
        assert_eq!(state.state().usage.total(), 22, "what was charged is on record");
    }
}

#[tokio::test]
async fn s5_whoever_an_agent_works_for_is_told_that_its_answer_is_not_whole() {
    let inner = json!({"turns": [{"text": "As far as", "stop_reason": "max_tokens"}]});
    let inner = Scripted::from_json(&inner.to_string()).expect("script");
    let inner = Agent::new("helper", ("inner", Arc::new(inner)));
    let outer = json!({"turns": [{"tool_calls": [{"name": "ask", "args": {"input": "x"}}]}, {"text": "{{ last_tool_result }}"}]});
    let tool = inner.as_tool("ask", "Asks the helper.");
    let result = run(&agent(&outer, &Ledger::default()).tool(tool), "go").await.expect("result");
    assert_eq!(result.final_output, "As far as\n[this answer is incomplete: max_tokens]");
    assert_eq!(result.cut, None);
}

#[tokio::test]
async fn s23_json_in_a_code_fence_is_the_json() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    for (text, fits) in [
        ("{\"n\": 1}", true),
        ("```json\n{\"n\": 1}\n```", true),
        (" \n```\n{\"n\": 1}```\n", true),
        ("```JSON \r\n{\"n\": 1}\r\n```", true),
        ("```json\n{\"n\": \"1\"}\n```", false),
        ("```json\n{\"n\": 1}\n```\n```json\n{\"n\": 2}\n```", false),
        ("Here: ```json\n{\"n\": 1}\n```", false),
        ("```{\"n\": 1}```", false),
    ] {
        let agent = agent(&json!({"turns": [{"text": text}]}), &Ledger::default());
        let agent = agent.output_schema("answer", schema.clone()).expect("schema");
        match run(&agent, "go").await {
            Ok(result) => {
                assert!(fits, "{text:?}");
                assert_eq!(result.final_output, "{\"n\": 1}");
                assert_eq!(result.final_output_as::<Value>().expect("a value"), json!({"n": 1}));
            }
            Err(error) if error.kind() == RunErrorKind::InvalidOutput => assert!(!fits, "{text:?}"),
            Err(other) => panic!("{text:?}: {other}"),
        }
    }
}
