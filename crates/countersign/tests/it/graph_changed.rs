//! Runs whose program has changed since they paused, and the joins of nodes (spec G1, G3).

use std::{sync::Arc, time::Duration};

use countersign::{
    graph::{Context, Graph, Node, NodeError, NodeOptions, Outcome, Renamed, Retry, StateGraph},
    store::Store,
};

use crate::{
    graph_support::{Again, Count, Work, WorkUpdate, in_line, me, process, said},
    store_support::conformance,
};

fn failed(outcome: &Outcome<Work>, wanted: &str, what: &str) {
    let Outcome::Failed { code, message, .. } = outcome else { panic!("{outcome:?}") };
    assert!(code == wanted && message.contains(what), "{code}: {message}");
}

/// A node that asks two questions, the first one renamed since it was `a?`.
fn asks(first: &'static str, second: Option<&'static str>) -> Graph<Work> {
    in_line("asks", |graph| {
        let node = graph.node("node", move |ctx: Context<Work>| async move {
            let mut said: String = ctx.interrupt(first, ()).typed().await;
            if let Some(second) = second {
                let more: String = ctx.interrupt(second, ()).typed().await;
                said = format!("{said} {more}");
            }
            Ok(WorkUpdate::new().log([said]))
        });
        graph.start(node);
        graph.edge(node, Node::END);
        graph.migrate(|gone| (gone.question == Some("a?")).then(|| Renamed::question("b?")));
    })
}

/// The old name of a renamed question is on record; a new one of that name would get its answer in the next process.
async fn g3_a_question_with_the_recorded_name_of_a_renamed_one_is_refused(store: Arc<dyn Store>) {
    let _ = process(&store, &asks("a?", None)).1.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = process(&store, &asks("b?", Some("a?"))).1.resume(&me(), "s_1", "A").await.expect("resume");
    failed(&outcome, "node_failed", "\"a?\" of the node \"node\": on record it is the name of \"b?\"");
    let runs = process(&store, &asks("b?", Some("c?"))).1;
    let asked = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(asked.key("c?"), Some("s_2"), "{asked:?}");
    let done = runs.resume(&me(), "s_2", "C").await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["A C"]);
}

/// `a` is done and has a successor while `b` waits; in a later round than `a`, if it comes after another.
fn waits(name: &str, joins: bool, migrates: bool) -> Graph<Work> {
    in_line("waits", |graph| {
        let a = graph.node(name, |_| async { Ok(said("a")) });
        let first = graph.node("first", |_| async { Ok(WorkUpdate::new()) });
        let b = graph.node("b", |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("go on?", ()).typed().await;
            Ok(said("b"))
        });
        let c = graph.node("c", |_| async { Ok(said("c")) });
        graph.start(a);
        if joins {
            graph.start(first);
            graph.edge(first, b);
            graph.join([a, b], c);
        } else {
            graph.start(b);
            graph.edge(b, first);
            graph.edge(first, Node::END);
            graph.edge(a, c);
        }
        graph.edge(c, Node::END);
        if migrates {
            let name: Arc<str> = name.into();
            graph.migrate(move |gone| (gone.node == "a").then(|| Renamed::node(name.clone())));
        }
    })
}

/// A node that is done counts under its new name; without one the run says so, and continues nothing without it.
async fn g1_a_node_that_was_done_when_its_name_changed_has_successors_all_the_same(store: Arc<dyn Store>) {
    for (session, joins) in [("edge", false), ("join", true)] {
        let _ = process(&store, &waits("a", joins, false)).1.run(&me(), session, &Work::default()).await.expect("run");
        let runs = process(&store, &waits("a2", joins, false)).1;
        let gone = runs.resume(&me(), &format!("{session}_1"), true).await.expect("resume");
        failed(&gone, "node_gone", "\"a\"");
        let runs = process(&store, &waits("a2", joins, true)).1;
        let done = runs.retry(&me(), session).await.expect("retry").done().expect("done");
        assert_eq!(done.log, ["a", "b", "c"], "{session}");
    }
}

/// Each of several joins into one node counts its own sources.
async fn g1_several_joins_lead_to_one_node(store: Arc<dyn Store>) {
    type Build<'b> = &'b dyn Fn(&mut StateGraph<Work>, [Node<Work>; 4], Node<Work>);
    let build = |build: Build<'_>| {
        in_line("joins", |graph| {
            let nodes = ["a", "b", "c", "d"].map(|name| graph.node(name, |_| async { Ok(WorkUpdate::new()) }));
            let target = graph.node("t", |_| async { Ok(said("t")) });
            build(graph, nodes, target);
            graph.edge(target, Node::END);
        })
    };
    // The second is complete a round after the first.
    let apart = build(&|graph, [a, b, c, d], target| {
        let late = graph.node("late", |_| async { Ok(WorkUpdate::new()) });
        [a, b, c, late].into_iter().for_each(|node| graph.start(node));
        graph.edge(late, d);
        graph.join([a, b], target);
        graph.join([c, d], target);
    });
    // Two alternatives, of which one comes.
    let either = build(&|graph, [a, b, c, d], target| {
        [a, d].into_iter().for_each(|node| graph.start(node));
        let way = |way| match way {
            Again::Again => b,
            Again::Enough => c,
        };
        graph.route(d, |_| Again::Enough, way);
        graph.join([a, b], target);
        graph.join([a, c], target);
    });
    // Both at once: the node runs once in a round.
    let both = build(&|graph, [a, b, c, d], target| {
        [a, b, c].into_iter().for_each(|node| graph.start(node));
        graph.edge(a, d);
        graph.edge(d, Node::END);
        graph.join([a, b], target);
        graph.join([a, c], target);
    });
    for (session, graph, times) in [("apart", apart, 2), ("either", either, 1), ("both", both, 1)] {
        let outcome = process(&store, &graph).1.run(&me(), session, &Work::default()).await.expect("run");
        let Outcome::Done(work) = outcome else { panic!("{session}: {outcome:?}") };
        assert_eq!(work.log, vec!["t"; times], "{session}");
    }
}

/// A node that is named as a start twice runs once, as one that two edges lead to.
async fn g1_a_start_that_is_named_twice_runs_once(store: Arc<dyn Store>) {
    let graph = in_line("twice", |graph| {
        let a = graph.node("a", |_| async { Ok(said("a")) });
        graph.start(a);
        graph.start(a);
        graph.edge(a, Node::END);
    });
    let done = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run").done();
    assert_eq!(done.expect("done").log, ["a"]);
}

#[test]
fn g1_a_join_leads_from_different_nodes_to_another_one() {
    for own in [false, true] {
        let mut graph = StateGraph::<Work>::new("wrong");
        let a = graph.node("a", |_| async { Ok(WorkUpdate::new()) });
        let t = graph.node("t", |_| async { Ok(WorkUpdate::new()) });
        graph.start(a);
        graph.edge(a, t);
        graph.edge(t, Node::END);
        graph.join([a, if own { t } else { a }], t);
        let refused = graph.compile().map(drop).expect_err("refused").to_string();
        assert!(refused.contains("from at least two different nodes to another one"), "{refused}");
    }
}

/// The program's code that maps names may panic: the run fails for the name, and nothing hangs.
async fn g1_a_migration_that_panics_maps_nothing(store: Arc<dyn Store>) {
    let alone = |name: &str| {
        in_line("alone", |graph| {
            let ask = graph.node(name, |ctx: Context<Work>| async move {
                Ok(said(ctx.interrupt("word?", ()).typed::<String>().await))
            });
            graph.start(ask);
            graph.edge(ask, Node::END);
            graph.migrate(|_| panic!("on purpose"));
        })
    };
    let _ = process(&store, &alone("ask")).1.run(&me(), "s", &Work::default()).await.expect("run");
    let runs = process(&store, &alone("asks")).1;
    let gone = tokio::time::timeout(Duration::from_secs(60), runs.resume(&me(), "s_1", "yes")).await;
    failed(&gone.expect("it hangs").expect("resume"), "node_gone", "\"ask\"");
    let done = process(&store, &alone("ask")).1.retry(&me(), "s").await.expect("retry").done();
    assert_eq!(done.expect("done").log, ["yes"]);
}

/// It panics when it is dropped.
struct Falls;

impl Drop for Falls {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "on purpose");
    }
}

/// What a node holds may panic when the node is dropped: after it has failed, before it is tried again, while it waits.
/// The run says why it failed, and nothing hangs.
async fn g1_a_node_that_panics_while_it_is_dropped_hangs_nothing(store: Arc<dyn Store>) {
    let drops = Count::default();
    let counted = drops.clone();
    let options = NodeOptions::new()
        .time_limit(Duration::from_millis(50))
        .retry(Retry::new(2).initial_delay(Duration::from_millis(1)));
    let graph = in_line("falls", |graph| {
        let node = graph.node_with("node", options, move |ctx: Context<Work>| {
            counted.up();
            async move {
                let held = Falls;
                match &*ctx.state().last {
                    "name" => drop(ctx.step("no#name", async { Ok::<_, NodeError>(()) }).await),
                    "time" => std::future::pending().await,
                    _ => drop(ctx.interrupt("word?", ()).await),
                }
                std::mem::forget(held);
                Ok(said("done"))
            }
        });
        graph.start(node);
        graph.edge(node, Node::END);
    });
    for (last, wanted) in [("name", "no#name"), ("time", "ran for longer than")] {
        let (_, runs) = process(&store, &graph);
        let state = Work { last: last.to_owned(), ..Work::default() };
        let outcome = tokio::time::timeout(Duration::from_secs(60), runs.run(&me(), last, &state)).await;
        failed(&outcome.expect("it hangs").expect("run"), "node_failed", wanted);
    }
    assert_eq!(drops.get(), 3, "it was tried again after the time limit");
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "waits", &Work::default()).await.expect("run");
    runtime.cancel(&me(), "waits", None).await.expect("cancel");
    let _ = runs.run(&me(), "waits", &Work::default()).await.expect("it runs again");
    drop((runtime, runs));
    let paused = graph.run(Work::default()).await.expect("run");
    assert!(paused.is_paused());
    drop(paused);
}

conformance!(
    g3_a_question_with_the_recorded_name_of_a_renamed_one_is_refused,
    g1_a_node_that_was_done_when_its_name_changed_has_successors_all_the_same,
    g1_several_joins_lead_to_one_node,
    g1_a_start_that_is_named_twice_runs_once,
    g1_a_migration_that_panics_maps_nothing,
    g1_a_node_that_panics_while_it_is_dropped_hangs_nothing,
);
