//! Graphs in a store that was restored from a backup: what their tasks may have done since is asked about (spec R4).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use countersign::{
    Decision, Principal, RunConfig, Sessions as _, Status,
    graph::{Context, Graph, Node, NodeError, StateGraph},
    run::{Code, NewDecision, Runtime},
    store::Store,
};
use countersign_runtime::run::{CheckpointQuery, NewFork};
use countersign_store::restored;

use crate::{
    graph_support::{Count, Work, me, process, said},
    store_support::conformance,
};

/// The world outside, and whether the process that makes the backup is still running.
#[derive(Clone, Default)]
struct World {
    begun: Count,
    charged: Count,
    looked: Count,
    shipped: Count,
    /// What keeps the node from its steps: an end of its process, or a failure.
    before: Arc<AtomicBool>,
    fails: bool,
}

/// A step that counts.
fn counts(count: &Count) -> impl Future<Output = Result<u32, NodeError>> + Send + use<> {
    let count = count.clone();
    async move { Ok(count.up()) }
}

/// One node asks. Beside it another charges, looks and charges again; a third ships when both are done.
fn graph(world: &World) -> Graph<Work> {
    let mut graph = StateGraph::<Work>::new("work");
    let ask =
        graph.node("ask", |ctx: Context<Work>| async move { Ok(said(ctx.interrupt("ok?", ()).await.to_string())) });
    let of_node = world.clone();
    let charge = graph.node("charge", move |ctx: Context<Work>| {
        let world = of_node.clone();
        async move {
            world.begun.up();
            if world.before.load(Ordering::SeqCst) {
                if world.fails {
                    return Err(NodeError::permanent("the bank is closed"));
                }
                std::future::pending::<()>().await;
            }
            ctx.step("charge", counts(&world.charged)).await?;
            ctx.step("look", counts(&world.looked)).idempotent().await?;
            ctx.step("charge", counts(&world.charged)).await?;
            Ok(said("charged"))
        }
    });
    let of_node = world.clone();
    let ship = graph.node("ship", move |ctx: Context<Work>| {
        let shipped = counts(&of_node.shipped);
        async move {
            ctx.step("ship", shipped).await?;
            Ok(said("shipped"))
        }
    });
    graph.start(ask);
    graph.start(charge);
    graph.join([ask, charge], ship);
    graph.edge(ship, Node::END);
    graph.compile().expect("graph")
}

/// A backup of the store while the node has not reached its first step.
async fn backup(store: &Arc<dyn Store>, session: &str, world: &World) {
    world.before.store(true, Ordering::SeqCst);
    let graph = graph(world);
    let (runtime, runs) = process(store, &graph);
    runs.start(&me(), Some(session.to_owned()), &Work::default(), None).await.expect("start");
    let asked = async || {
        let state = serde_json::to_value(runtime.state(&me(), session).await.expect("state")).expect("JSON");
        state["interruptions"].as_array().map_or(0, Vec::len)
    };
    while world.begun.get() == 0 || asked().await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    runtime.shutdown(std::time::Duration::ZERO).await;
    world.before.store(false, Ordering::SeqCst);
    let held = restored::hold(&**store).await.expect("held").sessions;
    assert_eq!(held, [Arc::from(session)]);
    assert!(restored::hold(&**store).await.expect("held").sessions.is_empty(), "once is enough");
}

/// A new process over the store, and what is pending in the session once it rests.
async fn next(store: &Arc<dyn Store>, session: &str, world: &World) -> (Runtime, Vec<(String, String)>) {
    let (runtime, _) = process(store, &graph(world));
    runtime.start().await.expect("start");
    let pending = pending(&runtime, session).await;
    (runtime, pending)
}

/// Each pending request: its kind, and what it is about.
async fn pending(runtime: &Runtime, session: &str) -> Vec<(String, String)> {
    runtime.wait(&me(), session).await.expect("wait");
    let state = serde_json::to_value(runtime.state(&me(), session).await.expect("state")).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let asked = state["interruptions"].as_array().expect("list").iter();
    asked.map(|one| (text(&one["kind"]), text(&one["actions"][0]["name"]))).collect()
}

async fn decide(runtime: &Runtime, key: &str, decision: Decision) {
    runtime.decide_and_run(&me(), NewDecision::new(key, vec![decision])).await.expect("decided");
}

fn in_doubt(step: &str) -> Vec<(String, String)> {
    vec![("in_doubt".to_owned(), step.to_owned())]
}

/// Each decision comes in another process: a step that a person allowed is not asked about again.
async fn r4_an_answer_in_a_restored_graph_begins_no_step_that_may_have_run(store: Arc<dyn Store>) {
    let world = World::default();
    backup(&store, "s", &world).await;
    let (runtime, asked) = next(&store, "s", &world).await;
    assert_eq!(asked, [("interrupt".to_owned(), "ok?".to_owned())]);
    assert_eq!(world.begun.get(), 1, "nothing runs by itself");
    let (_, runs) = process(&store, &graph(&world));
    let _ = runs.resume(&me(), "s_1", true).await.expect("resumed");
    runtime.shutdown(std::time::Duration::ZERO).await;
    let (runtime, asked) = next(&store, "s", &world).await;
    assert_eq!((asked, world.charged.get()), (in_doubt("charge"), 0));
    decide(&runtime, "s_2", Decision::approve()).await;
    // It runs once, and the next step is asked about in turn; one that is idempotent is not.
    assert_eq!(pending(&runtime, "s").await, in_doubt("charge#2"));
    assert_eq!((world.charged.get(), world.looked.get(), world.shipped.get()), (1, 1, 0));
    runtime.shutdown(std::time::Duration::ZERO).await;
    let (runtime, _) = next(&store, "s", &world).await;
    decide(&runtime, "s_3", Decision::respond("7")).await;
    assert_eq!(runtime.wait(&me(), "s").await.expect("outcome").status, Status::Completed);
    // What follows the round begins as a new call would.
    assert_eq!((world.charged.get(), world.shipped.get()), (1, 1));
    runtime.shutdown(std::time::Duration::ZERO).await;
}

async fn r4_a_retry_in_a_restored_graph_begins_no_step_that_may_have_run(store: Arc<dyn Store>) {
    let world = World { fails: true, ..World::default() };
    backup(&store, "s", &world).await;
    let (runtime, _) = next(&store, "s", &world).await;
    runtime.retry(&me(), "s", Default::default()).await.expect("retried");
    let asked = pending(&runtime, "s").await;
    assert!(asked.contains(&in_doubt("charge")[0]), "{asked:?}");
    assert_eq!((world.begun.get() > 1, world.charged.get()), (true, 0));
    runtime.shutdown(std::time::Duration::ZERO).await;
}

async fn r4_g6_a_fork_of_a_restored_graph_begins_no_step_that_may_have_run(store: Arc<dyn Store>) {
    let world = World::default();
    backup(&store, "s", &world).await;
    let (runtime, _) = next(&store, "s", &world).await;
    let new = NewFork { session_id: Some("f".to_owned()), run: true, ..NewFork::default() };
    runtime.fork(&me(), "s", new).await.expect("fork");
    let asked = pending(&runtime, "f").await;
    assert!(asked.contains(&in_doubt("charge")[0]), "{asked:?}");
    assert_eq!((world.begun.get(), world.charged.get()), (2, 0));
    runtime.shutdown(std::time::Duration::ZERO).await;
}

/// Only a person who continues the original, or the first fork, decides about what may have run.
async fn r4_g6_a_fork_of_a_fork_of_a_restored_graph_begins_no_step_that_may_have_run(store: Arc<dyn Store>) {
    let world = World::default();
    backup(&store, "s", &world).await;
    let (runtime, _) = next(&store, "s", &world).await;
    let new = NewFork { session_id: Some("f".to_owned()), ..NewFork::default() };
    runtime.fork(&me(), "s", new).await.expect("a fork that nobody continues");
    let all = runtime
        .checkpoints(&me(), "f", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() })
        .await
        .expect("checkpoints");
    let mut doubts = 0;
    for checkpoint in all.rows.iter().map(|one| one.checkpoint) {
        let id = format!("g{checkpoint}");
        let new =
            NewFork { session_id: Some(id.clone()), checkpoint: Some(checkpoint), run: true, ..NewFork::default() };
        runtime.fork(&me(), "f", new).await.expect("fork");
        // The first has no run yet.
        doubts += usize::from(pending(&runtime, &id).await.contains(&in_doubt("charge")[0]));
        assert_eq!(world.charged.get(), 0, "at {checkpoint}");
    }
    assert_eq!((doubts, all.rows.len() > 2), (all.rows.len() - 1, true));
    runtime.shutdown(std::time::Duration::ZERO).await;
}

/// The step stores that it may have run while the question beside it waits already.
async fn r4_r9_a_step_beside_a_question_of_a_restored_graph_is_asked_about(store: Arc<dyn Store>) {
    let world = World::default();
    let graph = |world: &World| {
        let (world, mut graph) = (world.clone(), StateGraph::<Work>::new("work"));
        let both = graph.node("both", move |ctx: Context<Work>| {
            let world = world.clone();
            async move {
                world.begun.up();
                if world.before.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let ask = async { Ok::<_, NodeError>(ctx.interrupt("ok?", ()).await.to_string()) };
                let (_, step) = tokio::join!(ask, ctx.step("charge", counts(&world.charged)));
                step.map(|_| said("both"))
            }
        });
        graph.start(both);
        graph.edge(both, Node::END);
        graph.compile().expect("graph")
    };
    world.before.store(true, Ordering::SeqCst);
    let (runtime, runs) = process(&store, &graph(&world));
    runs.start(&me(), Some("s".to_owned()), &Work::default(), None).await.expect("start");
    while world.begun.get() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    runtime.shutdown(std::time::Duration::ZERO).await;
    world.before.store(false, Ordering::SeqCst);
    restored::hold(&*store).await.expect("held");
    let (runtime, _) = process(&store, &graph(&world));
    runtime.start().await.expect("start");
    runtime.retry(&me(), "s", Default::default()).await.expect("retried");
    let asked = tokio::time::timeout(std::time::Duration::from_secs(60), pending(&runtime, "s")).await;
    let mut asked = asked.expect("it rests");
    asked.sort();
    assert_eq!(asked, [in_doubt("charge").remove(0), ("interrupt".to_owned(), "ok?".to_owned())]);
    assert_eq!(world.charged.get(), 0);
    runtime.shutdown(std::time::Duration::ZERO).await;
}

/// A service that runs the same line again may only be repeating itself, so it does not continue the turn.
async fn r4_a_service_that_runs_its_line_again_continues_no_restored_session(store: Arc<dyn Store>) {
    let (tries, graph) = (Count::default(), StateGraph::<Work>::new("work"));
    let graph = {
        let (tries, mut graph) = (tries.clone(), graph);
        let node = graph.node("node", move |_| {
            let fails = tries.up() == 1;
            async move { if fails { Err(NodeError::permanent("the bank is closed")) } else { Ok(said("done")) } }
        });
        graph.start(node);
        graph.edge(node, Node::END);
        graph.compile().expect("graph")
    };
    let line = |by: Principal| store.session("s").config(RunConfig::new().principal(by));
    let service = Principal::service("bot", Vec::new());
    let failed = line(service.clone()).run_graph(&graph, Work::default()).await.expect("run");
    assert_eq!(failed.state.state().status, Status::Failed);
    restored::hold(&*store).await.expect("held");
    let refused = line(service).run_graph(&graph, Work::default()).await.expect_err("it is not a person");
    assert_eq!(refused.refusal().expect("refused").code, Code::Forbidden);
    assert_eq!(tries.get(), 1);
    let done = line(me()).resume_graph(&graph).await.expect("a person").done().expect("done");
    assert_eq!((done.log, tries.get()), (vec!["done".to_owned()], 2));
}

/// The original's deadline may have passed after the backup, and its step have run.
async fn r4_a_default_answer_in_a_restored_graph_begins_no_step_that_may_have_run(store: Arc<dyn Store>) {
    let world = World::default();
    let graph = |world: &World| {
        let (world, mut graph) = (world.clone(), StateGraph::<Work>::new("work"));
        let ask = graph.node("ask", move |ctx: Context<Work>| {
            let world = world.clone();
            async move {
                ctx.interrupt("ok?", ()).timeout(std::time::Duration::from_secs(1), true).await;
                ctx.step("charge", counts(&world.charged)).await?;
                Ok(said("charged"))
            }
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
        graph.compile().expect("graph")
    };
    let (runtime, runs) = process(&store, &graph(&world));
    runs.start(&me(), Some("s".to_owned()), &Work::default(), None).await.expect("start");
    assert_eq!(pending(&runtime, "s").await, [("interrupt".to_owned(), "ok?".to_owned())]);
    runtime.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(restored::hold(&*store).await.expect("held").sessions, [Arc::from("s")]);
    let (runtime, _) = process(&store, &graph(&world));
    runtime.start().await.expect("start");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !pending(&runtime, "s").await.is_empty() {
        assert!(std::time::Instant::now() < deadline, "the deadline fires");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(world.charged.get(), 0, "it is held");
    runtime.retry(&me(), "s", Default::default()).await.expect("retried");
    assert_eq!(pending(&runtime, "s").await, in_doubt("charge"));
    assert_eq!(world.charged.get(), 0);
    runtime.shutdown(std::time::Duration::ZERO).await;
}

conformance!(
    r4_an_answer_in_a_restored_graph_begins_no_step_that_may_have_run,
    r4_a_retry_in_a_restored_graph_begins_no_step_that_may_have_run,
    r4_g6_a_fork_of_a_restored_graph_begins_no_step_that_may_have_run,
    r4_g6_a_fork_of_a_fork_of_a_restored_graph_begins_no_step_that_may_have_run,
    r4_r9_a_step_beside_a_question_of_a_restored_graph_is_asked_about,
    r4_a_default_answer_in_a_restored_graph_begins_no_step_that_may_have_run,
    r4_a_service_that_runs_its_line_again_continues_no_restored_session,
);
