//! C: questions in parallel branches.

use std::{sync::Arc, time::Duration};

use countersign::{
    graph::{Context, Graph, Node, NodeError, NodeOptions, Outcome, Retry},
    store::{Store, memory::MemoryStore},
    tool::Approval,
};
use countersign_core::journal::record::Record;
use serde_json::json;

use super::{
    Count, Diary, Work, WorkUpdate, alone, asks, code, count, failure, graph_of, journal, key_of, me, one, process,
    questions, said, says,
};
use crate::{
    store_support::conformance,
    support::{Ledger, entry},
};

/// A task for each of these items; each asks, with its number as payload.
fn fan_out(items: &'static [u32], begun: &Count) -> Graph<Work> {
    let begun = begun.clone();
    graph_of(|graph| {
        let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new().items(items.to_vec())) });
        let each = graph.map_node("each", move |ctx: Context<Work>, item: u32| {
            begun.up();
            async move { Ok(said(format!("{item}: {}", ctx.interrupt("ok?", item).await))) }
        });
        graph.start(begin);
        graph.fan_out(begin, each, |work| work.items.clone());
        graph.edge(each, Node::END);
    })
}

/// Two branches, `a` and `b`, that ask and write down when they are begun and when they are answered.
fn branches(diary: &Diary) -> Graph<Work> {
    graph_of(|graph| {
        let nodes = ["a", "b"].map(|name| {
            let diary = diary.clone();
            graph.node(name, move |ctx: Context<Work>| {
                let diary = diary.clone();
                diary.write(format!("{name} begins"));
                async move {
                    let answer = ctx.interrupt(name, ()).await;
                    diary.write(format!("{name} answered"));
                    Ok(said(format!("{name}{answer}")))
                }
            })
        });
        alone(graph, &nodes);
    })
}

/// 22, 43: every answer names its question; others stay pending.
async fn c22_every_answer_names_its_question(store: Arc<dyn Store>) {
    let (_, runs) = process(&store, &branches(&Diary::default()));
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for no_key in ["s", "s_", "s_0", "s_3", ""] {
        assert_eq!(code(runs.resume(&me(), no_key, true).await), "approval_not_found", "{no_key}");
    }
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), paused);
    let (a, b) = (paused.key("a").expect("a").to_owned(), paused.key("b").expect("b").to_owned());
    let done = runs.resume_all(&me(), [(b, 2), (a, 1)]).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["a1", "b2"]);
}

/// 23: one request answers all, in whatever order; the results keep theirs.
async fn c23_one_request_answers_all_and_results_keep_their_order(store: Arc<dyn Store>) {
    let begun = Count::default();
    let (_, runs) = process(&store, &fan_out(&[0, 1, 2, 3, 4], &begun));
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let answers = (0..5).rev().map(|item| (key_of(&paused, &json!(item)), item * 10));
    let done = runs.resume_all(&me(), answers).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["0: 0", "1: 10", "2: 20", "3: 30", "4: 40"]);
    assert_eq!(begun.get(), 5);
}

/// 24, 30: answered one by one, each branch is begun once and gives its result once.
async fn c24_answered_one_by_one_each_branch_runs_once(store: Arc<dyn Store>) {
    let begun = Count::default();
    let (_, runs) = process(&store, &fan_out(&[0, 1, 2], &begun));
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let mut latest = paused.clone();
    for item in [1, 0, 2] {
        latest = runs.resume(&me(), &key_of(&paused, &json!(item)), item).await.expect("resume");
    }
    assert_eq!(latest.done().expect("done").log, ["0: 0", "1: 1", "2: 2"]);
    assert_eq!(begun.get(), 3);
}

/// 25, 31: two inner graphs with two questions each: four questions, each answered exactly once.
async fn c25_two_questions_in_each_of_two_inner_graphs_are_four(store: Arc<dyn Store>) {
    let inner = graph_of(|graph| {
        let (a, b) = (graph.node("a", asks("a")), graph.node("b", asks("b")));
        alone(graph, &[a, b]);
    });
    let outer = graph_of(|graph| {
        let subs = ["x", "y"].map(|name| {
            graph.subgraph(name, &inner, Work::clone, move |work| said(format!("{name}: {}", work.log.join(", "))))
        });
        alone(graph, &subs);
    });
    let (_, runs) = process(&store, &outer);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let mut places: Vec<&str> = paused.pending().iter().map(|waiting| &*waiting.node).collect();
    places.sort_unstable();
    assert_eq!(places, ["x/a", "x/b", "y/a", "y/b"]);
    let mut latest = paused.clone();
    for waiting in paused.pending() {
        latest = runs.resume(&me(), &waiting.key, &*waiting.node).await.expect("resume");
        assert_eq!(code(runs.resume(&me(), &waiting.key, "again").await), "approval_already_resolved");
    }
    assert_eq!(latest.done().expect("done").log, ["x: a: \"x/a\", b: \"x/b\"", "y: a: \"y/a\", b: \"y/b\""]);
}

/// 26: only pending questions are shown, and no branch is begun again for the answer of another. The past has both.
async fn c26_only_what_waits_is_shown_and_nothing_begins_again(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let (runtime, runs) = process(&store, &branches(&diary));
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let half = runs.resume(&me(), paused.key("a").expect("a"), 1).await.expect("resume");
    assert_eq!(questions(&half), ["b"]);
    let then = super::where_waited(&runtime, "s", paused.key("a").expect("a")).await;
    let then = runtime.state_at(&me(), "s", then).await.expect("state");
    assert_eq!(then.session.pending.len(), 2, "the record of that moment has both");
    runs.resume(&me(), paused.key("b").expect("b"), 2).await.expect("resume").done().expect("done");
    assert_eq!(diary.sorted(), ["a answered", "a begins", "b answered", "b begins"]);
}

/// 27, 28: a branch with a further question stays pending, whichever others have ended by then.
async fn c27_a_branch_at_its_second_question_still_waits(store: Arc<dyn Store>) {
    let graph = graph_of(|graph| {
        let a = graph.node("a", |ctx: Context<Work>| async move {
            let (one, two) = (ctx.interrupt("a1", ()).await, ctx.interrupt("a2", ()).await);
            Ok(said(format!("a{one}{two}")))
        });
        let b = graph.node("b", asks("b"));
        alone(graph, &[a, b]);
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let half = runs.resume(&me(), paused.key("a1").expect("a1"), 1).await.expect("resume");
    assert_eq!(questions(&half), ["a2", "b"]);
    let last = runs.resume(&me(), half.key("b").expect("b"), 2).await.expect("resume");
    assert_eq!(questions(&last), ["a2"]);
    let done = runs.resume(&me(), last.key("a2").expect("a2"), 3).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["a13", "b: 2"]);
}

/// 29: a branch that changes nothing has ended too, and is not run again.
async fn c29_a_branch_that_changes_nothing_is_over(store: Arc<dyn Store>) {
    let begun = Count::default();
    let counted = begun.clone();
    let graph = graph_of(|graph| {
        let nothing = graph.node("nothing", move |_| {
            counted.up();
            async { Ok(WorkUpdate::new()) }
        });
        let ask = graph.node("ask", asks("ask"));
        alone(graph, &[nothing, ask]);
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    process(&store, &graph).1.resume(&me(), "s_1", 0).await.expect("resume").done().expect("done");
    assert_eq!(begun.get(), 1);
}

/// 32: of two runs of an inner graph, only the one that is open is shown.
async fn c32_of_two_inner_graphs_only_the_open_one_is_shown(store: Arc<dyn Store>) {
    let inner = one(asks("ask"));
    let outer = graph_of(|graph| {
        let subs = ["x", "y"].map(|name| graph.subgraph(name, &inner, Work::clone, move |_| said(name)));
        alone(graph, &subs);
    });
    let (_, runs) = process(&store, &outer);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let x = paused.pending().iter().find(|waiting| &*waiting.node == "x/node").expect("x").key.clone();
    let half = runs.resume(&me(), &x, 1).await.expect("resume");
    assert_eq!(half.pending().iter().map(|waiting| &*waiting.node).collect::<Vec<_>>(), ["y/node"]);
    assert_eq!(process(&store, &outer).1.outcome(&me(), "s").await.expect("outcome"), half);
}

/// 33: one of several answers sent together is wrong: none counts, nothing is stored, and all can be sent again.
async fn c33_one_wrong_answer_of_two_refuses_both(store: Arc<dyn Store>) {
    let effects = Count::default();
    let graph = graph_of(|graph| {
        let nodes = ["a", "b"].map(|name| {
            let effects = effects.clone();
            graph.node(name, move |ctx: Context<Work>| {
                let effects = effects.clone();
                async move {
                    let n: u8 = ctx.interrupt(name, ()).typed().await;
                    effects.up();
                    Ok(said(format!("{name}{n}")))
                }
            })
        });
        alone(graph, &nodes);
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let before = journal(&store, "s").await.len();
    assert_eq!(code(runs.resume_all(&me(), [("s_1", json!(1)), ("s_2", json!("two"))]).await), "invalid_resume");
    assert_eq!((journal(&store, "s").await.len(), effects.get()), (before, 0));
    let done = runs.resume_all(&me(), [("s_1", 1), ("s_2", 2)]).await.expect("resume").done().expect("done");
    assert_eq!((done.log.len(), effects.get()), (2, 2));
}

/// 34: a slow branch is not stopped because another asks, and not run again when that is answered.
async fn c34_a_slow_branch_is_not_stopped_by_a_question(store: Arc<dyn Store>) {
    let (begun, over) = (Count::default(), Count::default());
    let (b, o) = (begun.clone(), over.clone());
    let graph = graph_of(|graph| {
        let slow = graph.node("slow", move |_| {
            let over = o.clone();
            b.up();
            async move {
                tokio::time::sleep(Duration::from_millis(60)).await;
                over.up();
                Ok(said("slow"))
            }
        });
        let ask = graph.node("ask", asks("ask"));
        alone(graph, &[ask, slow]);
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!((paused.pending().len(), over.get()), (1, 1));
    let done = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["ask: 1".to_owned(), "slow".to_owned()], 1));
}

/// 35: a cancel in the middle of a round leaves the state as the round found it: a round is applied as a whole, or not at all.
async fn c35_a_cancel_leaves_the_state_that_the_round_began_with(store: Arc<dyn Store>) {
    let beside = Count::default();
    let graph = graph_of(|graph| {
        let (ask, beside) = (graph.node("ask", asks("ask")), graph.node("beside", says("beside", &beside)));
        let first = graph.node("first", |_| async { Ok(said("first")) });
        graph.start(first);
        for node in [ask, beside] {
            graph.edge(first, node);
            graph.edge(node, Node::END);
        }
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runtime.cancel(&me(), "s", None).await.expect("cancel");
    let (_, runs) = process(&store, &graph);
    assert_eq!(runs.state(&me(), "s").await.expect("state").log, ["first"]);
    // Its result is recorded all the same.
    assert_eq!(count(&store, "s", |record| matches!(record, Record::TasksDone(_))).await, 2);
}

/// 36: after a pause in a fan-out only pending branches run; ended ones, and their routes, are not evaluated again.
async fn c36_after_a_pause_only_what_waited_is_run(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let graph = || {
        graph_of(|graph| {
            let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new().items([0, 1, 2, 3])) });
            let written = diary.clone();
            let each = graph.map_node("each", move |ctx: Context<Work>, item: u32| {
                written.write(format!("each {item}"));
                async move {
                    if item == 2 {
                        ctx.interrupt("ok?", item).await;
                    }
                    Ok(said(item.to_string()))
                }
            });
            let written = diary.clone();
            let after = graph.node("after", move |_| {
                written.write("after");
                async { Ok(said("after")) }
            });
            graph.start(begin);
            graph.fan_out(begin, each, |work| work.items.clone());
            graph.edge(each, after);
            graph.edge(after, Node::END);
        })
    };
    let _ = process(&store, &graph()).1.run(&me(), "s", &Work::default()).await.expect("run");
    diary.clear();
    let done = process(&store, &graph()).1.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["0", "1", "2", "3", "after"]);
    assert_eq!(diary.read(), ["each 2", "after"]);
}

/// 37: a branch that succeeded beside a failure is not run again, however often the run is retried.
async fn c37_what_succeeded_beside_a_failure_is_not_run_again(store: Arc<dyn Store>) {
    let (fine, bad) = (Count::default(), Count::default());
    let counted = bad.clone();
    let graph = graph_of(|graph| {
        let fine = graph.node("fine", says("fine", &fine));
        let bad = graph.node("bad", move |_| {
            let n = counted.up();
            async move { if n < 3 { Err(NodeError::new("not yet")) } else { Ok(said("bad")) } }
        });
        alone(graph, &[fine, bad]);
    });
    let first = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(failure(&first), "node_failed");
    let second = process(&store, &graph).1.retry(&me(), "s").await.expect("retry");
    assert_eq!(failure(&second), "node_failed");
    let done = process(&store, &graph).1.retry(&me(), "s").await.expect("retry").done().expect("done");
    assert_eq!((done.log, fine.get(), bad.get()), (vec!["fine".to_owned(), "bad".to_owned()], 1, 3));
}

/// 38: no handling of errors in or around a node swallows a question: there is no error to swallow.
async fn c38_no_handling_of_errors_swallows_a_question(store: Arc<dyn Store>) {
    async fn ask(ctx: &Context<Work>) -> Result<String, NodeError> {
        Ok(ctx.interrupt("go on?", ()).await.to_string())
    }
    let graph = graph_of(|graph| {
        let options =
            NodeOptions::new().retry(Retry::new(3).initial_delay(Duration::ZERO)).time_limit(Duration::from_secs(60));
        let node = graph.node_with("node", options, |ctx: Context<Work>| async move {
            let answer = ask(&ctx).await.unwrap_or_else(|_| "swallowed".to_owned());
            Ok(said(answer))
        });
        let beside = graph.node("beside", |_| async { Err(NodeError::new("fails")) });
        alone(graph, &[node, beside]);
    });
    let (_, runs) = process(&store, &graph);
    let paused = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(questions(&paused), ["go on?"]);
    let outcome = runs.resume(&me(), "s_1", "yes").await.expect("resume");
    assert!(matches!(&outcome, Outcome::Failed { message, .. } if message == "fails"), "{outcome:?}");
}

/// 39: each call is a separate task: a pending one does not hide the result of another.
#[tokio::test]
async fn c39_a_call_that_waits_does_not_hide_the_results_of_others() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ledger = Ledger::default();
    let script = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}},{"name":"look","args":{"n":2}}]},{"text":"done"}]}"#;
    let model = countersign::model::scripted::Scripted::from_json(script).expect("script");
    let agent = countersign::Agent::new("a", ("m", Arc::new(model)))
        .tool(entry("trade", Approval::always(), &ledger))
        .tool(entry("look", Approval::never(), &ledger));
    let runtime = countersign::run::Runtime::builder(store).agent(agent).build().expect("runtime");
    let paused = crate::support::send(&runtime, "s", "go").await.expect("paused");
    assert_eq!(paused.pending, ["s_1"]);
    let history = serde_json::to_string(&runtime.whole_history(&me(), "s").await.expect("history")).expect("JSON");
    assert!(history.contains("ran look") && !history.contains("ran trade"), "{history}");
}

conformance!(
    c22_every_answer_names_its_question,
    c23_one_request_answers_all_and_results_keep_their_order,
    c24_answered_one_by_one_each_branch_runs_once,
    c25_two_questions_in_each_of_two_inner_graphs_are_four,
    c26_only_what_waits_is_shown_and_nothing_begins_again,
    c27_a_branch_at_its_second_question_still_waits,
    c29_a_branch_that_changes_nothing_is_over,
    c32_of_two_inner_graphs_only_the_open_one_is_shown,
    c33_one_wrong_answer_of_two_refuses_both,
    c34_a_slow_branch_is_not_stopped_by_a_question,
    c35_a_cancel_leaves_the_state_that_the_round_began_with,
    c36_after_a_pause_only_what_waited_is_run,
    c37_what_succeeded_beside_a_failure_is_not_run_again,
    c38_no_handling_of_errors_swallows_a_question,
);
