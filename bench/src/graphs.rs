//! Graphs: rounds of trivial nodes, a fan-out, and many questions answered one at a time.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use countersign::graph::GraphState;
use countersign_core::approval::principal::Principal;
use countersign_runtime::{
    graph::{Context, Graph, MergeError, Node, NodeError, Outcome, StateGraph},
    run::{Runs, Runtime},
};
use countersign_store::{Store, memory::MemoryStore};
use serde::{Deserialize, Serialize};

use crate::{
    Result, Verdict, bare,
    cycle::{median, sqlite},
};

const NODES: usize = 1_000;
/// The bound for their run in memory, in milliseconds: which bound holds depends on the allocator.
const CHAIN_MS: f64 = if cfg!(feature = "mimalloc") { 1.2 } else { 1.6 };
const ITEMS: u64 = 1_000;
const QUESTIONS: u64 = 100;
const RUNS: usize = 9;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    n: u64,
    items: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Add {
    #[serde(default, skip_serializing_if = "is_zero")]
    n: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl GraphState for Count {
    type Update = Add;
    fn merge(&mut self, updates: Vec<Add>) -> std::result::Result<(), MergeError> {
        self.n += updates.iter().map(|update| update.n).sum::<u64>();
        Ok(())
    }
}

type Given = std::result::Result<Add, NodeError>;

async fn one(_: Context<Count>) -> Given {
    Ok(Add { n: 1 })
}

/// A thousand nodes, one after the other.
fn chain() -> Result<Graph<Count>> {
    let mut graph = StateGraph::new("chain");
    let nodes: Vec<Node<Count>> = (0..NODES).map(|i| graph.node(&format!("n{i}"), one)).collect();
    graph.start(nodes[0]);
    for (from, to) in nodes.iter().zip(nodes.iter().skip(1).copied().chain([Node::END])) {
        graph.edge(*from, to);
    }
    Ok(graph.compile()?)
}

/// One node for each item; it asks, if `asks`.
fn fan(asks: bool, starts: &Arc<AtomicU64>) -> Result<Graph<Count>> {
    let mut graph = StateGraph::new("fan");
    let begin = graph.node("begin", one);
    let starts = starts.clone();
    let each = graph.map_node("each", move |ctx: Context<Count>, item: u64| {
        starts.fetch_add(1, Ordering::Relaxed);
        async move {
            if asks {
                let _: bool = ctx.interrupt("sure?", item).typed().await;
            }
            Ok(Add { n: 1 })
        }
    });
    graph.start(begin);
    graph.fan_out(begin, each, |count: &Count| (0..count.items).collect::<Vec<u64>>()).limit(usize::MAX);
    graph.edge(each, Node::END);
    Ok(graph.compile()?)
}

fn runs(store: Arc<dyn Store>, graph: &Graph<Count>) -> Result<Runs<Count>> {
    Ok(Runtime::builder(store).graph(graph).build()?.runs(graph)?)
}

/// The time of a whole run, in milliseconds.
async fn timed(runs: &Runs<Count>, session: String, items: u64, n: u64) -> Result<f64> {
    let begin = Instant::now();
    let outcome = runs.run(&Principal::trusted(), session, &Count { n: 0, items }).await?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    match outcome {
        Outcome::Done(count) if count.n == n => Ok(took),
        other => Err(format!("the run came to {other:?}").into()),
    }
}

/// This many runs of a thousand nodes in memory.
pub(crate) async fn chains(rounds: usize) -> Result<()> {
    let graph = chain()?;
    let memory = runs(Arc::new(MemoryStore::new()), &graph)?;
    for i in 0..rounds {
        timed(&memory, format!("s{i}"), 0, NODES as u64).await?;
    }
    Ok(())
}

/// Answers all questions of a run one at a time: the time of one answer, in microseconds.
async fn answered(questions: u64) -> Result<(f64, u64)> {
    let starts = Arc::new(AtomicU64::new(0));
    let graph = fan(true, &starts)?;
    let runs = runs(Arc::new(MemoryStore::new()), &graph)?;
    let me = Principal::trusted();
    let outcome = runs.run(&me, "s", &Count { n: 0, items: questions }).await?;
    let keys: Vec<String> = outcome.pending().iter().map(|waiting| waiting.key.clone()).collect();
    let begin = Instant::now();
    let mut last = outcome;
    for key in &keys {
        last = runs.resume(&me, key, true).await?;
    }
    let took = begin.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
    match last {
        Outcome::Done(count) if count.n == questions + 1 => Ok((took, starts.load(Ordering::Relaxed))),
        other => Err(format!("the run came to {other:?}").into()),
    }
}

pub(crate) fn all() -> Result<Vec<Verdict>> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let graph = chain()?;
    let memory = runs(Arc::new(MemoryStore::new()), &graph)?;
    let mut times = Vec::new();
    for i in 0..RUNS {
        times.push(executor.block_on(timed(&memory, format!("s{i}"), 0, NODES as u64))?);
    }
    let chain_ms = median(times);
    let starts = Arc::new(AtomicU64::new(0));
    let fan = fan(false, &starts)?;
    let memory = runs(Arc::new(MemoryStore::new()), &fan)?;
    let mut times = Vec::new();
    for i in 0..RUNS {
        times.push(executor.block_on(timed(&memory, format!("s{i}"), ITEMS, ITEMS + 1))?);
    }
    let fan_ms = median(times);
    let (few, _) = executor.block_on(answered(QUESTIONS / 10))?;
    let (many, started) = executor.block_on(answered(QUESTIONS))?;
    let dir = tempfile::tempdir()?;
    let stored = on_disk(&executor, dir.path(), &graph)?;
    Ok(vec![
        Verdict {
            name: "graph: 1,000 nodes, memory",
            ratio: chain_ms / CHAIN_MS,
            at_least: None,
            at_most: Some(1.0),
            detail: format!("{chain_ms:.2} ms of {CHAIN_MS}"),
        },
        Verdict {
            name: "graph: fan-out to 1,000, memory",
            ratio: fan_ms / 5.0,
            at_least: None,
            at_most: Some(1.0),
            detail: format!("{fan_ms:.2} ms of 5"),
        },
        Verdict {
            name: "graph: node starts for 100 answers",
            ratio: started as f64 / QUESTIONS as f64,
            at_least: None,
            at_most: Some(2.0),
            detail: format!("{started} starts; one of 100 answers takes {many:.0} µs, one of 10 {few:.0} µs"),
        },
        stored,
    ])
}

/// A thousand nodes on SQLite, against as many synced commits of a bare loop.
fn on_disk(executor: &tokio::runtime::Runtime, dir: &Path, graph: &Graph<Count>) -> Result<Verdict> {
    let store = runs(sqlite(&dir.join("graph.db"))?, graph)?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for i in 0..5 {
        floor.push(NODES as f64 / bare::rate(Some(&dir.join(format!("bare{i}.db"))), 1, NODES)? * 1e3);
        ours.push(executor.block_on(timed(&store, format!("s{i}"), 0, NODES as u64))?);
    }
    let (ours, floor) = (median(ours), median(floor));
    Ok(Verdict {
        name: "graph: 1,000 nodes, SQLite",
        ratio: floor / ours,
        at_least: Some(0.6),
        at_most: None,
        detail: format!("{ours:.0} ms; the same commits in a bare loop {floor:.0} ms"),
    })
}
