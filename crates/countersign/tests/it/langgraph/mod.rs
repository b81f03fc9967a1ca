//! How LangGraph behaves, and how these graphs behave: the rows of docs/langgraph.md.
//!
//! The numbers in the names of tests are those of its behaviours (A1 to H87) and of its faults (M1 to M15).

mod edits;
mod faults;
mod kills;
mod loops;
mod one_pause;
mod parallel;
mod past;
mod several;
mod steps;
mod strict;
mod subgraphs;
mod table;

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use countersign::{
    graph::{Context, Graph, Node, NodeError, Outcome, Pending, Route, StateGraph},
    run::{Refusal, Runtime},
    store::Store,
};
use countersign_core::journal::record::{Entry, Record, records};
use countersign_runtime::run::{CheckpointQuery, NewFork};
use serde_json::Value;

pub(crate) use crate::graph_support::{Count, Work, WorkUpdate, me, process, said};

/// A graph of this state.
pub(crate) fn graph_of(build: impl FnOnce(&mut StateGraph<Work>)) -> Graph<Work> {
    let mut graph = StateGraph::<Work>::new("work");
    build(&mut graph);
    graph.compile().expect("graph")
}

/// A graph of one node.
pub(crate) fn one<F, Fut>(work: F) -> Graph<Work>
where
    F: Fn(Context<Work>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<WorkUpdate, NodeError>> + Send + 'static,
{
    graph_of(|graph| {
        let node = graph.node("node", work);
        alone(graph, &[node]);
    })
}

/// These nodes begin at the same time, and none follows.
pub(crate) fn alone(graph: &mut StateGraph<Work>, nodes: &[Node<Work>]) {
    for node in nodes {
        graph.start(*node);
        graph.edge(*node, Node::END);
    }
}

/// These nodes follow each other.
pub(crate) fn in_line(graph: &mut StateGraph<Work>, nodes: &[Node<Work>]) {
    graph.start(nodes[0]);
    for pair in nodes.windows(2) {
        graph.edge(pair[0], pair[1]);
    }
    graph.edge(nodes[nodes.len() - 1], Node::END);
}

/// A node that asks this and records the answer.
pub(crate) fn asks(
    question: &'static str,
) -> impl Fn(Context<Work>) -> futures::future::BoxFuture<'static, Result<WorkUpdate, NodeError>> + Send + Sync {
    move |ctx| {
        Box::pin(async move {
            let answer = ctx.interrupt(question, question).await;
            Ok(said(format!("{question}: {answer}")))
        })
    }
}

/// A node that records this and counts how often it is begun.
pub(crate) fn says(
    what: &'static str,
    count: &Count,
) -> impl Fn(Context<Work>) -> futures::future::BoxFuture<'static, Result<WorkUpdate, NodeError>> + Send + Sync + use<>
{
    let count = count.clone();
    move |_| {
        count.up();
        Box::pin(async move { Ok(said(what)) })
    }
}

#[derive(Clone, Copy, Route)]
pub(crate) enum Way {
    On,
    Back,
}

/// The pending questions.
pub(crate) fn questions(outcome: &Outcome<Work>) -> Vec<&str> {
    let mut all: Vec<&str> = outcome.pending().iter().map(|waiting| &*waiting.question).collect();
    all.sort_unstable();
    all
}

/// The key of the question with this payload.
pub(crate) fn key_of(outcome: &Outcome<Work>, payload: &Value) -> String {
    let found = outcome.pending().iter().find(|waiting| waiting.payload == *payload);
    found.map(|waiting: &Pending| waiting.key.clone()).expect("it waits")
}

pub(crate) fn code(result: Result<impl std::fmt::Debug, Refusal>) -> String {
    result.expect_err("refused").code.name()
}

/// The code of a failure.
pub(crate) fn failure(outcome: &Outcome<Work>) -> &str {
    match outcome {
        Outcome::Failed { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

/// The journal of a session, which keeps the rules of journals.
pub(crate) async fn journal(store: &Arc<dyn Store>, session: &str) -> Vec<Arc<Entry>> {
    let entries = store.read(session, 0, usize::MAX).await.expect("journal");
    let mut state = countersign_core::session::Session::new(session.into());
    for entry in &entries {
        state.append(entry).unwrap_or_else(|wrong| panic!("{wrong}: {entry:?}"));
    }
    entries
}

/// How many records of a kind a session has.
pub(crate) async fn count(store: &Arc<dyn Store>, session: &str, kind: impl Fn(&Record) -> bool) -> usize {
    records(&journal(store, session).await).filter(|record| kind(record)).count()
}

/// The checkpoints, oldest first: each with its cause and its pending questions.
pub(crate) async fn checkpoints(runtime: &Runtime, session: &str) -> Vec<(u64, String, Vec<String>)> {
    let query = CheckpointQuery { limit: Some(1000), ..CheckpointQuery::default() };
    let page = runtime.checkpoints(&me(), session, query).await.expect("checkpoints");
    page.rows.into_iter().rev().map(|one| (one.checkpoint, one.after, one.pending)).collect()
}

/// The newest checkpoint at which this key was pending.
pub(crate) async fn where_waited(runtime: &Runtime, session: &str, key: &str) -> u64 {
    let all = checkpoints(runtime, session).await;
    let found = all.iter().rev().find(|(_, _, pending)| pending.iter().any(|one| one == key));
    found.expect("it waited").0
}

/// A fork that continues by itself, once it is idle.
pub(crate) async fn fork(runtime: &Runtime, of: &str, checkpoint: u64, id: &str) -> Vec<String> {
    let new =
        NewFork { checkpoint: Some(checkpoint), session_id: Some(id.to_owned()), run: true, ..NewFork::default() };
    runtime.fork(&me(), of, new).await.expect("fork");
    runtime.wait(&me(), id).await.expect("wait").pending
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn write(&self, what: impl Into<String>) {
        self.0.lock().expect("diary").push(what.into());
    }
    pub(crate) fn read(&self) -> Vec<String> {
        self.0.lock().expect("diary").clone()
    }
    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut all = self.read();
        all.sort();
        all
    }
    pub(crate) fn clear(&self) {
        self.0.lock().expect("diary").clear();
    }
}
