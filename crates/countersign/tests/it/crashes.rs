//! What a crash leaves: calls with an unknown outcome, turns to resume, acknowledged inputs.

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, Decision, InterruptionKind, Permit, Principal, Status,
    model::scripted::Scripted,
    run::{NewDecision, NewMessage, Runtime, TurnOutcome},
    store::Store,
    tool::{Approval, Tool, ToolEntry, ToolError},
};
use futures::future::BoxFuture;

use crate::support::{Ledger, Recorder, entry, send, stores};

const SCRIPT: &str =
    r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"{{ last_tool_result }}"}]}"#;

/// Takes effect and then never returns, as if the process died right after the effect.
struct Hangs(Ledger);

impl Tool for Hangs {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let _ran = Recorder(self.0.clone()).run(permit);
        Box::pin(std::future::pending())
    }
}

fn with(store: Arc<dyn Store>, ledger: &Ledger, hangs: bool, idempotent: bool) -> Runtime {
    let trade = entry("trade", Approval::always(), ledger).idempotent(idempotent);
    let tool: Arc<dyn Tool> = if hangs { Arc::new(Hangs(ledger.clone())) } else { trade.tool.clone() };
    let model = Scripted::from_json(SCRIPT).expect("script");
    let agent = Agent::new("trader", ("demo", Arc::new(model))).tool(ToolEntry { tool, ..trade });
    Runtime::builder(store).agent(agent).build().expect("runtime")
}

/// Approves, lets the tool take effect, and loses the process before the result.
async fn crash_after_the_effect(store: &Arc<dyn Store>, ledger: &Ledger, idempotent: bool) {
    let runtime = with(store.clone(), ledger, true, idempotent);
    send(&runtime, "s", "buy").await.expect("paused");
    let decision = NewDecision::new("s_1", vec![Decision::approve()]);
    let me = Principal::trusted();
    let run = runtime.decide_and_run(&me, decision);
    let began = async {
        while ledger.lock().expect("ledger").is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        _ = run => panic!("the tool came back"),
        () = began => {}
    }
    runtime.shutdown(Duration::ZERO).await;
}

async fn after_restart(runtime: &Runtime) -> TurnOutcome {
    runtime.start().await.expect("start");
    runtime.wait(&Principal::trusted(), "s").await.expect("outcome")
}

async fn answer(runtime: &Runtime, key: &str, decision: Decision) -> TurnOutcome {
    let decision = NewDecision::new(key, vec![decision]);
    runtime.decide_and_run(&Principal::trusted(), decision).await.expect("decided")
}

#[tokio::test]
async fn r4_a_call_with_an_unknown_outcome_waits_for_a_person_who_knows() {
    for (decision, said, runs) in [
        (Decision::respond("it was placed"), "it was placed", 1),
        (Decision::approve(), r#"ran trade {"n":1}"#, 2),
        (Decision::reject(None), "It is not known whether this action took effect; it was not run again", 1),
        (
            Decision::reject(Some("buy two".to_owned())),
            "It is not known whether this action took effect; it was not run again (buy two)",
            1,
        ),
    ] {
        for (_, store, _dir) in stores() {
            let ledger = Ledger::default();
            crash_after_the_effect(&store, &ledger, false).await;
            let runtime = with(store, &ledger, false, false);
            let doubt = after_restart(&runtime).await;
            assert_eq!(doubt.status, Status::AwaitingInput);
            let asked = &doubt.interruptions[0];
            assert_eq!((asked.kind(), asked.expires_at().is_none()), (InterruptionKind::InDoubt, true));
            assert_eq!(doubt.pending, ["s_2"]);
            assert_eq!(ledger.lock().expect("ledger").len(), 1, "not run again by itself");
            let done = answer(&runtime, "s_2", decision.clone()).await;
            assert_eq!((done.status, done.text.as_str()), (Status::Completed, said));
            assert_eq!(ledger.lock().expect("ledger").len(), runs);
        }
    }
}

#[tokio::test]
async fn r4_an_idempotent_call_is_begun_again_with_the_same_key() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        crash_after_the_effect(&store, &ledger, true).await;
        let runtime = with(store, &ledger, false, true);
        let done = after_restart(&runtime).await;
        assert_eq!(done.status, Status::Completed);
        let rows: Vec<(u32, String)> = ledger.lock().expect("ledger").iter().map(|r| (r.2, r.3.clone())).collect();
        let key = rows[0].1.clone();
        assert!(key.starts_with("s/c1/"), "{key}");
        assert_eq!(rows, [(1, key.clone()), (2, key)]);
    }
}

#[tokio::test]
async fn r4_a_tool_declared_idempotent_only_now_does_not_upgrade_an_old_call() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        crash_after_the_effect(&store, &ledger, false).await;
        let runtime = with(store, &ledger, false, true);
        assert_eq!(after_restart(&runtime).await.interruptions[0].kind(), InterruptionKind::InDoubt);
    }
}

#[tokio::test]
async fn w1_cancel_stops_what_runs_and_closes_what_waits() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = with(store, &ledger, true, false);
        let me = Principal::trusted();
        send(&runtime, "s", "buy").await.expect("paused");
        runtime.cancel(&me, "s", None).await.expect("cancelled");
        let done = runtime.wait(&me, "s").await.expect("outcome");
        assert_eq!((done.status, done.pending.len()), (Status::Cancelled, 0));
        let late = NewDecision::new("s_1", vec![Decision::approve()]);
        let late = runtime.decide(&me, late).await.expect_err("late");
        assert_eq!(late.code.name(), "approval_already_resolved");
        assert_eq!(late.details.expect("details").value()["resolution"], "cancelled");
        assert_eq!(runtime.cancel(&me, "s", None).await.expect_err("again").code.name(), "nothing_to_cancel");
        assert!(ledger.lock().expect("ledger").is_empty());
    }
}

#[tokio::test]
async fn w1_the_same_request_id_is_answered_again_and_done_once() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = with(store, &ledger, false, false);
        let me = Principal::trusted();
        let message = || NewMessage { request_id: Some("r1".into()), ..NewMessage::text("s", "buy") };
        for _ in 0..3 {
            runtime.message(&me, message()).await.expect("acknowledged");
            runtime.wait(&me, "s").await.expect("paused");
        }
        let decision =
            || NewDecision { request_id: Some("r2".into()), ..NewDecision::new("s_1", vec![Decision::approve()]) };
        for _ in 0..3 {
            runtime.decide(&me, decision()).await.expect("acknowledged");
            runtime.wait(&me, "s").await.expect("done");
        }
        assert_eq!(ledger.lock().expect("ledger").len(), 1);
        assert_eq!(runtime.state(&me, "s").await.expect("state").turns, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_of_many_decisions_at_once_one_wins_and_all_others_are_told() {
    for (_, store, _dir) in stores() {
        let ledger = Ledger::default();
        let runtime = with(store, &ledger, false, false);
        send(&runtime, "s", "buy").await.expect("paused");
        let mut tasks = tokio::task::JoinSet::new();
        for i in 0..32 {
            let runtime = runtime.clone();
            tasks.spawn(async move {
                let by = Principal { trusted: true, ..Principal::person(format!("p{i}"), Vec::new()) };
                let decisions = vec![if i % 2 == 0 { Decision::approve() } else { Decision::reject(None) }];
                let decision = NewDecision::new("s_1", decisions);
                (i, runtime.decide(&by, decision).await)
            });
        }
        let (mut winners, mut losers) = (Vec::new(), Vec::new());
        while let Some(done) = tasks.join_next().await {
            match done.expect("task") {
                (i, Ok(_)) => winners.push(i),
                (_, Err(refusal)) => losers.push(refusal),
            }
        }
        assert_eq!((winners.len(), losers.len()), (1, 31));
        let winner = format!("p{}", winners[0]);
        for loser in losers {
            assert_eq!(loser.code.name(), "approval_already_resolved");
            let details = loser.details.expect("details").value();
            assert_eq!(
                (details["by"].as_str(), details["resolution"].as_str()),
                (Some(winner.as_str()), Some("decided"))
            );
        }
        runtime.wait(&Principal::trusted(), "s").await.expect("done");
        assert_eq!(ledger.lock().expect("ledger").len(), usize::from(winners[0] % 2 == 0));
    }
}
