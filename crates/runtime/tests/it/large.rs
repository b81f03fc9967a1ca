//! Large sessions: how far one may grow, and that its past costs others nothing (SPEC R9, G6).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use countersign::{
    agent::Agent,
    core::{approval::principal::Principal, journal::state::Status, refusal::Code},
    model::scripted::Scripted,
    run::{CheckpointQuery, Direction, HistoryQuery, NewFork, NewMessage, Runtime},
    tool::Approval,
};
use serde_json::json;

use crate::{
    failing::Failing,
    support::{Ledger, entry, send, stores},
};

/// An agent that calls a tool, and says much, for ever.
fn endless(store: Arc<dyn countersign::store::Store>, session_bytes: u64, ledger: &Ledger) -> Runtime {
    let script = json!({
        "turns": [{ "text": "x".repeat(1_000), "tool_calls": [{ "name": "look", "args": { "n": 1 } }] }],
        "at_end": "repeat",
    });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent =
        Agent::new("a", ("m", Arc::new(model))).max_turns(100_000).tool(entry("look", Approval::never(), ledger));
    Runtime::builder(store).agent(agent).session_bytes(session_bytes).build().expect("runtime")
}

#[tokio::test]
async fn r9_a_full_session_ends_its_turn_with_an_error_and_loses_nothing() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = endless(store, 60_000, &ledger);
        let me = Principal::trusted();
        let outcome = send(&runtime, "s", "go").await.expect("run");
        let error = outcome.error.expect("an error");
        assert_eq!((outcome.status, error.code.as_str()), (Status::Failed, "session_full"), "{name}");
        assert!(error.message.contains("may have 60000"), "{}", error.message);
        let ran = ledger.lock().expect("ledger").len();
        assert!((10..60).contains(&ran), "{name}: {ran} calls");
        let refused = runtime.run(&me, NewMessage::text("s", "more")).await.expect_err("full");
        assert_eq!(refused.code, Code::SessionFull, "{name}");
        // All of it is there, and can be gone on from.
        let query = HistoryQuery { direction: Direction::Backward, cursor: None, limit: 3 };
        assert_eq!(runtime.history(&me, "s", query).await.expect("history").messages.len(), 3);
        let all = runtime.whole_history(&me, "s").await.expect("history");
        let results = all.iter().filter(|message| message.tool_call_id.is_some()).count();
        assert_eq!(results, ran, "{name}: each call has its result");
        let page = CheckpointQuery { cursor: None, limit: 200 };
        let oldest = runtime.checkpoints(&me, "s", page).await.expect("checkpoints").rows;
        let at = oldest.iter().rev().find(|one| one.after == "result").expect("a result").checkpoint;
        let new = NewFork { checkpoint: Some(at), session_id: Some("f".into()), run: true, ..NewFork::default() };
        runtime.fork(&me, "s", new).await.expect("fork");
        let outcome = runtime.wait(&me, "f").await.expect("wait");
        assert_eq!(outcome.error.expect("an error").code, "session_full", "{name}: it went on until it was full too");
        assert!(ledger.lock().expect("ledger").len() > ran, "{name}");
    }
}

/// Many reads of the past and forks at once: each is right, and who asks for too many is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_of_many_reads_of_the_past_at_once_each_is_right_and_too_many_are_refused() {
    for (name, store, _dir) in stores() {
        let runtime = endless(store, 200_000, &Ledger::default());
        let me = Principal::person("ann", Vec::new());
        runtime.run(&me, NewMessage::text("s", "go")).await.expect("run");
        let page = CheckpointQuery { cursor: None, limit: 200 };
        let at = runtime.checkpoints(&me, "s", page).await.expect("checkpoints").rows[20].checkpoint;
        let wanted = serde_json::to_string(&runtime.state_at(&me, "s", at).await.expect("state")).expect("JSON");
        let mut reads = tokio::task::JoinSet::new();
        for i in 0..64 {
            let (runtime, me) = (runtime.clone(), me.clone());
            reads.spawn(async move {
                if i % 2 == 0 {
                    let state = runtime.state_at(&me, "s", at).await?;
                    return Ok(Some(serde_json::to_string(&state).expect("JSON")));
                }
                let new = NewFork { checkpoint: Some(at), session_id: Some(format!("f{i}")), ..NewFork::default() };
                runtime.fork(&me, "s", new).await.map(|_| None)
            });
        }
        let (mut right, mut busy) = (0, 0);
        while let Some(read) = reads.join_next().await {
            match read.expect("a task") {
                Ok(state) => {
                    assert!(state.is_none_or(|state| state == wanted), "{name}");
                    right += 1;
                }
                Err(refused) => {
                    let refused: countersign::core::refusal::Refusal = refused;
                    assert_eq!(refused.code, Code::TooBusy, "{name}: {refused}");
                    busy += 1;
                }
            }
        }
        assert!(right >= 17 && busy > 0 && right + busy == 64, "{name}: {right} were answered, {busy} refused");
    }
}

/// However large a session is, whoever goes through its journal has only a page of it in memory. A memory store has it there
/// anyway, and shares it.
#[tokio::test]
async fn r9_whoever_reads_the_past_of_a_large_session_reads_it_in_pages_that_are_bounded_in_bytes() {
    for (name, store, _dir) in stores().into_iter().filter(|(name, ..)| *name != "memory") {
        let store = Failing::over(store);
        let model = Scripted::from_json(r#"{ "turns": [{ "text": "Noted." }], "at_end": "repeat" }"#).expect("script");
        let agent = Agent::new("a", ("m", Arc::new(model)));
        let make = || Runtime::builder(store.clone()).agent(agent.clone()).build().expect("runtime");
        let (runtime, text) = (make(), "x".repeat(200_000));
        for _ in 0..20 {
            send(&runtime, "s", &text).await.expect("run");
        }
        // One that has nothing of it in memory.
        let (runtime, me) = (make(), Principal::trusted());
        store.largest.store(0, Ordering::SeqCst);
        let page = CheckpointQuery { cursor: None, limit: 200 };
        let at = runtime.checkpoints(&me, "s", page).await.expect("checkpoints").rows[1].checkpoint;
        runtime.state_at(&me, "s", at).await.expect("state");
        let query = HistoryQuery { direction: Direction::Forward, cursor: None, limit: 50 };
        runtime.history(&me, "s", query).await.expect("history");
        let new = NewFork { checkpoint: Some(at), session_id: Some("f".into()), ..NewFork::default() };
        runtime.fork(&me, "s", new).await.expect("fork");
        send(&runtime, "f", "and now?").await.expect("run");
        let largest = store.largest.load(Ordering::SeqCst);
        assert!((100_000..2_000_000).contains(&largest), "{name}: {largest} bytes of 4 MB were read at once");
    }
}

/// A person's reads of the past do not hold up somebody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_reads_of_the_past_of_one_person_hold_up_nobody_else() {
    for (name, store, _dir) in stores() {
        let runtime = endless(store, 400_000, &Ledger::default());
        let (ann, bob) = (Principal::person("ann", Vec::new()), Principal::person("bob", Vec::new()));
        runtime.run(&ann, NewMessage::text("a", "go")).await.expect("run");
        runtime.run(&bob, NewMessage::text("b", "go")).await.expect("run");
        let page = CheckpointQuery { cursor: None, limit: 200 };
        let at = runtime.checkpoints(&bob, "b", page).await.expect("checkpoints").rows[20].checkpoint;
        let done = Arc::new(AtomicUsize::new(0));
        let mut reads = tokio::task::JoinSet::new();
        for i in 0..16 {
            let (runtime, ann, done) = (runtime.clone(), ann.clone(), done.clone());
            reads.spawn(async move {
                let new = NewFork { session_id: Some(format!("f{i}")), ..NewFork::default() };
                runtime.fork(&ann, "a", new).await.expect("fork");
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let before = done.load(Ordering::SeqCst);
        runtime.state_at(&bob, "b", at).await.expect("state");
        let meanwhile = done.load(Ordering::SeqCst) - before;
        assert!(meanwhile < 12, "{name}: {meanwhile} of the others came first");
        reads.join_all().await;
        assert_eq!(done.load(Ordering::SeqCst), 16, "{name}");
    }
}
