//! Spec W2, S22, R4: work in progress when a turn failed: calls that ran, that were approved or pending, and nested
//! agents.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Decision, InterruptionKind, Principal, RunConfig, RunErrorKind, RunState, Runner, Status,
    ToolGuardrailOutput,
    graph::{
        Context, NodeError,
        agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, after_approval},
    },
    policy::Timeout,
    run::{NewDecision, Runtime},
    store::{Store, StoreError},
    tool::{Approval, ToolEntry, function},
};
use countersign_core::audit::AuditRecord;
use countersign_runtime::run::{ApprovalQuery, ApprovalStatus};
use countersign_store::AuditRange;
use serde_json::Value;
use tokio::sync::Notify;

use super::{Ran, calls, elsewhere, gated, ids, item, leaks_once, ran, script, told, tool};
use crate::{
    support::stores,
    team::{agent as speaks, call, teller, text},
};

fn in_store(store: &Arc<dyn Store>) -> Runner {
    Runner::new(RunConfig::new().store(store.clone()).session("s").principal(Principal::trusted()))
}

/// A tool whose guardrail fails the turn once another call has begun.
fn trips_once(begun: Arc<Notify>) -> ToolEntry {
    tool("a", &Ran::default()).input_guardrail("check", move |_| {
        let begun = begun.clone();
        async move {
            begun.notified().await;
            ToolGuardrailOutput::Trip("no".into())
        }
    })
}

#[tokio::test]
async fn w2_what_was_pending_when_a_turn_failed_stays_pending_under_its_key_and_what_ran_does_not_run_again() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let answer = calls(&[("free", "c0", "{}"), ("a", "c1", "{}"), ("b", "c2", r#"{"n":7}"#)]);
        let lead = tool("b", &done).needs_approval(Approval::always().timeout(Timeout::Never).levels(["boss"]));
        let agent = Agent::new("Helper", script(&[answer]))
            .tool(tool("free", &done))
            .tool(leaks_once(gated("a", &done)))
            .tool(lead);
        let runner = in_store(&store);
        let mut paused = runner.run(&agent, "go").await.expect("paused");
        let before = item(&paused, "c2");
        paused.state.approve(&item(&paused, "c1")).expect("approved");
        let error = runner.run(&agent, paused.state).await.expect_err("stopped");
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{name}: {error}");

        let runtime = Runtime::builder(store.clone()).agent(agent.clone()).build().expect("runtime");
        let waits =
            ApprovalQuery { status: Some(ApprovalStatus::Waiting), limit: Some(10), ..ApprovalQuery::default() };
        let inbox = runtime.approvals(&Principal::trusted(), waits.clone()).await.expect("inbox").rows;
        assert_eq!((inbox.len(), inbox[0].request.approval_key()), (1, &*before.approval_key), "{name}");

        let mut state = elsewhere(&error);
        let again = state.interruptions();
        assert_eq!((again.len(), &*again[0].call_id, &again[0].digest), (1, "c2", &before.digest), "{name}");
        let still = runner.run(&agent, &state).await.expect("paused");
        assert_eq!((ids(&still), ran(&done).len()), (vec!["c2".to_owned()], 2), "{name}");
        let inbox = runtime.approvals(&Principal::trusted(), waits).await.expect("inbox").rows;
        assert_eq!((inbox.len(), inbox[0].request.approval_key()), (1, &*again[0].approval_key), "{name}");

        // Decisions on the error's state count when it resumes; here another decision was first.
        state.approve(&again[0]).expect("approved");
        let late = runner.run(&agent, state).await.expect_err("claimed");
        assert_eq!(late.kind(), RunErrorKind::Claimed, "{name}: {late}");
        let mut state = still.state;
        state.approve(&before).expect("nobody has to be asked anew");
        let over = runner.run(&agent, state).await.expect("over");
        assert_eq!(ran(&done), ["free {}", "a {}", r#"b {"n":7}"#], "{name}: each once");
        let heard = told(&over);
        assert_eq!(
            heard[4..],
            [
                "c0: free {}",
                r#"c1: the tool output guardrail "leak" stopped the run; the call took effect"#,
                r#"c2: b {"n":7}"#,
                "says: done"
            ],
            "{name}: in the order of the calls, each with one result"
        );
    }
}

/// A call that was approved after its turn had failed, and that nobody retried.
#[tokio::test]
async fn r8_the_log_says_what_became_of_the_calls_of_a_failed_turn_whose_session_is_too_old() {
    for (name, store, _dir) in stores() {
        if name == "memory" {
            continue; // It deletes nothing by itself.
        }
        let done = Ran::default();
        let answer = calls(&[("a", "c1", "{}"), ("b", "c2", r#"{"n":7}"#)]);
        let lead = tool("b", &done).needs_approval(Approval::always().timeout(Timeout::Never).levels(["boss"]));
        let agent = Agent::new("Helper", script(&[answer])).tool(leaks_once(gated("a", &done))).tool(lead);
        let mut paused = in_store(&store).run(&agent, "go").await.expect("paused");
        let (first, second) = (item(&paused, "c1"), item(&paused, "c2"));
        paused.state.approve(&first).expect("approved");
        in_store(&store).run(&agent, paused.state).await.expect_err("stopped");

        let runtime = Runtime::builder(store.clone()).agent(agent).retention(Duration::ZERO).build().expect("runtime");
        let approves = NewDecision::new(&*second.approval_key, vec![Decision::approve()]);
        runtime.decide(&Principal::trusted(), approves).await.expect("decided");
        runtime.start().await.expect("started");
        let gone = async {
            while !matches!(store.head("s").await, Err(StoreError::Deleted(_))) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is deleted");
        let log = store.audit(None, AuditRange::After(0), 100).await.expect("audit");
        let body = |record: &AuditRecord| serde_json::from_str::<Value>(record.body.get()).expect("JSON");
        let finished: Vec<Value> = log
            .iter()
            .map(body)
            .filter(|body| body["event"] == "finished")
            .map(|body| body["tool_use_id"].clone())
            .collect();
        assert_eq!(finished, ["c1", "c2"], "{name}: {log:?}");
        assert_eq!(ran(&done), ["a {}"], "{name}");
    }
}

#[tokio::test]
async fn w2_nobody_is_asked_anything_new_before_a_failed_turn_is_retried() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let answer = calls(&[("a", "c1", "{}"), ("b", "c2", "{}"), ("c", "c3", "{}")]);
        let agent = Agent::new("Helper", script(&[answer]))
            .tool(leaks_once(tool("a", &done)))
            .tool(gated("b", &done))
            .tool(gated("c", &done));
        // The first call runs before anybody is asked about the others.
        let error = in_store(&store).run(&agent, "go").await.expect_err("stopped");
        assert!(elsewhere(&error).interruptions().is_empty(), "{name}");
        let paused = in_store(&store).run(&agent, elsewhere(&error)).await.expect("paused");
        assert_eq!(ids(&paused), ["c2", "c3"], "{name}");
        let mut state = paused.state;
        state.approve(&paused.interruptions[0]).expect("approved");
        state.reject_with(&paused.interruptions[1], "not that").expect("rejected");
        let state = RunState::from_json(&state.to_json()).expect("read");
        let over = in_store(&store).run(&agent, state).await.expect("over");
        assert_eq!(
            (ran(&done), &*told(&over)[6]),
            (vec!["a {}".to_owned(), "b {}".to_owned()], "c3: not that"),
            "{name}"
        );
    }
}

/// It is not aborted: its outcome would be unknown.
#[tokio::test]
async fn w2_a_call_at_work_when_its_turn_fails_comes_to_its_end_and_its_result_counts() {
    for (name, store, _dir) in stores() {
        let (begun, tripped, runs) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let (tells, waits, counts) = (begun.clone(), tripped.clone(), runs.clone());
        let slow = function::tool("slow", "Takes long.", move |_: serde_json::Map<String, Value>| {
            let (tells, waits) = (tells.clone(), waits.clone());
            counts.fetch_add(1, Ordering::SeqCst);
            async move {
                tells.notify_one();
                waits.notified().await;
                Ok("slow")
            }
        });
        let trips = trips_once(begun);
        let agent =
            Agent::new("Helper", script(&[calls(&[("slow", "c1", "{}"), ("a", "c2", "{}")])])).tool(slow).tool(trips);
        let runner = in_store(&store);
        let mut failing = std::pin::pin!(runner.run(&agent, "go"));
        let failed = async {
            while RunState::load(&*store, "s").await.map_or(true, |saved| saved.state().status != Status::Failed) {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = &mut failing => panic!("{name}: a call is at work"),
            () = failed => tripped.notify_one(),
        }
        let error = failing.await.expect_err("stopped");
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{name}: {error}");
        let over = in_store(&store).run(&agent, elsewhere(&error)).await.expect("goes on");
        assert_eq!((&*told(&over)[3], runs.load(Ordering::SeqCst)), ("c1: slow", 1), "{name}");
    }
}

/// Its outcome is unknown, so a person is asked, unless it is idempotent.
#[tokio::test]
async fn r4_a_call_at_work_whose_process_ends_after_its_turn_failed_is_asked_about_when_it_is_retried() {
    for idempotent in [false, true] {
        for (name, store, _dir) in stores() {
            let (begun, runs) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
            let (tells, counts) = (begun.clone(), runs.clone());
            let slow = function::tool("slow", "Takes long.", move |_: serde_json::Map<String, Value>| {
                let (tells, first) = (tells.clone(), counts.fetch_add(1, Ordering::SeqCst) == 0);
                async move {
                    tells.notify_one();
                    if first {
                        std::future::pending::<()>().await;
                    }
                    Ok("slow")
                }
            });
            let trips = trips_once(begun);
            let agent = Agent::new("Helper", script(&[calls(&[("slow", "c1", "{}"), ("a", "c2", "{}")])]))
                .tool(slow.idempotent(idempotent))
                .tool(trips);
            let failed = async {
                loop {
                    match RunState::load(&*store, "s").await {
                        Ok(saved) if saved.state().status == Status::Failed => return saved,
                        _ => tokio::task::yield_now().await,
                    }
                }
            };
            let runner = in_store(&store);
            let saved = tokio::select! {
                _ = runner.run(&agent, "go") => panic!("{name}: it never ends"),
                saved = failed => saved,
            };
            let went = in_store(&store).run(&agent, saved).await.expect("goes on");
            if idempotent {
                assert_eq!((&*went.final_output, runs.load(Ordering::SeqCst)), ("done", 2), "{name}");
                continue;
            }
            assert_eq!(went.interruptions[0].kind, InterruptionKind::InDoubt, "{name}");
            let mut state = went.state;
            state.respond(&went.interruptions[0], "it was done").expect("said");
            let over = in_store(&store).run(&agent, state).await.expect("over");
            assert_eq!((&*told(&over)[3], runs.load(Ordering::SeqCst)), ("c1: it was done", 1), "{name}");
        }
    }
}

#[tokio::test]
async fn s4_s22_a_turn_that_failed_in_an_agent_in_an_agent_goes_on_there() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let calls = vec![call("o1", "mailer", r#"{"input":"do it"}"#), call("o2", "look", "{}")];
        let outer = teller([calls, text("all sent")]);
        let inner = teller([vec![call("i2", "send", r#"{"n":7}"#)], text("mail sent")]);
        let mailer = speaks("Mailer", &inner).tool(gated("send", &done));
        let look = leaks_once(gated("look", &done));
        let agent = speaks("Support", &outer).tool(mailer.as_tool("mailer", "Sends mail.")).tool(look);
        let mut paused = in_store(&store).run(&agent, "go").await.expect("paused");
        paused.state.approve(&item(&paused, "o2")).expect("approved");
        let error = in_store(&store).run(&agent, paused.state).await.expect_err("stopped");
        assert_eq!(error.kind(), RunErrorKind::Guardrail, "{name}: {error}");
        let mut state = elsewhere(&error);
        let waits = state.interruptions();
        assert_eq!((waits.len(), &*waits[0].call_id, waits[0].path.len()), (1, "i2", 1), "{name}");
        state.approve(&waits[0]).expect("approved");
        let over = in_store(&store).run(&agent, state).await.expect("over");
        assert_eq!(
            (&*over.final_output, ran(&done)),
            ("all sent", vec!["look {}".to_owned(), r#"send {"n":7}"#.to_owned()])
        );
        let heard = inner.heard.lock().expect("heard").clone();
        assert_eq!(heard.len(), 2, "{name}: it is not asked again for what it has said");
        assert_eq!(heard[1][2..], [r#"i2: send {"n":7}"#], "{name}");
        let heard = outer.heard.lock().expect("heard").clone();
        let stopped = r#"o2: the tool output guardrail "leak" stopped the run; the call took effect"#;
        assert_eq!(heard.len(), 2, "{name}");
        assert_eq!(heard[1][2..], ["o1: mail sent", stopped], "{name}: one call, one result");
    }
}

#[tokio::test]
async fn w2_a_failed_session_that_was_saved_can_be_decided_before_it_is_retried() {
    for (name, store, _dir) in stores() {
        let done = Ran::default();
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
            .tool(leaks_once(gated("a", &done)))
            .tool(tool("b", &done).needs_approval(Approval::always().timeout(Timeout::Never).levels(["boss"])));
        let mut paused = in_store(&store).run(&agent, "go").await.expect("paused");
        paused.state.approve(&item(&paused, "c1")).expect("approved");
        in_store(&store).run(&agent, paused.state).await.expect_err("stopped");
        let mut saved = RunState::load(&*store, "s").await.expect("saved");
        assert_eq!((saved.state().status, saved.interruptions().len()), (Status::Failed, 1), "{name}");
        let waits = saved.interruptions();
        saved.approve(&waits[0]).expect("approved");
        let over = in_store(&store).run(&agent, saved).await.expect("over");
        assert_eq!((&*over.final_output, ran(&done).len()), ("done", 2), "{name}");
    }
}

#[tokio::test]
async fn g2_a_node_of_the_users_that_failed_is_tried_again_where_the_loop_stood() {
    for (name, store, _dir) in stores() {
        let (done, broken) = (Ran::default(), Arc::new(AtomicBool::new(true)));
        let AgentLoop { mut graph, agent, approval, tools, .. } = AgentLoop::new();
        let is_broken = broken.clone();
        let check = graph.node("check", move |_: Context<AgentState>| {
            let broken = is_broken.load(Ordering::SeqCst);
            async move { if broken { Err(NodeError::permanent("closed")) } else { Ok(AgentUpdate::new()) } }
        });
        graph.detach(approval);
        for (from, next) in [(approval, check), (check, tools)] {
            graph.route(from, after_approval, |way| match way {
                AfterApproval::Tools => next,
                AfterApproval::Approval => approval,
                AfterApproval::Agent => agent,
            });
        }
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])]))
            .tool(gated("a", &done))
            .graph(&graph.compile().expect("graph"));
        let mut paused = in_store(&store).run(&agent, "go").await.expect("paused");
        paused.state.approve(&paused.interruptions[0]).expect("approved");
        let mut error = in_store(&store).run(&agent, paused.state).await.expect_err("closed");
        for _ in 0..2 {
            assert_eq!(error.code(), Some("node_failed"), "{name}: {error}");
            assert!(ran(&done).is_empty(), "{name}: nothing goes past it");
            error = in_store(&store).run(&agent, elsewhere(&error)).await.expect_err("closed still");
        }
        broken.store(false, Ordering::SeqCst);
        let over = in_store(&store).run(&agent, elsewhere(&error)).await.expect("over");
        // An approval stays one.
        assert_eq!((&*over.final_output, ran(&done)), ("done", vec!["a {}".to_owned()]), "{name}");
    }
}
