//! Guardrails of tools within agents that work for other agents' calls (spec S4, S11).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use countersign::{
    Agent, Decision, Permit, Principal, RunConfig, RunState, Runner, Status, ToolGuardrailOutput,
    run::{NewDecision, TurnOutcome},
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolEntry, ToolError},
};
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::{agent, call, decide_all, free, gated, ran, runtime_of, teller, text, waiting};
use crate::support::{Ledger, entry, send, stores};

const DO: &str = r#"{"input":"do it"}"#;

/// With an input guardrail that trips.
fn tripping(entry: ToolEntry) -> ToolEntry {
    entry.input_guardrail("cards", |_| async { ToolGuardrailOutput::Trip("a stolen card".into()) })
}

/// The keys of the pending requests about this tool.
fn key(outcome: &TurnOutcome, tool: &str) -> String {
    let at = waiting(outcome).iter().position(|one| one.1 == tool).expect("waits");
    outcome.pending[at].clone()
}

/// The fold of the journal gives the session's state, entry by entry.
async fn whole(store: &Arc<dyn Store>) {
    let saved = RunState::load(&**store, "s").await.expect("saved").to_json();
    let elsewhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    RunState::from_json(&saved).expect("it can be read").save(&*elsewhere).await.expect("restored");
    let there = elsewhere.head("s").await.expect("head").expect("a session").pos;
    assert_eq!(there, store.head("s").await.expect("head").expect("a session").pos);
}

#[tokio::test]
async fn s11_a_tool_guardrail_that_trips_ends_only_the_work_of_the_agent_whose_call_it_is() {
    for (kind, store, _guard) in stores() {
        for (session, on_input) in [("s", true), ("t", false)] {
            let ledger = Ledger::default();
            let outer = teller([vec![call("o", "child", DO)], text("I go on without it")]);
            let inner = teller([vec![call("i", "pay", "{}"), call("j", "look", "{}")]]);
            let pay = free("pay", &ledger);
            let pay = match on_input {
                true => tripping(pay),
                false => pay.output_guardrail("leaks", |_, _| async { ToolGuardrailOutput::Trip("a secret".into()) }),
            };
            let child = agent("Child", &inner).tool(pay).tool(free("look", &ledger));
            let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
            let done = send(&runtime, session, "go").await.expect("run");
            assert_eq!((done.status, done.text.as_str()), (Status::Completed, "I go on without it"), "{kind}");
            let told = match on_input {
                true => r#"o: the tool input guardrail "cards" stopped the run"#,
                false => r#"o: the tool output guardrail "leaks" stopped the run; the call took effect"#,
            };
            assert_eq!(outer.heard.lock().expect("heard")[1][2], told, "{kind}");
            assert_eq!(inner.heard.lock().expect("heard").len(), 1, "{kind}: it is not asked again");
            assert_eq!(ran(&ledger).contains(&"pay".to_owned()), !on_input, "{kind}");
            if session == "s" {
                whole(&store).await;
            }
        }
    }
}

#[tokio::test]
async fn s11_a_guardrail_that_trips_two_agents_deep_is_told_to_the_agent_above() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let one = teller([vec![call("a", "second", DO)], text("top")]);
        let two = teller([vec![call("b", "third", DO)], text("middle")]);
        let three = teller([vec![call("c", "act", "{}")]]);
        let third = agent("Third", &three).tool(tripping(gated("act", &ledger)));
        let second = agent("Second", &two).tool(third.as_tool("third", ""));
        let runtime = runtime_of(&store, agent("First", &one).tool(second.as_tool("second", "")));
        let paused = send(&runtime, "s", "go").await.expect("run");
        let done = decide_all(&runtime, &paused.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "top"), "{kind}");
        let told = r#"b: the tool input guardrail "cards" stopped the run"#;
        assert_eq!(two.heard.lock().expect("heard")[1][2], told, "{kind}");
        assert_eq!(one.heard.lock().expect("heard")[1][2], "a: middle", "{kind}");
        assert!(ran(&ledger).is_empty(), "{kind}");
        whole(&store).await;
    }
}

/// Requests in the stopped agent's run, at any depth, are withdrawn; those of others stay pending.
#[tokio::test]
async fn s11_what_waits_beside_a_call_that_trips_within_is_withdrawn_and_what_others_wait_for_stays() {
    for (kind, store, _guard) in stores() {
        let ledger = Ledger::default();
        let outer = teller([vec![call("x", "left", DO), call("y", "right", DO)], text("both")]);
        let left = teller([vec![call("p", "pay", "{}"), call("q", "sign", "{}"), call("r", "deep", DO)]]);
        let deep = teller([vec![call("d", "dig", "{}")]]);
        let right = teller([vec![call("c", "cut", "{}")], text("right done")]);
        let l = agent("Left", &left)
            .tool(tripping(gated("pay", &ledger)))
            .tool(entry("sign", Approval::always().levels(["boss"]), &ledger))
            .tool(agent("Deep", &deep).tool(gated("dig", &ledger)).as_tool("deep", ""));
        let r = agent("Right", &right).tool(gated("cut", &ledger));
        let root = agent("Root", &outer).tool(l.as_tool("left", "")).tool(r.as_tool("right", ""));
        let runtime = runtime_of(&store, root);
        let paused = send(&runtime, "s", "go").await.expect("run");
        assert_eq!(waiting(&paused).len(), 4, "{kind}");
        let (sign, dig) = (key(&paused, "sign"), key(&paused, "dig"));
        let still = decide_all(&runtime, &key(&paused, "pay"), Decision::approve()).await;
        assert_eq!(still.status, Status::AwaitingInput, "{kind}: {:?}", still.error);
        assert_eq!(waiting(&still).iter().map(|one| one.1.as_str()).collect::<Vec<_>>(), ["cut"], "{kind}");
        for gone in [sign, dig] {
            let late = NewDecision::new(gone, vec![Decision::approve()]);
            let late = runtime.decide(&Principal::trusted(), late).await.expect_err("late");
            assert_eq!(late.code.name(), "approval_already_resolved", "{kind}");
            assert_eq!(late.details.expect("details").value()["resolution"], "cancelled", "{kind}");
        }
        whole(&store).await;
        // Another process has the same.
        drop(runtime);
        let (outer, right) = (teller([text("both")]), teller([text("right done")]));
        let l = agent("Left", &left).tool(gated("pay", &ledger));
        let r = agent("Right", &right).tool(gated("cut", &ledger));
        let runtime =
            runtime_of(&store, agent("Root", &outer).tool(l.as_tool("left", "")).tool(r.as_tool("right", "")));
        runtime.start().await.expect("started");
        let done = decide_all(&runtime, &still.pending[0], Decision::approve()).await;
        assert_eq!((done.status, done.text.as_str()), (Status::Completed, "both"), "{kind}");
        let heard = outer.heard.lock().expect("heard")[0].clone();
        let told = r#"x: the tool input guardrail "cards" stopped the run"#;
        assert_eq!(heard[2..], [told, "y: right done"], "{kind}");
        assert_eq!(ran(&ledger), ["cut"], "{kind}");
        whole(&store).await;
    }
}

/// Begins, signals that, and never returns.
struct Endless {
    began: Arc<Notify>,
    ended: Arc<AtomicBool>,
}

struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tool for Endless {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (began, ended) = (self.began.clone(), Ended(self.ended.clone()));
        Box::pin(async move {
            let _ended = ended;
            began.notify_one();
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn s11_what_runs_beside_a_call_that_trips_within_is_ended_at_any_depth() {
    for deep in [false, true] {
        for (kind, store, _guard) in stores() {
            let (ledger, began, ended) = (Ledger::default(), Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
            let outer = teller([vec![call("o", "child", DO)], text("end")]);
            let beside = if deep { call("k", "digger", DO) } else { call("k", "endless", "{}") };
            let inner = teller([vec![call("i", "pay", "{}"), beside]]);
            let digger = teller([vec![call("d", "endless", "{}")]]);
            let endless = ToolEntry {
                tool: Arc::new(Endless { began: began.clone(), ended: ended.clone() }),
                ..free("endless", &ledger)
            };
            // It trips while the call beside it runs.
            let pay = free("pay", &ledger).output_guardrail("leaks", move |_, _| {
                let began = began.clone();
                async move {
                    began.notified().await;
                    ToolGuardrailOutput::Trip("a secret".into())
                }
            });
            let child = agent("Child", &inner).tool(pay);
            let child = match deep {
                true => child.tool(agent("Digger", &digger).tool(endless).as_tool("digger", "")),
                false => child.tool(endless),
            };
            let runtime = runtime_of(&store, agent("Root", &outer).tool(child.as_tool("child", "")));
            let done = send(&runtime, "s", "go").await.expect("run");
            assert_eq!((done.status, done.text.as_str()), (Status::Completed, "end"), "{kind} {deep}");
            assert!(ended.load(Ordering::SeqCst), "{kind} {deep}: it does not run on");
            whole(&store).await;
        }
    }
}

/// The caller of a run gets the guardrail's result, and the run continues; also where guardrails are asked before
/// people are.
#[tokio::test]
async fn s11_a_run_of_the_library_outlives_a_guardrail_that_trips_within() {
    for first in [false, true] {
        let ledger = Ledger::default();
        let outer = teller([vec![call("o", "child", DO)], text("end")]);
        let inner = teller([vec![call("i", "look", "{}"), call("j", "pay", "{}"), call("k", "sign", "{}")]]);
        let pay = if first { gated("pay", &ledger) } else { free("pay", &ledger) };
        let child: Agent =
            agent("Child", &inner).tool(tripping(pay)).tool(gated("sign", &ledger)).tool(gated("look", &ledger));
        let root = agent("Root", &outer).tool(child.as_tool("child", ""));
        let runner = Runner::new(RunConfig::new().pre_approval_input_guardrails(first));
        let over = runner.run(&root, "go").await.expect("it goes on");
        assert_eq!((over.interruptions.len(), over.final_output.as_str()), (0, "end"), "{first}");
        let told = r#"o: the tool input guardrail "cards" stopped the run"#;
        assert_eq!(outer.heard.lock().expect("heard")[1][2], told, "{first}");
        let tripped: Vec<_> = over.guardrails.iter().filter(|result| result.tripped).collect();
        assert_eq!(tripped.len(), 1, "{first}");
        assert_eq!((&*tripped[0].agent, tripped[0].call_id.as_deref()), ("Child", Some("j")), "{first}");
        assert!(ran(&ledger).is_empty(), "{first}");
        RunState::from_json(&over.state.to_json()).expect("it can be read");
    }
}

#[test]
fn s11_guardrails_that_nothing_would_ask_are_refused_when_the_agents_are_put_together() {
    let child = agent("Child", &teller([]));
    let guarded = tripping(child.clone().as_tool("child", ""));
    let handoff = tripping(countersign::handoff(child));
    for tool in [guarded, handoff] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let root = agent("Root", &teller([])).tool(tool);
        let error = countersign::run::Runtime::builder(store).agent(root).build().map(drop).expect_err("refused");
        let error = error.to_string();
        assert!(error.contains("is the agent \"Child\"") && error.contains("input and output guardrails"), "{error}");
    }
}
