//! A state runs once in its process, together with its clones; a state of a store runs there only (spec S17, R4).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use countersign::{
    Agent, Decision, DecisionError, InterruptionKind, Message, RunConfig, RunErrorKind, RunResult, RunState, Runner,
    Sessions,
    graph::{Context, Node, Outcome},
    model::ModelResponse,
    run, run_streamed,
    store::memory::MemoryStore,
};

use super::{Ran, calls, gated, ran, script};
use crate::graph_support::{Work, in_line, said};

/// An agent whose model is down after its tool has run, while `down` says so.
fn agent(done: &Ran, down: &Arc<AtomicBool>) -> Agent {
    let down = down.clone();
    let model = move |messages: Vec<Message>| {
        let down = down.clone();
        async move {
            match messages.last() {
                Some(Message::ToolResult(_)) if down.load(Ordering::SeqCst) => Err("down"),
                Some(Message::ToolResult(result)) => Ok(ModelResponse::text(result.text.to_string())),
                _ => Ok(ModelResponse::default().call("pay", &serde_json::json!({}))),
            }
        }
    };
    Agent::new("Helper", model).tool(gated("pay", done))
}

async fn approved(agent: &Agent) -> RunState {
    let mut paused = run(agent, "Pay.").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    paused.state
}

#[tokio::test]
async fn s17_r4_a_state_and_its_clones_run_once_in_a_process() {
    let (done, down) = (Ran::default(), Arc::new(AtomicBool::new(true)));
    let agent = agent(&done, &down);
    let state = approved(&agent).await;
    let failed = run(&agent, &state).await.expect_err("the model is down");
    assert_eq!((failed.kind(), ran(&done).len()), (RunErrorKind::Model, 1));
    let mut other = state.clone();
    other.set_context(&1, Default::default()).expect("context");
    for again in [state.clone(), other, state.clone()] {
        let refused = run(&agent, &again).await.expect_err("it ran");
        assert_eq!(refused.kind(), RunErrorKind::Claimed);
        let text = refused.to_string();
        assert!(text.contains("was run before in this process") && text.contains("RunError::into_state"), "{text}");
        assert!(run_streamed(&agent, again).await.is_err_and(|error| error.kind() == RunErrorKind::Claimed));
    }
    let store = Arc::new(MemoryStore::new());
    let elsewhere = Runner::new(RunConfig::new().store(store)).run(&agent, &state).await.expect_err("it ran");
    assert_eq!(elsewhere.kind(), RunErrorKind::Claimed);
    // The run continues from the error's state.
    let failed = failed.into_state().expect("where it failed");
    let failed = run(&agent, failed).await.expect_err("still down").into_state().expect("where it failed");
    down.store(false, Ordering::SeqCst);
    let over = run(&agent, failed).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("pay {}", 1));
}

#[tokio::test]
async fn s17_r4_of_two_runs_of_one_state_at_once_one_runs() {
    let (done, down) = (Ran::default(), Arc::new(AtomicBool::new(false)));
    let agent = agent(&done, &down);
    let state = approved(&agent).await;
    let (one, two) = tokio::join!(run(&agent, &state), run(&agent, &state));
    assert_eq!((one.is_ok(), two.expect_err("the first runs").kind()), (true, RunErrorKind::Claimed));
    assert_eq!(ran(&done).len(), 1);
    // A text is a copy: reading it is how a state is run twice on purpose.
    let copy = RunState::from_json(&state.to_json()).expect("read");
    run(&agent, copy).await.expect("over");
    assert_eq!(ran(&done).len(), 2);
}

#[tokio::test]
async fn s17_a_state_of_which_nothing_ran_can_run() {
    let (done, down) = (Ran::default(), Arc::new(AtomicBool::new(false)));
    let agent = agent(&done, &down);
    let state = approved(&agent).await;
    let undecided = |mut state: RunState| {
        let item = state.interruptions()[0].clone();
        assert!(state.retract(&item));
        state
    };
    // What is paused without a decision stays so.
    let same = run(&agent, undecided(state.clone())).await.expect("paused");
    assert!(same.is_paused());
    let other = Agent::new("Other", script(&[]));
    run(&other, &state).await.map(drop).expect_err("its agent is not there");
    let wrong = Runner::new(RunConfig::new().parallel_calls(0)).run(&agent, &state).await.expect_err("a setting");
    assert_eq!(wrong.kind(), RunErrorKind::Settings);
    run(&agent, &state).await.expect("over");
    // It is the same state, so it has run too.
    let mut same: RunResult = same;
    same.state.approve(&same.interruptions[0]).expect("approved");
    let refused = run(&agent, same.state).await.expect_err("it ran");
    assert_eq!((refused.kind(), ran(&done).len()), (RunErrorKind::Claimed, 1));
}

#[tokio::test]
async fn s17_r4_a_state_of_a_store_runs_only_there() {
    let (done, down) = (Ran::default(), Arc::new(AtomicBool::new(false)));
    let agent = agent(&done, &down);
    let store = Arc::new(MemoryStore::new());
    let mut paused = store.session("s").say("Pay.").run(&agent).await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let loaded = RunState::load(&*store, "s").await.expect("loaded");
    let read = RunState::from_json(&paused.state.to_json()).expect("read");
    let another: Arc<MemoryStore> = Arc::new(MemoryStore::new());
    for state in [paused.state.clone(), loaded, read] {
        for config in [RunConfig::new(), RunConfig::new().store(another.clone())] {
            let refused = Runner::new(config).run(&agent, &state).await.expect_err("its store is not there");
            assert_eq!(refused.kind(), RunErrorKind::Settings);
            let text = refused.to_string();
            assert!(text.contains("\"s\" is kept in a store") && text.contains("RunConfig::store"), "{text}");
        }
    }
    let over = Runner::new(RunConfig::new().store(store.clone())).run(&agent, &paused.state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("pay {}", 1));
    // On purpose: put into another store it is another session.
    let copy = RunState::load(&*store, "s").await.expect("loaded");
    copy.save(&*another).await.expect("put there");
    let mut copy = RunState::load(&*another, "s").await.expect("loaded");
    copy.add_input("Thank you.");
    Runner::new(RunConfig::new().store(another)).run(&agent, copy).await.expect("paused");
}

#[tokio::test]
async fn g3_a_failed_graph_is_hard_to_take_for_one_that_is_done() {
    let graph = in_line("ask", |graph| {
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("ok?", ()).typed().await;
            Ok(said("done"))
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    let error = paused.clone().done().expect_err("it waits");
    assert_eq!((error.kind(), error.state().map(|state| state.interruptions().len())), (RunErrorKind::Paused, Some(1)));
    let mut failed = paused;
    failed.outcome = Outcome::Cancelled;
    assert_eq!(failed.done().expect_err("it was cancelled").kind(), RunErrorKind::Cancelled);
}

#[tokio::test]
async fn r4_a_call_in_doubt_is_not_approved_but_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("result.json");
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("pay", "c1", "{}")])])).tool(gated("pay", &done));
    let approve = |mut state: RunState| {
        let item = state.interruptions()[0].clone();
        state.approve(&item).map(|()| state)
    };
    run(&agent, "Pay.").await.expect("paused").state.write(&file).expect("written");
    run(&agent, approve(RunState::take(&file).expect("taken")).expect("approved")).await.expect("over");
    // As if the process had died: somebody puts the file back.
    std::fs::rename(folder.path().join("result.json.claimed"), &file).expect("renamed back");
    let mut doubt =
        run(&agent, approve(RunState::take(&file).expect("taken")).expect("approved")).await.expect("paused");
    let item = doubt.interruptions[0].clone();
    assert_eq!((item.kind, ran(&done).len()), (InterruptionKind::InDoubt, 1));
    let refused = doubt.state.approve(&item).expect_err("it may have run");
    assert!(matches!(refused, DecisionError::InDoubt { .. }) && refused.to_string().contains("run_again"), "{refused}");
    let refused = doubt.state.decide(&item, Decision::approve()).expect_err("nor by any other name");
    assert!(matches!(refused, DecisionError::InDoubt { .. }), "{refused}");
    doubt.state.always_approve(&item).expect_err("nor with all later ones");
    doubt.state.run_again(&item).expect("on purpose");
    run(&agent, doubt.state).await.expect("over");
    assert_eq!(ran(&done).len(), 2);
    let mut paused = run(&agent, "Pay.").await.expect("paused");
    let refused = paused.state.run_again(&paused.interruptions[0]).expect_err("it has not run");
    assert!(matches!(refused, DecisionError::Invalid { .. }), "{refused}");
}
