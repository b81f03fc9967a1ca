//! F: several calls, of which some are decided.

use std::sync::Arc;

use countersign::{
    Agent, CancelHandle, Decision, DecisionError, DecisionType, RunConfig, RunError, RunErrorKind, RunResult, RunState,
    Runner,
    policy::Timeout,
    run,
    tool::{Approval, function},
};

use super::{Ran, calls, gated, ids, in_short, item, ran, script, told, tool};

#[tokio::test]
async fn f65_each_call_runs_once_in_the_part_in_which_it_is_decided() {
    let done = Ran::default();
    let names = ["a", "b", "c", "d"];
    let answers = [calls(&names.map(|name| (name, name, "{}")))];
    let mut agent = Agent::new("Helper", script(&answers));
    for name in names {
        agent = agent.tool(gated(name, &done));
    }
    let mut result = run(&agent, "go").await.expect("paused");
    // Not in the order of the calls.
    for (n, name) in ["c", "a", "d", "b"].into_iter().enumerate() {
        let mut state = RunState::from_json(&result.state.to_json()).expect("read");
        state.approve(&item(&result, name)).expect("approved");
        result = run(&agent, state).await.expect("goes on");
        assert_eq!((ran(&done).len(), result.interruptions.len()), (n + 1, 3 - n));
        assert_eq!(ran(&done).last().map(String::as_str), Some(format!("{name} {{}}").as_str()));
        assert_eq!(result.model_calls, if n == 3 { 2 } else { 1 });
    }
    assert_eq!(told(&result)[5..9], ["a: a {}", "b: b {}", "c: c {}", "d: d {}"]);
}

#[tokio::test]
async fn f66_what_needs_nobody_runs_before_the_pause_and_once() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", &done))
        .tool(tool("b", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!(ran(&done), ["b {}"]);
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let over = run(&agent, paused.state).await.expect("over");
    assert_eq!(ran(&done), ["b {}", "a {}"]);
    assert_eq!(told(&over), ["user: go", "a c1", "b c2", "c1: a {}", "c2: b {}", "says: done"]);
}

/// Results are in the order of their calls, not of the parts that they came with.
#[tokio::test]
async fn s3_what_a_part_of_a_run_added_is_known_wherever_it_is_in_the_conversation() {
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}"), ("a", "c3", "{}")])]))
        .tool(gated("a", &done))
        .tool(tool("b", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!(in_short(paused.new_items()), ["user: go", "a c1", "b c2", "a c3", "c2: b {}"]);
    paused.state.approve(&item(&paused, "c3")).expect("approved");
    let mut again = run(&agent, paused.state).await.expect("paused");
    assert_eq!(in_short(again.new_items()), ["c3: a {}"]);
    again.state.approve(&item(&again, "c1")).expect("approved");
    let over = run(&agent, RunState::from_json(&again.state.to_json()).expect("read")).await.expect("over");
    assert_eq!(in_short(over.new_items()), ["c1: a {}", "says: done"]);
    assert_eq!(told(&over)[4..], ["c1: a {}", "c2: b {}", "c3: a {}", "says: done"]);
}

#[tokio::test]
async fn s3_g5_what_a_part_of_a_run_added_is_known_where_what_was_before_it_was_dropped() {
    let store: Arc<dyn countersign::store::Store> = Arc::new(countersign::store::memory::MemoryStore::new());
    let texts: Vec<_> = (0..3).map(|n| format!(r#"{{"text":"{n} {}"}}"#, "word ".repeat(200))).collect();
    let agent =
        Agent::new("Helper", script(&texts)).compression(countersign::compression::Compression::trim(10).keep_turns(1));
    let runner = Runner::new(RunConfig::new().store(store).session("s"));
    for n in 0..3 {
        let over = runner.run(&agent, format!("the question {n}")).await.expect("over");
        let new = in_short(over.new_items());
        assert_eq!((new.len(), &*new[0]), (2, &*format!("user: the question {n}")), "{new:?}");
        assert!(new[1].starts_with(&format!("says: {n} ")), "{new:?}");
        assert_eq!(told(&over), new, "all before it was dropped");
    }
}

#[tokio::test]
async fn f67_an_unknown_tool_has_its_error_once() {
    let done = Ran::default();
    let agent =
        Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("gone", "c2", "{}")])])).tool(gated("a", &done));
    let mut paused = run(&agent, "go").await.expect("paused");
    assert_eq!(ids(&paused), ["c1"]);
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let over = run(&agent, paused.state).await.expect("over");
    assert_eq!(told(&over).iter().filter(|line| line.starts_with("c2: ")).count(), 1);
}

/// Spec S8: leaving a call undecided is no decision that its tool would have to allow.
#[tokio::test]
async fn s8_what_was_decided_goes_on_whatever_the_others_allow() {
    let done = Ran::default();
    let strict = |name: &str| {
        let allowed = [DecisionType::Approve, DecisionType::Reject];
        tool(name, &done).needs_approval(Approval::always().timeout(Timeout::Never).allow(allowed))
    };
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(strict("a"))
        .tool(strict("b"));
    let mut paused = run(&agent, "go").await.expect("paused");
    let defers = paused.state.decide(&item(&paused, "c2"), Decision::defer());
    assert!(matches!(defers, Err(DecisionError::NotAllowed { .. })), "that is one: {defers:?}");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let again = run(&agent, paused.state).await.expect("paused");
    assert_eq!((ids(&again), ran(&done)), (vec!["c2".to_owned()], vec!["a {}".to_owned()]));
    // Also from its text.
    let mut state = RunState::from_json(&again.state.to_json()).expect("read");
    state.reject(&item(&again, "c2")).expect("rejected");
    run(&agent, state).await.expect("over");
    assert_eq!(ran(&done), ["a {}"]);
}

/// Partial decisions are withdrawn with the work that they were for.
#[tokio::test]
async fn s11_a_decision_that_is_kept_goes_with_what_it_was_for() {
    let done = Ran::default();
    let two = |name: &str| {
        let approval = Approval::always().timeout(Timeout::Never).levels(["finance"]).quorum(2);
        tool(name, &done).needs_approval(approval)
    };
    let pay = gated("pay", &done)
        .input_guardrail("cards", |_| async { countersign::ToolGuardrailOutput::Trip("a stolen card".into()) });
    let asked = calls(&[("pay", "p", "{}"), ("a", "c1", "{}"), ("b", "c2", "{}")]);
    let child = Agent::new("Child", ("inner", Arc::new(script(&[asked])))).tool(pay).tool(two("a")).tool(two("b"));
    let outer = script(&[calls(&[("child", "o", r#"{"input":"do it"}"#)]), r#"{"text":"without it"}"#.into()]);
    let agent = Agent::new("Helper", outer).tool(child.as_tool("child", "Works."));
    let mut paused = run(&agent, "go").await.expect("paused");
    for id in ["p", "c1"] {
        paused.state.approve(&item(&paused, id)).expect("approved");
    }
    let over = super::trusted().run(&agent, paused.state).await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("without it", 0));
    RunState::from_json(&over.state.to_json()).expect("it can be read");
}

/// Spec S8, P1: where several people must approve, they approve all of it or none.
#[tokio::test]
async fn s8_what_cannot_be_decided_in_part_waits_for_the_rest() {
    let done = Ran::default();
    let approval = || Approval::always().timeout(Timeout::Never).levels(["finance"]).quorum(2);
    let two = |name: &str| tool(name, &done).needs_approval(approval());
    let agent =
        Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])])).tool(two("a")).tool(two("b"));
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.approve(&item(&paused, "c1")).expect("approved");
    let mut again = super::trusted().run(&agent, paused.state).await.expect("paused");
    assert_eq!((ids(&again).len(), ran(&done).len()), (2, 0));
    assert_eq!(again.state.decided(&item(&again, "c1")), Some(DecisionType::Approve), "it still counts");
    again.state.reject(&item(&again, "c2")).expect("rejected");
    again.state.retract(&item(&again, "c1"));
    again.state.reject(&item(&again, "c1")).expect("rejected");
    super::trusted().run(&agent, again.state).await.expect("over");
    assert!(ran(&done).is_empty());
}

fn waits_for(name: &'static str, done: &Ran, begun: &Arc<tokio::sync::Notify>) -> countersign::tool::ToolEntry {
    let (done, begun) = (done.clone(), begun.clone());
    function::tool(name, "", move |_: serde_json::Map<String, serde_json::Value>| {
        let (done, begun) = (done.clone(), begun.clone());
        async move {
            done.lock().expect("ran").push(name.to_owned());
            begun.notify_one();
            std::future::pending::<()>().await;
            Ok(())
        }
    })
    .needs_approval(Approval::always().timeout(Timeout::Never))
}

#[tokio::test]
async fn f73_a_run_whose_rule_never_answers_can_be_cancelled() {
    let asked = Arc::new(tokio::sync::Notify::new());
    let tells = asked.clone();
    let done = Ran::default();
    let never = tool("a", &done).needs_approval_if(move |_, _: serde_json::Value| {
        tells.notify_one();
        std::future::pending::<Result<bool, String>>()
    });
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])])).tool(never);
    let cancel = CancelHandle::new();
    let runner = Runner::new(RunConfig::new().cancel(&cancel));
    is_cancelled(runner.run(&agent, "go"), &asked, &cancel).await;
    assert!(ran(&done).is_empty());
}

/// Cancels a run once its rule has been called.
async fn is_cancelled(
    run: impl Future<Output = Result<RunResult, RunError>>,
    asked: &tokio::sync::Notify,
    cancel: &CancelHandle,
) {
    let both = async {
        tokio::join!(run, async {
            asked.notified().await;
            cancel.cancel();
        })
    };
    let (ended, ()) = tokio::time::timeout(std::time::Duration::from_secs(30), both).await.expect("it ends");
    assert_eq!(ended.expect_err("cancelled").kind(), RunErrorKind::Cancelled);
}

#[tokio::test]
async fn f73_a_run_whose_rule_never_answers_about_an_edit_can_be_cancelled() {
    for streamed in [false, true] {
        let asked = Arc::new(tokio::sync::Notify::new());
        let tells = asked.clone();
        let done = Ran::default();
        let edited = tool("a", &done).needs_approval_if(move |_, args: serde_json::Value| {
            let (tells, edited) = (tells.clone(), args["n"] == 2);
            async move {
                if edited {
                    tells.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>(true)
            }
        });
        let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", r#"{"n":1}"#), ("b", "c2", "{}")])]))
            .tool(edited)
            .tool(gated("b", &done));
        let mut paused = run(&agent, "go").await.expect("paused");
        paused.state.approve(&item(&paused, "c2")).expect("approved");
        paused.state.approve_with(&item(&paused, "c1"), &serde_json::json!({ "n": 2 })).expect("approved");
        let cancel = CancelHandle::new();
        let runner = Runner::new(RunConfig::new().cancel(&cancel));
        let goes_on = async {
            match streamed {
                true => runner.run_streamed(&agent, paused.state).await?.finish().await,
                false => runner.run(&agent, paused.state).await,
            }
        };
        is_cancelled(goes_on, &asked, &cancel).await;
        assert!(ran(&done).is_empty());
    }
}

#[tokio::test]
async fn f72_f73_cancelling_keeps_what_was_done_and_stops_what_runs() {
    let (done, begun) = (Ran::default(), Arc::new(tokio::sync::Notify::new()));
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}"), ("b", "c2", "{}")])]))
        .tool(gated("a", &done))
        .tool(waits_for("b", &done, &begun));
    let mut paused = run(&agent, "go").await.expect("paused");
    for item in &paused.interruptions {
        paused.state.approve(item).expect("approved");
    }
    let cancel = CancelHandle::new();
    let runner = Runner::new(RunConfig::new().cancel(&cancel).parallel_calls(1));
    let (ended, ()) = tokio::join!(runner.run(&agent, paused.state), async {
        begun.notified().await;
        cancel.cancel();
    });
    let ended = ended.expect_err("cancelled");
    assert_eq!(ended.kind(), RunErrorKind::Cancelled, "{ended}");
    let state = ended.into_state().expect("its state");
    assert!(state.interruptions().is_empty());
    assert_eq!(state.state().answers.all(), 1, "no model is asked any more");
    let over = run(&agent, state).await.expect_err("it is over");
    assert_eq!(over.kind(), RunErrorKind::Cancelled, "{over}");
    assert_eq!(ran(&done), ["a {}", "b"]);
}

#[tokio::test]
async fn s23_calls_run_together_up_to_a_limit() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for limit in [1, 3] {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (n, m) = (now.clone(), most.clone());
        let barrier = Arc::new(tokio::sync::Barrier::new(limit));
        let together = function::tool("a", "", move |_: serde_json::Map<String, serde_json::Value>| {
            let (n, m, barrier) = (n.clone(), m.clone(), barrier.clone());
            async move {
                m.fetch_max(n.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                barrier.wait().await;
                n.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        });
        let ids: Vec<String> = (0..6).map(|i| format!("c{i}")).collect();
        let six: Vec<(&str, &str, &str)> = ids.iter().map(|id| ("a", id.as_str(), "{}")).collect();
        let agent = Agent::new("Helper", script(&[calls(&six)])).tool(together);
        let over = Runner::new(RunConfig::new().parallel_calls(limit)).run(&agent, "go").await.expect("over");
        assert_eq!((most.load(Ordering::SeqCst), &*over.final_output), (limit, "done"));
    }
}
