//! F: graphs in graphs.

use std::sync::Arc;

use countersign::{
    graph::{Context, Graph, Node},
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::Record;

use super::{Diary, Way, Work, WorkUpdate, alone, asks, count, graph_of, in_line, me, one, process, said};
use crate::store_support::conformance;

/// A node that records its start, and asks if so configured.
fn noted(
    name: &'static str,
    asks: bool,
    diary: &Diary,
) -> impl Fn(Context<Work>) -> futures::future::BoxFuture<'static, Result<WorkUpdate, countersign::graph::NodeError>>
+ Send
+ Sync
+ use<> {
    let diary = diary.clone();
    move |ctx| {
        diary.write(name);
        Box::pin(async move {
            if asks {
                let answer = ctx.interrupt(name, ()).await;
                return Ok(said(format!("{name}{answer}")));
            }
            Ok(said(name))
        })
    }
}

/// An outer graph with a node before, an inner one of these nodes, and a node after.
fn nested(diary: &Diary, inner: &[(&'static str, bool)]) -> Graph<Work> {
    let inside = graph_of(|graph| {
        let nodes: Vec<Node<Work>> =
            inner.iter().map(|(name, asks)| graph.node(name, noted(name, *asks, diary))).collect();
        in_line(graph, &nodes);
    });
    graph_of(|graph| {
        let before = graph.node("before", noted("before", false, diary));
        let sub = graph.subgraph("sub", &inside, |_| Work::default(), |work| said(work.log.join("+")));
        let after = graph.node("after", noted("after", false, diary));
        in_line(graph, &[before, sub, after]);
    })
}

/// 60: the pending questions of an inner graph are seen outside, with their path, and the state that is shown is the
/// outer one.
async fn f60_what_an_inner_graph_waits_for_is_seen_with_its_path(store: Arc<dyn Store>) {
    let (runtime, runs) = process(&store, &nested(&Diary::default(), &[("step", false), ("ask", true)]));
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(&*paused.pending()[0].node, "sub/ask");
    assert_eq!(runtime.state(&me(), "s").await.expect("state").nodes, ["sub/ask"]);
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["before"]);
    let done = runs.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["before", "step+ask1", "after"]);
}

/// 61, 72: two asking nodes inside: two answers, each question sent once, and one change outside, at the end.
async fn f61_two_answers_inside_are_one_change_outside(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &nested(&Diary::default(), &[("a", true), ("b", true)]));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = runs.resume(&me(), "s_1", 1).await.expect("resume");
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["before"]);
    let done = runs.resume(&me(), "s_2", 2).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["before", "a1+b2", "after"]);
    assert_eq!(count(&store, "s", |record| matches!(record, Record::Interrupted(_))).await, 2);
}

/// 62, 66, 81: an answer in another process begins the node that asked, and nothing before, beside or around it.
async fn f62_an_answer_begins_only_the_node_that_asked(store: Arc<dyn Store>) {
    for cold in [false, true] {
        let (diary, session) = (Diary::default(), if cold { "cold" } else { "warm" });
        let graph = nested(&diary, &[("step", false), ("ask", true), ("last", false)]);
        let (runtime, mut runs) = process(&store, &graph);
        let _ = runs.run(&me(), session, &Work::default()).await.expect("run");
        assert_eq!(diary.read(), ["before", "step", "ask"]);
        diary.clear();
        if cold {
            runs = process(&store, &graph).1;
        }
        runs.resume(&me(), &format!("{session}_1"), 1).await.expect("resume").done().expect("done");
        let expected: &[&str] = if cold { &["ask", "last", "after"] } else { &["last", "after"] };
        assert_eq!(diary.read(), expected);
        drop(runtime);
    }
}

/// 63, 64: an inner graph can pause, and begins with a new state whenever it is entered.
async fn f64_an_inner_graph_begins_fresh_each_time(store: Arc<dyn Store>) {
    let inner = one(asks("ask"));
    let graph = graph_of(|graph| {
        let sub = graph.subgraph(
            "sub",
            &inner,
            |_| Work::default(),
            |work| WorkUpdate::new().log([work.log.len().to_string()]).sum(1),
        );
        graph.start(sub);
        graph.route(
            sub,
            |work| if work.sum < 3 { Way::Back } else { Way::On },
            |way| match way {
                Way::Back => sub,
                Way::On => Node::END,
            },
        );
    });
    let (_, runs) = process(&store, &graph);
    let mut outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for n in 1..=3 {
        assert_eq!(outcome.pending().len(), 1);
        outcome = process(&store, &graph).1.resume(&me(), &format!("s_{n}"), n).await.expect("resume");
    }
    assert_eq!(outcome.done().expect("done").log, ["1", "1", "1"]);
}

/// 65: the memory of an inner graph is in the outer state: visible, and in the journal once.
async fn f65_what_an_inner_graph_remembers_is_in_the_outer_state(store: Arc<dyn Store>) {
    let inner = one(asks("ask"));
    let graph = graph_of(|graph| {
        let enter = |work: &Work| Work { log: work.log.clone(), ..Work::default() };
        let leave = |work: Work| WorkUpdate::new().replace_log(work.log).sum(1);
        let sub = graph.subgraph("sub", &inner, enter, leave);
        graph.start(sub);
        graph.route(
            sub,
            |work| if work.sum < 2 { Way::Back } else { Way::On },
            |way| match way {
                Way::Back => sub,
                Way::On => Node::END,
            },
        );
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = runs.resume(&me(), "s_1", 1).await.expect("resume");
    let done = runs.resume(&me(), "s_2", 2).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["ask: 1", "ask: 2"]);
}

/// 66: an ended node of a pending inner graph is not run again when its neighbour is answered.
async fn f66_what_is_finished_inside_is_not_run_again(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let inside = graph_of(|graph| {
        let fine = graph.node("fine", noted("fine", false, &diary));
        let ask = graph.node("ask", noted("ask", true, &diary));
        alone(graph, &[fine, ask]);
    });
    let graph = graph_of(|graph| {
        let sub = graph.subgraph("sub", &inside, Work::clone, |work| WorkUpdate::new().log(work.log));
        alone(graph, &[sub]);
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    diary.clear();
    let done = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!((done.log, diary.read()), (vec!["fine".to_owned(), "ask1".to_owned()], vec!["ask".to_owned()]));
}

/// 67: an update with fields that the state lacks is refused, and the error names them.
#[tokio::test]
async fn f67_an_update_that_does_not_fit_the_state_is_refused() {
    let error = serde_json::from_str::<WorkUpdate>(r#"{"lst":"x"}"#).expect_err("unknown");
    assert!(error.to_string().contains("lst"), "{error}");
    let error = serde_json::from_str::<WorkUpdate>(r#"{"log":{"ad":["x"]}}"#).expect_err("unknown");
    assert!(error.to_string().contains("ad"), "{error}");
    // In the library a wrong field does not compile; and an update that cannot be merged changes nothing.
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &one(asks("ask")));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(super::code(runs.edit(&me(), "none", &WorkUpdate::new()).await), "session_not_found");
    assert_eq!(runs.state(&me(), "s").await.expect("state"), Work::default());
}

conformance!(
    f60_what_an_inner_graph_waits_for_is_seen_with_its_path,
    f61_two_answers_inside_are_one_change_outside,
    f62_an_answer_begins_only_the_node_that_asked,
    f64_an_inner_graph_begins_fresh_each_time,
    f65_what_an_inner_graph_remembers_is_in_the_outer_state,
    f66_what_is_finished_inside_is_not_run_again,
);
