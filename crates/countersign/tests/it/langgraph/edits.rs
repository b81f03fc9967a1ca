//! E: breakpoints, and states that people change.

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, Args, Decision, Status,
    graph::{Context, Graph, Node, Outcome},
    model::scripted::Scripted,
    run::Runtime,
    store::Store,
    tool::Approval,
};
use countersign_runtime::run::NewFork;

use super::{
    Count, Way, Work, WorkUpdate, alone, asks, checkpoints, code, fork, graph_of, in_line, journal, me, one, process,
    said, says,
};
use crate::{
    store_support::conformance,
    support::{Ledger, decide, entry, send},
};

/// Plans, pauses, and carries out the plan as it is then.
fn planned() -> Graph<Work> {
    graph_of(|graph| {
        let plan = graph.node("plan", |_| async { Ok(WorkUpdate::new().last("rough plan")) });
        let stop = graph.node("stop", |ctx: Context<Work>| async move {
            ctx.interrupt("continue", ()).await;
            Ok(WorkUpdate::new())
        });
        let act = graph.node("act", |ctx: Context<Work>| async move { Ok(said(ctx.state().last.clone())) });
        in_line(graph, &[plan, stop, act]);
    })
}

/// 50: an edit during a pause is what continues; another run during a pause is refused.
async fn e50_a_change_at_a_pause_is_what_goes_on(store: Arc<dyn Store>) {
    let graph = planned();
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let edited = runs.edit(&me(), "s", &WorkUpdate::new().last("fine plan")).await.expect("edit");
    assert_eq!(runs.state(&me(), "s").await.expect("state").last, "fine plan");
    // The reviewer was shown the old state: the question is asked again, under another key.
    let key = edited.pending()[0].key.clone();
    assert_eq!(code(runs.resume(&me(), "s_1", ()).await), "approval_already_resolved");
    assert_eq!(code(runs.run(&me(), "s", &Work::default()).await), "approval_pending");
    let (_, runs) = process(&store, &graph);
    let done = runs.resume(&me(), &key, ()).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["fine plan"]);
}

fn agent(store: Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    let script = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"{{ last_tool_result }}"}],"at_end":"repeat"}"#;
    let agent = Agent::new("a", ("m", Arc::new(Scripted::from_json(script).expect("script")))).tool(entry(
        "trade",
        Approval::always(),
        ledger,
    ));
    Runtime::builder(store).agent(agent).build().expect("runtime")
}

/// 51: a call that a person changes runs as changed; the model's own stays in the history.
async fn e51_an_edited_call_is_what_runs(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(store, &ledger);
    send(&runtime, "s", "go").await.expect("paused");
    let edit = Decision::edit("trade", Args::parse(r#"{"n":5}"#).expect("args"));
    let done = decide(&runtime, "s_1", vec![edit]).await.expect("decided");
    assert_eq!(done.status, Status::Completed);
    let ran: Vec<String> = ledger.lock().expect("ledger").iter().map(|row| row.1.clone()).collect();
    assert_eq!(ran, [r#"{"n":5}"#]);
    let history = serde_json::to_string(&runtime.whole_history(&me(), "s").await.expect("history")).expect("JSON");
    assert!(history.contains(r#""n":1"#), "{history}");
}

/// 52: a call that a person removes never runs, is not removed from the conversation, and has its result.
async fn e52_a_call_that_is_taken_away_has_its_result(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(store, &ledger);
    send(&runtime, "s", "go").await.expect("paused");
    let done = decide(&runtime, "s_1", vec![Decision::reject(Some("no trade today".into()))]).await.expect("decided");
    assert_eq!((done.status, &*done.text), (Status::Completed, "no trade today"));
    assert!(ledger.lock().expect("ledger").is_empty());
}

/// 53: every node is a checkpoint, also one that changes nothing.
async fn e53_every_node_is_a_checkpoint(store: Arc<dyn Store>) {
    let graph = graph_of(|graph| {
        let nodes = ["one", "two", "three"].map(|name| graph.node(name, |_| async { Ok(WorkUpdate::new()) }));
        in_line(graph, &nodes);
    });
    let (runtime, runs) = process(&store, &graph);
    runs.run(&me(), "s", &Work::default()).await.expect("run").done().expect("done");
    let after: Vec<String> = checkpoints(&runtime, "s").await.into_iter().map(|(_, after, _)| after).collect();
    assert_eq!(after.iter().filter(|after| **after == "node" || **after == "end").count(), 3, "{after:?}");
}

/// 54: a route is the only continuation: nothing adds to it or bypasses it.
async fn e54_a_route_is_the_only_way_on(store: Arc<dyn Store>) {
    let (on, back) = (Count::default(), Count::default());
    let graph = graph_of(|graph| {
        let ask = graph.node("ask", asks("ask"));
        let (on, back) = (graph.node("on", says("on", &on)), graph.node("back", says("back", &back)));
        graph.start(ask);
        graph.route(
            ask,
            |work| if work.log.concat().contains("true") { Way::On } else { Way::Back },
            |way| match way {
                Way::On => on,
                Way::Back => back,
            },
        );
        graph.edge(on, Node::END);
        graph.edge(back, Node::END);
    });
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runs.resume(&me(), "s_1", true).await.expect("resume").done().expect("done");
    assert_eq!((on.get(), back.get()), (1, 0));
}

/// 55: a node beside a pending inner graph runs once.
async fn e55_beside_an_inner_graph_that_waits_work_is_done_once(store: Arc<dyn Store>) {
    let begun = Count::default();
    let inner = one(asks("ask"));
    let graph = graph_of(|graph| {
        let sub = graph.subgraph("sub", &inner, Work::clone, |work| said(work.log.concat()));
        let beside = graph.node("beside", says("beside", &begun));
        alone(graph, &[sub, beside]);
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let done = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["ask: 1".to_owned(), "beside".to_owned()], 1));
}

/// 56, 68: a process that ends just before a question does not skip it, in a graph or in an inner one.
async fn e56_a_shutdown_before_a_question_does_not_skip_it(store: Arc<dyn Store>) {
    for inside in [false, true] {
        let (begun, paid) = (Count::default(), Count::default());
        let counted = begun.clone();
        let body = graph_of(|graph| {
            let slow = graph.node("slow", move |_| {
                let first = counted.up() == 1;
                async move {
                    if first {
                        std::future::pending::<()>().await;
                    }
                    Ok(said("slow"))
                }
            });
            let ask = graph.node("ask", asks("ask"));
            let pay = graph.node("pay", says("paid", &paid));
            in_line(graph, &[slow, ask, pay]);
        });
        let graph = if inside {
            graph_of(|graph| {
                let sub = graph.subgraph("sub", &body, Work::clone, |work| WorkUpdate::new().log(work.log));
                alone(graph, &[sub]);
            })
        } else {
            body
        };
        let session = if inside { "in" } else { "out" };
        let (runtime, runs) = process(&store, &graph);
        runs.start(&me(), Some(session.to_owned()), &Work::default(), None).await.expect("start");
        while begun.get() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        runtime.shutdown(Duration::ZERO).await;
        let (runtime, runs) = process(&store, &graph);
        runtime.start().await.expect("start");
        let paused = runs.outcome(&me(), session).await.expect("outcome");
        assert_eq!((paused.pending().len(), paid.get()), (1, 0), "{paused:?}");
        let done = runs.resume(&me(), &paused.pending()[0].key, 1).await.expect("resume").done().expect("done");
        assert_eq!((done.log.len(), paid.get()), (3, 1));
        runtime.shutdown(Duration::ZERO).await;
    }
}

/// 57: the pause itself is the newest checkpoint, with its pending questions.
async fn e57_a_pause_is_the_newest_checkpoint(store: Arc<dyn Store>) {
    let (runtime, runs) = process(&store, &planned());
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let newest = checkpoints(&runtime, "s").await.pop().expect("one");
    assert_eq!(newest.2, ["s_1"]);
    let head = store.head("s").await.expect("head").expect("known");
    assert_eq!(newest.0, head.pos);
}

/// 58: a fork of the newest checkpoint is the same whether it is named or not: it is pending, and resumes when
/// answered.
async fn e58_a_fork_of_the_newest_checkpoint_named_or_not_is_the_same(store: Arc<dyn Store>) {
    let (runtime, runs) = process(&store, &planned());
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let newest = checkpoints(&runtime, "s").await.pop().expect("one").0;
    let named = fork(&runtime, "s", newest, "f").await;
    let new = NewFork { session_id: Some("g".into()), run: true, ..NewFork::default() };
    let unnamed = runtime.fork(&me(), "s", new).await.expect("fork").session.pending;
    assert_eq!((named, unnamed), (vec!["f_2".to_owned()], vec!["g_2".to_owned()]));
    for key in ["f_2", "g_2", "s_1"] {
        let done = runs.resume(&me(), key, ()).await.expect("resume").done().expect("done");
        assert_eq!(done.log, ["rough plan"]);
    }
}

/// 59: a run after a cancelled one has nothing of its unfinished round.
async fn e59_a_new_run_has_nothing_of_a_cancelled_round(store: Arc<dyn Store>) {
    let begun = Count::default();
    let graph = graph_of(|graph| {
        let (ask, beside) = (graph.node("ask", asks("ask")), graph.node("beside", says("beside", &begun)));
        alone(graph, &[ask, beside]);
    });
    let (runtime, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    runtime.cancel(&me(), "s", None).await.expect("cancel");
    let (_, runs) = process(&store, &graph);
    let again = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert!(matches!(&again, Outcome::Paused { state, .. } if state.log.is_empty()), "{again:?}");
    let before = journal(&store, "s").await.len();
    assert_eq!(code(runs.resume(&me(), "s_1", 1).await), "approval_already_resolved");
    assert_eq!(journal(&store, "s").await.len(), before);
    let done = runs.resume(&me(), "s_2", 2).await.expect("resume").done().expect("done");
    assert_eq!((done.log, begun.get()), (vec!["ask: 2".to_owned(), "beside".to_owned()], 2));
}

conformance!(
    e50_a_change_at_a_pause_is_what_goes_on,
    e51_an_edited_call_is_what_runs,
    e52_a_call_that_is_taken_away_has_its_result,
    e53_every_node_is_a_checkpoint,
    e54_a_route_is_the_only_way_on,
    e55_beside_an_inner_graph_that_waits_work_is_done_once,
    e56_a_shutdown_before_a_question_does_not_skip_it,
    e57_a_pause_is_the_newest_checkpoint,
    e58_a_fork_of_the_newest_checkpoint_named_or_not_is_the_same,
    e59_a_new_run_has_nothing_of_a_cancelled_round,
);
