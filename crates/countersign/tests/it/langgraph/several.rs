//! B: several questions in one node.

use std::sync::Arc;

use countersign::{
    graph::{Context, Graph, NodeError},
    store::Store,
};
use countersign_core::journal::record::Record;
use futures::future::join;
use serde_json::value::RawValue;
use std::future::IntoFuture as _;

use super::{
    Count, Work, WorkUpdate, code, count, failure, graph_of, in_line, journal, me, one, process, questions, said, says,
};
use crate::store_support::conformance;

/// Asks for a first and then a last name.
fn names() -> Graph<Work> {
    one(|ctx: Context<Work>| async move {
        let first: String = ctx.interrupt("first", "your first name?").typed().await;
        let last: String = ctx.interrupt("last", "your last name?").typed().await;
        Ok(said(format!("{first} {last}")))
    })
}

/// 13, 14: each answer goes to its question, the state changes once, when the node ends.
async fn b13_two_questions_of_a_node_are_answered_by_name(store: Arc<dyn Store>) {
    for cold in [false, true] {
        let session = if cold { "cold" } else { "warm" };
        let graph = names();
        let (runtime, mut runs) = process(&store, &graph);
        let paused = runs.run(&me(), session, &Work::default()).await.expect("run");
        assert_eq!(questions(&paused), ["first"]);
        let second = runs.resume(&me(), paused.key("first").expect("key"), "Ada").await.expect("resume");
        assert_eq!(questions(&second), ["last"]);
        assert_eq!(runs.state(&me(), session).await.expect("state"), Work::default(), "the node is not over");
        if cold {
            runs = process(&store, &graph).1;
        }
        let done = runs.resume(&me(), second.key("last").expect("key"), "Lovelace").await.expect("resume");
        assert_eq!(done.done().expect("done").log, ["Ada Lovelace"]);
        assert_eq!(count(&store, session, |record| matches!(record, Record::TasksDone(_))).await, 1);
        drop(runtime);
    }
}

/// 15, 16: the second question has its own key, and answering the first again (a double click) answers nothing.
async fn b16_answering_the_first_again_does_not_answer_the_second(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &names());
    let first = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let second = runs.resume(&me(), "s_1", "Ada").await.expect("resume");
    assert_ne!(first.pending()[0].key, second.pending()[0].key);
    let before = journal(&store, "s").await.len();
    assert_eq!(code(runs.resume(&me(), "s_1", "Ada").await), "approval_already_resolved");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), second);
    assert_eq!(journal(&store, "s").await.len(), before);
}

/// 17: two questions at once in one node, each with its answer.
async fn b17_two_questions_at_once_each_take_their_answer(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        let (a, b) =
            join(ctx.interrupt("a", 1).typed::<u8>().into_future(), ctx.interrupt("b", 2).typed::<u8>().into_future())
                .await;
        Ok(said(format!("{a} {b}")))
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(questions(&paused), ["a", "b"]);
    let half = runs.resume(&me(), paused.key("b").expect("b"), 20).await.expect("resume");
    assert_eq!(questions(&half), ["a"]);
    let done = runs.resume(&me(), paused.key("a").expect("a"), 10).await.expect("resume");
    assert_eq!(done.done().expect("done").log, ["10 20"]);
}

/// 18: a key is valid as long as its question is pending, in any process.
async fn b18_a_key_is_good_in_every_later_process(store: Arc<dyn Store>) {
    let graph = names();
    let paused = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    for _ in 0..3 {
        assert_eq!(process(&store, &graph).1.outcome(&me(), "s").await.expect("outcome"), paused);
    }
    let second = process(&store, &graph).1.resume(&me(), "s_1", "Ada").await.expect("resume");
    assert_eq!(second.pending()[0].key, "s_2");
    let done = process(&store, &graph).1.resume(&me(), "s_2", "Byron").await.expect("resume");
    assert_eq!(done.done().expect("done").log, ["Ada Byron"]);
}

/// 19: an invalid second answer keeps the first, and can be corrected.
async fn b19_a_wrong_second_answer_keeps_the_first(store: Arc<dyn Store>) {
    let graph = names();
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = runs.resume(&me(), "s_1", "Ada").await.expect("resume");
    assert_eq!(code(runs.resume(&me(), "s_2", 7).await), "invalid_resume");
    let (_, runs) = process(&store, &graph);
    assert_eq!(code(runs.resume(&me(), "s_2", 7).await), "invalid_resume");
    let done = runs.resume(&me(), "s_2", "Lovelace").await.expect("resume");
    assert_eq!(done.done().expect("done").log, ["Ada Lovelace"]);
}

/// 20: the state is changed between answers, and each change counts once. The node starts over with it: earlier answers
/// were about the old state.
async fn b20_edits_between_answers_count_once(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        for name in ["a", "b", "c"] {
            ctx.interrupt(name, ()).await;
        }
        Ok(said("asked"))
    });
    for cold in [false, true] {
        let session = if cold { "cold" } else { "warm" };
        let (_, mut runs) = process(&store, &graph);
        let mut outcome = runs.run(&me(), session, &Work::default()).await.expect("run");
        for n in 1..=3 {
            let edited = runs.edit(&me(), session, &WorkUpdate::new().sum(1)).await.expect("edit");
            assert_eq!(runs.state(&me(), session).await.expect("state").sum, n);
            if cold {
                runs = process(&store, &graph).1;
            }
            outcome = runs.resume(&me(), &edited.pending()[0].key, true).await.expect("resume");
        }
        while let Some(key) = outcome.pending().first().map(|waiting| waiting.key.clone()) {
            outcome = runs.resume(&me(), &key, true).await.expect("resume");
        }
        let done = outcome.done().expect("done");
        assert_eq!((done.sum, done.log), (3, vec!["asked".to_owned()]));
    }
}

/// 21: a node before one that asks twice is run once over all its pauses.
async fn b21_a_node_before_is_run_once_over_all_answers(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = graph_of(|graph| {
        let before = graph.node("before", says("before", &begun));
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let (a, b) = (ctx.interrupt("a", ()).await, ctx.interrupt("b", ()).await);
            Ok(said(format!("{a} {b}")))
        });
        in_line(graph, &[before, ask]);
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume");
    let done = process(&store, &graph).1.resume(&me(), "s_2", 2).await.expect("resume");
    assert_eq!((done.done().expect("done").log, begun.get()), (vec!["before".to_owned(), "1 2".to_owned()], 1));
}

/// M7 with a payload whose members another build of the program gives in another order.
async fn m7_an_answer_counts_in_whatever_order_a_build_has_the_payloads_members(store: Arc<dyn Store>) {
    let asks = |payload: &'static str| {
        one(move |ctx: Context<Work>| async move {
            let payload = RawValue::from_string(payload.to_owned()).map_err(|error| error.to_string());
            let payload = payload.map_err(NodeError::permanent)?;
            Ok(said(ctx.interrupt("ask", payload).await.to_string()))
        })
    };
    for (session, other, fits) in [
        ("order", r#"{"b": [2.50, 1], "a": {"d": 4, "c": 3}}"#, true),
        ("digits", r#"{"a":{"c":3,"d":4},"b":[2.51,1]}"#, false),
    ] {
        let before = asks(r#"{"a":{"c":3,"d":4},"b":[2.50,1]}"#);
        let _ = process(&store, &before).1.run(&me(), session, &Work::default()).await.expect("run");
        let outcome = process(&store, &asks(other)).1.resume(&me(), &format!("{session}_1"), 7).await.expect("resume");
        match fits {
            true => assert_eq!(outcome.done().expect("done").log, ["7"]),
            false => assert_eq!(failure(&outcome), "question_changed"),
        }
    }
}

conformance!(
    b13_two_questions_of_a_node_are_answered_by_name,
    b16_answering_the_first_again_does_not_answer_the_second,
    b17_two_questions_at_once_each_take_their_answer,
    b18_a_key_is_good_in_every_later_process,
    b19_a_wrong_second_answer_keeps_the_first,
    b20_edits_between_answers_count_once,
    b21_a_node_before_is_run_once_over_all_answers,
    m7_an_answer_counts_in_whatever_order_a_build_has_the_payloads_members,
);
