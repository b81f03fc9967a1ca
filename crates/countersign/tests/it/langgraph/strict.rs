//! D: answers are exact. In LangGraph that is an option; here nothing else exists.

use std::{sync::Arc, time::Duration};

use countersign::{
    graph::{Context, NodeError, NodeOptions, Retry},
    store::Store,
};
use serde_json::Value;

use super::{
    Count, Work, alone, asks, code, failure, fork, graph_of, journal, me, one, process, questions, said, where_waited,
};
use crate::store_support::conformance;

fn two() -> countersign::graph::Graph<Work> {
    graph_of(|graph| {
        let (a, b) = (graph.node("a", asks("a")), graph.node("b", asks("b")));
        alone(graph, &[a, b]);
    })
}

/// 40, 44: an unknown key is refused before anything is written, also beside one that is right.
async fn d40_an_unknown_key_changes_nothing(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &two());
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let before = journal(&store, "s").await.len();
    assert_eq!(code(runs.resume(&me(), "s_7", 1).await), "approval_not_found");
    assert_eq!(code(runs.resume(&me(), "other_1", 1).await), "approval_not_found");
    assert_eq!(code(runs.resume_all(&me(), [("s_1", 1), ("s_7", 1)]).await), "approval_not_found");
    assert_eq!(journal(&store, "s").await.len(), before);
    assert!(store.head("other").await.expect("head").is_none(), "no session is made by an answer");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), paused);
    runs.resume_all(&me(), [("s_1", 1), ("s_2", 2)]).await.expect("resume").done().expect("done");
}

/// 41: an answered key is refused as such; the other can still be answered.
async fn d41_an_answered_key_is_refused_and_the_other_stays(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &two());
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let (a, b) = (paused.key("a").expect("a"), paused.key("b").expect("b"));
    let _ = runs.resume(&me(), a, 1).await.expect("resume");
    assert_eq!(code(runs.resume(&me(), a, 2).await), "approval_already_resolved");
    assert_eq!(code(runs.resume_all(&me(), [(b, 2), (a, 2)]).await), "approval_already_resolved");
    assert_eq!(questions(&runs.outcome(&me(), "s").await.expect("outcome")), ["b"]);
    let done = runs.resume(&me(), b, 2).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["a: 1", "b: 2"]);
}

/// 42: no answers at all, the same key twice, keys of two sessions: refused.
async fn d42_an_empty_or_contradictory_set_is_refused(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &two());
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = runs.run(&me(), "t", &Work::default()).await.expect("run");
    assert_eq!(code(runs.resume_all(&me(), Vec::<(String, Value)>::new()).await), "invalid_message");
    assert_eq!(code(runs.resume_all(&me(), [("s_1", 1), ("s_1", 2)]).await), "invalid_message");
    assert_eq!(code(runs.resume_all(&me(), [("s_1", 1), ("t_1", 1)]).await), "invalid_message");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), paused);
}

/// 45, 46: an old pause is answered again in a fork of it, under the fork's key; the session's own key has ended.
async fn d46_an_old_pause_is_answered_anew_in_a_fork_only(store: Arc<dyn Store>) {
    let graph = one(asks("ask"));
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runs.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!(code(runs.resume(&me(), "s_1", 2).await), "approval_already_resolved");
    let then = where_waited(&runtime, "s", "s_1").await;
    let pending = fork(&runtime, "s", then, "f").await;
    assert_eq!(pending, ["f_2"]);
    assert_eq!(code(runs.resume(&me(), "f_1", 2).await), "approval_not_found", "it was never the fork's");
    let done = runs.resume(&me(), "f_2", 2).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["ask: 2"]);
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["ask: 1"]);
}

/// 47: a node that fails after its answer and is retried still has the answer; nobody is asked twice.
async fn d47_a_retried_node_keeps_its_answer(store: Arc<dyn Store>) {
    let tries = Count::default();
    let counted = tries.clone();
    let graph = graph_of(|graph| {
        let options = NodeOptions::new().retry(Retry::new(3).initial_delay(Duration::from_millis(1)));
        let node = graph.node_with("node", options, move |ctx: Context<Work>| {
            let tries = counted.clone();
            async move {
                let answer = ctx.interrupt("ask", ()).await;
                if tries.up() < 3 {
                    return Err(NodeError::new("not yet"));
                }
                Ok(said(answer.to_string()))
            }
        });
        alone(graph, &[node]);
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let done = runs.resume(&me(), "s_1", "yes").await.expect("resume").done().expect("done");
    assert_eq!((done.log, tries.get()), (vec!["\"yes\"".to_owned()], 3));
}

/// 48: an answer that a node used before its permanent failure stays; a second one is refused, not silently dropped.
async fn d48_an_answer_stays_when_its_node_fails(store: Arc<dyn Store>) {
    let tries = Count::default();
    let counted = tries.clone();
    let graph = one(move |ctx: Context<Work>| {
        let tries = counted.clone();
        async move {
            let answer = ctx.interrupt("ask", ()).await;
            if tries.up() < 2 { Err(NodeError::new("broken")) } else { Ok(said(answer.to_string())) }
        }
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(failure(&runs.resume(&me(), "s_1", "first").await.expect("resume")), "node_failed");
    assert_eq!(code(runs.resume(&me(), "s_1", "second").await), "approval_already_resolved");
    let done = runs.retry(&me(), "s").await.expect("retry").done().expect("done");
    assert_eq!(done.log, ["\"first\""]);
}

conformance!(
    d40_an_unknown_key_changes_nothing,
    d41_an_answered_key_is_refused_and_the_other_stays,
    d42_an_empty_or_contradictory_set_is_refused,
    d46_an_old_pause_is_answered_anew_in_a_fork_only,
    d47_a_retried_node_keeps_its_answer,
    d48_an_answer_stays_when_its_node_fails,
);
