//! The nodes of a graph as its program has them now, and the rounds that they are in.

use std::sync::Arc;

use countersign_core::{
    journal::{
        progress::GraphRun,
        run::{NewTask, Round},
    },
    limits,
    number::{FrameNo, TaskNo},
};

use crate::graph::{
    Gone, NodeError, NodeOptions,
    compiled::{Ahead, AnyGraph, Kind},
};

pub(super) fn fatal(code: &'static str, message: String) -> NodeError {
    NodeError::coded(code, message)
}

pub(super) fn node_gone(node: &str) -> NodeError {
    let what = format!(
        "the run is at the node {node:?}, which its graph no longer has: its program has changed. Restore the node, \
         or register a migration (StateGraph::migrate), and retry the run"
    );
    fatal("node_gone", what)
}

/// A node as the graph has it now; `None` if it no longer exists.
pub(super) fn look(graph: &dyn AnyGraph, node: &str) -> Option<(Arc<str>, Kind, NodeOptions)> {
    graph.look(node).or_else(|| {
        let renamed = graph.migrate()?(&Gone { node, question: None })?.node?;
        graph.look(&renamed)
    })
}

/// The node's current name; `None` if it no longer exists.
pub(super) fn resolve(graph: &dyn AnyGraph, node: &Arc<str>) -> Option<Arc<str>> {
    // Nearly always it exists; `look` would copy its options, too.
    if graph.kind(node).is_some() { Some(node.clone()) } else { look(graph, node).map(|(name, ..)| name) }
}

pub(super) fn rounds_left(
    graph: &dyn AnyGraph,
    run: &GraphRun,
    frame: FrameNo,
    ahead: &Ahead,
) -> Result<(), NodeError> {
    let (rounds, most) = (run.frames.get(&frame).map_or(0, |frame| frame.round), graph.rounds());
    if !ahead.tasks.is_empty() && rounds >= most {
        let what = format!("the graph {:?} was not over after {most} rounds (StateGraph::max_rounds)", graph.name());
        return Err(fatal("round_limit", what));
    }
    if ahead.tasks.len() > limits::ROUND_TASKS {
        let what = format!("{} tasks in one round; at most {} are allowed", ahead.tasks.len(), limits::ROUND_TASKS);
        return Err(fatal("too_many_tasks", what));
    }
    Ok(())
}

/// A round with new numbers for its tasks.
pub(in crate::run) fn round(ahead: Ahead, made: &mut TaskNo) -> Round {
    let tasks = ahead.tasks.into_iter().map(|(node, input)| {
        *made = made.later(1);
        NewTask { task: *made, node, input }
    });
    Round { tasks: tasks.collect(), arrived: ahead.arrived }
}
