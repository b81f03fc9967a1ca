//! What tests of graphs share: a state, a process of one graph, and a count of what has happened.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use countersign::{
    graph::{Graph, GraphState, Route, StateGraph},
    run::{Runs, Runtime},
    store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, GraphState)]
pub struct Work {
    /// Set by one node of a round.
    pub last: String,
    #[graph(append)]
    pub log: Vec<String>,
    #[graph(add)]
    pub sum: i64,
    #[graph(append)]
    pub items: Vec<u32>,
}

pub fn said(text: impl Into<String>) -> WorkUpdate {
    WorkUpdate::new().log([text.into()])
}

/// A runtime of a graph over a store, and its runs: one process.
pub fn process(store: &Arc<dyn Store>, graph: &Graph<Work>) -> (Runtime, Runs<Work>) {
    let runtime = Runtime::builder(store.clone()).graph(graph).build().expect("runtime");
    let runs = runtime.runs(graph).expect("runs");
    (runtime, runs)
}

pub use crate::support::me;

#[derive(Clone, Copy, Route)]
pub enum Again {
    Again,
    Enough,
}

/// Counts how often something happened.
#[derive(Clone, Default)]
pub struct Count(Arc<AtomicU32>);

impl Count {
    pub fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn in_line(name: &str, build: impl FnOnce(&mut StateGraph<Work>)) -> Graph<Work> {
    let mut graph = StateGraph::new(name);
    build(&mut graph);
    graph.compile().expect("graph")
}

pub async fn until(counted: &Count) {
    let began = async {
        while counted.get() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), began).await.expect("it begins");
}
