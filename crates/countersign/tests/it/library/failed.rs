//! Spec W2, S22 to S24: a turn that has failed continues in the store that it failed in, also in another process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use countersign::{
    Agent, GuardrailOutput, RunConfig, RunContext, RunErrorKind, RunResult, RunState, Runner, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    store::Store,
};
use countersign_core::{
    journal::record::{Entry, Record, records},
    wire::{event::Event, expand::expand, fold::history},
};
use futures::{StreamExt as _, stream::BoxStream};
use tokio::sync::Notify;

use super::{Ran, calls, elsewhere, gated, ids, model, ran, script, told};
use crate::support::stores;

fn in_store(store: &Arc<dyn Store>) -> RunConfig {
    RunConfig::new().store(store.clone()).session("s")
}

async fn entries(store: &Arc<dyn Store>) -> Vec<Arc<Entry>> {
    store.read("s", 0, usize::MAX).await.expect("entries")
}

/// The statuses that clients got of the run, in order.
async fn statuses(store: &Arc<dyn Store>) -> Vec<Status> {
    let mut said = Vec::new();
    for entry in entries(store).await {
        said.extend(expand(&"s".into(), &entry).into_iter().filter_map(|event| match event.event {
            Event::RunStatus { status, .. } => Some(status),
            _ => None,
        }));
    }
    said
}

async fn retried(store: &Arc<dyn Store>) -> usize {
    records(&entries(store).await).filter(|record| matches!(record, Record::Retried(_))).count()
}

/// The store has the same as the result, to the letter, and it can be read as text.
async fn assert_stored(store: &Arc<dyn Store>, over: &RunResult) {
    let saved = RunState::load(&**store, "s").await.expect("saved");
    assert_eq!(saved.state(), over.state.state());
    let read = RunState::from_json(&saved.to_json()).expect("read");
    assert_eq!(read.state(), over.state.state());
}

#[tokio::test]
async fn s24_a_run_that_used_up_its_model_calls_goes_on_in_the_same_store_with_more() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let answers = [calls(&[("a", "c1", "{}")]), calls(&[("a", "c2", "{}")])];
        let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
        let few = Runner::new(in_store(&store).max_turns(1));
        let mut paused = few.run(&agent, "go").await.expect("paused");
        paused.state.approve(&paused.interruptions[0]).expect("approved");
        let error = few.run(&agent, paused.state).await.expect_err("too many");
        assert_eq!(error.to_string(), "the turn used up its model calls: 1", "{name}");
        // Under the same limit nothing is stored, however often it is retried.
        let before = entries(&store).await.len();
        for _ in 0..2 {
            let again = few.run(&agent, elsewhere(&error)).await.expect_err("too many");
            assert_eq!(again.to_string(), error.to_string(), "{name}");
        }
        assert_eq!((entries(&store).await.len(), retried(&store).await), (before, 0), "{name}");
        let more = Runner::new(in_store(&store).max_turns(3));
        let mut paused = more.run(&agent, elsewhere(&error)).await.expect("paused");
        assert_eq!((ids(&paused), ran(&done).len()), (vec!["c2".to_owned()], 1), "{name}");
        paused.state.reject(&paused.interruptions[0]).expect("rejected");
        let over = more.run(&agent, paused.state).await.expect("over");
        assert_eq!((over.model_calls, ran(&done).len(), retried(&store).await), (3, 1, 1), "{name}");
        assert_stored(&store, &over).await;
        use Status::{AwaitingInput, Completed, Failed, Running};
        let said = [Running, AwaitingInput, Running, Failed, Running, AwaitingInput, Running, Completed];
        assert_eq!(statuses(&store).await, said, "{name}");
    }
}

#[tokio::test]
async fn s23_a_run_whose_model_failed_goes_on_in_the_same_store() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let first = calls(&[("a", "c1", "{}")]);
        let down = model(&format!(r#"{{"turns":[{first},{{"text":"half","error":"down"}}]}}"#));
        let runner = Runner::new(in_store(&store));
        let agent = Agent::new("Helper", down).tool(gated("a", &done));
        let mut paused = runner.run(&agent, "go").await.expect("paused");
        paused.state.approve(&paused.interruptions[0]).expect("approved");
        let mut error = runner.run(&agent, paused.state).await.expect_err("down");
        // It can fail again and again.
        for n in 0..2 {
            assert_eq!(error.kind(), RunErrorKind::Model, "{name} {n}: {error}");
            assert_eq!(RunState::load(&*store, "s").await.expect("saved").state().status, Status::Failed);
            error = runner.run(&agent, elsewhere(&error)).await.expect_err("down");
        }
        let up = Agent::new("Helper", script(std::slice::from_ref(&first))).tool(gated("a", &done));
        let over = runner.run(&up, elsewhere(&error)).await.expect("over");
        // The text of the broken answer is no part of the next one.
        assert_eq!((told(&over), ran(&done).len()), (strings(&["user: go", "a c1", "c1: a {}", "says: done"]), 1));
        assert_eq!(retried(&store).await, 3, "{name}");
        let entries = entries(&store).await;
        let messages = history("s", entries.iter().map(|entry| &**entry));
        let marked = messages.iter().filter(|message| message.replaced).map(|message| message.content.len());
        assert_eq!(marked.collect::<Vec<_>>(), [1, 1, 1], "{name}: each half answer, and no other message");
        assert_stored(&store, &over).await;
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn s11_a_run_that_a_guardrail_stopped_goes_on_when_it_passes() {
    for (name, store, _dir) in stores() {
        let (strict, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
        let (is_strict, counts) = (strict.clone(), asked.clone());
        let agent =
            Agent::new("Helper", model(r#"{"turns":[{"text":"hi"}]}"#)).input_guardrail("check", move |_, _| {
                counts.fetch_add(1, Ordering::SeqCst);
                let strict = is_strict.load(Ordering::SeqCst);
                async move { if strict { GuardrailOutput::trip("no") } else { GuardrailOutput::pass() } }
            });
        let runner = Runner::new(in_store(&store));
        let error = runner.run(&agent, "go").await.expect_err("stopped");
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{name}: {error}");
        let error = runner.run(&agent, elsewhere(&error)).await.expect_err("stopped again");
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{name}: {error}");
        strict.store(false, Ordering::SeqCst);
        let over = runner.run(&agent, elsewhere(&error)).await.expect("over");
        assert_eq!((&*over.final_output, asked.load(Ordering::SeqCst)), ("hi", 3), "{name}");
        assert_eq!(
            over.guardrails.iter().filter(|result| result.tripped).count(),
            2,
            "{name}: all that was said is kept"
        );
    }
}

/// Answers that cost 10 tokens each.
struct Costs(countersign::model::scripted::Scripted);

impl Model for Costs {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let usage = countersign::Usage { input_tokens: 10, ..Default::default() };
        futures::stream::once(async move { Ok(ModelEvent::Usage(usage)) }).chain(self.0.call(request)).boxed()
    }
    fn name(&self) -> &str {
        "dear"
    }
}

#[tokio::test]
async fn s22_a_run_that_used_up_its_budget_goes_on_in_the_same_store_with_more() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let agent = Agent::new("Helper", Costs(script(&[calls(&[("a", "c1", "{}")])]))).tool(super::tool("a", &done));
        let error = Runner::new(in_store(&store).max_tokens(5)).run(&agent, "go").await.expect_err("spent");
        assert_eq!(error.kind(), RunErrorKind::Budget, "{name}: {error}");
        let over = Runner::new(in_store(&store).max_tokens(50)).run(&agent, elsewhere(&error)).await.expect("over");
        assert_eq!((over.usage.input_tokens, ran(&done).len()), (20, 1), "{name}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    #[allow(dead_code, reason = "only its schema is used")]
    degrees: i32,
}

#[tokio::test]
async fn s23_a_run_with_a_wrong_answer_is_answered_again() {
    for (name, store, _dir) in stores() {
        let agent = |script| Agent::new("Helper", model(script)).output_type::<Weather>().expect("a type");
        let runner = Runner::new(in_store(&store));
        let error = runner.run(&agent(r#"{"turns":[{"text":"warm"}]}"#), "go").await.expect_err("wrong");
        assert_eq!(error.kind(), RunErrorKind::InvalidOutput, "{name}: {error}");
        let right = agent(r#"{"turns":[{"text":"warm"},{"text":"{\"degrees\":21}"}]}"#);
        let over = runner.run(&right, elsewhere(&error)).await.expect("over");
        assert_eq!(told(&over), ["user: go", r#"says: {"degrees":21}"#], "{name}: the wrong one is not told again");
    }
}

#[tokio::test]
async fn k137_input_that_is_added_where_a_turn_failed_is_heard_when_the_model_is_asked_again() {
    for (name, store, _dir) in stores() {
        let agent = |script| Agent::new("Helper", model(script)).output_type::<Weather>().expect("a type");
        let runner = Runner::new(in_store(&store));
        let error = runner.run(&agent(r#"{"turns":[{"text":"warm"}]}"#), "go").await.expect_err("wrong");
        let mut state = elsewhere(&error);
        for text in ["in degrees", "please"] {
            state.add_input(text);
        }
        let right = agent(r#"{"turns":[{"text":"warm"},{"text":"{\"degrees\":21}"}]}"#);
        let over = runner.run(&right, state).await.expect("over");
        let heard = ["user: go", "user: in degrees", "user: please", r#"says: {"degrees":21}"#];
        assert_eq!(told(&over), heard, "{name}");
        assert_eq!(over.state.state().turn_calls, 2, "{name}: in the same turn");
    }
}

#[tokio::test]
async fn s22_a_run_that_failed_otherwise_goes_on_in_the_same_store() {
    for (name, store, _dir) in stores() {
        let broken = Arc::new(AtomicBool::new(true));
        let is_broken = broken.clone();
        let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"hi"}]}"#)).instructions(move |_: RunContext| {
            let broken = is_broken.load(Ordering::SeqCst);
            async move { if broken { Err("no words".to_owned()) } else { Ok("You help.".to_owned()) } }
        });
        let runner = Runner::new(in_store(&store));
        let error = runner.run(&agent, "go").await.expect_err("failed");
        assert_eq!(error.code(), Some("instructions_failed"), "{name}: {error}");
        broken.store(false, Ordering::SeqCst);
        // The store is enough: the state of the error was not kept.
        let saved = RunState::load(&*store, "s").await.expect("saved");
        assert_eq!(saved.state().status, Status::Failed, "{name}: until it goes on, it has failed");
        let over = runner.run(&agent, saved).await.expect("over");
        assert_eq!((&*over.final_output, retried(&store).await), ("hi", 1), "{name}");
    }
}

#[tokio::test]
async fn s17_of_several_that_go_on_from_one_failed_turn_one_runs() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(super::tool("a", &done));
        let error = Runner::new(in_store(&store).max_turns(1)).run(&agent, "go").await.expect_err("too many");
        let (kept, saved) = (elsewhere(&error), RunState::load(&*store, "s").await.expect("saved"));
        let runner = Runner::new(in_store(&store).max_turns(5));
        let (one, two, three) = tokio::join!(
            runner.run(&agent, kept.clone()),
            runner.run(&agent, kept.clone()),
            runner.run(&agent, saved.clone())
        );
        let all = [one, two, three];
        assert_eq!(all.iter().filter(|run| run.is_ok()).count(), 1, "{name}");
        for refused in all.into_iter().filter_map(Result::err) {
            assert_eq!(refused.kind(), RunErrorKind::Claimed, "{name}: {refused}");
            assert_eq!(refused.into_state().expect("a state").state().turn_calls, 1, "{name}: it is given back");
        }
        assert_eq!((ran(&done).len(), retried(&store).await), (1, 1), "{name}");
        // Also after the end.
        for state in [kept, saved] {
            let late = runner.run(&agent, state).await.expect_err("gone on");
            assert_eq!(late.kind(), RunErrorKind::Claimed, "{name}: {late}");
        }
    }
}

/// Signals that it was called, and never answers.
struct Silent(Arc<Notify>);

impl Model for Silent {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.0.notify_one();
        futures::stream::pending().boxed()
    }
    fn name(&self) -> &str {
        "silent"
    }
}

#[tokio::test]
async fn r4_a_crash_after_a_failed_turn_was_retried_loses_nothing() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let first = calls(&[("a", "c1", "{}")]);
        let down = model(&format!(r#"{{"turns":[{first},{{"error":"down"}}]}}"#));
        let runner = Runner::new(in_store(&store));
        let error =
            runner.run(&Agent::new("Helper", down).tool(super::tool("a", &done)), "go").await.expect_err("down");
        let asked = Arc::new(Notify::new());
        let silent = Agent::new("Helper", Silent(asked.clone())).tool(super::tool("a", &done));
        tokio::select! {
            _ = runner.run(&silent, elsewhere(&error)) => panic!("{name}: it never answers"),
            () = asked.notified() => {}
        }
        // The process that had claimed it is gone: the text that it began with is consumed, and the store has the rest.
        let up = Agent::new("Helper", script(&[first])).tool(super::tool("a", &done));
        let refused = runner.run(&up, elsewhere(&error)).await.expect_err("claimed");
        assert_eq!(refused.kind(), RunErrorKind::Claimed, "{name}: {refused}");
        let saved = RunState::load(&*store, "s").await.expect("saved");
        assert_eq!(saved.state().status, Status::Running, "{name}");
        let over = runner.run(&up, saved).await.expect("over");
        assert_eq!((&*over.final_output, ran(&done).len(), retried(&store).await), ("done", 1, 1), "{name}");
    }
}

#[tokio::test]
async fn s22_a_failed_run_also_goes_on_in_a_store_of_its_own_and_there_once() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(super::tool("a", &done));
        let error =
            Runner::new(RunConfig::new().session("s").max_turns(1)).run(&agent, "go").await.expect_err("too many");
        let more = Runner::new(in_store(&store).max_turns(5));
        let over = more.run(&agent, elsewhere(&error)).await.expect("over");
        assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1), "{name}");
        let again = more.run(&agent, elsewhere(&error)).await.expect_err("claimed");
        assert_eq!(again.kind(), RunErrorKind::Claimed, "{name}: {again}");
        // Without a store, each run of a copy is a separate run.
        let alone = Runner::new(RunConfig::new().max_turns(5));
        assert!(alone.run(&agent, elsewhere(&error)).await.is_ok());
    }
}

#[tokio::test]
async fn s22_what_was_cancelled_stays_over() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
        let cancel = countersign::CancelHandle::new();
        let paused = Runner::new(in_store(&store)).run(&agent, "go").await.expect("paused");
        let mut state = paused.state;
        state.approve(&paused.interruptions[0]).expect("approved");
        cancel.cancel();
        let error = Runner::new(in_store(&store).cancel(&cancel)).run(&agent, state).await.expect_err("cancelled");
        assert_eq!(error.kind(), RunErrorKind::Cancelled, "{name}: {error}");
        let (mut kept, count) = (elsewhere(&error), entries(&store).await.len());
        let again = Runner::new(in_store(&store)).run(&agent, &kept).await.expect_err("over");
        assert_eq!(again.kind(), RunErrorKind::Cancelled, "{name}: {again}");
        assert_eq!((entries(&store).await.len(), ran(&done).len(), retried(&store).await), (count, 0, 0), "{name}");
        // Also for another agent; the next message begins another turn.
        kept.set_current_agent("Helper");
        let again = Runner::new(in_store(&store)).run(&agent, kept).await.expect_err("over");
        assert_eq!(again.kind(), RunErrorKind::Cancelled, "{name}: {again}");
        let mut state = elsewhere(&again);
        state.add_input("once more");
        let next = Runner::new(in_store(&store)).run(&agent, state).await.expect("another turn");
        assert_eq!((&*next.final_output, retried(&store).await), ("done", 0), "{name}");
    }
}

#[tokio::test]
async fn s19_another_agent_can_answer_where_a_turn_failed() {
    for (name, store, _dir) in stores() {
        let down = model(r#"{"turns":[{"error":"down"}]}"#);
        let other = Agent::new("Other", model(r#"{"turns":[{"text":"I can"}]}"#));
        let agent = Agent::new("Helper", down).handoff(other);
        let runner = Runner::new(in_store(&store));
        let mut state = runner.run(&agent, "go").await.expect_err("down").into_state().expect("a state");
        state.set_current_agent("Other");
        let over = runner.run(&agent, RunState::from_json(&state.to_json()).expect("read")).await.expect("over");
        assert_eq!((&*over.final_output, &*over.last_agent), ("I can", "Other"), "{name}");
        let late = runner.run(&agent, state).await.expect_err("claimed");
        assert_eq!(late.kind(), RunErrorKind::Claimed, "{name}: {late}");
    }
}
