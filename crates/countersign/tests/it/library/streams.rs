//! K and L: a store as memory, and streams.

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, CallStatus, CancelHandle, Resolution, RunConfig, RunErrorKind, RunEvent, RunState, RunStream, Runner,
    Status, run, run_streamed,
    store::{Store, memory::MemoryStore},
};

use super::{Ran, at_work::Slow, calls, gated, ids, model, ran, script, told};

fn agent(done: &Ran) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", done))
}

#[tokio::test]
async fn s15_l139_a_stream_ends_at_a_pause_and_goes_on_as_a_stream() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut stream = run_streamed(&agent, "go").await.expect("begins");
    let (mut kinds, mut last) = (Vec::new(), None);
    while let Some(event) = stream.next().await.expect("event") {
        kinds.push(stream.frame().expect("a frame").name);
        last = Some(event);
    }
    assert_eq!(kinds.last().copied(), Some("run_status"));
    assert!(matches!(last, Some(RunEvent::Status { status: Status::AwaitingInput, .. })), "{last:?}");
    let mut paused = stream.finish().await.expect("paused");
    assert_eq!((ids(&paused), ran(&done).len()), (vec!["c1".to_owned()], 0));

    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let mut stream = run_streamed(&agent, paused.state).await.expect("goes on");
    let (mut text, mut results, mut calls) = (String::new(), 0, 0);
    while let Some(event) = stream.next().await.expect("event") {
        text.push_str(event.text().unwrap_or_default());
        results += usize::from(matches!(event, RunEvent::ToolResult { .. }));
        calls += usize::from(matches!(event, RunEvent::ToolCalled { .. }));
    }
    assert_eq!((&*text, results, calls), ("done", 1, 0), "the call itself is not told again");
    let over = stream.finish().await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
    let mut ended = run_streamed(&agent, over.state).await.expect("over");
    assert!(ended.next().await.expect("nothing").is_none());
}

/// The events of a stream, in short.
async fn said(stream: &mut RunStream) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    while let Some(event) = stream.next().await.expect("event") {
        said.push(match event {
            RunEvent::UserSaid { text, .. } => format!("user: {text}"),
            RunEvent::Text { text, .. } => format!("text: {text}"),
            RunEvent::Thinking { text, .. } => format!("thinking: {text}"),
            RunEvent::ToolCalled { call_id, tool, args: arguments, .. } => {
                format!("calls {tool} {call_id} {arguments}")
            }
            RunEvent::ToolResult { call_id, tool, status, output, .. } => {
                assert_eq!(status, CallStatus::Success);
                format!("result {tool} {call_id}: {output}")
            }
            RunEvent::AgentChanged { from, agent, .. } => format!("{from} -> {agent}"),
            RunEvent::ApprovalRequested { approval_key, items, .. } => {
                assert_eq!(items[0].approval_key, approval_key);
                format!("asks about {} {}", items[0].call_id, items[0].args)
            }
            RunEvent::ApprovalResolved { resolution: Resolution::Decided, .. } => "decided".to_owned(),
            RunEvent::Status { status, error, .. } => match error {
                None => status.name().to_owned(),
                Some(error) => format!("{}: {}", status.name(), error.code),
            },
            RunEvent::TextDelta { .. } | RunEvent::ThinkingDelta { .. } | RunEvent::ArgumentsDelta { .. } => continue,
            RunEvent::Other => continue,
            event => panic!("{event:?}"),
        });
    }
    said
}

#[tokio::test]
async fn s15_a_stream_says_what_happens_in_types() {
    let done = Ran::default();
    let answers = r#"{"turns":[{"thinking":"Who?","tool_calls":[{"name":"transfer_to_Data","id":"h","args":{}}]},
        {"text":"Let me see.","tool_calls":[{"name":"free","id":"c0","args":{}},{"name":"a","id":"c1","args":{"n":1}}]},
        {"error":"down"}]}"#;
    let shared = Arc::new(model(answers));
    let data = Agent::new("Data", shared.clone()).tool(gated("a", &done)).tool(super::tool("free", &done));
    let agent = Agent::new("Front", shared).handoff(data);
    let runner = Runner::new(RunConfig::new().parallel_calls(1));
    let mut stream = runner.run_streamed(&agent, "go").await.expect("begins");
    let told = said(&mut stream).await;
    assert_eq!(
        told,
        [
            "user: go",
            "running",
            "thinking: Who?",
            "calls transfer_to_Data h {}",
            "result transfer_to_Data h: the conversation was handed to the agent Data",
            "Front -> Data",
            "text: Let me see.",
            "calls free c0 {}",
            r#"calls a c1 {"n":1}"#,
            "result free c0: free {}",
            r#"asks about c1 {"n":1}"#,
            "awaiting_input",
        ]
    );
    let mut paused = stream.finish().await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let mut stream = runner.run_streamed(&agent, paused.state).await.expect("goes on");
    let told = said(&mut stream).await;
    assert_eq!(told, ["decided", "running", r#"result a c1: a {"n":1}"#, "failed: model_error"]);
    let state = stream.finish().await.expect_err("down").into_state().expect("a state");
    // A failed turn has the status `running` again when it is retried.
    let up = Agent::new("Front", model(r#"{"turns":[]}"#))
        .handoff(Agent::new("Data", model(r#"{"turns":[{"text":"Done."}]}"#)));
    let mut stream = run_streamed(&up, state).await.expect("goes on");
    let mut text = String::new();
    let mut statuses = Vec::new();
    while let Some(event) = stream.next().await.expect("event") {
        text.push_str(event.text().unwrap_or_default());
        if let RunEvent::Status { status, .. } = event {
            statuses.push(status);
        }
    }
    let over = stream.finish().await.expect("over");
    assert_eq!((over.final_output, statuses.last()), (text, Some(&Status::Completed)));
}

#[tokio::test]
async fn l138_a_streamed_rejection_is_told_in_the_runners_words() {
    let agent = agent(&Ran::default());
    let runner = Runner::new(RunConfig::new().tool_error_formatter(|_| Some("no chance".to_owned())));
    let mut paused = runner.run_streamed(&agent, "go").await.expect("begins").finish().await.expect("paused");
    paused.state.reject(&paused.interruptions[0]).expect("rejected");
    let over = runner.run_streamed(&agent, paused.state).await.expect("goes on").finish().await.expect("over");
    assert_eq!(told(&over)[2], "c1: no chance");
}

/// The error says what a program can do: options of the wire protocol would not help it.
#[tokio::test]
async fn s16_a_message_to_a_session_that_waits_is_told_what_to_do_in_the_library() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let done = Ran::default();
    let agent = Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", &done));
    let runner = Runner::new(RunConfig::new().store(store.clone()).session("s"));
    runner.run(&agent, "go").await.expect("paused");
    let error = runner.run(&agent, "and now?").await.expect_err("it waits").to_string();
    assert!(error.contains("RunState::load") && !error.contains("on_pending"), "{error}");
    let mut state = countersign::RunState::load(&*store, "s").await.expect("saved");
    for item in state.interruptions() {
        state.approve(&item).expect("approved");
    }
    state.add_input("and now?");
    let over = runner.run(&agent, state).await.expect("over");
    assert_eq!((over.is_paused(), ran(&done).len()), (false, 1));
    assert!(told(&over).contains(&"user: and now?".to_owned()), "{:?}", told(&over));
}

#[tokio::test]
async fn s16_k131_a_store_remembers_a_session_and_nothing_twice() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runner = Runner::new(RunConfig::new().store(store).session("s"));
    let done = Ran::default();
    let answers: Vec<String> = (1..=3)
        .flat_map(|n| {
            [calls(&[("a", &format!("c{n}"), &format!(r#"{{"n":{n}}}"#))]), format!(r#"{{"text":"said {n}"}}"#)]
        })
        .collect();
    let agent = Agent::new("Helper", script(&answers)).tool(gated("a", &done));
    for n in 1..=3_usize {
        let mut paused = runner.run(&agent, format!("go {n}")).await.expect("paused");
        let shown = paused.interruptions[0].clone();
        match n {
            1 => paused.state.approve(&shown),
            2 => {
                paused.state = countersign::RunState::from_json(&paused.state.to_json()).expect("read");
                paused.state.approve(&shown)
            }
            _ => paused.state.reject(&shown),
        }
        .expect("decided");
        let over = runner.run(&agent, paused.state).await.expect("over");
        assert_eq!(told(&over).len(), 4 * n, "{:?}", told(&over));
        assert_eq!((&over.final_output, over.new_items().len()), (&format!("said {n}"), 2), "what this part added");
    }
    assert_eq!(ran(&done), [r#"a {"n":1}"#, r#"a {"n":2}"#]);
}

#[tokio::test]
async fn k137_input_that_is_added_while_it_waits_comes_after_the_results() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut paused = run(&agent, "go").await.expect("paused");
    paused.state.add_input("and hurry");
    let mut state = countersign::RunState::from_json(&paused.state.to_json()).expect("read");
    state.approve(&paused.interruptions[0]).expect("approved");
    let over = run(&agent, state).await.expect("over");
    assert_eq!(told(&over), ["user: go", "a c1", "c1: a {}", "user: and hurry", "says: done"]);
}

#[tokio::test]
async fn k137_input_that_is_added_when_it_is_over_begins_the_next_turn() {
    let agent = Agent::new("Helper", model(r#"{"turns":[{"text":"hi"},{"text":"bye"}]}"#));
    let mut over = run(&agent, "hello").await.expect("over");
    over.state.add_input("goodbye");
    let over = run(&agent, over.state).await.expect("over");
    assert_eq!((&*over.final_output, told(&over).len()), ("bye", 4));
}

#[tokio::test]
async fn s15_a_streamed_run_is_cancelled_though_nobody_reads_it() {
    let slow = Slow::default();
    let (agent, store) = (slow.agent(), Arc::new(MemoryStore::new()));
    let cancel = CancelHandle::new();
    let runner = Runner::new(RunConfig::new().store(store.clone()).session("s").cancel(&cancel));
    let mut paused = runner.run(&agent, "Pay.").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let stream = runner.run_streamed(&agent, paused.state).await.expect("streamed");
    slow.begun.notified().await;
    cancel.cancel();
    let cancelled = async {
        while RunState::load(&*store, "s").await.expect("saved").state().status != Status::Cancelled {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), cancelled).await.expect("it stops");
    assert_eq!(stream.finish().await.expect_err("cancelled").kind(), RunErrorKind::Cancelled);
}
