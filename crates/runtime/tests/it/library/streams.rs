//! K and L: a store as memory, and streams.

use std::sync::Arc;

use countersign::{
    Agent, RunConfig, Runner, run, run_streamed,
    store::{Store, memory::MemoryStore},
};

use super::{Ran, calls, gated, ids, model, ran, script, told};

fn agent(done: &Ran) -> Agent {
    Agent::new("Helper", script(&[calls(&[("a", "c1", "{}")])])).tool(gated("a", done))
}

#[tokio::test]
async fn s15_l139_a_stream_ends_at_a_pause_and_goes_on_as_a_stream() {
    let done = Ran::default();
    let agent = agent(&done);
    let mut stream = run_streamed(&agent, "go").await.expect("begins");
    let mut kinds = Vec::new();
    while let Some(event) = stream.next().await.expect("event") {
        kinds.push(event.kind);
    }
    assert_eq!(kinds.last().map(String::as_str), Some("run_status"));
    let mut paused = stream.finish().await.expect("paused");
    assert_eq!((ids(&paused), ran(&done).len()), (vec!["c1".to_owned()], 0));

    paused.state.approve(&paused.interruptions[0]).expect("approved");
    let mut stream = run_streamed(&agent, paused.state).await.expect("goes on");
    let (mut text, mut results, mut calls) = (String::new(), 0, 0);
    while let Some(event) = stream.next().await.expect("event") {
        text.push_str(event.text().unwrap_or_default());
        let block = event.value()["content_block"]["type"].as_str();
        results += usize::from(block == Some("tool_result"));
        calls += usize::from(block == Some("tool_use"));
    }
    assert_eq!((&*text, results, calls), ("done", 1, 0), "the call itself is not told again");
    let over = stream.finish().await.expect("over");
    assert_eq!((&*over.final_output, ran(&done).len()), ("done", 1));
    let mut ended = run_streamed(&agent, over.state).await.expect("over");
    assert!(ended.next().await.expect("nothing").is_none());
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
