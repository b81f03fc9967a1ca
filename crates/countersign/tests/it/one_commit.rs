//! An input and everything that follows from it are one commit, and a call that starts with it begins, once (spec S6, R4).

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use countersign::{
    Decision, Principal,
    run::NewDecision,
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::{Record, records};

use crate::{
    failing::Failing,
    support::{Ledger, decide, runtime, send, stores},
};

/// The kinds of the records of each append.
type Appends = Arc<Mutex<Vec<Vec<&'static str>>>>;

fn kind(record: &Record) -> Option<&'static str> {
    match record {
        Record::UserMessage(_) => Some("message"),
        Record::ModelResponded(_) => Some("answer"),
        Record::Decided(_) => Some("decision"),
        Record::CallStarted { .. } => Some("start"),
        Record::CallFinished(_) => Some("outcome"),
        Record::CallLost { .. } => Some("lost"),
        _ => None,
    }
}

/// A store that notes what is appended together.
fn noted(inner: Arc<dyn Store>) -> (Arc<Failing>, Appends) {
    let appends = Appends::default();
    let noted = appends.clone();
    let store = Failing::among(
        inner,
        None,
        Some(Box::new(move |entries| noted.lock().expect("appends").push(records(entries).filter_map(kind).collect()))),
    );
    (store, appends)
}

const ONE_CALL: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"done"}]}"#;

#[tokio::test]
async fn s6_a_decision_and_the_start_of_its_call_are_one_commit() {
    for (kind, store, _dir) in stores() {
        let (store, appends) = noted(store);
        let ledger = Ledger::default();
        let runtime = runtime(store, ONE_CALL, &ledger);
        send(&runtime, "s", "hi").await.expect("pauses");
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("ends");
        let expected: [&[_]; 5] = [&["message"], &["answer"], &["decision", "start"], &["outcome"], &["answer"]];
        assert_eq!(*appends.lock().expect("appends"), expected, "{kind}");
        assert_eq!(ledger.lock().expect("ledger").len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn s16_calls_that_need_nobody_start_with_their_answer_and_end_together() {
    let script =
        r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}},{"name":"look","args":{"n":2}}]},{"text":"done"}]}"#;
    let (store, appends) = noted(Arc::new(MemoryStore::new()));
    let ledger = Ledger::default();
    send(&runtime(store, script, &ledger), "s", "hi").await.expect("ends");
    let expected: [&[_]; 4] = [&["message"], &["answer", "start", "start"], &["outcome", "outcome"], &["answer"]];
    assert_eq!(*appends.lock().expect("appends"), expected);
    assert_eq!(ledger.lock().expect("ledger").len(), 2);
}

/// The sender of a decision may be gone at any moment of it.
#[tokio::test]
async fn r4_a_decision_whose_sender_goes_away_starts_its_call_once_or_not_at_all() {
    let mut taken = 0;
    for polls in 0..12 {
        let (store, appends) = noted(Failing::slow(Arc::new(MemoryStore::new())));
        let ledger = Ledger::default();
        let runtime = runtime(store, ONE_CALL, &ledger);
        send(&runtime, "s", "hi").await.expect("pauses");
        {
            let decision = NewDecision::new("s_1", vec![Decision::approve()]);
            let me = Principal::trusted();
            let mut sent = pin!(runtime.decide(&me, decision));
            for _ in 0..polls {
                if poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_ready())).await {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Nothing here waits for time or another thread: by then all of it has come to rest.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
        let kinds = appends.lock().expect("appends").concat();
        let count = |kind| kinds.iter().filter(|known| **known == kind).count();
        assert_eq!(count("lost"), 0, "{polls} polls: {kinds:?}");
        let expected = if count("decision") == 0 { (0, 0, 1) } else { (1, 1, 2) };
        assert_eq!((count("start"), count("outcome"), count("answer")), expected, "{polls} polls: {kinds:?}");
        assert_eq!(ledger.lock().expect("ledger").len(), count("decision"), "{polls} polls");
        taken += count("decision");
    }
    assert!(taken > 0, "some are taken");
}
