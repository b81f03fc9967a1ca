//! Large sessions: how far one may grow, and that its past costs others nothing (spec R9, G6).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use countersign::{
    Agent, Principal, Status,
    model::scripted::Scripted,
    run::{Code, NewMessage, Runtime},
    store::Store,
    tool::Approval,
};
use countersign_core::journal::checkpoint::FOLD_VERSION;
use countersign_runtime::run::{CheckpointQuery, Direction, HistoryQuery, NewFork};
use countersign_store::Waypoint;
use serde_json::json;

use crate::{
    failing::Failing,
    support::{Ledger, entry, send, stores},
};

/// An agent that calls a tool and writes long texts, forever.
fn endless(store: Arc<dyn Store>, session_bytes: u64, ledger: &Ledger) -> Runtime {
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
        // All of it is there, and can be continued.
        let query = HistoryQuery { direction: Direction::Backward, cursor: None, limit: 3 };
        assert_eq!(runtime.history(&me, "s", query).await.expect("history").messages.len(), 3);
        let all = runtime.whole_history(&me, "s").await.expect("history");
        let results = all.iter().filter(|message| message.tool_call_id.is_some()).count();
        assert_eq!(results, ran, "{name}: each call has its result");
        let page = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
        let oldest = runtime.checkpoints(&me, "s", page).await.expect("checkpoints").rows;
        let at = oldest.iter().rev().find(|one| one.after == "result").expect("a result").checkpoint;
        let new = NewFork { checkpoint: Some(at), session_id: Some("f".into()), run: true, ..NewFork::default() };
        runtime.fork(&me, "s", new).await.expect("fork");
        let outcome = runtime.wait(&me, "f").await.expect("wait");
        assert_eq!(outcome.error.expect("an error").code, "session_full", "{name}: it went on until it was full too");
        assert!(ledger.lock().expect("ledger").len() > ran, "{name}");
    }
}

/// Many reads of the past and forks at once: each is right, and too many are refused.
#[tokio::test]
async fn r9_of_many_reads_of_the_past_at_once_each_is_right_and_too_many_are_refused() {
    for (name, store, _dir) in stores() {
        let runtime = endless(Failing::over(store), 200_000, &Ledger::default());
        let me = Principal::person("ann", Vec::new());
        runtime.run(&me, NewMessage::text("s", "go")).await.expect("run");
        let page = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
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
                    let refused: countersign::run::Refusal = refused;
                    assert_eq!(refused.code, Code::TooBusy, "{name}: {refused}");
                    busy += 1;
                }
            }
        }
        assert!(right >= 17 && busy > 0 && right + busy == 64, "{name}: {right} were answered, {busy} refused");
    }
}

/// However large a session is, a walk through its journal has only a page of it in memory. A memory store holds the
/// entries anyway, and shares them.
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
        let page = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
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

/// A session of six megabytes, in turns of two hundred kilobytes with a call each.
async fn six_megabytes(store: &Arc<Failing>) -> Runtime {
    let script = json!({
        "turns": [{ "tool_calls": [{ "name": "look", "args": { "n": 1 } }] }, { "text": "Noted." }],
        "at_end": "repeat",
    });
    let model = Scripted::from_json(&script.to_string()).expect("script");
    let agent = Agent::new("a", ("m", Arc::new(model))).tool(entry("look", Approval::never(), &Ledger::default()));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let text = "x".repeat(200_000);
    for _ in 0..30 {
        send(&runtime, "s", &text).await.expect("run");
    }
    runtime
}

async fn all_checkpoints(runtime: &Runtime, session: &str, limit: usize) -> Vec<u64> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = CheckpointQuery { cursor, limit: Some(limit) };
        let page = runtime.checkpoints(&Principal::trusted(), session, page).await.expect("checkpoints");
        found.extend(page.rows.iter().map(|one| one.checkpoint));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

/// The cost of an old state depends on where it is, not on the length of the session before or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_an_old_state_is_folded_from_near_it() {
    // A memory store shares its entries, so pages of it have no bytes of their own.
    for (name, store, _dir) in stores().into_iter().filter(|(name, ..)| *name != "memory") {
        let store = Failing::over(store);
        let runtime = six_megabytes(&store).await;
        let me = Principal::trusted();
        let read = |what: &str, most: usize| {
            let read = store.read.swap(0, Ordering::SeqCst);
            assert!(read < most, "{name}: {what} has read {read} bytes");
        };
        store.read.store(0, Ordering::SeqCst);
        let newest = runtime
            .checkpoints(&me, "s", CheckpointQuery { limit: Some(5), ..CheckpointQuery::default() })
            .await
            .expect("page");
        read("a page of checkpoints", 3_000_000);
        let end = newest.rows[0].checkpoint;
        for at in [end / 10, end / 2, end - 3] {
            let near = runtime.state_at(&me, "s", at).await;
            read("a state", 3_000_000);
            // A position that is no checkpoint is refused with those near it, and reads no farther either.
            let at = near.map_or_else(
                |refused| refused.details.expect("details").value()["before"].as_u64().expect("one"),
                |_| at,
            );
            runtime.state_at(&me, "s", at).await.expect("state");
            read("a state", 3_000_000);
        }
        runtime.fork(&me, "s", NewFork { session_id: Some("f".into()), ..NewFork::default() }).await.expect("fork");
        read("a fork", 3_000_000);
        // Nothing of the fork was walked yet: the first walk leaves waypoints behind.
        runtime.state_at(&me, "f", newest.rows[2].checkpoint).await.expect("state");
        read("the first state of a fork", 20_000_000);
        runtime.state_at(&me, "f", newest.rows[3].checkpoint).await.expect("state");
        read("a state of a fork", 3_000_000);
    }
}

/// With waypoints or without, the past is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_waypoints_change_nothing_of_the_past() {
    for (name, store, _dir) in stores() {
        let store = Failing::over(store);
        let runtime = six_megabytes(&store).await;
        let me = Principal::trusted();
        let mut seen = Vec::new();
        for forgets in [true, false] {
            store.forgets.store(forgets, Ordering::SeqCst);
            let all = all_checkpoints(&runtime, "s", 200).await;
            assert_eq!(all_checkpoints(&runtime, "s", 40).await, all, "{name}: however it is paged");
            let mut states = Vec::new();
            for at in all.iter().step_by(40) {
                let state = runtime.state_at(&me, "s", *at).await.expect("state");
                states.push(serde_json::to_string(&state).expect("JSON"));
            }
            let id = format!("f-{forgets}");
            let new = NewFork { session_id: Some(id.clone()), checkpoint: Some(all[60]), ..NewFork::default() };
            let fork = runtime.fork(&me, "s", new).await.expect("fork");
            let history = runtime.whole_history(&me, &id).await.expect("history").len();
            let refused = runtime.state_at(&me, "s", all[30] + 1).await.err().map(|refused| refused.to_string());
            seen.push((all, states, fork.session.status, history, refused));
        }
        assert!(seen[0].0.len() > 100, "{name}: {} checkpoints", seen[0].0.len());
        assert_eq!(seen[0], seen[1], "{name}");
    }
}

/// Waypoints of another version, altered or missing ones cost a longer walk at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_x_a_waypoint_that_is_not_as_it_was_written_is_passed_by() {
    for (name, store, _dir) in stores().into_iter().filter(|(name, ..)| *name != "memory") {
        let store = Failing::over(store);
        let runtime = six_megabytes(&store).await;
        let me = Principal::trusted();
        let all = all_checkpoints(&runtime, "s", 200).await;
        let end = all[0];
        // Halfway, and not right after a waypoint.
        let (mut at, mut kept) = (0, None);
        for here in &all[all.len() / 2..] {
            kept = store.waypoint("s", here - 1, FOLD_VERSION).await.expect("waypoint");
            at = *here;
            if kept.as_ref().is_some_and(|kept| kept.pos < at - 1) {
                break;
            }
        }
        let kept = kept.expect("a waypoint");
        assert!(kept.pos < at - 1 && kept.body.contains(r#""agent":"a""#), "{name}: {}", kept.body);
        let state = async |at: u64| {
            let before = store.read.load(Ordering::SeqCst);
            let state = runtime.state_at(&me, "s", at).await.expect("state");
            (serde_json::to_string(&state).expect("JSON"), store.read.load(Ordering::SeqCst) - before)
        };
        let (wanted, read) = state(at).await;
        assert!(read < 3_000_000, "{name}: {read} bytes");
        // One of an older version is nearer and hides nothing.
        let stale = Waypoint { pos: at - 1, version: 0, body: kept.body.clone() };
        store.keep_waypoint("s", stale).await.expect("keep");
        let (found, read) = state(at).await;
        assert!(found == wanted && read < 3_000_000, "{name}: {read} bytes");
        // The same where it does not belong, and one in which somebody has changed a word.
        let changed = kept.body.replace(r#""agent":"a""#, r#""agent":"b""#).into();
        for (pos, body) in [(at - 1, kept.body.clone()), (kept.pos, changed)] {
            store.keep_waypoint("s", Waypoint { pos, version: FOLD_VERSION, body }).await.expect("keep");
            assert_eq!(state(at).await.0, wanted, "{name}");
        }
        store.waypoints.store(1, Ordering::SeqCst);
        assert_eq!(state(at).await.0, wanted, "{name}");
        // A journal with a gap cannot be read, nor can a deleted session.
        store.gap.store(true, Ordering::SeqCst);
        let gap = runtime.state_at(&me, "s", end).await.expect_err("a gap");
        assert_eq!((gap.code, &*gap.message), (Code::Internal, "the session's journal has a gap"), "{name}");
    }
}

/// A stored input has its effects, whatever happens to a cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_nobody_waits_until_a_waypoint_is_kept() {
    for (_, store, _dir) in stores() {
        let store = Failing::over(store);
        store.hangs.store(true, Ordering::SeqCst);
        let done = tokio::time::timeout(std::time::Duration::from_secs(120), six_megabytes(&store));
        done.await.expect("it waits for nothing");
    }
}

/// One person's reads of the past do not delay another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_reads_of_the_past_of_one_person_hold_up_nobody_else() {
    for (name, store, _dir) in stores() {
        let runtime = endless(store, 400_000, &Ledger::default());
        let (ann, bob) = (Principal::person("ann", Vec::new()), Principal::person("bob", Vec::new()));
        runtime.run(&ann, NewMessage::text("a", "go")).await.expect("run");
        runtime.run(&bob, NewMessage::text("b", "go")).await.expect("run");
        let page = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
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
