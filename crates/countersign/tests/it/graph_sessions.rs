//! Sessions of graphs: what they refuse, and how a program resumes them beside a failure (spec G3, G6).

use std::sync::Arc;

use countersign::{
    Agent, Principal, Raw, RunErrorKind, RunState, Sessions, Status,
    graph::{Context, Graph, Node, NodeError},
    model::scripted::Scripted,
    run::{Code, NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
};
use countersign_runtime::run::{CheckpointQuery, ForkEdit, NewFork, NewSession};

use serde_json::json;
use tokio::task::yield_now;

use crate::{
    failing::Failing,
    graph_support::{Count, Work, WorkUpdate, in_line, me, process, said},
};

fn asks() -> Graph<Work> {
    in_line("asks", |graph| {
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let sum: i64 = ctx.interrupt("how much?", ()).typed().await;
            Ok(WorkUpdate::new().sum(sum))
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
    })
}

fn agent() -> Agent {
    let script = r#"{"turns":[{"text":"hello"}],"at_end":"repeat"}"#;
    Agent::new("a", Scripted::from_json(script).expect("script"))
}

/// A message there would begin a turn of an agent that does not exist, in a session that can never run its graph again.
#[tokio::test]
async fn g6_w1_a_fork_of_a_graphs_run_takes_no_message_wherever_it_is_made() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let graph = asks();
    let runtime = Runtime::builder(store.clone()).agent(agent()).graph(&graph).build().expect("runtime");
    let runs = runtime.runs(&graph).expect("runs");
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("it waits");
    let done = runs.resume(&me(), "s_1", 7).await.expect("resumed").done().expect("done");
    assert_eq!(done.sum, 7);
    let page = runtime.checkpoints(&me(), "s", CheckpointQuery::default()).await.expect("checkpoints");
    let mut met = Vec::new();
    for at in page.rows.iter().filter(|at| at.status != Status::AwaitingInput) {
        let edit = ForkEdit { message: Some("and now?".into()), ..ForkEdit::default() };
        let (checkpoint, session_id) = (Some(at.checkpoint), Some("f".to_owned()));
        let fork = NewFork { checkpoint, session_id, edit, run: true, ..NewFork::default() };
        let refused = runtime.fork(&me(), "s", fork).await.expect_err("no message");
        assert_eq!(refused.code, Code::InvalidMessage, "{at:?}");
        assert!(refused.message.contains("takes answers, not messages"), "{at:?}: {refused}");
        assert!(store.head("f").await.expect("head").is_none(), "nothing is stored");
        met.push(at.status);
    }
    met.dedup();
    assert_eq!(met, [Status::Completed, Status::Running, Status::Idle]);
    // An agent's session is its agent's, even before it has said anything.
    let new = NewSession { session_id: Some("a".into()), ..NewSession::default() };
    runtime.create_session(&me(), new).await.expect("a session of the agent");
    let refused = runs.run(&me(), "a", &Work::default()).await.expect_err("the agent's");
    assert!(refused.to_string().contains("is not one of the graph"), "{refused}");
    // A fork of the moment before the run is still a session of the graph.
    let fork = NewFork { checkpoint: Some(1), session_id: Some("g".into()), ..NewFork::default() };
    runtime.fork(&me(), "s", fork).await.expect("fork");
    let refused = runtime.message(&me(), NewMessage::text("g", "and now?")).await.expect_err("no message");
    assert!(refused.message.contains("takes answers, not messages"), "{refused}");
    let _ = runs.run(&me(), "g", &Work::default()).await.expect("a run of the graph");
    assert_eq!(runs.resume(&me(), "g_1", 8).await.expect("resumed").done().expect("done").sum, 8);
}

/// It would fail the graph's run for good, in the application's store, as if its program had lost the graph.
#[tokio::test]
async fn s17_a_state_of_a_graph_that_is_run_with_an_agent_is_refused_and_stays_as_it_is() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let graph = asks();
    let _ = store.session("s").run_graph(&graph, Work::default()).await.expect("it waits");
    let before = store.head("s").await.expect("head").expect("known").pos;
    let refused = store.session("s").answer("ask/how much?", 7).run(&agent()).await.expect_err("another program");
    assert_eq!(refused.kind(), RunErrorKind::Refused);
    assert!(refused.to_string().contains("the graph \"asks\""), "{refused}");
    assert_eq!(store.head("s").await.expect("head").expect("known").pos, before);
    // The state comes back with its answer.
    let state = refused.into_state().expect("its state");
    let config = countersign::RunConfig::new().store(store.clone());
    assert_eq!(graph.run_with(state, config).await.expect("resumed").done().expect("done").sum, 7);
}

/// One node fails until it is mended, beside one that asks.
fn half(tried: &Count, mended: &Count) -> Graph<Work> {
    let (tried, mended) = (tried.clone(), mended.clone());
    in_line("half", |graph| {
        let fails = graph.node("fails", move |_| {
            tried.up();
            let mended = mended.get() > 0;
            async move { if mended { Ok(said("mended")) } else { Err(NodeError::new("not yet")) } }
        });
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let sum: i64 = ctx.interrupt("how much?", ()).typed().await;
            if sum > 100 {
                ctx.interrupt("so much?", ()).typed::<bool>().await;
            }
            Ok(WorkUpdate::new().sum(sum))
        });
        for node in [fails, ask] {
            graph.start(node);
            graph.edge(node, Node::END);
        }
    })
}

/// Nobody may ever answer: a program retries what has failed by resuming the run without an answer.
#[tokio::test]
async fn g3_a_program_retries_a_failed_node_beside_one_that_waits() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (tried, mended) = (Count::default(), Count::default());
    let graph = half(&tried, &mended);
    let paused = store.session("s").run_graph(&graph, Work::default()).await.expect("it waits");
    assert!(paused.is_paused() && tried.get() == 1);
    mended.up();
    let paused = store.session("s").resume_graph(&graph).await.expect("resumed");
    assert_eq!((paused.interruptions.len(), tried.get()), (1, 2));
    let key = paused.interruptions[0].approval_key.clone();
    let over = store.session("s").answer("ask/how much?", 7).resume_graph(&graph).await.expect("resumed");
    let done = over.done().expect("done");
    assert_eq!((&*key, done.sum, done.log, tried.get()), ("s_1", 7, vec!["mended".to_owned()], 2));
}

/// The reply to the first may have been lost.
#[tokio::test]
async fn g3_w4_an_answer_that_is_repeated_beside_a_failed_node_tries_nothing_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (tried, mended) = (Count::default(), Count::default());
    let graph = half(&tried, &mended);
    let _ = store.session("s").run_graph(&graph, Work::default()).await.expect("it waits");
    for _ in 0..2 {
        let answered = store.session("s").answer("ask/how much?", 700).request_id("r");
        let paused = answered.resume_graph(&graph).await.expect("resumed");
        assert_eq!((paused.interruptions.len(), tried.get()), (1, 1));
        assert_eq!(&*paused.interruptions[0].approval_key, "s_2");
    }
}

/// An answer is no retry: the failure shows once the last node that waited is over.
#[tokio::test]
async fn g3_an_answer_beside_a_failed_node_shows_its_failure_and_tries_nothing_again() {
    let (tried, mended) = (Count::default(), Count::default());
    let graph = half(&tried, &mended);
    let mut paused = graph.run(Work::default()).await.expect("it waits");
    let item = paused.interruptions[0].clone();
    paused.state.answer(&item, &7).expect("answered");
    let failed = graph.run(paused.state).await.expect("resumed").done().expect_err("it has failed");
    assert_eq!((failed.kind(), tried.get()), (RunErrorKind::Failed, 1));
    mended.up();
    let state: RunState = failed.into_state().expect("its state");
    let done = graph.run(state).await.expect("retried").done().expect("done");
    assert_eq!((done.sum, done.log, tried.get()), (7, vec!["mended".to_owned()], 2));
}

/// Whoever is told that nothing happened sends the edit again, and changes the state twice.
#[tokio::test]
async fn g6_an_edit_that_is_stored_is_not_refused_as_too_busy() {
    let store: Arc<dyn Store> = Failing::slow(Arc::new(MemoryStore::new()));
    let (ann, graph) = (Principal::person("ann", Vec::new()), asks());
    let _ = process(&store, &graph).1.run(&ann, "s", &Work::default()).await.expect("it waits");
    // Nothing of the session is in the memory of this one.
    let (runtime, runs) = process(&store, &graph);
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (runtime, ann) = (runtime.clone(), ann.clone());
        reads.spawn(async move {
            loop {
                let _ = runtime.state_at(&ann, "s", 1).await;
                yield_now().await;
            }
        });
    }
    for sum in 1..=5 {
        for _ in 0..50 {
            yield_now().await;
        }
        let update = Raw::of(&json!({ "sum": { "add": 1 } })).expect("JSON");
        let edited = runtime.edit_run(&ann, "s", update, None).await.expect("it is stored");
        let edited = serde_json::to_value(&edited).expect("JSON");
        assert_eq!(edited["values"]["sum"], sum, "{edited}");
    }
    reads.abort_all();
    assert_eq!(runs.state(&me(), "s").await.expect("state").sum, 5);
}
