//! A state that was given to a run is never lost by an error (spec S17, S21).

use std::sync::{Arc, atomic::Ordering};

use countersign::{
    Agent, Principal, RunConfig, RunError, RunErrorKind, RunState, Runner,
    store::{Store, memory::MemoryStore},
};

use super::{Ran, calls, gated, item, model, ran, script};
use crate::{failing::Failing, support::stores};

/// All that come.
const DOWN: u32 = u32::MAX;

async fn decided(runner: &Runner, agent: &Agent) -> RunState {
    let mut paused = runner.run(agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    paused.state.reject_with(&item(&paused, "c2"), "not that").expect("rejected");
    paused.state
}

fn two(done: &Ran) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", done))
        .tool(gated("b", done))
}

/// Asserts that the error has the given state, to the letter.
fn assert_kept(error: RunError, given: &str) -> RunState {
    let why = error.to_string();
    let state = error.into_state().unwrap_or_else(|| panic!("{why}: the state is lost"));
    assert_eq!(state.to_json(), given, "{why}");
    state
}

#[tokio::test]
async fn s17_decisions_are_not_lost_when_the_store_is_out_of_reach() {
    for (name, inner, _dir) in stores() {
        let (store, done) = (Failing::over(inner), Ran::default());
        let (runner, agent) = (Runner::new(RunConfig::new().store(store.clone())), two(&done));
        let mut state = decided(&runner, &agent).await;
        let given = state.to_json();
        store.heads.store(DOWN, Ordering::SeqCst);
        let error = runner.run(&agent, state).await.expect_err("down");
        assert_eq!(error.kind(), RunErrorKind::State, "{name}: {error}");
        state = assert_kept(error, &given);
        store.heads.store(0, Ordering::SeqCst);
        store.appends.store(DOWN, Ordering::SeqCst);
        for streamed in [false, true] {
            let run = if streamed {
                runner.run_streamed(&agent, state).await.map(drop)
            } else {
                runner.run(&agent, state).await.map(drop)
            };
            let error = run.expect_err("down");
            assert_eq!(error.kind(), RunErrorKind::Refused, "{name}: {error}");
            state = assert_kept(error, &given);
        }
        store.appends.store(0, Ordering::SeqCst);
        let over = runner.run(&agent, state).await.expect("over");
        assert_eq!((&*over.final_output, ran(&done).len(), &*super::told(&over)[4]), ("done", 1, "c2: not that"));
    }
}

#[tokio::test]
async fn s17_decisions_are_not_lost_when_a_failed_turn_cannot_go_on() {
    let (store, done) = (Failing::over(Arc::new(MemoryStore::new())), Ran::default());
    let first = calls(&[("a", "c1", "{}")]);
    let agent = Agent::new("Helper", model(&format!(r#"{{"turns":[{first},{{"error":"down"}},{{"text":"done"}}]}}"#)))
        .tool(super::tool("a", &done));
    let runner = Runner::new(RunConfig::new().store(store.clone()));
    let state = runner.run(&agent, "go").await.expect_err("down").into_state().expect("a state");
    let given = state.to_json();
    store.appends.store(DOWN, Ordering::SeqCst);
    let state = assert_kept(runner.run(&agent, state).await.expect_err("no store"), &given);
    store.appends.store(0, Ordering::SeqCst);
    let up = Agent::new("Helper", script(&[first])).tool(super::tool("a", &done));
    let over = runner.run(&up, state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
}

#[tokio::test]
async fn s17_decisions_are_not_lost_whatever_refuses_them() {
    let done = Ran::default();
    let agent = two(&done);
    let state = decided(&Runner::default(), &agent).await;
    let given = state.to_json();
    // Agents that do not fit together.
    let other = Agent::new("Helper", script(&[])).tool(gated("a", &done)).tool(gated("a", &done));
    let error = countersign::run(&other, state).await.expect_err("two tools of one name");
    assert_eq!(error.kind(), RunErrorKind::Agent, "{error}");
    let state = assert_kept(error, &given);
    // A tool that is gone.
    let without = Agent::new("Helper", script(&[])).tool(gated("b", &done));
    let error = countersign::run(&without, state).await.expect_err("it is gone");
    assert_eq!(error.kind(), RunErrorKind::Decision, "{error}");
    let state = assert_kept(error, &given);
    // Somebody who may not resume it.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let owner = Runner::new(RunConfig::new().store(store.clone()).principal(Principal::person("ann", Vec::new())));
    let theirs = decided(&owner, &agent).await;
    let other = Runner::new(RunConfig::new().store(store).principal(Principal::person("bob", Vec::new())));
    let kept = theirs.to_json();
    let error = other.run(&agent, theirs).await.expect_err("not theirs");
    assert_eq!(error.kind(), RunErrorKind::Refused, "{error}");
    assert_kept(error, &kept);
    // None of this has changed it.
    let over = countersign::run(&agent, state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
}
