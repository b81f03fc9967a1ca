//! Nodes running side by side: questions and steps in tasks that a node spawns, and questions of several nodes at once
//! (spec G3).

use std::{future::IntoFuture as _, sync::Arc, time::Duration};

use countersign::{
    graph::{Context, Node, NodeError, Outcome},
    store::{Store, memory::MemoryStore},
};
use futures::future::join_all;
use tokio::{sync::oneshot, time::timeout};

use crate::graph_support::{Work, WorkUpdate, in_line, me, process, said};

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
