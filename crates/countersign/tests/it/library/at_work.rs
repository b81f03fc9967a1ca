//! A call that runs in this process has an outcome that is only not known yet: nothing takes it for lost (spec R4).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use countersign::{
    Agent, InterruptionKind, Principal, RunConfig, RunError, RunErrorKind, RunState, Runner, Status,
    policy::Timeout,
    run::{Code, NewMessage, Runtime},
    tool::{Approval, ToolEntry, function},
};
use serde_json::Value;
use tokio::sync::Notify;

use super::{calls, script};
use crate::support::stores;

/// A tool that signals when it has begun, and ends when the test says so.
#[derive(Clone, Default)]
pub(crate) struct Slow {
    pub(crate) runs: Arc<AtomicUsize>,
    pub(crate) begun: Arc<Notify>,
    pub(crate) end: Arc<Notify>,
}

impl Slow {
    fn tool(&self) -> ToolEntry {
        let slow = self.clone();
        let tool = function::tool("pay", "", move |_: serde_json::Map<String, Value>| {
            let slow = slow.clone();
            async move {
                let run = slow.runs.fetch_add(1, Ordering::SeqCst) + 1;
                slow.begun.notify_one();
                slow.end.notified().await;
                Ok(format!("paid in run {run}"))
            }
        });
        tool.needs_approval(Approval::always().timeout(Timeout::Never))
    }

    pub(crate) fn agent(&self) -> Agent {
        let says = r#"{"text":"{{ last_tool_result }}"}"#.to_owned();
        Agent::new("Clerk", script(&[calls(&[("pay", "c1", "{}")]), says])).tool(self.tool())
    }
}

/// A request of the session is handled as the README has it: whatever is pending is approved.
async fn handle(runner: &Runner, agent: &Agent, mut state: RunState) -> Result<countersign::RunResult, RunError> {
    loop {
        for interruption in &state.interruptions() {
            state.approve(interruption)?;
        }
        let result = runner.run(agent, state).await?;
        if !result.is_paused() {
            return Ok(result);
        }
        state = result.state;
    }
}

#[tokio::test]
async fn r4_a_stored_request_that_is_handled_twice_while_its_tool_runs_runs_it_once() {
    for (name, store, _dir) in stores() {
        for streamed in [false, true] {
            let slow = Slow::default();
            let agent = slow.agent();
            let id = format!("s-{streamed}");
            let runner = Runner::new(RunConfig::new().store(store.clone()).session(&id));
            runner.run(&agent, "Pay.").await.expect("paused");

            let (first_runner, first_agent) = (runner.clone(), agent.clone());
            let mut state = RunState::load(&*store, &id).await.expect("saved");
            let first = tokio::spawn(async move {
                if !streamed {
                    return handle(&first_runner, &first_agent, state).await;
                }
                for interruption in &state.interruptions() {
                    state.approve(interruption)?;
                }
                first_runner.run_streamed(&first_agent, state).await?.finish().await
            });
            slow.begun.notified().await;

            let during = RunState::load(&*store, &id).await.expect("saved");
            assert_eq!(during.state().status, Status::Running, "{name}");
            let second = handle(&runner, &agent, during).await.expect_err("it is at work");
            assert_eq!(second.kind(), RunErrorKind::SessionBusy, "{name}: {second}");
            assert!(
                second.to_string().starts_with(&format!("session {id:?} is already running in this process")),
                "{second}"
            );
            assert_eq!(second.state().map(|state| state.state().status), Some(Status::Running));
            let said = runner.run(&agent, "And?").await.expect_err("it is at work");
            assert_eq!(said.refusal().map(|refusal| refusal.code), Some(Code::SessionBusy), "{said}");

            slow.end.notify_one();
            let over = first.await.expect("joined").expect("over");
            assert_eq!(over.final_output, "paid in run 1", "{name}: the first result is kept");
            assert_eq!(slow.runs.load(Ordering::SeqCst), 1, "{name}");
            // The next turn is an ordinary one.
            let again = RunState::load(&*store, &id).await.expect("saved");
            assert_eq!(runner.run(&agent, again).await.expect("over").final_output, "paid in run 1");
        }
    }
}

#[tokio::test]
async fn r4_what_a_dropped_stream_ran_is_in_doubt_and_not_at_work() {
    for (name, store, _dir) in stores() {
        let slow = Slow::default();
        let agent = slow.agent();
        let runner = Runner::new(RunConfig::new().store(store.clone()).session("s"));
        let mut paused = runner.run(&agent, "Pay.").await.expect("paused");
        paused.state.approve(&paused.interruptions[0]).expect("approved");
        let stream = runner.run_streamed(&agent, paused.state).await.expect("streamed");
        slow.begun.notified().await;
        drop(stream);
        let state = RunState::load(&*store, "s").await.expect("saved");
        let doubt = runner.run(&agent, state).await.expect("paused");
        assert_eq!(
            doubt.interruptions.iter().map(|item| item.kind).collect::<Vec<_>>(),
            [InterruptionKind::InDoubt],
            "{name}"
        );
    }
}

#[tokio::test]
async fn r4_a_second_runtime_over_the_store_waits_for_what_the_first_one_runs() {
    for (name, store, _dir) in stores() {
        let slow = Slow::default();
        let mut tool = slow.tool();
        tool.approval = Approval::never();
        let says = r#"{"text":"{{ last_tool_result }}"}"#.to_owned();
        let agent = Agent::new("Clerk", script(&[calls(&[("pay", "c1", "{}")]), says])).tool(tool);
        let runtime = || Runtime::builder(store.clone()).agent(agent.clone()).build().expect("runtime");
        let (first, second, me) = (runtime(), runtime(), Principal::trusted());
        first.message(&me, NewMessage::text("s", "Pay.")).await.expect("taken");
        slow.begun.notified().await;
        // It resumes every session that seems to have been running.
        second.start().await.expect("started");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        slow.end.notify_one();
        for runtime in [&first, &second] {
            let outcome = runtime.wait(&me, "s").await.expect("over");
            assert_eq!((&*outcome.text, outcome.pending.len()), ("paid in run 1", 0), "{name}");
        }
        assert_eq!(slow.runs.load(Ordering::SeqCst), 1, "{name}");
    }
}
