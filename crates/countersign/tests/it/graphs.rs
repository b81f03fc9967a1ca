//! Graphs over every store: rounds, pauses, steps, failures (spec G1, G3).

use std::{
    fmt::Debug,
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign::{
    graph::{Context, Graph, Node, NodeError, NodeOptions, Outcome, Renamed, Retry, StateGraph},
    store::Store,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    graph_support::{Again, Count, Work, WorkUpdate, me, process, said},
    store_support::conformance,
};

/// Nodes run in order, in parallel, join, and loop; their updates are merged in the order of the tasks.
async fn g1_rounds_branches_joins_and_cycles(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Work>::new("work");
    let plan = graph.node("plan", |_| async { Ok(said("plan")) });
    // The slower one is first: the outcome does not depend on which is faster.
    let slow = graph.node("slow", |_| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Ok(said("slow"))
    });
    let fast = graph.node("fast", |_| async { Ok(said("fast")) });
    let both = graph.node("both", |ctx: Context<Work>| async move { Ok(said("both").sum(1 + ctx.state().sum)) });
    graph.start(plan);
    graph.edge(plan, slow);
    graph.edge(plan, fast);
    graph.join([slow, fast], both);
    graph.route(
        both,
        |work| if work.sum < 3 { Again::Again } else { Again::Enough },
        |way| match way {
            Again::Again => plan,
            Again::Enough => Node::END,
        },
    );
    let graph = graph.compile().expect("graph");
    let (_, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let work = outcome.done().expect("done");
    assert_eq!(work.sum, 3);
    let round = ["plan", "slow", "fast", "both"];
    assert_eq!(work.log, [round, round].concat());
}

/// One node asks, the run pauses as a value, and resumes in another process with the answer.
async fn g3_an_interrupt_pauses_and_goes_on_in_another_process(store: Arc<dyn Store>) {
    let (before, after) = (Count::default(), Count::default());
    let graph = || {
        let (before, after) = (before.clone(), after.clone());
        let mut graph = StateGraph::<Work>::new("work");
        let ask = graph.node("ask", move |ctx: Context<Work>| {
            let (before, after) = (before.clone(), after.clone());
            async move {
                let once: u32 = ctx.step("charge", async move { Ok::<_, NodeError>(before.up()) }).await?;
                let answer = ctx.interrupt("go on?", json!({ "once": once })).await;
                after.up();
                Ok(said(answer.to_string()))
            }
        });
        graph.start(ask);
        graph.edge(ask, Node::END);
        graph.compile().expect("graph")
    };
    let first = graph();
    let (runtime, runs) = process(&store, &first);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let Outcome::Paused { state, pending: waiting, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(*state, Work::default());
    assert_eq!((&*waiting[0].node, &*waiting[0].question, &waiting[0].key), ("ask", "go on?", &"s_1".to_owned()));
    assert_eq!(waiting[0].payload, json!({ "once": 1 }));
    drop((runtime, runs));
    let second = graph();
    let (_, runs) = process(&store, &second);
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), outcome);
    let outcome = runs.resume(&me(), "s_1", "yes").await.expect("resume");
    assert_eq!(outcome.done().expect("done").log, ["\"yes\""]);
    assert_eq!((before.get(), after.get()), (1, 1), "the step is done once");
    let late = runs.resume(&me(), "s_1", "no").await.expect_err("resolved");
    assert_eq!(late.code.name(), "approval_already_resolved");
}

/// Several questions, in one node one after the other and at once, and in parallel branches, answered in any order.
async fn g3_answers_go_to_their_questions_in_any_order(store: Arc<dyn Store>) {
    for warm in [true, false] {
        let starts = Count::default();
        let make = || {
            let counted = starts.clone();
            let mut graph = StateGraph::<Work>::new("work");
            let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new().items([0, 1, 2])) });
            let each = graph.map_node("each", move |ctx: Context<Work>, item: u32| {
                counted.up();
                async move {
                    let (a, b): (Value, Value) = futures::future::join(
                        std::future::IntoFuture::into_future(ctx.interrupt("a", item)),
                        std::future::IntoFuture::into_future(ctx.interrupt("b", item)),
                    )
                    .await;
                    let c = ctx.interrupt("c", json!([a, b])).await;
                    Ok(said(format!("{item}: {a} {b} {c}")))
                }
            });
            graph.start(begin);
            graph.fan_out(begin, each, |work| work.items.clone()).limit(2);
            graph.edge(each, Node::END);
            graph.compile().expect("graph")
        };
        let session = if warm { "warm" } else { "cold" };
        let graph = make();
        let (mut runtime, mut runs) = process(&store, &graph);
        let outcome = runs.run(&me(), session, &Work::default()).await.expect("run");
        assert_eq!(outcome.pending().len(), 6);
        let plain: Vec<_> =
            outcome.pending().iter().map(|w| (w.payload.clone(), w.question.clone(), w.key.clone())).collect();
        let key = |item: u32, question: &str| {
            plain
                .iter()
                .find(|(payload, name, _)| *payload == json!(item) && **name == *question)
                .expect("asked")
                .2
                .clone()
        };
        let mut latest = outcome;
        for (item, question) in [(2, "b"), (0, "a"), (1, "b"), (0, "b"), (2, "a"), (1, "a")] {
            if !warm {
                drop((runtime, runs));
                let graph = make();
                (runtime, runs) = process(&store, &graph);
            }
            latest = runs.resume(&me(), &key(item, question), format!("{question}{item}")).await.expect("resume");
        }
        assert_eq!(latest.pending().len(), 3, "{latest:?}");
        for waiting in latest.pending().iter().rev().map(|w| (w.key.clone(), w.payload.clone())).collect::<Vec<_>>() {
            latest = runs.resume(&me(), &waiting.0, waiting.1).await.expect("resume");
        }
        let log = latest.done().expect("done").log;
        let line = |i: u32| format!("{i}: \"a{i}\" \"b{i}\" [\"a{i}\",\"b{i}\"]");
        assert_eq!(log, [line(0), line(1), line(2)], "in the order of the items");
        if warm {
            assert_eq!(starts.get(), 3, "nothing is begun again while the process lives");
        }
        drop(runtime);
    }
}

/// An invalid answer stores nothing; of several answers together all count, or none.
async fn g3_an_answer_that_does_not_fit_changes_nothing(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Work>::new("work");
    let ask = |name: &'static str| {
        move |ctx: Context<Work>| async move {
            let n: u8 = ctx.interrupt(name, "how many?").typed().await;
            Ok(said(format!("{name}{n}")))
        }
    };
    let (a, b) = (graph.node("a", ask("a")), graph.node("b", ask("b")));
    graph.start(a);
    graph.start(b);
    graph.edge(a, Node::END);
    graph.edge(b, Node::END);
    let graph = graph.compile().expect("graph");
    let (_, runs) = process(&store, &graph);
    let before = runs.run(&me(), "s", &Work::default()).await.expect("run");
    for wrong in [json!("many"), json!(300), json!(null), json!({})] {
        let refused = runs.resume(&me(), "s_1", &wrong).await.expect_err("refused");
        assert_eq!(refused.code.name(), "invalid_resume", "{wrong}");
        assert!(refused.details.is_some_and(|details| details.value()["errors"][0]["message"].is_string()));
    }
    let refused = runs.resume_all(&me(), [("s_1", json!(1)), ("s_2", json!("x"))]).await.expect_err("refused");
    assert_eq!(refused.code.name(), "invalid_resume");
    assert_eq!(runs.outcome(&me(), "s").await.expect("outcome"), before);
    let key = |question| before.key(question).expect("asked");
    let done = runs.resume_all(&me(), [(key("b"), 2), (key("a"), 1)]).await.expect("resume");
    assert_eq!(done.done().expect("done").log, ["a1", "b2"]);
}

/// A node that asks for a name and then for a number, which it reads as a `T`. It stays away from its second question
/// `fails` times.
fn asks_for<T: DeserializeOwned + JsonSchema + Debug + Send>(
    question: &'static str,
    steps: &Count,
    fails: u32,
) -> Graph<Work> {
    let (steps, fails) = (steps.clone(), Arc::new(AtomicU32::new(fails)));
    let mut graph = StateGraph::<Work>::new("work");
    let options = NodeOptions::new().retry(Retry::new(2).initial_delay(Duration::from_millis(1)));
    let node = graph.node_with("node", options, move |ctx: Context<Work>| {
        let (steps, fails) = (steps.clone(), fails.clone());
        async move {
            let step = ctx.step("count", async move { Ok::<_, NodeError>(steps.up()) }).await?;
            let name: String = ctx.interrupt("who?", ()).typed().await;
            let number = ctx.interrupt(question, ()).typed::<T>();
            if fails.load(Ordering::SeqCst) > 0 {
                // After it has asked, and before it waits.
                let mut number = std::pin::pin!(number.into_future());
                let _ = futures::poll!(number.as_mut());
                fails.fetch_sub(1, Ordering::SeqCst);
                return Err(NodeError::new("not yet"));
            }
            Ok(said(format!("{step} {name} {:?}", number.await)))
        }
    });
    graph.start(node);
    graph.edge(node, Node::END);
    graph.migrate(|gone| (gone.question == Some("how many?")).then(|| Renamed::question("how much?")));
    graph.compile().expect("graph")
}

/// An answer that fits the schema and not the type is kept for a node that is mended. Without that, a retry asks again:
/// only for this answer, and as often as it takes.
async fn g3_an_answer_that_the_node_cannot_read_is_kept_and_a_retry_asks_again(store: Arc<dyn Store>) {
    let steps = Count::default();
    let reads = asks_for::<u64>("how many?", &steps, 0);
    let invalid =
        |outcome: &Outcome<Work>| matches!(outcome, Outcome::Failed { code, .. } if code == "unreadable_answer");
    let mut expected = 0;
    for session in ["mended", "warm", "cold", "renamed", "unsteady"] {
        expected += 1;
        let (mut runtime, mut runs) = process(&store, &reads);
        let _ = runs.run(&me(), session, &Work::default()).await.expect("run");
        let _ = runs.resume(&me(), &format!("{session}_1"), "Ada").await.expect("resume");
        let failed = runs.resume(&me(), &format!("{session}_2"), 3.0).await.expect("it fits the schema");
        assert!(invalid(&failed), "{session}: {failed:?}");
        let mut program = |graph: Graph<Work>| (runtime, runs) = process(&store, &graph);
        match session {
            "mended" => program(asks_for::<f64>("how many?", &steps, 0)),
            "renamed" => program(asks_for::<u64>("how much?", &steps, 0)),
            "unsteady" => program(asks_for::<u64>("how many?", &steps, 1)),
            _ => {}
        }
        let retried = runs.retry(&me(), session).await.expect("retry");
        if session == "mended" {
            assert_eq!(retried.done().expect("done").log, [format!("{expected} Ada 3.0")]);
            continue;
        }
        let asked: Vec<(&str, &str)> = retried.pending().iter().map(|one| (&*one.key, &*one.question)).collect();
        assert_eq!(asked, [(&*format!("{session}_3"), "how many?")]);
        if matches!(session, "cold" | "renamed") {
            let question = if session == "cold" { "how many?" } else { "how much?" };
            drop((runtime, runs));
            (runtime, runs) = process(&store, &asks_for::<u64>(question, &steps, 0));
        }
        // After a second mistake the person can answer again.
        let failed = runs.resume(&me(), &format!("{session}_3"), 4.0).await.expect("it fits the schema");
        assert!(invalid(&failed), "{session}: {failed:?}");
        assert_eq!(runs.retry(&me(), session).await.expect("retry").pending()[0].key, format!("{session}_4"));
        let done = runs.resume(&me(), &format!("{session}_4"), 4).await.expect("resume").done().expect("done");
        assert_eq!(done.log, [format!("{expected} Ada 4")]);
        drop(runtime);
    }
    assert_eq!(steps.get(), expected, "no step is repeated");
}

/// While a node asks again, the answer that this replaces is not delivered to it, whatever else happens in the run.
async fn g3_what_is_asked_again_is_not_answered_by_what_it_replaces(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Work>::new("work");
    let tries = Count::default();
    let node = graph.node("node", move |ctx: Context<Work>| {
        let tries = tries.clone();
        async move {
            let slow = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok::<_, NodeError>(())
            };
            let step = ctx.step(&format!("try {}", tries.up()), slow);
            let number = ctx.interrupt("how many?", ()).typed::<u64>();
            let (number, step) = futures::join!(number.into_future(), step.into_future());
            step?;
            Ok(said(number.to_string()))
        }
    });
    let fails = Count::default();
    let beside = graph.node("beside", move |_| {
        let first = fails.up() == 1;
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if first { Err(NodeError::permanent("not yet")) } else { Ok(said("beside")) }
        }
    });
    for one in [node, beside] {
        graph.start(one);
        graph.edge(one, Node::END);
    }
    let (_runtime, runs) = process(&store, &graph.compile().expect("graph"));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let failed = runs.resume(&me(), "s_1", 3.0).await.expect("it fits the schema");
    assert!(matches!(failed, Outcome::Failed { .. }), "{failed:?}");
    let asked = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(asked.pending().iter().map(|one| &*one.key).collect::<Vec<_>>(), ["s_2"], "{asked:?}");
    let done = runs.resume(&me(), "s_2", 3).await.expect("resume").done().expect("done");
    assert_eq!(done.log, ["3", "beside"]);
}

/// The default answer is checked when the node asks, so that a mistake does not surface only at the deadline.
async fn g3_a_default_answer_that_the_node_cannot_read_is_refused_at_once(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Work>::new("work");
    let node = graph.node("node", |ctx: Context<Work>| async move {
        let number: u64 = ctx.interrupt("how many?", ()).typed().timeout(Duration::from_secs(60), 3.0).await;
        Ok(said(number.to_string()))
    });
    graph.start(node);
    graph.edge(node, Node::END);
    let (_runtime, runs) = process(&store, &graph.compile().expect("graph"));
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let Outcome::Failed { code, message, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(code, "node_failed");
    assert!(message.contains("its default answer is not of the type it is taken as"), "{message}");
}

/// A graph in a graph: its questions are pending outside, and an answer starts only its own node again.
async fn g1_a_graph_in_a_graph_has_its_own_state(store: Arc<dyn Store>) {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let starts = starts.clone();
        move || starts.lock().expect("lock").push(name)
    };
    let mut inner = StateGraph::<Work>::new("inner");
    let (first, second) = (note("first"), note("second"));
    let first = inner.node("first", move |ctx: Context<Work>| {
        first();
        async move { Ok(said(format!("inner of {}", ctx.state().last))) }
    });
    let second = inner.node("second", move |ctx: Context<Work>| {
        second();
        async move {
            let answer: String = ctx.interrupt("name", &ctx.state().log).typed().await;
            Ok(said(answer))
        }
    });
    inner.start(first);
    inner.edge(first, second);
    inner.edge(second, Node::END);
    let inner = inner.compile().expect("inner");
    let mut outer = StateGraph::<Work>::new("outer");
    let begin = note("begin");
    let begin = outer.node("begin", move |_| {
        begin();
        async { Ok(WorkUpdate::new().last("x")) }
    });
    let sub = outer.subgraph(
        "sub",
        &inner,
        |work| Work { last: work.last.clone(), ..Work::default() },
        |work: Work| said(work.log.join(", ")),
    );
    let beside = note("beside");
    let beside = outer.node("beside", move |_| {
        beside();
        async { Ok(said("beside")) }
    });
    outer.start(begin);
    outer.edge(begin, sub);
    outer.edge(begin, beside);
    outer.edge(sub, Node::END);
    outer.edge(beside, Node::END);
    let outer = outer.compile().expect("outer");
    for (session, cold) in [("warm", false), ("cold", true)] {
        starts.lock().expect("lock").clear();
        let (mut runtime, mut runs) = process(&store, &outer);
        let outcome = runs.run(&me(), session, &Work::default()).await.expect("run");
        assert_eq!(&*outcome.pending()[0].node, "sub/second");
        assert_eq!(outcome.pending()[0].payload, json!(["inner of x"]));
        if cold {
            drop((runtime, runs));
            (runtime, runs) = process(&store, &outer);
        }
        let done = runs.resume(&me(), &format!("{session}_1"), "Ada").await.expect("resume").done().expect("done");
        assert_eq!(done.log, ["inner of x, Ada", "beside"]);
        let mut began = starts.lock().expect("lock").clone();
        began.sort_unstable();
        let mut wanted = vec!["begin", "beside", "first", "second"];
        if cold {
            wanted.push("second");
        }
        assert_eq!(began, wanted);
        drop(runtime);
    }
}

/// A node is retried, and its answers and steps stay; a permanent failure is named, and can be retried by a person.
async fn g1_failures_are_retried_named_and_taken_up_again(store: Arc<dyn Store>) {
    let (tries, steps, fine) = (Count::default(), Count::default(), Count::default());
    let mut graph = StateGraph::<Work>::new("work");
    let (t, s, f) = (tries.clone(), steps.clone(), fine.clone());
    let retry = NodeOptions::new().retry(Retry::new(2).initial_delay(Duration::from_millis(1)));
    let shaky = graph.node_with("shaky", retry, move |ctx: Context<Work>| {
        let (tries, steps) = (t.clone(), s.clone());
        async move {
            let n = ctx.step("count", async move { Ok::<_, NodeError>(steps.up()) }).await?;
            let yes: bool = ctx.interrupt("sure?", n).typed().await;
            let tried = tries.up();
            if tried < 4 {
                return Err(NodeError::new(format!("try {tried}")));
            }
            Ok(said(format!("{n} {yes}")))
        }
    });
    let beside = graph.node("beside", move |_| {
        f.up();
        async { Ok(said("beside")) }
    });
    graph.start(shaky);
    graph.start(beside);
    graph.edge(shaky, Node::END);
    graph.edge(beside, Node::END);
    let graph = graph.compile().expect("graph");
    let (_, runs) = process(&store, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = runs.resume(&me(), "s_1", true).await.expect("resume");
    let Outcome::Failed { code, message, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!((code.as_str(), message.as_str()), ("node_failed", "try 2"));
    let (_, runs) = process(&store, &graph);
    let outcome = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(outcome.done().expect("done").log, ["1 true", "beside"]);
    assert_eq!((tries.get(), steps.get(), fine.get()), (4, 1, 1));
    assert_eq!(runs.retry(&me(), "s").await.expect_err("nothing").code.name(), "nothing_to_retry");
}

/// A limit of rounds, a time limit and a panic end a run with their names; a time limit excludes the time that a person
/// takes.
async fn g1_limits_and_panics_fail_by_name(store: Arc<dyn Store>) {
    let mut graph = StateGraph::<Work>::new("round");
    let round = graph.node("round", |_| async { Ok(WorkUpdate::new().sum(1)) });
    graph.start(round);
    graph.edge(round, round);
    graph.max_rounds(7);
    let graph = graph.compile().expect("graph");
    let (_, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "steps", &Work::default()).await.expect("run");
    assert!(matches!(&outcome, Outcome::Failed { code, .. } if code == "round_limit"), "{outcome:?}");
    assert_eq!(runs.state(&me(), "steps").await.expect("state").sum, 6);

    let mut graph = StateGraph::<Work>::new("time");
    let options = NodeOptions::new().time_limit(Duration::from_millis(200));
    let slow = graph.node_with("slow", options, |ctx: Context<Work>| async move {
        let wait: bool = ctx.interrupt("wait?", ()).typed().await;
        if wait {
            std::future::pending::<()>().await;
        }
        panic!("on purpose");
    });
    graph.start(slow);
    graph.edge(slow, Node::END);
    let graph = graph.compile().expect("graph");
    let (_, runs) = process(&store, &graph);
    for (session, wait, what) in [("a", true, "longer than 200ms"), ("b", false, "panicked")] {
        let _ = runs.run(&me(), session, &Work::default()).await.expect("run");
        tokio::time::sleep(Duration::from_millis(250)).await;
        let outcome = runs.resume(&me(), &format!("{session}_1"), wait).await.expect("resume");
        assert!(matches!(&outcome, Outcome::Failed { message, .. } if message.contains(what)), "{outcome:?}");
    }
}

conformance!(
    g1_rounds_branches_joins_and_cycles,
    g3_an_interrupt_pauses_and_goes_on_in_another_process,
    g3_answers_go_to_their_questions_in_any_order,
    g3_an_answer_that_does_not_fit_changes_nothing,
    g3_an_answer_that_the_node_cannot_read_is_kept_and_a_retry_asks_again,
    g3_a_default_answer_that_the_node_cannot_read_is_refused_at_once,
    g3_what_is_asked_again_is_not_answered_by_what_it_replaces,
    g1_a_graph_in_a_graph_has_its_own_state,
    g1_failures_are_retried_named_and_taken_up_again,
    g1_limits_and_panics_fail_by_name,
);
