//! Decisions on a stored session by a call's id alone: the id does not show that the caller has seen the pending
//! request.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::{
    Agent, DecisionError, InterruptionKind, RunError, RunResult, RunStateError, Sessions as _, StoredSession,
    policy::Timeout,
    store::{Store, memory::MemoryStore},
    tool::{Approval, ToolEntry, function},
};
use tokio::sync::Notify;

use super::{Ran, calls, gated, ids, ran, script};

/// Every way to decide about a call by its id.
fn decisions(session: impl Fn() -> StoredSession, id: &str) -> Vec<StoredSession> {
    vec![
        session().approve(id),
        session().approve_with(id, serde_json::json!({})),
        session().reject(id),
        session().reject_with(id, "no"),
        session().respond(id, "done"),
        session().answer(id, "yes"),
        session().decide(id, countersign::RunState::always_approve),
        session().say("And?").approve(id),
    ]
}

fn is_stale(outcome: &Result<RunResult, RunError>) -> bool {
    outcome.as_ref().is_err_and(|error| matches!(error.decision(), Some(DecisionError::Stale { .. })))
}

fn is_gone(outcome: &Result<RunResult, RunError>) -> bool {
    outcome.as_ref().is_err_and(|error| matches!(error.state_error(), Some(RunStateError::NoSession(_))))
}

#[tokio::test]
async fn r11_a_call_of_a_deleted_session_is_decided_by_no_id_and_nothing_takes_its_place() {
    let done = Ran::default();
    let agent = || Agent::new("Helper", script(&[calls(&[("pay", "c1", r#"{"n":1}"#)])])).tool(gated("pay", &done));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let session = || store.session("s");
    session().say("Pay 1.").run(&agent()).await.expect("paused");
    store.delete("s", None, None).await.expect("deleted");
    for decided in decisions(session, "c1") {
        assert!(is_gone(&decided.run(&agent()).await));
    }
    // In the second run its model calls with the same id, and another amount.
    let again = Agent::new("Helper", script(&[calls(&[("pay", "c1", r#"{"n":1000}"#)])])).tool(gated("pay", &done));
    let refused = session().say("Pay 1000.").run(&again).await.expect_err("deleted");
    assert!(refused.to_string().contains("deleted"), "{refused:?}");
    for decided in decisions(session, "c1") {
        assert!(is_gone(&decided.run(&again).await));
    }
    assert!(ran(&done).is_empty());
}

#[tokio::test]
async fn r11_an_id_that_a_finished_call_had_decides_no_later_one() {
    let done = Ran::default();
    let answers =
        [calls(&[("pay", "c1", r#"{"n":1}"#)]), calls(&[("pay", "c1", r#"{"n":1000}"#), ("pay", "c2", "{}")])];
    let agent = Agent::new("Helper", script(&answers)).tool(gated("pay", &done));
    let store = Arc::new(MemoryStore::new());
    let session = || store.session("s");
    session().say("Pay 1.").run(&agent).await.expect("paused");
    let paused = session().approve("c1").run(&agent).await.expect("goes on");
    assert_eq!((ids(&paused), ran(&done)), (vec!["c1".to_owned(), "c2".to_owned()], vec![r#"pay {"n":1}"#.to_owned()]));
    for decided in decisions(session, "c1") {
        assert!(is_stale(&decided.run(&agent).await));
    }
    // Of several decisions all count or none.
    assert!(is_stale(&session().approve("c2").approve("c1").run(&agent).await));
    assert_eq!(ran(&done).len(), 1);
    // The current request is decided by its shown item.
    let shown = session().state().await.expect("there").interruption("c1").expect("it waits");
    assert_eq!(&*shown.args, r#"{"n":1000}"#);
    let over = session().decide("c2", countersign::RunState::reject).run(&agent).await.expect("goes on");
    assert_eq!((ids(&over), ran(&done).len()), (vec!["c1".to_owned()], 1));
}

/// A tool that is cut off in its first run, as by a crash.
fn cut_off(begun: &Arc<Notify>, count: &Arc<AtomicU32>) -> ToolEntry {
    let (begun, count) = (begun.clone(), count.clone());
    function::tool("pay", "Pays.", move |_: serde_json::Map<String, serde_json::Value>| {
        let (begun, first) = (begun.clone(), count.fetch_add(1, Ordering::SeqCst) == 0);
        async move {
            begun.notify_one();
            if first {
                std::future::pending::<()>().await;
            }
            Ok("paid")
        }
    })
    .needs_approval(Approval::always().timeout(Timeout::Never))
}

#[tokio::test]
async fn r11_a_call_that_is_in_doubt_by_now_is_decided_by_no_id() {
    let (begun, count) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
    let agent = Agent::new("Helper", script(&[calls(&[("pay", "c1", "{}")])])).tool(cut_off(&begun, &count));
    let store = Arc::new(MemoryStore::new());
    let session = || store.session("s");
    session().say("Pay.").run(&agent).await.expect("paused");
    tokio::select! {
        _ = session().approve("c1").run(&agent) => panic!("it hangs"),
        () = begun.notified() => {}
    }
    // That approval was about whether it may run, not whether it has run.
    let left = session().state().await.expect("there");
    countersign::Runner::new(countersign::RunConfig::new().store(store.clone())).run(&agent, left).await.expect("asks");
    for decided in decisions(session, "c1") {
        let refused = decided.run(&agent).await.expect_err("it may have run");
        assert!(matches!(refused.decision(), Some(DecisionError::InDoubt { .. })), "{refused}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 1, "it does not run a second time");
    let mut state = session().state().await.expect("there");
    let lost = state.interruption("c1").expect("it waits");
    assert_eq!(lost.kind, InterruptionKind::InDoubt);
    state.respond(&lost, "it was paid").expect("decided");
    let runner = countersign::Runner::new(countersign::RunConfig::new().store(store.clone()));
    let over = runner.run(&agent, state).await.expect("over");
    assert_eq!((over.final_output.as_str(), count.load(Ordering::SeqCst)), ("done", 1));
}

#[tokio::test]
async fn s16_every_input_of_a_stored_session_reaches_the_model() {
    let agent = || Agent::new("Helper", script(&[]));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let session = || store.session("s");
    let said = |result: &RunResult| {
        let users = result.history().into_iter().filter_map(|message| match message {
            countersign::Message::User(content) => Some(content.text()),
            _ => None,
        });
        users.collect::<Vec<_>>().join("|")
    };
    let first = session().say("one").say("two").run(&agent()).await.expect("over");
    let begun = said(&first);
    assert!(begun.contains("one") && begun.contains("two"), "{begun}");
    let second = session().say("three").say("four").run(&agent()).await.expect("over");
    let all = said(&second);
    assert_eq!(all, format!("{begun}|three|four"));
}
