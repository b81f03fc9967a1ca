//! H: time travel with questions. A fork is a separate session; its original does not change.

use std::sync::Arc;

use countersign::{
    graph::{Context, Graph},
    store::Store,
};
use serde_json::json;

use super::{
    Diary, Work, alone, asks, checkpoints, code, fork, graph_of, in_line, journal, me, one, process, said, where_waited,
};
use crate::{store_support::conformance, store_support::texts};

/// Two nodes that ask, one after the other.
fn twice() -> Graph<Work> {
    graph_of(|graph| {
        let (a, b) = (graph.node("a", asks("a")), graph.node("b", asks("b")));
        in_line(graph, &[a, b]);
    })
}

/// 76, 86: a fork before an answer asks again; both continue independently, and the first session's journal is
/// untouched.
async fn h76_a_fork_before_an_answer_asks_again_and_changes_nothing(store: Arc<dyn Store>) {
    let (runtime, runs) = process(&store, &one(asks("ask")));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runs.resume(&me(), "s_1", "old").await.expect("resume").done().expect("done");
    let before = texts(&journal(&store, "s").await);
    let then = where_waited(&runtime, "s", "s_1").await;
    assert_eq!(fork(&runtime, "s", then, "f").await, ["f_2"]);
    let done = runs.resume(&me(), "f_2", "new").await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["ask: \"new\""]);
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["ask: \"old\""]);
    assert_eq!(texts(&journal(&store, "s").await), before);
}

/// 77, 85: each fork of a pause has the same question, with its payload, under its own key.
async fn h77_every_fork_has_the_same_question_under_its_own_key(store: Arc<dyn Store>) {
    let graph =
        one(|ctx: Context<Work>| async move { Ok(said(ctx.interrupt("ask", json!({"price": 7})).await.to_string())) });
    let (runtime, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let then = where_waited(&runtime, "s", "s_1").await;
    let mut keys = vec!["s_1".to_owned()];
    for id in ["f", "g", "h"] {
        fork(&runtime, "s", then, id).await;
        let outcome = runs.outcome(&me(), id).await.expect("outcome");
        let (first, other) = (&paused.pending()[0], &outcome.pending()[0]);
        assert_eq!((&first.payload, &first.question, &first.node), (&other.payload, &other.question, &other.node));
        keys.push(other.key.clone());
    }
    assert_eq!(keys, ["s_1", "f_2", "g_2", "h_2"]);
    for key in keys.iter().rev() {
        runs.resume(&me(), key, 1).await.expect("resume").done().expect("done");
    }
}

/// 78, 84: no answer of the original counts in a fork: all questions of its unfinished round are asked again.
async fn h84_a_fork_asks_all_questions_of_the_round_again(store: Arc<dyn Store>) {
    let graph = graph_of(|graph| {
        let both = ["a", "b"].map(|name| {
            graph.node(name, move |ctx: Context<Work>| async move {
                let (one, two) = (ctx.interrupt("one", name).await, ctx.interrupt("two", name).await);
                Ok(said(format!("{name}{one}{two}")))
            })
        });
        alone(graph, &both);
    });
    let (runtime, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let of_a = paused.pending().iter().find(|waiting| waiting.payload == "a").expect("asked").key.clone();
    // `a` has its first answer and waits for its second; `b` for its first.
    let half = runs.resume(&me(), &of_a, 1).await.expect("resume");
    assert_eq!(half.pending().len(), 2);
    let newest = checkpoints(&runtime, "s").await.pop().expect("one").0;
    fork(&runtime, "s", newest, "f").await;
    let mut outcome = runs.outcome(&me(), "f").await.expect("outcome");
    let mut asked = Vec::new();
    while let Some(waiting) = outcome.pending().first().cloned() {
        let said = format!("{}.{}", waiting.payload.as_str().expect("name"), waiting.question);
        outcome = runs.resume(&me(), &waiting.key, &said).await.expect("resume");
        asked.push(said);
    }
    asked.sort();
    assert_eq!(asked, ["a.one", "a.two", "b.one", "b.two"]);
    let log = outcome.done().expect("done").log;
    assert_eq!(log, [r#"a"a.one""a.two""#, r#"b"b.one""b.two""#]);
}

/// 79: a fork between two nodes that ask keeps the first one's update, and asks the second.
async fn h79_a_fork_between_two_nodes_keeps_the_first(store: Arc<dyn Store>) {
    let (runtime, runs) = process(&store, &twice());
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let _ = runs.resume(&me(), "s_1", 1).await.expect("resume");
    runs.resume(&me(), "s_2", 2).await.expect("resume").done().expect("done");
    let then = where_waited(&runtime, "s", "s_2").await;
    assert_eq!(fork(&runtime, "s", then, "f").await, ["f_3"]);
    let done = runs.resume(&me(), "f_3", 20).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["a: 1", "b: 20"]);
}

/// 80: a fork of the end has nothing to do.
async fn h80_a_fork_of_the_end_does_nothing(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let written = diary.clone();
    let graph = one(move |_| {
        written.write("ran");
        async { Ok(said("done")) }
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let newest = checkpoints(&runtime, "s").await.pop().expect("one").0;
    assert!(fork(&runtime, "s", newest, "f").await.is_empty());
    assert_eq!(runs.outcome(&me(), "f").await.expect("outcome").done().expect("done").log, ["done"]);
    assert_eq!(diary.read(), ["ran"]);
}

/// 82, 83: three graphs deep: a fork of a pause there asks there, and later answers go to the fork.
async fn h83_three_graphs_deep_a_fork_goes_on_where_it_waited(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let written = diary.clone();
    let mut graph = graph_of(|graph| {
        let first = graph.node("first", move |_| {
            written.write("first");
            async { Ok(said("first")) }
        });
        let (a, b) = (graph.node("a", asks("a")), graph.node("b", asks("b")));
        in_line(graph, &[first, a, b]);
    });
    for _ in 0..2 {
        let inner = graph;
        graph = graph_of(|graph| {
            let sub = graph.subgraph("sub", &inner, Work::clone, |work| super::WorkUpdate::new().log(work.log));
            alone(graph, &[sub]);
        });
    }
    let (runtime, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(&*paused.pending()[0].node, "sub/sub/a");
    let _ = runs.resume(&me(), "s_1", 1).await.expect("resume");
    runs.resume(&me(), "s_2", 2).await.expect("resume").done().expect("done");
    let then = where_waited(&runtime, "s", "s_1").await;
    assert_eq!(fork(&runtime, "s", then, "f").await, ["f_2"]);
    let _ = runs.resume(&me(), "f_2", 10).await.expect("resume");
    let (_, runs) = process(&store, &graph);
    let done = runs.resume(&me(), "f_3", 20).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["first", "a: 10", "b: 20"]);
    assert_eq!(code(runs.resume(&me(), "s_2", 3).await), "approval_already_resolved");
    assert_eq!(diary.read(), ["first"], "what was before the pause is not run again");
}

/// 87: graphs inside that wait beside each other each have their own state in a fork.
async fn h87_graphs_beside_each_other_keep_their_own_states_in_a_fork(store: Arc<dyn Store>) {
    let inner = graph_of(|graph| {
        let first =
            graph.node("first", |ctx: Context<Work>| async move { Ok(said(format!("{} first", ctx.state().last))) });
        let ask = graph.node("ask", asks("ask"));
        in_line(graph, &[first, ask]);
    });
    let graph = graph_of(|graph| {
        let subs = ["x", "y"].map(|name| {
            let enter = move |_: &Work| Work { last: name.to_owned(), ..Work::default() };
            graph.subgraph(name, &inner, enter, |work| said(work.log.join(", ")))
        });
        alone(graph, &subs);
    });
    let (runtime, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(paused.pending().len(), 2);
    let newest = checkpoints(&runtime, "s").await.pop().expect("one").0;
    fork(&runtime, "s", newest, "f").await;
    let (_, runs) = process(&store, &graph);
    let waiting = runs.outcome(&me(), "f").await.expect("outcome").pending().to_vec();
    let answers = waiting.iter().map(|waiting| (waiting.key.clone(), waiting.node.to_string()));
    let done = runs.resume_all(&me(), answers).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["x first, ask: \"x/ask\"", "y first, ask: \"y/ask\""]);
}

conformance!(
    h76_a_fork_before_an_answer_asks_again_and_changes_nothing,
    h77_every_fork_has_the_same_question_under_its_own_key,
    h84_a_fork_asks_all_questions_of_the_round_again,
    h79_a_fork_between_two_nodes_keeps_the_first,
    h80_a_fork_of_the_end_does_nothing,
    h83_three_graphs_deep_a_fork_goes_on_where_it_waited,
    h87_graphs_beside_each_other_keep_their_own_states_in_a_fork,
);
