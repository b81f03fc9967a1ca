//! A: one pause, one answer.

use std::{sync::Arc, time::Duration};

use countersign::{
    graph::{Context, Node, NodeError, NodeOptions, Outcome, Retry},
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::Record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Count, Work, WorkUpdate, alone, asks, code, count, failure, graph_of, in_line, journal, me, one, process, said,
};
use crate::store_support::conformance;

/// 1: a node inside of a graph inside asks, and the answer goes to its key at the root.
async fn a1_an_answer_at_the_root_reaches_the_node_of_an_inner_graph(store: Arc<dyn Store>) {
    let inner = one(asks("name"));
    let outer = graph_of(|graph| {
        let sub = graph.subgraph("sub", &inner, Work::clone, |work| said(work.log.join("")));
        alone(graph, &[sub]);
    });
    let (_, runs) = process(&store, &outer);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let key = paused.key("name").expect("asked");
    let done = runs.resume(&me(), key, "bar").await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["name: \"bar\""]);
}

/// 2: asking is a value, not an error: nothing is retried, and there is no record of a failure.
async fn a2_asking_is_not_an_error_and_is_not_retried(store: Arc<dyn Store>) {
    let begun = Count::default();
    let counted = begun.clone();
    let graph = graph_of(|graph| {
        let options = NodeOptions::new().retry(Retry::new(5).initial_delay(Duration::ZERO));
        let node = graph.node_with("node", options, move |ctx: Context<Work>| {
            counted.up();
            async move { Ok(said(ctx.interrupt("go on?", ()).await.to_string())) }
        });
        alone(graph, &[node]);
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!((paused.pending().len(), begun.get()), (1, 1));
    assert_eq!(&*paused.pending()[0].node, "node");
    assert_eq!(count(&store, "s", |record| matches!(record, Record::TaskFailed(_) | Record::TurnEnded(_))).await, 0);
    runs.resume(&me(), "s_1", true).await.expect("resume").done().expect("done");
    assert_eq!(begun.get(), 1);
}

/// 4: a cancel withdraws the question; the state stays, and the key has ended.
async fn a4_cancelling_takes_the_question_away_and_keeps_the_state(store: Arc<dyn Store>) {
    let graph = graph_of(|graph| {
        let first = graph.node("first", |_| async { Ok(said("kept")) });
        let ask = graph.node("ask", asks("go on?"));
        in_line(graph, &[first, ask]);
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runtime.cancel(&me(), "s", None).await.expect("cancel");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), Outcome::Cancelled);
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["kept"]);
    assert_eq!(code(runs.resume(&me(), "s_1", true).await), "approval_already_resolved");
    // The session takes another run.
    let again = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(again.pending()[0].key, "s_2");
}

/// 5: a follower gets the question, and then the end; a later one gets the same.
async fn a5_a_follower_sees_the_question_and_then_the_end(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        Ok(said(ctx.interrupt("go on?", json!({"price": 3})).await.to_string()))
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let mut follow = runtime.subscribe(&me(), "s", Some(0)).await.expect("subscribe");
    runs.resume(&me(), "s_1", true).await.expect("resume").done().expect("done");
    let mut live: Vec<String> = Vec::new();
    while !live.last().is_some_and(|text| text.contains("completed")) {
        live.push(follow.next().await.expect("frame").json.to_string());
    }
    let at =
        |what: &str| live.iter().position(|text| text.contains(what)).unwrap_or_else(|| panic!("{what}: {live:#?}"));
    assert!(at("price") < at("completed"), "{live:#?}");
    assert_eq!(live.iter().filter(|text| text.contains("price")).count(), 1, "{live:#?}");
    let mut late = runtime.subscribe(&me(), "s", Some(0)).await.expect("subscribe");
    for text in &live {
        assert_eq!(&*late.next().await.expect("frame").json, text.as_str());
    }
}

/// 6: a node asks until the answer is valid. Each time is another question.
async fn a6_a_node_asks_until_the_answer_is_good(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        loop {
            let age: u32 = ctx.interrupt("age", "how old?").typed().await;
            if age >= 18 {
                return Ok(WorkUpdate::new().sum(i64::from(age)));
            }
        }
    });
    let (_, runs) = process(&store, &graph);
    let mut outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for (answer, question) in [(13, "age"), (15, "age#2"), (19, "age#3")] {
        assert_eq!(&*outcome.pending()[0].question, question);
        let key = outcome.pending()[0].key.clone();
        // Each answer comes to another process.
        let (_, runs) = process(&store, &graph);
        outcome = runs.resume(&me(), &key, answer).await.expect("resume");
    }
    assert_eq!(outcome.done().expect("done").sum, 19);
}

/// 7, 12: a breakpoint is a node that asks: it has a key like every interruption, any value resumes it, and a wrong key
/// does not.
async fn a7_a_breakpoint_is_a_node_that_asks(store: Arc<dyn Store>) {
    let ran = Count::default();
    let graph = graph_of(|graph| {
        let stop = graph.node("before_pay", |ctx: Context<Work>| async move {
            ctx.interrupt("continue", ()).await;
            Ok(WorkUpdate::new())
        });
        let pay = graph.node("pay", super::says("paid", &ran));
        in_line(graph, &[stop, pay]);
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(code(runs.resume(&me(), "s_9", "x").await), "approval_not_found");
    assert_eq!(ran.get(), 0);
    let done = runs.resume(&me(), "s_1", "x").await.expect("resume").done().expect("done");
    assert_eq!((done.log, ran.get()), (vec!["paid".to_owned()], 1));
}

/// 8: what a step did before the question is there after it, in another process too.
async fn a8_a_step_before_the_question_is_not_done_again(store: Arc<dyn Store>) {
    let done = Count::default();
    let counted = done.clone();
    let graph = one(move |ctx: Context<Work>| {
        let counted = counted.clone();
        async move {
            let draft: String =
                ctx.step("draft", async move { Ok::<_, NodeError>(format!("draft {}", counted.up())) }).await?;
            let title: String = ctx.interrupt("title", &draft).typed().await;
            Ok(said(format!("{title}: {draft}")))
        }
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let (_, runs) = process(&store, &graph);
    let outcome = runs.resume(&me(), "s_1", "Cats").await.expect("resume");
    assert_eq!((outcome.done().expect("done").log, done.get()), (vec!["Cats: draft 1".to_owned()], 1));
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

/// 9: without a schema and with a JSON Schema the answer comes as it is; of a type, as that type. Clients see the schema.
async fn a9_an_answer_comes_as_what_the_node_asks_for(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let plain: Value = ctx.interrupt("plain", ()).await;
        let schema = json!({"type": "object", "required": ["name"]});
        let checked: Value = ctx.interrupt("checked", ()).schema(&schema).await;
        let typed: Person = ctx.interrupt("typed", ()).typed().await;
        Ok(WorkUpdate::new().log([plain.to_string(), checked.to_string(), format!("{} {}", typed.name, typed.age)]))
    });
    let (_, runs) = process(&store, &graph);
    let answer = json!({"name": "Ada", "age": 36, "extra": true});
    let mut outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for shown in [None, Some("name"), Some("age")] {
        let waiting = outcome.pending()[0].clone();
        assert_eq!(waiting.schema.is_some(), shown.is_some());
        if let (Some(schema), Some(field)) = (waiting.schema, shown) {
            assert!(schema.to_string().contains(field), "{schema}");
        }
        outcome = runs.resume(&me(), &waiting.key, &answer).await.expect("resume");
    }
    let log = outcome.done().expect("done").log;
    assert_eq!(log, [answer.to_string(), answer.to_string(), "Ada 36".to_owned()]);
}

/// 10: an invalid answer is refused with the place, stores nothing, and a valid one is taken afterwards.
async fn a10_an_answer_that_does_not_fit_is_refused_and_the_question_waits_on(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let person: Person = ctx.interrupt("who", ()).typed().await;
        Ok(said(person.name))
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let before = journal(&store, "s").await.len();
    let refused = runs.resume(&me(), "s_1", json!({"name": "Ada", "age": "old"})).await.expect_err("refused");
    assert_eq!(refused.code.name(), "invalid_resume");
    assert!(refused.details.expect("details").value()["errors"].to_string().contains("age"), "it says where");
    assert_eq!(journal(&store, "s").await.len(), before);
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), paused);
    let done = runs.resume(&me(), "s_1", json!({"name": "Ada", "age": 36})).await.expect("resume");
    assert_eq!(done.done().expect("done").log, ["Ada"]);
}

/// 11: an error of the node itself is its failure, and no error of the answer.
async fn a11_a_nodes_own_error_is_no_wrong_answer(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let age: u32 = ctx.interrupt("age", ()).typed().await;
        let _: Person = serde_json::from_value(json!({ "age": age }))?;
        Ok(WorkUpdate::new())
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = runs.resume(&me(), "s_1", 3).await.expect("the answer is taken");
    assert_eq!(failure(&outcome), "node_failed");
}

/// 3: a session has a name: a generated one, or a valid one.
#[tokio::test]
async fn a3_a_run_has_a_session_whose_name_is_made_or_right() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let graph = graph_of(|graph| {
        let node = graph.node("node", |_| async { Ok(said("done")) });
        graph.start(node);
        graph.edge(node, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    assert_eq!(code(runs.run(&me(), "", &Work::default()).await), "invalid_session_id");
    assert_eq!(code(runs.run(&me(), "a b", &Work::default()).await), "invalid_session_id");
    let made = runs.start(&me(), None, &Work::default(), None).await.expect("start");
    assert_eq!(runs.outcome(&me(), &made).await.expect("outcome").done().expect("done").log, ["done"]);
}

conformance!(
    a1_an_answer_at_the_root_reaches_the_node_of_an_inner_graph,
    a2_asking_is_not_an_error_and_is_not_retried,
    a4_cancelling_takes_the_question_away_and_keeps_the_state,
    a5_a_follower_sees_the_question_and_then_the_end,
    a6_a_node_asks_until_the_answer_is_good,
    a7_a_breakpoint_is_a_node_that_asks,
    a8_a_step_before_the_question_is_not_done_again,
    a9_an_answer_comes_as_what_the_node_asks_for,
    a10_an_answer_that_does_not_fit_is_refused_and_the_question_waits_on,
    a11_a_nodes_own_error_is_no_wrong_answer,
);
