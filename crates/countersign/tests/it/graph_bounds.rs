//! What a graph's run records has bounds (spec R9).

use std::sync::Arc;

use countersign::{
    graph::{Context, GraphState, Node, NodeError, Outcome, StateGraph},
    run::{Code, Runtime},
    store::Store,
};
use countersign_core::limits;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    graph_support::{Work, WorkUpdate, in_line, me, process, said},
    store_support::conformance,
};

fn failed(outcome: &Outcome<impl std::fmt::Debug>, what: &str) {
    let Outcome::Failed { code, message, .. } = outcome else { panic!("{outcome:?}") };
    assert!(code == "node_failed" && message.contains(what), "{code}: {message}");
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Nest {
    value: Value,
    #[graph(append)]
    all: Vec<Value>,
}

/// So many arrays in each other.
fn deep(depth: usize) -> Value {
    (0..depth).fold(json!(1), |value, _| json!([value]))
}

/// Nothing is recorded that cannot be read again: neither by the node that starts over nor by another process.
async fn r9_what_is_nested_too_deep_to_be_read_again_is_refused_before_it_is_stored(store: Arc<dyn Store>) {
    let most = limits::RECORDED_JSON_DEPTH;
    let mut graph = StateGraph::<Nest>::new("nest");
    let ask = graph.node("ask", move |ctx: Context<Nest>| async move {
        let (place, depth): (String, usize) = ctx.interrupt("where?", ()).typed().await;
        let at = |here: &str| deep(if place == here { depth } else { 1 });
        let step = at("step");
        ctx.step("nest", async move { Ok::<_, NodeError>(step) }).idempotent().await?;
        let _: bool = ctx.interrupt("go on?", ()).typed().await;
        Ok(NestUpdate::new().value(at("update")).all([at("item")]))
    });
    let each = graph.map_node("each", |_, _: Value| async move { Ok(NestUpdate::new()) });
    graph.start(ask);
    // Each item has one array more than what the state has in its list.
    graph.fan_out(ask, each, |nest| nest.all.iter().map(|value| json!([[[value]]])).collect::<Vec<_>>());
    graph.edge(each, Node::END);
    let graph = graph.compile().expect("graph");
    let process = || {
        let runtime = Runtime::builder(store.clone()).graph(&graph).build().expect("runtime");
        runtime.runs(&graph).expect("runs")
    };
    let too_deep = Nest { value: deep(most), ..Nest::default() };
    let refused = process().run(&me(), "state", &too_deep).await.expect_err("too deep");
    assert!(refused.code == Code::InvalidMessage && refused.message.contains("nested deeper than"), "{refused}");
    // What each place adds of its own: the object of the state, and the list of items.
    for (place, around) in [("step", 0), ("update", 1), ("item", 3)] {
        for (session, depth) in [(format!("{place}-fits"), most - around), (format!("{place}-deep"), most - around + 1)]
        {
            let asked = process().run(&me(), &session, &Nest::default()).await.expect("run");
            let refused = process().resume(&me(), &asked.pending()[0].key, deep(most + 1)).await.expect_err("too deep");
            assert_eq!(refused.code, Code::InvalidMessage, "{refused}");
            let key = format!("{session}_1");
            let mut outcome = process().resume(&me(), &key, (place, depth)).await.expect("resume");
            if place != "step" || depth <= most {
                outcome = process().resume(&me(), &format!("{session}_2"), true).await.expect("resume");
            }
            if depth + around > most {
                failed(&outcome, "nested deeper than");
            } else {
                assert!(matches!(outcome, Outcome::Done(_)), "{session}: {outcome:?}");
            }
            process().state(&me(), &session).await.expect("it can be read");
        }
    }
}

/// The items of a fan-out are on record with their round.
async fn r9_the_items_of_a_round_have_at_most_so_many_bytes(store: Arc<dyn Store>) {
    let graph = in_line("items", |graph| {
        let first = graph.node("first", |_| async { Ok(WorkUpdate::new()) });
        let each = graph.map_node("each", |_: Context<Work>, item: String| async move {
            Ok(WorkUpdate::new().sum(i64::try_from(item.len()).expect("small")))
        });
        graph.start(first);
        graph.fan_out(first, each, |work| {
            work.items.iter().map(|bytes| "x".repeat(*bytes as usize)).collect::<Vec<_>>()
        });
        graph.edge(each, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    let run = |session: &'static str, items: Vec<u32>| {
        let (runs, state) = (runs.clone(), Work { items, ..Work::default() });
        async move { runs.run(&me(), session, &state).await.expect("run") }
    };
    let most = u32::try_from(limits::UPDATE_BYTES).expect("small");
    let fits = run("fits", vec![most - 2, 10]).await.done().expect("done");
    assert_eq!(fits.sum, i64::from(most) + 8);
    failed(&run("one", vec![10, most - 1]).await, "an item has 1048577 bytes as JSON; at most 1048576 are allowed");
    let all = u32::try_from(limits::ROUND_BYTES).expect("small") / (most - 2) + 1;
    failed(&run("all", vec![most - 2; all as usize]).await, "the items of one round have more than 16777216 bytes");
}

/// So is the state with which an inner graph begins.
async fn r9_the_state_of_an_inner_graph_has_at_most_so_many_bytes(store: Arc<dyn Store>) {
    let inner = in_line("inner", |graph| {
        let one = graph.node("one", |_| async { Ok(said("one")) });
        graph.start(one);
        graph.edge(one, Node::END);
    });
    let graph = in_line("outer", |graph| {
        let enter = |work: &Work| Work { last: "x".repeat(work.items[0] as usize), ..Work::default() };
        let sub = graph.subgraph("sub", &inner, enter, |work| said(work.log.concat()));
        graph.start(sub);
        graph.edge(sub, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    let state = |bytes: usize| Work { items: vec![u32::try_from(bytes).expect("small")], ..Work::default() };
    let done = runs.run(&me(), "fits", &state(limits::UPDATE_BYTES - 100)).await.expect("run").done();
    assert_eq!(done.expect("done").log, ["one"]);
    let outcome = runs.run(&me(), "large", &state(limits::UPDATE_BYTES)).await.expect("run");
    failed(&outcome, "the state of \"inner\" has");
}

conformance!(
    r9_what_is_nested_too_deep_to_be_read_again_is_refused_before_it_is_stored,
    r9_the_items_of_a_round_have_at_most_so_many_bytes,
    r9_the_state_of_an_inner_graph_has_at_most_so_many_bytes,
);
