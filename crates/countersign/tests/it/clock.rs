//! Spec W7, R6: deadlines fire by the clock, also in a session that has a record from the future.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign::{
    Agent, Decision, Permit, Principal, RunState, Status,
    model::scripted::Scripted,
    run::{Code, NewDecision, NewMessage, Runtime},
    store::{Store, StoreError, memory::MemoryStore},
    tool::{Approval, Tool, ToolEntry, ToolError, ToolSpec},
};
use countersign_core::{
    approval::rule::{Always, RuleId},
    journal::{
        draft::{Draft, OnPending},
        record::Record,
    },
    number::InterruptionNo,
    session::Session,
    wire::event::Resolution,
};
use countersign_store::{Append, Durability, Guards};
use futures::future::BoxFuture;
use serde_json::json;

use crate::{
    failing::Failing,
    support::{Ledger, entry, send, stores},
};

const SCRIPT: &str =
    r#"{"turns":[{"text":"Hello."},{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"Over."}]}"#;
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Trades in two turns.
const TWO: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"Over."},
    {"tool_calls":[{"name":"trade","args":{"n":2}}]},{"text":"Over."}]}"#;

fn runtime(store: Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    runtime_of(SCRIPT, store, ledger)
}

fn runtime_of(script: &str, store: Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    let model = Scripted::from_json(script).expect("script");
    let agent = Agent::new("trader", ("demo", Arc::new(model)));
    let agent = agent.tool(entry("trade", Approval::always().timeout(Duration::from_secs(1)), ledger));
    Runtime::builder(store).agent(agent).build().expect("runtime")
}

/// The process is paused between the judgement of a decision and its append, and no process watches deadlines
/// meanwhile.
#[tokio::test]
async fn r6_a_decision_that_reaches_the_store_after_its_deadline_is_too_late() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let failing = Failing::over(store.clone());
        let runtime = runtime(failing.clone(), &ledger);
        send(&runtime, "s", "hello").await.expect("said");
        assert_eq!(send(&runtime, "s", "trade").await.expect("paused").status, Status::AwaitingInput);
        let pause = tokio::time::sleep(Duration::from_millis(1500));
        failing.meanwhile(|record| matches!(record, Record::Decided(_)), pause);
        let yes = NewDecision::new("s_1", vec![Decision::approve()]);
        let late = runtime.decide(&Principal::trusted(), yes.clone()).await.expect_err("it is too late");
        assert_eq!(late.code, Code::ApprovalAlreadyResolved, "{name}: {late:?}");
        assert_eq!(late.details.expect("details").value()["resolution"], "timeout", "{name}");
        // The answer is true.
        let row = store.interruption("s", InterruptionNo::FIRST).await.expect("row").expect("asked");
        assert_eq!(row.resolution, Some(Resolution::Timeout), "{name}");
        let over = runtime.wait(&Principal::trusted(), "s").await.expect("goes on");
        assert_eq!((over.status, &*over.text), (Status::Completed, "Over."), "{name}");
        assert!(ledger.lock().expect("ledger").is_empty(), "{name}: it ran");
        let again = runtime.decide(&Principal::trusted(), yes).await.expect_err("over");
        assert_eq!(again.details.expect("details").value()["resolution"], "timeout", "{name}");
    }
}

/// The same with a message that rejects what is pending: it does not bypass a deadline.
#[tokio::test]
async fn r6_w9_a_message_that_would_reject_what_has_timed_out_is_too_late() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = runtime(store.clone(), &ledger);
        send(&runtime, "s", "hello").await.expect("said");
        assert_eq!(send(&runtime, "s", "trade").await.expect("paused").status, Status::AwaitingInput);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let rejects = NewMessage { on_pending: Some(OnPending::Reject), ..NewMessage::text("s", "no") };
        let late = runtime.message(&Principal::trusted(), rejects).await.expect_err("it is too late");
        assert_eq!(late.code, Code::ApprovalAlreadyResolved, "{name}: {late:?}");
        let row = store.interruption("s", InterruptionNo::FIRST).await.expect("row").expect("asked");
        assert_eq!(row.resolution, Some(Resolution::Timeout), "{name}");
    }
}

/// The clock was a day ahead for one record of the session `s`.
async fn a_day_ahead(store: &dyn Store) {
    let mut state = Session::new("s".into());
    let entries = store.read("s", 0, usize::MAX).await.expect("entries");
    entries.iter().for_each(|entry| state.append(entry).expect("legal"));
    let late =
        Draft::new(&state, state.updated_at + DAY).revoke(&[RuleId { n: InterruptionNo::new(9), action: 0 }], None);
    let placed = state.place(late).expect("legal");
    let append = Append {
        session_id: "s".into(),
        before: placed.before().clone(),
        entries: placed.entries().to_vec(),
        after: placed.after().clone(),
        snapshot: true,
        durability: Durability::Synced,
        guards: Guards::default(),
    };
    store.append(append).await.expect("stored");
}

/// The session was used after the rule had ended.
#[tokio::test]
async fn s7_a_clock_that_is_set_back_revives_no_rule() {
    for ends in [false, true] {
        for (name, store, _dir) in stores() {
            let ledger = Ledger::default();
            let runtime = || runtime_of(TWO, store.clone(), &ledger);
            let first = runtime();
            let session = if ends { "s" } else { "other" };
            assert_eq!(send(&first, session, "trade").await.expect("paused").status, Status::AwaitingInput);
            let always = Decision::approve().always(Always::Tool { until: first.now() + DAY / 2 });
            let key = format!("{session}_1");
            let over = first.decide_and_run(&Principal::trusted(), NewDecision::new(&key, vec![always])).await;
            assert_eq!(over.expect("decided").status, Status::Completed);
            first.shutdown(Duration::ZERO).await;
            if ends {
                a_day_ahead(&*store).await;
            }
            let again = send(&runtime(), session, "trade").await.expect("run");
            let status = if ends { Status::AwaitingInput } else { Status::Completed };
            assert_eq!(again.status, status, "{name}, {ends}");
        }
    }
}

#[tokio::test]
async fn r6_a_session_with_a_record_from_the_future_times_out_in_time() {
    for (name, store, _dir) in stores() {
        let ledger = Ledger::default();
        let first = runtime(store.clone(), &ledger);
        send(&first, "s", "hello").await.expect("said");
        first.shutdown(Duration::ZERO).await;
        a_day_ahead(&*store).await;
        let second = runtime(store, &ledger);
        second.start().await.expect("started");
        let waits = send(&second, "s", "trade").await.expect("paused");
        assert_eq!(waits.status, Status::AwaitingInput, "{name}");
        let over = async {
            loop {
                let state = second.state(&Principal::trusted(), "s").await.expect("state");
                if serde_json::to_value(state).expect("JSON")["status"] == "completed" {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), over)
            .await
            .unwrap_or_else(|_| panic!("{name}: it waits for a day"));
        assert!(ledger.lock().expect("ledger").is_empty(), "{name}");
    }
}

/// Runs these sessions to their first pause or end, in a program that watches no clock, and breaks those with names that begin
/// with "bad".
async fn then_broken(store: Arc<dyn Store>, asks: bool, sessions: impl Iterator<Item = String>) -> Arc<Failing> {
    let failing = Failing::over(store);
    let first = runtime(failing.clone(), &Ledger::default());
    for session in sessions {
        send(&first, &session, "hello").await.expect("said");
        if asks {
            assert_eq!(send(&first, &session, "trade").await.expect("paused").status, Status::AwaitingInput);
        }
    }
    first.shutdown(Duration::ZERO).await;
    *failing.broken.lock().expect("broken") = Some("bad");
    failing
}

#[tokio::test]
async fn w7_deadlines_of_sessions_that_cannot_be_read_hold_up_no_others() {
    let sessions = (0..300).map(|n| format!("bad{n}")).chain(["good".to_owned()]);
    let store = then_broken(Arc::new(MemoryStore::new()), true, sessions).await;
    let second = runtime(store.clone(), &Ledger::default());
    second.start().await.expect("started");
    let over = async {
        while store.interruption("good", InterruptionNo::FIRST).await.expect("row").expect("asked").resolution.is_none()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), over).await.expect("it times out");
}

/// The store takes a minute for a decision in one of them, such as behind a lock of its row in the database.
#[tokio::test]
async fn w7_r9_what_hangs_in_one_session_holds_up_no_deadline_of_others() {
    let failing = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = runtime(failing.clone(), &Ledger::default());
    runtime.start().await.expect("started");
    for session in ["hangs", "other"] {
        send(&runtime, session, "hello").await.expect("said");
    }
    assert_eq!(send(&runtime, "hangs", "trade").await.expect("paused").status, Status::AwaitingInput);
    failing.meanwhile(|record| matches!(record, Record::Decided(_)), tokio::time::sleep(Duration::from_secs(60)));
    let deciding = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.decide(&Principal::trusted(), NewDecision::new("hangs_1", vec![Decision::approve()])).await }
    });
    // Its own deadline has to wait.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(send(&runtime, "other", "trade").await.expect("paused").status, Status::AwaitingInput);
    let over = async {
        while failing
            .interruption("other", InterruptionNo::FIRST)
            .await
            .expect("row")
            .expect("asked")
            .resolution
            .is_none()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), over).await.expect("it times out");
    assert!(!deciding.is_finished());
    deciding.abort();
}

#[tokio::test]
async fn r11_retention_goes_past_sessions_that_cannot_be_deleted() {
    let (_, sqlite, _dir) = stores().swap_remove(1);
    let sessions = (0..120).map(|n| format!("bad{n}")).chain(["good".to_owned()]);
    let store = then_broken(sqlite, false, sessions).await;
    let agent = Agent::new("trader", ("demo", Arc::new(Scripted::from_json(SCRIPT).expect("script"))));
    let second = Runtime::builder(store.clone()).agent(agent).retention(Duration::ZERO).build().expect("runtime");
    second.start().await.expect("started");
    let gone = async {
        while !matches!(store.head("good").await, Err(StoreError::Deleted(_))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is deleted");
}

/// A clock that is wrong for a moment is enough to delete everything.
#[tokio::test]
async fn r11_retention_deletes_nothing_by_a_clock_that_the_machines_own_contradicts() {
    let (_, sqlite, _dir) = stores().swap_remove(1);
    let store = then_broken(sqlite, false, std::iter::once("s".to_owned())).await;
    store.ahead.store(40 * DAY, Ordering::SeqCst);
    let agent = Agent::new("trader", ("demo", Arc::new(Scripted::from_json(SCRIPT).expect("script"))));
    let keep = Duration::from_secs(30 * 24 * 3600);
    let second = Runtime::builder(store.clone()).agent(agent).retention(keep).build().expect("runtime");
    second.start().await.expect("started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(store.head("s").await.expect("head").is_some());
}

/// A tool that sets the clock of its store to a time that no journal may have.
struct SetsTheClock(Arc<Failing>);

impl Tool for SetsTheClock {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        self.0.ahead.store(10_000 * 365 * DAY, Ordering::SeqCst);
        Box::pin(async { Ok("done".to_owned()) })
    }
}

/// A record that breaks a rule of journals would make its session unreadable forever: it is refused, and the session
/// stays as it is until it can continue.
#[tokio::test]
async fn s21_r9_what_could_not_be_read_again_is_refused_and_not_stored() {
    for (name, store, _dir) in stores() {
        let failing = Failing::over(store.clone());
        let spec = ToolSpec::new("trade", "Trades.", Arc::new(json!({})));
        let trade = ToolEntry::new(spec, Arc::new(SetsTheClock(failing.clone()))).needs_approval(Approval::never());
        let agent = Agent::new("trader", ("demo", Arc::new(Scripted::from_json(SCRIPT).expect("script")))).tool(trade);
        let runtime = Runtime::builder(failing.clone()).agent(agent).build().expect("runtime");
        let me = Principal::trusted();
        send(&runtime, "s", "hello").await.expect("said");
        runtime.message(&me, NewMessage::text("s", "trade")).await.expect("accepted");
        while failing.ahead.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = store.head("s").await.expect("head").expect("a session").pos;
        let refused = runtime.cancel(&me, "s", None).await.expect_err("no time");
        assert_eq!(refused.code, Code::Internal, "{name}: {refused:?}");
        assert!(refused.message.contains("its time is not between"), "{name}: {refused:?}");
        let after = store.head("s").await.expect("head").expect("a session").pos;
        assert_eq!(before, after, "{name}: nothing is stored");
        failing.ahead.store(0, Ordering::SeqCst);
        let over = runtime.wait(&me, "s").await.expect("it goes on");
        let (status, text) = (over.status, &*over.text);
        // Or the outcome was refused in the last moment, and the failure was not.
        assert!((status, text) == (Status::Completed, "Over.") || status == Status::Failed, "{name}: {over:?}");
        RunState::load(&*store, "s").await.expect("it can be read");
    }
}
