//! Nodes running side by side: questions and steps in tasks that a node spawns, and questions of several nodes at once
//! (spec G3).

use std::{future::IntoFuture as _, sync::Arc, time::Duration};

use countersign::{
    graph::{Context, Node, NodeError, Outcome},
    run::Runs,
    store::{Store, memory::MemoryStore},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use tokio::{sync::oneshot, time::timeout};

use crate::graph_support::{Count, Work, WorkUpdate, in_line, me, process, said};

/// The outcome of a graph of one node; `None` if it has none in time.
async fn outcome_of<F>(node: impl Fn(Context<Work>) -> F + Send + Sync + 'static) -> Option<Outcome<Work>>
where
    F: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    let graph = in_line("spawns", |graph| {
        let node = graph.node("node", node);
        graph.start(node);
        graph.edge(node, Node::END);
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    let run = timeout(Duration::from_secs(60), runs.run(&me(), "s", &Work::default())).await;
    run.ok().map(|outcome| outcome.expect("run"))
}

#[tokio::test]
async fn g3_a_question_that_is_refused_in_another_task_fails_its_node() {
    let outcome = outcome_of(|ctx: Context<Work>| async move {
        let nameless = tokio::spawn(async move {
            // The node has been polled for the last time.
            tokio::time::sleep(Duration::from_millis(50)).await;
            ctx.interrupt("", ()).await
        });
        Ok(said(nameless.await?.to_string()))
    });
    let Some(Outcome::Failed { message, .. }) = outcome.await else { panic!("it hangs") };
    assert!(message.contains("a question's name has"), "{message}");
}

#[tokio::test]
async fn g3_a_question_is_asked_when_a_step_in_another_task_is_over() {
    let outcome = outcome_of(|ctx: Context<Work>| async move {
        let (begins, begun) = oneshot::channel();
        let step = ctx.step("try", async move {
            begins.send(()).map_err(|()| NodeError::new("nobody waits"))?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err::<u32, _>(NodeError::new("it leaves no record"))
        });
        drop(tokio::spawn(step.idempotent().into_future()));
        begun.await?;
        Ok(said(ctx.interrupt("go on?", ()).await.to_string()))
    });
    let outcome = outcome.await.expect("it hangs");
    assert_eq!(outcome.key("go on?"), Some("s_1"), "{outcome:?}");
}

/// The outcome of a graph of two nodes that follow each other, or that run at once.
async fn outcome_beside<F>(
    node: impl Fn(Context<Work>) -> F + Send + Sync + 'static,
    at_once: bool,
) -> (Runs<Work>, Outcome<Work>)
where
    F: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    let graph = in_line("spawns", |graph| {
        let node = graph.node("node", node);
        let slow = graph.node("slow", |_| async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(said("slow"))
        });
        graph.start(node);
        if at_once {
            graph.start(slow);
        }
        graph.edge(node, if at_once { Node::END } else { slow });
        graph.edge(slow, Node::END);
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    let outcome = timeout(Duration::from_secs(60), runs.run(&me(), "s", &Work::default())).await;
    (runs, outcome.expect("it hangs").expect("run"))
}

#[tokio::test]
async fn g3_a_step_that_outlives_its_node_fails_nothing() {
    for (begins_in_time, fails) in [(true, false), (false, false), (true, true)] {
        let done = Count::default();
        let counted = done.clone();
        let (_, outcome) = outcome_beside(
            move |ctx: Context<Work>| {
                let (counted, (begins, begun)) = (counted.clone(), oneshot::channel());
                drop(tokio::spawn(async move {
                    if !begins_in_time {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    let step = ctx.step("log", async move {
                        begins.send(()).map_err(|()| NodeError::new("nobody waits"))?;
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Ok::<_, NodeError>(counted.up())
                    });
                    step.await
                }));
                async move {
                    if begins_in_time {
                        begun.await?;
                    }
                    if fails { Err(NodeError::new("on purpose")) } else { Ok(said("node")) }
                }
            },
            fails,
        )
        .await;
        if fails {
            assert!(matches!(&outcome, Outcome::Failed { code, .. } if code == "node_failed"), "{outcome:?}");
        } else {
            assert_eq!(
                outcome.clone().done().map(|work| work.log),
                Some(vec!["node".to_owned(), "slow".to_owned()]),
                "{outcome:?}"
            );
        }
        // A node that has its result begins nothing more.
        assert_eq!(done.get(), u32::from(begins_in_time));
    }
}

/// A node with a question, and beside it a step of another task that begins once the node waits.
fn counts_beside(
    counted: Count,
) -> impl Fn(Context<Work>) -> BoxFuture<'static, Result<WorkUpdate, NodeError>> + Send + Sync + 'static {
    move |ctx: Context<Work>| {
        let (counted, beside) = (counted.clone(), ctx.clone());
        let beside = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            beside.step("count", async move { Ok::<_, NodeError>(counted.up()) }).await
        });
        async move {
            let n: i64 = ctx.interrupt("n?", ()).typed().await;
            Ok(said(format!("{}", beside.await??)).sum(n))
        }
        .boxed()
    }
}

#[tokio::test]
async fn g3_a_step_that_begins_beside_a_question_waits_until_its_node_goes_on() {
    for at_once in [true, false] {
        let done = Count::default();
        let (runs, outcome) = outcome_beside(counts_beside(done.clone()), at_once).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!((outcome.key("n?"), done.get()), (Some("s_1"), 0), "{outcome:?}");
        let over = timeout(Duration::from_secs(60), runs.resume(&me(), "s_1", 7)).await;
        let work = over.expect("it hangs").expect("resume").done().expect("done");
        assert_eq!((work.sum, work.log, done.get()), (7, vec!["1".to_owned(), "slow".to_owned()], 1));
    }
}

/// Whoever still holds the node of before has another memory than the one that starts over.
#[tokio::test]
async fn g3_r4_a_step_beside_a_question_is_done_once_when_its_node_starts_over() {
    let done = Count::default();
    let (runs, _) = outcome_beside(counts_beside(done.clone()), true).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let outcome = runs.edit(&me(), "s", &WorkUpdate::new().sum(10)).await.expect("edited");
    let key = outcome.key("n?").expect("still asked").to_owned();
    let over = timeout(Duration::from_secs(60), runs.resume(&me(), &key, 7)).await;
    let work = over.expect("it hangs").expect("resume").done().expect("done");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!((work.sum, done.get()), (17, 1));
}

/// Each part of a run without a runtime has one of its own, which ends with the part.
#[tokio::test]
async fn g3_s21_a_step_beside_a_question_is_done_once_where_each_part_has_a_runtime() {
    let done = Count::default();
    let graph = in_line("spawns", |graph| {
        let node = graph.node("node", counts_beside(done.clone()));
        graph.start(node);
        graph.edge(node, Node::END);
    });
    let paused = graph.run(Work::default()).await.expect("run");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut state = paused.state.clone();
    state.answer(&paused.interruptions[0], &7).expect("answered");
    let over = timeout(Duration::from_secs(60), graph.run(state)).await;
    let work = over.expect("it hangs").expect("resumed").outcome.done().expect("done");
    assert_eq!((work.sum, done.get()), (7, 1));
}

#[tokio::test]
async fn g3_nodes_that_ask_at_once_share_the_limit() {
    const EACH: usize = 4_000;
    let graph = in_line("many", |graph| {
        let begin = graph.node("begin", |_| async { Ok(WorkUpdate::new().items([0, 1, 2])) });
        let each = graph.map_node("each", |ctx: Context<Work>, _: u32| async move {
            join_all((0..EACH).map(|n| ctx.interrupt(&n.to_string(), ()).into_future())).await;
            Ok(WorkUpdate::new())
        });
        graph.start(begin);
        graph.fan_out(begin, each, |work| work.items.clone());
        graph.edge(each, Node::END);
    });
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    // The third one fails; the others stay pending.
    assert_eq!(outcome.pending().len(), 2 * EACH);
}
