//! Spec R11: a name is permanent: ids of sessions, idempotency keys, standing rules.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use countersign::{
    Decision, RunState, RunStateError,
    run::{Code, NewMessage, Runtime},
    store::{StoreError, memory::MemoryStore},
};
use countersign_core::{
    approval::rule::Always,
    audit::Verifier,
    journal::{
        draft::OnPending,
        record::{Entry, Record, records},
    },
    plain,
};
use countersign_runtime::run::{NewFork, NewSession, RuleQuery};
use countersign_store::AuditRange;

use crate::{
    failing::Failing,
    support::{Ledger, decide, me, runtime, send, stores},
};

const SCRIPT: &str = r#"{"turns":[
    {"tool_calls":[{"name":"look","args":{"n":1}},{"name":"trade","args":{"n":2}}]}, {"text":"Done"}
],"at_end":"repeat"}"#;

fn keys(ledger: &Ledger) -> Vec<String> {
    ledger.lock().expect("ledger").iter().map(|row| row.3.clone()).collect()
}

async fn approved(runtime: &Runtime, session: &str) {
    send(runtime, session, "buy").await.expect("paused");
    decide(runtime, &format!("{session}_1"), vec![Decision::approve()]).await.expect("done");
}

#[tokio::test]
async fn r11_a_deleted_sessions_id_is_never_used_again() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        send(&runtime, "s", "buy").await.expect("paused");
        send(&runtime, "other", "buy").await.expect("paused");
        let saved = RunState::load(&*store, "s").await.expect("saved");
        runtime.delete_session(&me(), "s").await.expect("deleted");
        let ran = keys(&ledger).len();
        let new = || NewSession { session_id: Some("s".to_owned()), ..NewSession::default() };
        let fork = || NewFork { session_id: Some("s".to_owned()), ..NewFork::default() };
        let deleted = [
            runtime.message(&me(), NewMessage::text("s", "again")).await.map(drop),
            runtime.create_session(&me(), new()).await.map(drop),
            runtime.fork(&me(), "other", fork()).await.map(drop),
            runtime.fork(&me(), "s", NewFork::default()).await.map(drop),
            decide(&runtime, "s_1", vec![Decision::approve()]).await.map(drop),
            runtime.approval(&me(), "s_1").await.map(drop),
            runtime.session(&me(), "s").await.map(drop),
            runtime.state(&me(), "s").await.map(drop),
            runtime.cancel(&me(), "s", None).await,
            runtime.wait(&me(), "s").await.map(drop),
            runtime.subscribe(&me(), "s", None).await.map(drop),
            runtime.delete_session(&me(), "s").await,
        ];
        for (i, answer) in deleted.into_iter().enumerate() {
            let refusal = answer.expect_err("deleted");
            assert_eq!((refusal.code, refusal.code.http_status()), (Code::SessionDeleted, 410), "{name}, {i}");
            assert!(refusal.message.contains("\"s\""), "{}", refusal.message);
        }
        // A saved state of it does not restore it here either, but can be resumed elsewhere.
        let restored = saved.save(&*store).await;
        assert!(matches!(restored, Err(RunStateError::Store(StoreError::Deleted(id))) if *id == *"s"), "{name}");
        saved.save(&MemoryStore::new()).await.expect("another store has had no such session");
        assert_eq!(keys(&ledger).len(), ran, "{name}: nothing ran");
    }
}

#[tokio::test]
async fn r11_idempotency_keys_are_unique_over_sessions_stores_and_forks() {
    let (ledger, mut seen) = (Ledger::default(), BTreeSet::new());
    let mut sessions = 0;
    for (_, store, _dir) in stores() {
        let runtime = runtime(store, SCRIPT, &ledger);
        approved(&runtime, "s").await;
        approved(&runtime, "t").await;
        sessions += 2;
    }
    // The same name in a new store, at the same time.
    for _ in 0..2 {
        let store = Arc::new(MemoryStore::new());
        let runtime = runtime(store, SCRIPT, &ledger);
        approved(&runtime, "s").await;
        let fork = |id: &str| NewFork { session_id: Some(id.to_owned()), checkpoint: None, ..NewFork::default() };
        runtime.fork(&me(), "s", fork("f")).await.expect("fork");
        sessions += 1;
        // The fork's own calls are numbered on from the original's.
        let paused = runtime.run(&me(), NewMessage::text("f", "buy")).await.expect("paused");
        for key in paused.pending {
            decide(&runtime, &key, vec![Decision::approve()]).await.expect("done");
        }
        let original = runtime.run(&me(), NewMessage::text("s", "buy")).await.expect("paused");
        for key in original.pending {
            decide(&runtime, &key, vec![Decision::approve()]).await.expect("done");
        }
    }
    let keys = keys(&ledger);
    assert!(keys.len() > 2 * sessions, "each ran its calls: {keys:?}");
    for key in &keys {
        assert!(seen.insert(key.clone()), "{key} names two calls");
        assert!(key.len() <= 175, "{key}");
    }
}

/// Its log says how its request ended, and stays whole.
#[tokio::test]
async fn r11_r8_a_session_that_is_deleted_begins_nothing_of_what_was_queued() {
    for (name, store, _dir) in stores() {
        let turns = Arc::new(AtomicU32::new(0));
        let count = turns.clone();
        let begins = move |entries: &[Arc<Entry>]| {
            let begun = records(entries).filter(|record| matches!(record, Record::UserMessage(_))).count();
            count.fetch_add(u32::try_from(begun).expect("few"), Ordering::SeqCst);
        };
        let heard = Failing::among(store.clone(), None, Some(Box::new(begins)));
        let runtime = runtime(heard, SCRIPT, &Ledger::default());
        send(&runtime, "s", "buy").await.expect("paused");
        let queued = NewMessage { on_pending: Some(OnPending::Queue), ..NewMessage::text("s", "and then") };
        runtime.message(&me(), queued).await.expect("queued");
        runtime.delete_session(&me(), "s").await.expect("deleted");
        assert_eq!(turns.load(Ordering::SeqCst), 1, "{name}");
        let log = store.audit(None, AuditRange::After(0), 100).await.expect("audit");
        let events: Vec<_> =
            log.iter().map(|record| plain::value(record.body.get()).expect("JSON")["event"].clone()).collect();
        assert_eq!(events, ["requested", "withdrawn", "finished", "session_deleted"], "{name}");
        let mut verifier = Verifier::new(None);
        log.iter().try_for_each(|record| verifier.take(record)).and_then(|()| verifier.end()).expect("it is whole");
    }
}

#[tokio::test]
async fn r11_standing_rules_of_a_deleted_session_do_not_come_back() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), SCRIPT, &ledger);
        send(&runtime, "s", "buy").await.expect("paused");
        let always = Decision::approve().always(Always::Arguments { until: None });
        decide(&runtime, "s_1", vec![always]).await.expect("done");
        let rules = async || {
            runtime.rules(&me(), RuleQuery { limit: Some(9), ..RuleQuery::default() }).await.expect("rules").rows.len()
        };
        assert_eq!(rules().await, 1, "{name}");
        let saved = RunState::load(&*store, "s").await.expect("saved");
        runtime.delete_session(&me(), "s").await.expect("deleted");
        assert_eq!(rules().await, 0, "{name}");
        assert!(saved.save(&*store).await.is_err());
        runtime
            .create_session(&me(), NewSession { session_id: Some("s".into()), ..NewSession::default() })
            .await
            .expect_err("deleted");
        assert_eq!(rules().await, 0, "{name}");
        let asked = send(&runtime, "t", "buy").await.expect("paused");
        assert_eq!(asked.pending, ["t_1"], "{name}: a person is asked again");
    }
}

/// Both continue from one state, with calls that have the same numbers and other arguments.
#[tokio::test]
async fn r11_a_key_is_of_one_call_also_after_a_backup_was_restored_or_a_state_copied() {
    let ledger = Ledger::default();
    let original = Arc::new(MemoryStore::new());
    let before = runtime(original.clone(), SCRIPT, &ledger);
    send(&before, "s", "buy").await.expect("paused");
    let backup = RunState::load(&*original, "s").await.expect("saved");
    let mut last = Vec::new();
    let mut waited = Vec::new();
    for _ in 0..2 {
        let store = Arc::new(MemoryStore::new());
        backup.save(&*store).await.expect("restored");
        let runtime = runtime(store, SCRIPT, &ledger);
        let ran = keys(&ledger).len();
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("done");
        waited.push(keys(&ledger)[ran].clone());
        let paused = runtime.run(&me(), NewMessage::text("s", "buy")).await.expect("paused");
        decide(&runtime, &paused.pending[0], vec![Decision::approve()]).await.expect("done");
        last.push(keys(&ledger).last().expect("it ran").clone());
    }
    let call = |key: &str| key.rsplit_once('/').expect("a key").0.to_owned();
    assert_eq!(waited[0], waited[1], "the call that waited in the backup is the same in both");
    assert_eq!(call(&last[0]), call(&last[1]));
    assert_ne!(last[0], last[1], "calls of different answers");
}
