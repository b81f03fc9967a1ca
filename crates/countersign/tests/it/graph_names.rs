//! The names of steps and questions: uses of the same name are distinguished by their order, so that order must be
//! certain (spec G3).

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use countersign::{
    graph::{Context, Graph, Node, NodeError, NodeOptions, Outcome, Retry},
    store::{Store, memory::MemoryStore},
};
use futures::future::{join, join_all};
use tokio::{sync::Semaphore, time::timeout};

use crate::graph_support::{Count, Work, WorkUpdate, in_line, me, process, said};

/// Who was paid.
type Paid = Arc<Mutex<Vec<&'static str>>>;

fn paid(paid: &Paid) -> Vec<&'static str> {
    paid.lock().expect("paid").clone()
}

fn alone<F>(node: impl Fn(Context<Work>) -> F + Send + Sync + 'static, options: NodeOptions) -> Graph<Work>
where
    F: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    in_line("names", |graph| {
        let node = graph.node_with("node", options, node);
        graph.start(node);
        graph.edge(node, Node::END);
    })
}

async fn outcome_of<F>(node: impl Fn(Context<Work>) -> F + Send + Sync + 'static) -> Outcome<Work>
where
    F: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &alone(node, NodeOptions::default()));
    let run = timeout(Duration::from_secs(60), runs.run(&me(), "s", &Work::default())).await;
    run.expect("it hangs").expect("run")
}

fn refused(outcome: &Outcome<Work>, name: &str) {
    let Outcome::Failed { message, .. } = outcome else { panic!("it is not refused: {outcome:?}") };
    assert!(message.contains(&format!("{name:?} again")), "{message}");
}

/// Fetches what is due to someone, waits at the gate, and pays it.
async fn pays(
    ctx: Context<Work>,
    to: &'static str,
    gate: Arc<Semaphore>,
    ledger: Paid,
    fails: bool,
) -> Result<String, NodeError> {
    let slow = Duration::from_millis(if to == "a" { 30 } else { 1 });
    let fetch = ctx.step(if to == "a" { "fetch a" } else { "fetch b" }, async move {
        tokio::time::sleep(slow).await;
        Ok::<_, NodeError>(to.to_owned())
    });
    fetch.await?;
    drop(gate.acquire().await);
    if fails {
        return Err(NodeError::new("not this time"));
    }
    let pay = ctx.step("pay", async move {
        ledger.lock().expect("paid").push(to);
        Ok::<_, NodeError>(format!("receipt of {to}"))
    });
    pay.await
}

/// A node that pays two at once, each by a step of the same name; a's way to the payment has a gate.
fn pays_two(gate: &Arc<Semaphore>, ledger: &Paid, options: NodeOptions, tries: &Count) -> Graph<Work> {
    let (gate, ledger, tries) = (gate.clone(), ledger.clone(), tries.clone());
    let node = move |ctx: Context<Work>| {
        let (gate, ledger, fails) = (gate.clone(), ledger.clone(), tries.up() == 1);
        async move {
            let a = pays(ctx.clone(), "a", gate, ledger.clone(), fails);
            let b = pays(ctx, "b", Arc::new(Semaphore::new(1)), ledger, false);
            let both = join_all([futures::FutureExt::boxed(a), futures::FutureExt::boxed(b)]).await;
            Ok(WorkUpdate::new().log(both.into_iter().collect::<Result<Vec<_>, _>>()?))
        }
    };
    alone(node, options)
}

/// Nobody's receipt is given to another, and nobody is paid twice.
#[tokio::test(start_paused = true)]
async fn g3_a_name_that_is_used_twice_at_once_fails_its_node() {
    let (ledger, open) = (Paid::default(), Arc::new(Semaphore::new(1)));
    let tries = Count::default();
    tries.up();
    let graph = pays_two(&open, &ledger, NodeOptions::default(), &tries);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    refused(&runs.run(&me(), "s", &Work::default()).await.expect("run"), "pay");
    assert_eq!(paid(&ledger), ["b"]);
    // All that went before is on record now, and a's payment comes first; it is not taken for b's.
    for _ in 0..3 {
        refused(&process(&store, &graph).1.retry(&me(), "s").await.expect("retry"), "pay");
    }
    assert_eq!(paid(&ledger), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn g3_after_a_crash_a_name_that_was_used_at_once_fails_its_node() {
    let (ledger, shut) = (Paid::default(), Arc::new(Semaphore::new(0)));
    let tries = Count::default();
    tries.up();
    let graph = pays_two(&shut, &ledger, NodeOptions::default(), &tries);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    // It stops while a is on its way to the payment, and b is paid.
    let stopped = timeout(Duration::from_millis(300), runs.run(&me(), "s", &Work::default())).await;
    assert!(stopped.is_err(), "it should wait");
    drop(runs);
    assert_eq!(paid(&ledger), ["b"]);
    shut.add_permits(1);
    let (runtime, runs) = process(&store, &graph);
    runtime.start().await.expect("start");
    refused(&runs.outcome(&me(), "s").await.expect("outcome"), "pay");
    assert_eq!(paid(&ledger), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn g3_when_a_node_is_tried_again_a_name_that_was_used_at_once_fails_it() {
    let (ledger, shut) = (Paid::default(), Arc::new(Semaphore::new(0)));
    let retry = NodeOptions::new().retry(Retry::new(3).initial_delay(Duration::from_millis(1)));
    let graph = pays_two(&shut, &ledger, retry, &Count::default());
    let opens = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        shut.add_permits(1);
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (_, runs) = process(&store, &graph);
    let (outcome, ()) = join(runs.run(&me(), "s", &Work::default()), opens).await;
    refused(&outcome.expect("run"), "pay");
    assert_eq!(paid(&ledger), ["b"]);
}

#[tokio::test]
async fn g3_a_name_that_is_used_once_more_while_a_question_waits_is_refused() {
    let asks = |ctx: Context<Work>| async move {
        let ask = |ctx: Context<Work>| async move { ctx.interrupt("sure?", ()).typed::<bool>().await };
        join(ask(ctx.clone()), ask(ctx)).await;
        Ok(WorkUpdate::new())
    };
    refused(&outcome_of(asks).await, "sure?");
    let counts = |ctx: Context<Work>| async move {
        ctx.step("count", async { Ok::<_, NodeError>(1) }).await?;
        let beside = ctx.clone();
        let count = async move { beside.step("count", async { Ok::<_, NodeError>(2) }).await };
        let (count, ()) = join(count, async { drop(ctx.interrupt("sure?", ()).await) }).await;
        Ok(said(count?.to_string()))
    };
    // The step is used again before the question is asked, and so its place is certain.
    assert!(outcome_of(counts).await.key("sure?").is_some());
    let counts = |ctx: Context<Work>| async move {
        ctx.step("count", async { Ok::<_, NodeError>(1) }).await?;
        let beside = ctx.clone();
        let count = async move { beside.step("count", async { Ok::<_, NodeError>(2) }).await };
        let ((), count) = join(async { drop(ctx.interrupt("sure?", ()).await) }, count).await;
        Ok(said(count?.to_string()))
    };
    refused(&outcome_of(counts).await, "count");
}

/// One after another, and in an order that the program makes before any of them begins.
#[tokio::test]
async fn g3_a_name_is_used_again_as_long_as_the_order_is_certain() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |ctx: Context<Work>| {
        let ran = counted.clone();
        async move {
            let step = |ctx: &Context<Work>| {
                let ran = ran.clone();
                ctx.step("count", async move { Ok::<_, NodeError>(ran.up()) })
            };
            let mut seen = Vec::new();
            for _ in 0..3 {
                seen.push(step(&ctx).await?);
                let _: bool = ctx.interrupt("on?", ()).typed().await;
            }
            let made = [step(&ctx).into_future(), step(&ctx).into_future()];
            seen.extend(join_all(made).await.into_iter().collect::<Result<Vec<_>, _>>()?);
            let _: bool = ctx.interrupt("on?", ()).typed().await;
            Ok(WorkUpdate::new().items(seen))
        }
    };
    let graph = alone(node, NodeOptions::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let _ = process(&store, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    // Each answer in another process, so that the node starts over.
    for n in 1..4 {
        let paused = process(&store, &graph).1.resume(&me(), &format!("s_{n}"), true).await.expect("resume");
        assert!(paused.pending().len() == 1, "{paused:?}");
    }
    let done = process(&store, &graph).1.resume(&me(), "s_4", true).await.expect("resume").done().expect("done");
    assert_eq!((done.items, ran.get()), (vec![1, 2, 3, 4, 5], 5));
}

/// The second use of "pay" is "pay#2": another step must not be that one.
#[tokio::test]
async fn g3_no_name_of_a_step_or_a_question_has_the_sign_that_numbers_uses() {
    let step = |ctx: Context<Work>| async move {
        // Not even if its error is swallowed.
        drop(ctx.step("pay#2", async { Ok::<_, NodeError>(1) }).await);
        Ok(WorkUpdate::new())
    };
    let question = |ctx: Context<Work>| async move { Ok(said(ctx.interrupt("sure?#2", ()).await.to_string())) };
    for (outcome, name) in [(outcome_of(step).await, "pay#2"), (outcome_of(question).await, "sure?#2")] {
        let Outcome::Failed { message, .. } = outcome else { panic!("it is not refused: {outcome:?}") };
        assert!(message.contains(name) && message.contains("'#'"), "{message}");
    }
}
