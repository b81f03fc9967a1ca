//! Edge cases of graphs: nodes begun twice, runs that fail and are retried, values that are refused (spec G1, G3, G6).

use std::{fmt::Debug, sync::Arc, time::Duration};

use countersign::{
    Raw, Status,
    graph::{Context, Node, NodeError, Outcome, StateGraph},
    run::{Code, Runtime},
    store::Store,
};
use countersign_runtime::run::{CheckpointQuery, NewRun};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    graph_support::{Count, Work, WorkUpdate, in_line, me, process, said},
    store_support::conformance,
    support::send,
};

#[derive(Clone, Copy, countersign::graph::Route)]
enum More {
    More,
    Enough,
}

/// After an edit of the state, and with recorded states, another process begins each node once.
async fn g6_an_edit_and_a_long_run_begin_nothing_twice(store: Arc<dyn Store>) {
    let (grown, ended) = (Count::default(), Count::default());
    let graph = || {
        let (grown, ended) = (grown.clone(), ended.clone());
        in_line("long", |graph| {
            let ask = graph.node("ask", |ctx: Context<Work>| async move {
                let _: bool = ctx.interrupt("begin?", ()).typed().await;
                Ok(WorkUpdate::new())
            });
            let grow = graph.node("grow", move |_| {
                grown.up();
                async { Ok(said("x".repeat(20_000))) }
            });
            let end = graph.node("end", move |ctx: Context<Work>| {
                ended.up();
                async move {
                    ctx.step("wait", async {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        Ok::<_, NodeError>(())
                    })
                    .await?;
                    let _: bool = ctx.interrupt("end?", ()).typed().await;
                    Ok(WorkUpdate::new())
                }
            });
            graph.start(ask);
            graph.edge(ask, grow);
            graph.route(
                grow,
                |work| if work.log.len() < 8 { More::More } else { More::Enough },
                |way| match way {
                    More::More => grow,
                    More::Enough => end,
                },
            );
            graph.edge(end, Node::END);
        })
    };
    let first = graph();
    let (_, runs) = process(&store, &first);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let edited = runs.edit(&me(), "s", &WorkUpdate::new().sum(7)).await.expect("edit");
    let key = edited.key("begin?").expect("asked anew").to_owned();
    let paused = runs.resume(&me(), &key, true).await.expect("resume");
    let key = paused.key("end?").expect("asked").to_owned();
    let second = graph();
    let (_, runs) = process(&store, &second);
    let done = runs.resume(&me(), &key, true).await.expect("resume").done().expect("done");
    assert_eq!((done.sum, done.log.len()), (7, 8));
    assert_eq!((grown.get(), ended.get()), (8, 2), "the last node is begun once in each process");
}

/// A read at a checkpoint gives the past state, also while the current run is in memory.
async fn g6_the_state_at_a_checkpoint_is_what_it_was_then(store: Arc<dyn Store>) {
    let graph = in_line("count", |graph| {
        let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
        let ask = graph.node("ask", |ctx: Context<Work>| async move {
            let _: bool = ctx.interrupt("more?", ()).typed().await;
            Ok(WorkUpdate::new().sum(10))
        });
        graph.start(one);
        graph.edge(one, ask);
        graph.edge(ask, one);
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for n in 1..=2 {
        let _ = runs.resume(&me(), &format!("s_{n}"), true).await.expect("resume");
    }
    assert_eq!(runs.state(&me(), "s").await.expect("state").sum, 23);
    let edited = runs.edit(&me(), "s", &WorkUpdate::new().sum(0)).await.expect("edit");
    assert_eq!(edited.pending().len(), 1);
    let page =
        runtime.checkpoints(&me(), "s", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() }).await;
    let mut seen = Vec::new();
    for at in page.expect("checkpoints").rows.iter().rev().filter(|at| at.after != "created") {
        assert!(at.status != Status::AwaitingInput || !at.pending.is_empty(), "half of a change: {at:?}");
        let typed = runs.state_at(&me(), "s", at.checkpoint).await.expect("state at");
        let plain = runtime.state_at(&me(), "s", at.checkpoint).await.expect("state at").values.expect("values");
        assert_eq!(serde_json::from_str::<Work>(plain.get()).expect("state"), typed);
        seen.push(typed.sum);
    }
    seen.dedup();
    assert_eq!(seen, [0, 1, 11, 12, 22, 23]);
}

/// A branch that fails by the graph's rules leaves a running branch alone: that is not begun a second time, and nobody
/// is asked about its step.
async fn g1_a_branch_that_fails_leaves_what_runs_alone(store: Arc<dyn Store>) {
    let (begun, paid) = (Count::default(), Count::default());
    let inner = in_line("inner", |graph| {
        let round = graph.node("round", |_| async { Ok(WorkUpdate::new().sum(1)) });
        graph.start(round);
        graph.edge(round, round);
        graph.max_rounds(3);
    });
    let (b, p) = (begun.clone(), paid.clone());
    let graph = in_line("outer", |graph| {
        let sub = graph.subgraph("sub", &inner, |_| Work::default(), |_| WorkUpdate::new());
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            b.up();
            let paid = p.clone();
            async move {
                ctx.step("pay", async move {
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    Ok::<_, NodeError>(paid.up())
                })
                .await?;
                Ok(said("paid"))
            }
        });
        graph.start(sub);
        graph.start(pay);
        graph.edge(sub, Node::END);
        graph.edge(pay, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert!(matches!(&outcome, Outcome::Failed { code, .. } if code == "round_limit"), "{outcome:?}");
    assert_eq!((begun.get(), paid.get()), (1, 1));
}

/// Code of the user's that panics outside of a node's future fails the run by name; it can be retried.
async fn g1_a_route_or_a_list_that_panics_fails_by_name(store: Arc<dyn Store>) {
    for what in ["route", "items", "node", "enter", "leave"] {
        let fixed = Count::default();
        let broken = fixed.clone();
        let fails = move |here: &str| {
            assert!(here != what || broken.get() > 0, "on purpose");
        };
        let inner = in_line("inner", |graph| {
            let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
            graph.start(one);
            graph.edge(one, Node::END);
        });
        let (a, b, c, d, e) = (fails.clone(), fails.clone(), fails.clone(), fails.clone(), fails);
        let graph = in_line(what, |graph| {
            let first = graph.node("first", move |_| {
                a("node");
                async { Ok(WorkUpdate::new().items([1, 2])) }
            });
            let each = graph.map_node("each", |_: Context<Work>, item: u32| async move {
                Ok(WorkUpdate::new().sum(i64::from(item)))
            });
            let sub = graph.subgraph(
                "sub",
                &inner,
                move |_| {
                    e("enter");
                    Work::default()
                },
                move |work: Work| {
                    d("leave");
                    WorkUpdate::new().sum(work.sum)
                },
            );
            graph.start(first);
            graph.fan_out(first, each, move |work| {
                b("items");
                work.items.clone()
            });
            graph.route(
                each,
                move |_| {
                    c("route");
                    More::Enough
                },
                |way| match way {
                    More::More | More::Enough => sub,
                },
            );
            graph.edge(sub, Node::END);
        });
        let (_, runs) = process(&store, &graph);
        let outcome = runs.run(&me(), what, &Work::default()).await.expect("run");
        assert!(
            matches!(&outcome, Outcome::Failed { message, .. } if message.contains("panicked")),
            "{what}: {outcome:?}"
        );
        fixed.up();
        let done = runs.retry(&me(), what).await.expect("retry").done();
        assert_eq!(done.expect(what).sum, 4, "{what}");
    }
}

/// What fails after an inner graph has ended repeats none of it when it is retried: neither its nodes nor their steps.
async fn g1_a_graph_that_has_ended_is_not_run_again_for_what_fails_after_it(store: Arc<dyn Store>) {
    for (what, cold) in [("route", false), ("route", true), ("leave", false), ("beside", false)] {
        let (first, paid, fixed) = (Count::default(), Count::default(), Count::default());
        let graph = || {
            let (begun, pays) = (first.clone(), paid.clone());
            let inner = in_line("inner", |graph| {
                let first = graph.node("first", move |_| {
                    begun.up();
                    async { Ok(WorkUpdate::new().sum(1)) }
                });
                let pay = graph.node("pay", move |ctx: Context<Work>| {
                    let pays = pays.clone();
                    async move {
                        ctx.step("pay", async move { Ok::<_, NodeError>(pays.up()) }).await?;
                        Ok(WorkUpdate::new().sum(10))
                    }
                });
                graph.start(first);
                graph.edge(first, pay);
                graph.edge(pay, Node::END);
            });
            let broken = fixed.clone();
            let leaves = move |work: Work| {
                assert!(what != "leave" || broken.get() > 0, "on purpose");
                WorkUpdate::new().sum(work.sum)
            };
            let middle = in_line("middle", |graph| {
                let sub = graph.subgraph("sub", &inner, |_| Work::default(), leaves);
                graph.start(sub);
                graph.edge(sub, Node::END);
            });
            let (broken, sets) = (fixed.clone(), fixed.clone());
            in_line("outer", |graph| {
                let sub = graph.subgraph(
                    "sub",
                    &middle,
                    |_| Work::default(),
                    |work: Work| WorkUpdate::new().sum(work.sum).last("sub"),
                );
                let beside = graph.node("beside", move |_| {
                    let sets = what == "beside" && sets.get() == 0;
                    async move { Ok(if sets { WorkUpdate::new().last("beside") } else { WorkUpdate::new() }) }
                });
                let end = graph.node("end", |_| async { Ok(said("end")) });
                graph.start(sub);
                graph.start(beside);
                graph.route(
                    sub,
                    move |_| {
                        assert!(what != "route" || broken.get() > 0, "on purpose");
                        More::Enough
                    },
                    |_| end,
                );
                graph.edge(beside, Node::END);
                graph.edge(end, Node::END);
            })
        };
        let session = format!("{what}-{cold}");
        let (runtime, runs) = process(&store, &graph());
        let outcome = runs.run(&me(), &session, &Work::default()).await.expect("run");
        assert!(matches!(&outcome, Outcome::Failed { .. }), "{what}: {outcome:?}");
        let mut process_now = (runtime, runs);
        if cold {
            drop(process_now);
            process_now = process(&store, &graph());
        }
        let (runtime, runs) = process_now;
        fixed.up();
        if what == "beside" {
            // Its update is on record, so the round can only fail again.
            let outcome = runs.retry(&me(), &session).await.expect("retry");
            assert!(matches!(&outcome, Outcome::Failed { .. }), "{what}: {outcome:?}");
        } else {
            let done = runs.retry(&me(), &session).await.expect("retry").done().expect("done");
            assert_eq!((done.sum, done.log.len()), (11, 1), "{what}");
        }
        assert_eq!((first.get(), paid.get()), (1, 1), "{what}");
        let state = runtime.state(&me(), &session).await.expect("state");
        assert!(state.values.is_some());
    }
}

/// Two branches are pending; one cannot continue for a while. When the run is retried, both continue.
async fn g1_a_run_that_was_given_up_while_others_waited_is_taken_up_whole(store: Arc<dyn Store>) {
    let graph = |node: &'static str| {
        in_line("two", |graph| {
            for name in ["a", node] {
                let ask = graph.node(name, |ctx: Context<Work>| async move {
                    let word: String = ctx.interrupt("word", ()).typed().await;
                    Ok(said(word))
                });
                graph.start(ask);
                graph.edge(ask, Node::END);
            }
        })
    };
    let (_, runs) = process(&store, &graph("b"));
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let key = |outcome: &Outcome<Work>, node: &str| {
        outcome.pending().iter().find(|waiting| &*waiting.node == node).map(|waiting| waiting.key.clone())
    };
    let (a, b) = (key(&outcome, "a").expect("a"), key(&outcome, "b").expect("b"));
    let (_, runs) = process(&store, &graph("c"));
    let _ = runs.resume(&me(), &a, "A").await.expect("resume");
    let failed = runs.resume(&me(), &b, "B").await.expect("resume");
    assert!(matches!(&failed, Outcome::Failed { code, .. } if code == "node_gone"), "{failed:?}");
    let (_, runs) = process(&store, &graph("b"));
    let done = runs.retry(&me(), "s").await.expect("retry").done().expect("done");
    assert_eq!(done.log, ["A", "B"], "the answer was kept");
}

/// A handle on the runs of a graph changes no session of another one, and no agent's.
async fn g1_an_edit_goes_to_sessions_of_its_graph_only(store: Arc<dyn Store>) {
    let graph = |name: &str| {
        in_line(name, |graph| {
            let ask = graph.node("ask", |ctx: Context<Work>| async move {
                Ok(said(ctx.interrupt("go on?", ()).await.to_string()))
            });
            graph.start(ask);
            graph.edge(ask, Node::END);
        })
    };
    let (one, other) = (graph("one"), graph("other"));
    let runtime = Runtime::builder(store).graph(&one).graph(&other).build().expect("runtime");
    let (one, other) = (runtime.runs(&one).expect("runs"), runtime.runs(&other).expect("runs"));
    let _ = one.run(&me(), "s", &Work::default()).await.expect("run");
    let refused = other.edit(&me(), "s", &WorkUpdate::new().sum(1)).await.expect_err("another graph's");
    assert_eq!(refused.code, Code::InvalidMessage);
    assert!(refused.message.contains("is not one of the graph"), "{refused}");
    assert_eq!(one.state(&me(), "s").await.expect("state").sum, 0);
    assert!(one.edit(&me(), "s", &WorkUpdate::new().sum(1)).await.is_ok());
}

/// A state or an update that comes as JSON has names: an array of values in the order of a type's fields is refused.
async fn g6_states_and_updates_from_outside_are_objects(store: Arc<dyn Store>) {
    let graph = in_line("ask", |graph| {
        let ask = graph
            .node("ask", |ctx: Context<Work>| async move { Ok(said(ctx.interrupt("go on?", ()).await.to_string())) });
        graph.start(ask);
        graph.edge(ask, Node::END);
    });
    let runtime = Runtime::builder(store).graph(&graph).build().expect("runtime");
    let raw = |json: serde_json::Value| Raw::of(&json).expect("JSON");
    let run = |state| NewRun { session_id: Some("s".into()), state: raw(state), request_id: None };
    let names = "it must be a JSON object of the state's fields by their names";
    let fields = json!(["last", ["said"], 7, []]);
    assert!(serde_json::from_value::<Work>(fields.clone()).is_ok(), "the type itself reads it");
    for wrong in [fields.clone(), json!([]), json!("{}"), json!(null)] {
        let refused = runtime.start_run(&me(), "ask", run(wrong)).await.expect_err("no object");
        assert_eq!((refused.code, refused.message), (Code::InvalidMessage, format!("state: {names}")));
    }
    let state = json!({ "last": "last", "log": [], "sum": 7, "items": [] });
    runtime.start_run(&me(), "ask", run(state.clone())).await.expect("an object");
    let runs = runtime.runs(&graph).expect("runs");
    let asked = runs.outcome(&me(), "s").await.expect("outcome");
    for wrong in [fields, json!([]), json!("{}"), json!(null)] {
        let refused = runtime.edit_run(&me(), "s", raw(wrong), None).await.expect_err("no object");
        assert_eq!((refused.code, refused.message), (Code::InvalidMessage, format!("update: {names}")));
    }
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), asked, "nothing has changed");
    runtime.edit_run(&me(), "s", raw(json!({ "sum": { "add": 1 } })), None).await.expect("an object");
    assert_eq!(runs.state(&me(), "s").await.expect("state").sum, 8);
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, countersign::graph::GraphState)]
struct Measured {
    value: f64,
    #[graph(append)]
    all: Vec<f64>,
}

/// JSON would have `null` for it, which no number reads: the run could not be read again.
async fn g1_a_number_that_json_does_not_have_is_refused_before_anything_is_stored(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Measured>::new("measure");
    let ask = graph.node("ask", |ctx: Context<Measured>| async move {
        let where_to: String = ctx.interrupt("where?", ()).typed().await;
        let measured = if where_to == "update" { f64::NAN } else { 1.0 };
        if where_to == "step" {
            let step = ctx.step("measure", async { Ok::<_, NodeError>(f64::NEG_INFINITY) }).idempotent();
            step.await?;
        }
        let item = if where_to == "item" { f64::INFINITY } else { 2.0 };
        Ok(MeasuredUpdate::new().value(measured).all([item]))
    });
    let each = graph.map_node("each", |_, item: f64| async move { Ok(MeasuredUpdate::new().all([item])) });
    graph.start(ask);
    graph.fan_out(ask, each, |measured| [if measured.all.contains(&2.0) { f64::INFINITY } else { 0.0 }]);
    graph.edge(each, Node::END);
    let graph = graph.compile().expect("graph");
    let runtime = Runtime::builder(store.clone()).graph(&graph).build().expect("runtime");
    let runs = runtime.runs(&graph).expect("runs");
    let wrong = "is not a JSON number";
    let none = Measured { value: f64::NAN, all: Vec::new() };
    let refused = runs.run(&me(), "s", &none).await.expect_err("no JSON");
    assert!(refused.code == Code::InvalidMessage && refused.message.contains("/value: NaN is"), "{refused}");
    assert_eq!(runtime.session(&me(), "s").await.expect_err("not stored").code, Code::SessionNotFound);
    for (place, what) in [("update", "/value: NaN"), ("step", "-inf"), ("item", "inf"), ("fan_out", "inf")] {
        let asked = runs.run(&me(), place, &Measured::default()).await.expect("run");
        let refused = runs.resume(&me(), &asked.pending()[0].key, f64::NAN).await.expect_err("no JSON");
        assert!(refused.code == Code::InvalidMessage && refused.message.contains(wrong), "{refused}");
        let failed = runs.resume(&me(), &asked.pending()[0].key, place).await.expect("resume");
        let Outcome::Failed { code, message, .. } = failed else { panic!("{place}: {failed:?}") };
        assert_eq!(code, "node_failed", "{message}");
        assert!(message.contains(what) && message.contains(wrong), "{place}: {message}");
        assert!(runs.state(&me(), place).await.expect("it can be read").all.len() < 2);
        // Another program, which has nothing of it in memory.
        let cold = Runtime::builder(store.clone()).graph(&graph).build().expect("runtime");
        let read = cold.runs(&graph).expect("runs").state(&me(), place).await;
        assert!(read.expect("it can be read").value.is_finite());
    }
}

/// A state as it was sent tells a repeat from another request; a program's own state may be serialised differently each time.
async fn w1_a_start_under_the_request_id_of_another_state_is_refused(store: Arc<dyn Store>) {
    let graph = in_line("once", |graph| {
        let one = graph.node("one", |_| async { Ok(said("one")) });
        graph.start(one);
        graph.edge(one, Node::END);
    });
    let (runtime, runs) = process(&store, &graph);
    let start = |sum: i64, request_id: &str| {
        let state = json!({ "last": "", "log": [], "sum": sum, "items": [] });
        let (state, request_id) = (Raw::of(&state).expect("JSON"), Some(request_id.to_owned()));
        let new = NewRun { session_id: Some("s".into()), state, request_id };
        let runtime = &runtime;
        async move { runtime.start_run(&me(), "once", new).await }
    };
    assert!(start(1, "r").await.expect("start").made);
    runtime.wait(&me(), "s").await.expect("wait");
    assert!(!start(1, "r").await.expect("again").made);
    let refused = start(2, "r").await.expect_err("another state");
    assert_eq!(refused.code, Code::RequestIdReused);
    assert!(refused.message.contains("with other content"), "{refused}");
    assert!(start(2, "r2").await.expect("start").made);
    runtime.wait(&me(), "s").await.expect("wait");
    let typed = |sum: i64| Work { sum, ..Work::default() };
    runs.start(&me(), Some("t".into()), &typed(1), Some("r".into())).await.expect("start");
    runtime.wait(&me(), "t").await.expect("wait");
    runs.start(&me(), Some("t".into()), &typed(2), Some("r".into())).await.expect("nothing is started");
    assert_eq!(runs.state(&me(), "t").await.expect("state").sum, 1);
}

/// Without agents, a message is refused, and makes no session.
async fn g1_a_program_without_agents_takes_no_messages(store: Arc<dyn Store>) {
    let graph = in_line("alone", |graph| {
        let one = graph.node("one", |_| async { Ok(said("one")) });
        graph.start(one);
        graph.edge(one, Node::END);
    });
    let (runtime, _) = process(&store, &graph);
    let refused = send(&runtime, "s", "hello").await.expect_err("no agents");
    assert_eq!((refused.code, &*refused.message), (Code::UnknownAgent, "this program has no agents"));
    assert_eq!(runtime.session(&me(), "s").await.expect_err("none").code, Code::SessionNotFound);
}

/// Two nodes of a round lead to the same node for items, and one of them has none.
async fn g1_a_list_without_items_does_not_end_the_node_that_another_list_begins(store: Arc<dyn Store>) {
    for lists in [[vec![], vec![1, 2]], [vec![1, 2], vec![]], [vec![], vec![]]] {
        let session = format!("s{}{}", lists[0].len(), lists[1].len());
        let items = lists.concat();
        let graph = in_line("lists", |graph| {
            let each = graph
                .map_node("each", |_: Context<Work>, item: u32| async move { Ok(WorkUpdate::new().items([item])) });
            let one = graph.node("one", |_| async { Ok(WorkUpdate::new()) });
            let sums = |ctx: Context<Work>| async move { Ok(said(format!("{:?}", ctx.state().items))) };
            let (after, joined) = (graph.node("after", sums), graph.node("joined", sums));
            for (name, list) in ["first", "second"].into_iter().zip(lists) {
                let node = graph.node(name, |_| async { Ok(WorkUpdate::new()) });
                graph.start(node);
                graph.fan_out(node, each, move |_| list.clone());
            }
            graph.start(one);
            graph.edge(each, after);
            graph.join([one, each.into()], joined);
            graph.edge(after, Node::END);
            graph.edge(joined, Node::END);
        });
        let (_, runs) = process(&store, &graph);
        let done = runs.run(&me(), &*session, &Work::default()).await.expect("run").done().expect("done");
        let all = format!("{items:?}");
        assert_eq!(done.log, [all.clone(), all], "{session}: each node after it runs once, when it is over");
    }
}

/// What follows one empty list gives items to the node of another.
async fn g1_what_follows_an_empty_list_gives_items_to_the_node_of_another(store: Arc<dyn Store>) {
    for given_first in [true, false] {
        let graph = in_line("follows", |graph| {
            let each = graph
                .map_node("each", |_: Context<Work>, item: u32| async move { Ok(WorkUpdate::new().items([item])) });
            let leads = graph.map_node("leads", |_: Context<Work>, _: u32| async { Ok(WorkUpdate::new()) });
            let after = graph.node("after", |ctx| async move { Ok(said(format!("{:?}", ctx.state().items))) });
            let (first, second) = (
                graph.node("first", |_| async { Ok(WorkUpdate::new()) }),
                graph.node("second", |_| async { Ok(WorkUpdate::new()) }),
            );
            graph.start(first);
            graph.start(second);
            let (to_each, to_leads) = if given_first { (first, second) } else { (second, first) };
            graph.fan_out(to_each, each, |_| Vec::new());
            graph.fan_out(to_leads, leads, |_| Vec::new());
            graph.fan_out(leads, each, |_| vec![1, 2]);
            graph.edge(each, after);
            graph.edge(after, Node::END);
        });
        let (_, runs) = process(&store, &graph);
        let session = if given_first { "f" } else { "s" };
        let done = runs.run(&me(), session, &Work::default()).await.expect("run").done().expect("done");
        assert_eq!(done.log, ["[1, 2]"], "{session}");
    }
}

conformance!(
    g1_what_follows_an_empty_list_gives_items_to_the_node_of_another,
    g1_a_list_without_items_does_not_end_the_node_that_another_list_begins,
    g1_a_program_without_agents_takes_no_messages,
    g1_an_edit_goes_to_sessions_of_its_graph_only,
    g6_states_and_updates_from_outside_are_objects,
    g1_a_number_that_json_does_not_have_is_refused_before_anything_is_stored,
    w1_a_start_under_the_request_id_of_another_state_is_refused,
    g6_the_state_at_a_checkpoint_is_what_it_was_then,
    g6_an_edit_and_a_long_run_begin_nothing_twice,
    g1_a_branch_that_fails_leaves_what_runs_alone,
    g1_a_route_or_a_list_that_panics_fails_by_name,
    g1_a_graph_that_has_ended_is_not_run_again_for_what_fails_after_it,
    g1_a_run_that_was_given_up_while_others_waited_is_taken_up_whole,
);
