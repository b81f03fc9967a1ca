//! G: steps, in place of LangGraph's tasks and entrypoints.

use std::sync::Arc;

use countersign::{
    graph::{Context, NodeError},
    store::Store,
};
use countersign_core::journal::record::{Record, records};
use futures::future::try_join;
use serde_json::Value;
use std::future::IntoFuture as _;

use super::{Count, Diary, Work, alone, graph_of, journal, me, one, process, said};
use crate::store_support::conformance;

/// 69, 70: three steps and three questions in a loop, each answer in another process: each step is done once, and each
/// answer goes to its own question.
async fn g69_steps_and_questions_in_a_loop_are_done_once(store: Arc<dyn Store>) {
    let diary = Diary::default();
    let written = diary.clone();
    let graph = one(move |ctx: Context<Work>| {
        let diary = written.clone();
        async move {
            let mut all = Vec::new();
            for i in 0..3 {
                let diary = diary.clone();
                let step: u32 = ctx
                    .step("work", async move {
                        diary.write(i.to_string());
                        Ok::<_, NodeError>(i * 10)
                    })
                    .await?;
                let answer: u32 = ctx.interrupt("ask", step).typed().await;
                all.push(format!("{step}/{answer}"));
            }
            Ok(said(all.join(" ")))
        }
    });
    let mut outcome = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    for answer in 1..=3 {
        assert_eq!(outcome.pending()[0].payload, (answer - 1) * 10);
        outcome = process(&store, &graph).1.resume(&me(), &format!("s_{answer}"), answer).await.expect("resume");
    }
    assert_eq!(outcome.done().expect("done").log, ["0/1 10/2 20/3"]);
    assert_eq!(diary.read(), ["0", "1", "2"]);
}

/// 71: an answer records only new data.
async fn g71_an_answer_writes_only_what_is_new(store: Arc<dyn Store>) {
    let graph = one(|ctx: Context<Work>| async move {
        for name in ["a", "b", "c"] {
            ctx.step(name, async { Ok::<_, NodeError>("x".repeat(1000)) }).await?;
        }
        Ok(said(ctx.interrupt("ask", ()).await.to_string()))
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let before = journal(&store, "s").await.len();
    process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume").done().expect("done");
    let new = journal(&store, "s").await.split_off(before);
    assert!(
        !records(&new).any(|record| matches!(record, Record::StepStarted { .. } | Record::StepDone { .. })),
        "{new:?}"
    );
    let bytes: usize = new.iter().map(|entry| serde_json::to_string(entry).expect("JSON").len()).sum();
    assert!(bytes < 1000, "{bytes} bytes: {new:?}");
}

/// 73: a step whose result is nothing, null or false counts as done.
async fn g73_a_step_that_gives_nothing_is_done(store: Arc<dyn Store>) {
    let done = Count::default();
    let counted = done.clone();
    let graph = one(move |ctx: Context<Work>| {
        let count = || {
            let counted = counted.clone();
            async move { counted.up() }
        };
        let (unit, null, no, empty) = (count(), count(), count(), count());
        async move {
            ctx.step("unit", async move {
                unit.await;
                Ok::<_, NodeError>(())
            })
            .await?;
            let null: Option<u8> =
                ctx.step("null", async move { Ok::<_, NodeError>((null.await > 99).then_some(1)) }).await?;
            let no: bool = ctx.step("no", async move { Ok::<_, NodeError>(no.await > 99) }).await?;
            let empty: Vec<Value> = ctx
                .step("empty", async move {
                    empty.await;
                    Ok::<_, NodeError>(Vec::new())
                })
                .await?;
            ctx.interrupt("ask", ()).await;
            Ok(said(format!("{null:?} {no} {empty:?}")))
        }
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume");
    assert_eq!((outcome.done().expect("done").log, done.get()), (vec!["None false []".to_owned()], 4));
}

/// 74: a step in an inner graph is done once too.
async fn g74_a_step_in_an_inner_graph_is_done_once(store: Arc<dyn Store>) {
    let done = Count::default();
    let counted = done.clone();
    let inner = one(move |ctx: Context<Work>| {
        let counted = counted.clone();
        async move {
            let n: u32 = ctx.step("count", async move { Ok::<_, NodeError>(counted.up()) }).await?;
            Ok(said(format!("{n} {}", ctx.interrupt("ask", n).await)))
        }
    });
    let graph = graph_of(|graph| {
        let sub = graph.subgraph("sub", &inner, Work::clone, |work| said(work.log.concat()));
        alone(graph, &[sub]);
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = process(&store, &graph).1.resume(&me(), "s_1", 7).await.expect("resume");
    assert_eq!((outcome.done().expect("done").log, done.get()), (vec!["1 7".to_owned()], 1));
}

/// 75: two steps at once before a question are each done once.
async fn g75_two_steps_at_once_are_each_done_once(store: Arc<dyn Store>) {
    let done = Count::default();
    let counted = done.clone();
    let graph = one(move |ctx: Context<Work>| {
        let (a, b) = (counted.clone(), counted.clone());
        async move {
            let a = ctx
                .step("a", async move {
                    a.up();
                    Ok::<_, NodeError>("a".to_owned())
                })
                .into_future();
            let b = ctx
                .step("b", async move {
                    b.up();
                    Ok::<_, NodeError>("b".to_owned())
                })
                .into_future();
            let (a, b) = try_join(a, b).await?;
            Ok(said(format!("{a}{b}{}", ctx.interrupt("ask", ()).await)))
        }
    });
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let outcome = process(&store, &graph).1.resume(&me(), "s_1", 1).await.expect("resume");
    assert_eq!((outcome.done().expect("done").log, done.get()), (vec!["ab1".to_owned()], 2));
}

conformance!(
    g69_steps_and_questions_in_a_loop_are_done_once,
    g71_an_answer_writes_only_what_is_new,
    g73_a_step_that_gives_nothing_is_done,
    g74_a_step_in_an_inner_graph_is_done_once,
    g75_two_steps_at_once_are_each_done_once,
);
