//! A state that was kept as text resumes from its position, and from no other (spec S17, S22, R4).

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, DecisionError, RunConfig, RunErrorKind, RunEvent, RunResult, RunState, RunStateError, Runner, Status,
    policy::Timeout,
    run,
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use serde_json::Value;

use super::{
    Ran, calls, copy, deadlines::an_hour_later, gated, ids, item, leaks_once, model, ran, script, told, tool, trusted,
};
use crate::team::{agent as speaks, call, teller};

fn in_store(store: &Arc<dyn Store>) -> Runner {
    Runner::new(RunConfig::new().store(store.clone()).parallel_calls(1))
}

/// Two calls are pending; if both are approved, `b` runs and stops the run before `a` begins.
async fn paused(done: &Ran) -> (Agent, RunResult) {
    let agent = Agent::new("Helper", script(&[calls(&[("b", "c0", "{}"), ("a", "c1", "{}")])]))
        .tool(leaks_once(gated("b", done)))
        .tool(gated("a", done));
    let paused = run(&agent, "go").await.expect("paused");
    (agent, paused)
}

async fn failed(agent: &Agent, paused: &RunResult) -> RunState {
    let mut state = copy(&paused.state);
    for item in &paused.interruptions {
        state.approve(item).expect("approved");
    }
    let one_by_one = Runner::new(RunConfig::new().parallel_calls(1));
    let error = one_by_one.run(agent, state).await.expect_err("stopped");
    assert_eq!(error.kind(), RunErrorKind::Guardrail, "{error}");
    error.into_state().expect("a state")
}

#[tokio::test]
async fn s17_r4_what_was_rejected_in_a_store_does_not_run_from_a_text_with_another_history_of_the_same_length() {
    let done = Ran::default();
    let (agent, paused) = paused(&done).await;
    let error = copy(&failed(&agent, &paused).await);
    assert_eq!(ran(&done), ["b {}"], "c1 is approved in the text, and has not run");
    let json: Value = serde_json::from_str(&error.to_json()).expect("json");
    let length = json["count"].as_u64().expect("how many appends it has");

    // The same pause is resumed elsewhere: there, both are rejected.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut state = copy(&paused.state);
    for item in &paused.interruptions {
        state.reject(item).expect("rejected");
    }
    // An append more, which changes nothing.
    state.set_current_agent("Helper");
    let over = in_store(&store).run(&agent, state).await.expect("over");
    let id = over.state.state().session_id.clone();
    let head = store.head(&id).await.expect("store").expect("head");
    assert_eq!(head.pos, length, "they are of the same length");
    for state in [error.clone(), copy(&error)] {
        let refused = in_store(&store).run(&agent, state).await.expect_err("another history");
        assert_eq!(refused.kind(), RunErrorKind::Claimed, "{refused}");
    }
    assert_eq!(ran(&done), ["b {}"], "nothing ran");
    assert_eq!(store.head(&id).await.expect("store").expect("head").pos, length, "and nothing is stored");
    // Without that store it is a separate run.
    assert_eq!(&*run(&agent, error).await.expect("over").final_output, "done");
}

#[tokio::test]
async fn s21_a_text_cannot_say_that_its_store_lacks_what_only_a_store_can_have() {
    let done = Ran::default();
    let (agent, paused) = paused(&done).await;
    let error = failed(&agent, &paused).await;
    for (state, what) in [(&paused.state, "paused"), (&error, "failed")] {
        let mut json: Value = serde_json::from_str(&state.to_json()).expect("json");
        let stored = json["stored"].as_u64().or_else(|| json["count"].as_u64()).expect("how many");
        for less in 1..stored {
            json["stored"] = less.into();
            let refused = RunState::from_json(&json.to_string());
            assert!(matches!(refused, Err(RunStateError::Damaged { .. })), "{what}: {less} of {stored}");
        }
        json["stored"] = stored.into();
        RunState::from_json(&json.to_string()).expect("as it is");
    }
}

#[tokio::test]
async fn s7_s13_a_standing_approval_does_not_decide_what_waits_of_a_tool_that_was_shown_otherwise() {
    for approves in [true, false] {
        let done = Ran::default();
        let outer = teller([["o1", "o2"].map(|id| call(id, "sub", r#"{"input":"pay"}"#)).to_vec()]);
        let inner = teller([vec![call("i1", "a", "{}")], vec![call("i2", "a", "{}")]]);
        let agent = |description: &str| {
            let mut entry = gated("a", &done);
            entry.spec.description = description.into();
            let sub = speaks("Sub", &inner).tool(entry);
            speaks("Lead", &outer).tool(sub.as_tool("sub", "Works."))
        };
        let paused = run(&agent("Pays a cent."), "go").await.expect("paused");
        assert_eq!(paused.interruptions.len(), 2);
        let mut state = paused.state;
        state.approve(&paused.interruptions[0]).expect("approved");
        // The tool has changed: the approved call is requested again with the new tool, the other one stays pending.
        let changed = agent("Pays everything.");
        let mut again = run(&changed, state).await.expect("paused");
        assert_eq!((again.interruptions.len(), ran(&done).len()), (2, 0));
        let waits = |result: &RunResult, shown: &str| {
            let open = &result.state.state().open;
            let actions = open.iter().flat_map(|open| &open.asked.actions);
            actions.filter(|action| action.description.as_deref() == Some(shown)).count()
        };
        assert_eq!((waits(&again, "Pays a cent."), waits(&again, "Pays everything.")), (1, 1));
        let other = again.interruptions.iter().find(|item| item.call == paused.interruptions[1].call).cloned();
        let other = other.expect("it waits as it was");
        if approves {
            again.state.always_approve(&other).expect("approved");
        } else {
            again.state.always_reject(&other).expect("rejected");
        }
        let after = run(&changed, again.state).await.expect("goes on");
        // A rejection counts whatever was shown; an approved call is requested again with the new tool.
        assert_eq!((ran(&done).len(), waits(&after, "Pays everything.")), if approves { (0, 2) } else { (0, 0) });
    }
}

/// The statuses of a stream, and the calls whose results it has.
async fn said(agent: &Agent, state: RunState) -> (Vec<Status>, Vec<String>) {
    let mut stream = trusted().run_streamed(agent, state).await.expect("goes on");
    let (mut statuses, mut results) = (Vec::new(), Vec::new());
    while let Some(event) = stream.next().await.expect("event") {
        match event {
            RunEvent::Status { status, .. } => statuses.push(status),
            RunEvent::ToolResult { call_id, .. } => results.push(call_id),
            _ => {}
        }
    }
    stream.finish().await.expect("what has come of it");
    (statuses, results)
}

#[tokio::test]
async fn s15_a_stream_goes_on_after_a_status_that_was_over_when_it_began() {
    // One request is rejected, the next one approved.
    let done = Ran::default();
    let finance = tool("b", &done).needs_approval(Approval::always().timeout(Timeout::Never).levels(["finance"]));
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", &done))
        .tool(finance);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.reject(&item(&paused, "c1")).expect("rejected");
    let only_one = copy(&paused.state);
    paused.state.approve(&item(&paused, "c2")).expect("approved");
    let (statuses, results) = said(&agent, paused.state).await;
    assert_eq!((statuses.last(), results), (Some(&Status::Completed), vec!["c1".to_owned(), "c2".to_owned()]));
    // One is rejected, the other one stays pending: that is all.
    let (statuses, results) = said(&agent, only_one).await;
    assert_eq!((statuses.last(), results), (Some(&Status::AwaitingInput), vec!["c1".to_owned()]));

    // A request that was pending when a turn failed is pending until its decision.
    let done = Ran::default();
    let levels = |role| Approval::always().timeout(Timeout::Never).levels([role]);
    let agent = Agent::new("Helper", script(&[calls(&[("b", "c0", "{}"), ("a", "c1", "{}"), ("c", "c2", "{}")])]))
        .tool(leaks_once(tool("b", &done).needs_approval(levels("boss"))))
        .tool(gated("a", &done))
        .tool(tool("c", &done).needs_approval(levels("finance")));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c0")).expect("approved");
    let error = trusted().run(&agent, paused.state).await.expect_err("stopped");
    let mut state = error.into_state().expect("a state");
    let items = state.interruptions();
    state.approve(&items[0]).expect("approved");
    let (statuses, results) = said(&agent, copy(&state)).await;
    assert_eq!((statuses.last(), results), (Some(&Status::AwaitingInput), vec!["c1".to_owned()]));
    state.approve(&items[1]).expect("approved");
    let (statuses, results) = said(&agent, state).await;
    assert!(statuses.contains(&Status::AwaitingInput), "{statuses:?}");
    assert_eq!((statuses.last(), results.len()), (Some(&Status::Completed), 2), "{results:?}");
}

#[tokio::test]
async fn w2_w7_time_passes_for_what_is_pending_in_the_state_of_an_error_but_nobody_is_asked_anything_new() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("b", "c0", "{}"), ("a", "c1", "{}")])]))
        .tool(leaks_once(tool("b", &done)))
        .tool(tool("a", &done).needs_approval(Approval::always().timeout(Duration::from_secs(60))));
    let error = run(&agent, "go").await.expect_err("stopped");
    let late = an_hour_later(error.state().expect("a state"));
    let paused = run(&agent, &late).await.expect("it was not asked before");
    assert_eq!(ids(&paused), ["c1"], "nothing has timed out");
    let mut late = an_hour_later(&paused.state);
    late.approve(&paused.interruptions[0]).expect("approved");
    let error = run(&agent, late).await.expect_err("too late");
    assert_eq!(error.kind(), RunErrorKind::TooLate, "{error}");
}

#[tokio::test]
async fn s17_s19_a_state_goes_on_in_the_store_that_it_was_restored_into() {
    let done = Ran::default();
    let other = Agent::new("Other", model(r#"{"turns":[{"text":"hi"},{"text":"I can"}]}"#));
    let (helper, paused) = paused(&done).await;
    let agent = helper.handoff(other);

    let mut state = run(&Agent::new("Helper", model(r#"{"turns":[{"text":"hi"}]}"#)), "go").await.expect("over").state;
    state.set_current_agent("Other");
    state.add_input("can you?");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    state.save(&*store).await.expect("restored");
    let stored = RunState::load(&*store, &state.state().session_id).await.expect("saved");
    assert_eq!(&*stored.state().agent, "Other", "whoever goes on there has that agent");
    let over = in_store(&store).run(&agent, copy(&state)).await.expect("over");
    assert_eq!((&*over.final_output, &*over.last_agent), ("I can", "Other"));
    let again = in_store(&store).run(&agent, state).await.expect_err("claimed");
    assert_eq!(again.kind(), RunErrorKind::Claimed, "{again}");

    let error = failed(&agent, &paused).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    error.save(&*store).await.expect("restored");
    let stored = RunState::load(&*store, &error.state().session_id).await.expect("saved");
    assert_eq!(stored.state().status, Status::Failed, "until it goes on");
    let runner = in_store(&store);
    let (one, two) = tokio::join!(runner.run(&agent, copy(&error)), runner.run(&agent, &error));
    assert_eq!((one.is_ok(), two.is_ok(), ran(&done)), (true, false, vec!["b {}".to_owned(), "a {}".to_owned()]));
    assert_eq!(two.expect_err("claimed").kind(), RunErrorKind::Claimed);
}

#[tokio::test]
async fn s22_a_call_that_is_open_again_is_not_said_to_have_its_result() {
    let done = Ran::default();
    let (agent, paused) = paused(&done).await;
    let mut error = failed(&agent, &paused).await;
    let refused = error.reject(&item(&paused, "c1")).expect_err("it was approved");
    assert!(matches!(refused, DecisionError::Decided { decision: "approve", .. }), "{refused}");
    let refused = error.reject(&item(&paused, "c0")).expect_err("it ran");
    assert!(matches!(refused, DecisionError::Executed { .. }), "{refused}");
    let over = run(&agent, error).await.expect("over");
    assert!(told(&over).contains(&"c1: a {}".to_owned()), "{:?}", told(&over));
}
