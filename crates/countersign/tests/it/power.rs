//! A power cut loses only what nobody has seen: output waits for the disk, and nothing else does (docs/promises.md).

use std::sync::{Arc, atomic::Ordering};

use countersign::{
    Decision, Status,
    run::{NewDecision, NewMessage, NewSession, Runtime},
    store::{Store, memory::MemoryStore},
};
use countersign_core::{refusal::Code, wire::expand};
use serde_json::Value;

use crate::{
    failing::Failing,
    support::{Ledger, decide, me, runtime, send},
};

const SCRIPT: &str = r#"{"turns":[
    {"text":"I look, then I buy.","tool_calls":[{"name":"look","id":"c1","args":{}}]},
    {"thinking":"hm","text":"Now I buy.","tool_calls":[{"name":"trade","id":"c2","args":{"n":1}}]},
    {"text":"Done."}]}"#;

fn new() -> (Arc<Failing>, Runtime) {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = runtime(store.clone(), SCRIPT, &Ledger::default());
    (store, runtime)
}

/// The position up to which the session is written.
async fn written(store: &Failing) -> u64 {
    store.head("s").await.expect("head").map_or(0, |head| head.pos)
}

/// The last `seq` that a power cut would leave.
async fn surviving_seq(store: &Failing) -> u64 {
    let entries = store.read("s", 0, usize::try_from(store.survives("s")).expect("few")).await.expect("entries");
    entries.last().map_or(0, |last| expand::after(last).seq)
}

#[tokio::test]
async fn w2_an_event_with_a_seq_is_given_only_when_it_is_on_the_disk() {
    // The follower runs between an append and what syncs it.
    let store = Failing::slow(Arc::new(MemoryStore::new()));
    let runtime = runtime(store.clone(), SCRIPT, &Ledger::default());
    let followed = runtime.message_followed(&me(), NewMessage::text("s", "go")).await.expect("taken");
    let mut follow = followed.follow.expect("followed");
    let mut texts = 0;
    let key = loop {
        let frame = follow.next().await.expect("event");
        let event: Value = serde_json::from_str(&frame.json).expect("JSON");
        if let Some(seq) = frame.seq() {
            let survives = surviving_seq(&store).await;
            assert!(seq <= survives, "{event} was given while only {survives} events were on the disk");
        }
        texts += usize::from(event["content_block"]["type"] == "text");
        if event["type"] == "run_status" && event["status"] == "awaiting_input" {
            break event["pending"][0].as_str().map(str::to_owned).expect("a key");
        }
    };
    assert_eq!(texts, 3, "the user's, and one of each answer");
    let new = NewDecision::new(key, vec![Decision::approve()]);
    let before = store.survives("s");
    runtime.decide(&me(), new).await.expect("decided");
    assert!(store.survives("s") > before, "an acknowledged decision");
    loop {
        let frame = follow.next().await.expect("event");
        if let Some(seq) = frame.seq() {
            assert!(seq <= surviving_seq(&store).await, "{}", frame.json);
        }
        if frame.json.contains(r#""status":"completed""#) {
            break;
        }
    }
}

#[tokio::test]
async fn r3_what_was_acknowledged_read_or_returned_survives_a_power_cut() {
    let (store, runtime) = new();
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    assert_eq!((outcome.status, store.survives("s")), (Status::AwaitingInput, written(&store).await), "an outcome");
    let state = runtime.state(&me(), "s").await.expect("state");
    assert_eq!(store.survives("s"), written(&store).await, "a read: {state:?}");
    let new = NewDecision::new("s_1", vec![Decision::approve()]);
    let before = written(&store).await;
    runtime.decide(&me(), new).await.expect("decided");
    assert!(store.survives("s") > before, "an acknowledged decision");
    runtime.wait(&me(), "s").await.expect("outcome");
    assert_eq!(store.survives("s"), written(&store).await, "what was waited for");
    let before = written(&store).await;
    runtime.message(&me(), NewMessage::text("s", "again")).await.expect("taken");
    assert!(store.survives("s") > before, "an acknowledged message");
    runtime.wait(&me(), "s").await.expect("outcome");
}

/// Another node may have stored it, whose commit still waits for a standby.
#[tokio::test]
async fn r3_who_sends_again_what_has_no_request_id_is_answered_once_it_is_where_it_survives() {
    let (store, runtime) = new();
    let doubts = || [&store.doubts, &store.confirmed].map(|count| count.load(Ordering::SeqCst));
    let new = || NewSession { session_id: Some("s".to_owned()), ..NewSession::default() };
    runtime.create_session(&me(), new()).await.expect("made");
    assert_eq!(doubts(), [0, 0]);
    runtime.create_session(&me(), new()).await.expect("as it is");
    assert_eq!(doubts(), [1, 1]);
    send(&runtime, "s", "go").await.expect("paused");
    let approve = || NewDecision::new("s_1", vec![Decision::approve()]);
    runtime.decide(&me(), approve()).await.expect("decided");
    assert_eq!(doubts(), [1, 1]);
    let again = runtime.decide(&me(), approve()).await.expect_err("it is decided");
    assert_eq!((again.code, doubts()), (Code::ApprovalAlreadyResolved, [2, 2]));
}

/// A full cycle waits for the disk where its request is shown, where its call begins, and where its outcome is
/// returned.
#[tokio::test]
async fn r9_a_cycle_with_an_approval_waits_for_the_disk_three_times() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let script = r#"{"turns":[{"tool_calls":[{"name":"trade","id":"c","args":{"n":1}}]},{"text":"Done."}]}"#;
    let ledger = Ledger::default();
    let runtime = runtime(store.clone(), script, &ledger);
    let paused = send(&runtime, "s", "go").await.expect("paused");
    assert_eq!((paused.status, store.syncs.load(Ordering::SeqCst)), (Status::AwaitingInput, 1), "it is shown");
    let over = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("over");
    assert_eq!((over.status, store.syncs.load(Ordering::SeqCst)), (Status::Completed, 3), "its call, and its outcome");
    assert_eq!(store.survives("s"), written(&store).await);
}

/// A model that is slow in each of its blocks.
const SLOW: &str = r#"{"turns":[{"thinking":"Let me see.","text":"It is done.","delay_ms":60}],"chunk_chars":4}"#;

#[tokio::test]
async fn w2_a_block_that_is_being_written_is_shown_only_when_its_beginning_is_on_the_disk() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = runtime(store.clone(), SLOW, &Ledger::default());
    let followed = runtime.message_followed(&me(), NewMessage::text("s", "go")).await.expect("taken");
    let mut follow = followed.follow.expect("followed");
    // Its beginning is not stored at once either: nothing is shown before it is.
    store.appends.store(2, Ordering::SeqCst);
    let mut deltas = 0;
    loop {
        let frame = follow.next().await.expect("event");
        let event: Value = serde_json::from_str(&frame.json).expect("JSON");
        match frame.seq() {
            Some(seq) => assert!(seq <= surviving_seq(&store).await, "{event}"),
            None => deltas += 1,
        }
        if event["type"] == "run_status" && event["status"] == "completed" {
            break;
        }
    }
    assert!(deltas > 4, "it was shown while it was written: {deltas}");
    assert!(store.failed.load(Ordering::SeqCst) == 2, "its beginning was tried until it was stored");
}

/// The records of an answer do not depend on followers, and an answer that comes at once is one record.
#[tokio::test]
async fn w2_following_appends_nothing() {
    let records = |followed: bool, script: &'static str| async move {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        let runtime = runtime(store.clone(), script, &Ledger::default());
        let taken = crate::support::message(&runtime, NewMessage::text("s", "go"), followed).await.expect("taken");
        let mut late = Vec::new();
        while followed && runtime.state(&me(), "s").await.expect("state").session.status == Status::Running {
            late.push(runtime.subscribe(&me(), "s", Some(0)).await.expect("followed"));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        runtime.wait(&me(), "s").await.expect("over");
        drop((taken, late));
        let entries = store.read("s", 0, 100).await.expect("entries");
        entries.iter().map(|entry| serde_json::to_value(&entry.records).expect("JSON")).collect::<Vec<_>>()
    };
    let kinds = |entries: &[Value]| -> Vec<Vec<String>> {
        let kind = |record: &Value| match record.as_object().and_then(|record| record.keys().next()) {
            Some(kind) => kind.clone(),
            None => panic!("{record}"),
        };
        entries.iter().map(|records| records.as_array().expect("records").iter().map(kind).collect()).collect()
    };
    let (alone, followed) = (records(false, SLOW).await, records(true, SLOW).await);
    assert_eq!(kinds(&alone), kinds(&followed));
    assert_eq!(
        kinds(&alone),
        [
            vec!["session_created"],
            vec!["user_message"],
            vec!["block_began"],
            vec!["block_shown", "block_began"],
            vec!["model_responded", "turn_ended"],
        ]
    );
    const QUICK: &str = r#"{"turns":[{"thinking":"Let me see.","text":"It is done."}],"chunk_chars":4}"#;
    assert_eq!(records(false, QUICK).await.len(), 3, "a session, a message, an answer");
    assert_eq!(records(true, QUICK).await.len(), 3);
}
