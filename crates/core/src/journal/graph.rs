//! The agent loop as an explicit graph (spec G2).
//!
//! ```text
//! START → compression → agent → { tools, approval, compression, END }
//!                approval → { tools, agent }      tools → { approval, compression }
//! ```
//!
//! The approval node only decides, the tools node only executes. The current node is a function of the session's state,
//! and so is what may happen next: pausing is the absence of effects.
//!
//! In the plain loop the current node is not recorded, since it follows from the state. With custom nodes in the loop
//! each move is a record. A call approved while such a loop is at another node does not begin (`Call::cleared`) before
//! the loop has been at its approval node again, so every node after approval comes before every effect. That holds also
//! for a call that had passed these nodes before it was asked about again. A fork goes back to the model's answer for
//! the same reason.

use std::sync::Arc;

use super::{
    progress::{Task, TaskPhase},
    state::{Call, Phase, State},
};
use crate::{
    drawing::{Drawing, NodeKind},
    number::{CallNo, FrameNo, RunNo},
};

/// The node that makes room in the conversation.
pub const COMPRESSION: &str = "compression";
/// The node that asks the model.
pub const AGENT: &str = "agent";
/// The node that waits for people.
pub const APPROVAL: &str = "approval";
/// The node that runs what is permitted.
pub const TOOLS: &str = "tools";

/// Whether it is a node that every agent's loop has.
#[must_use]
pub fn is_builtin(node: &str) -> bool {
    matches!(node, COMPRESSION | AGENT | APPROVAL | TOOLS)
}

/// A node of the agent loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Makes room in the conversation, where it is larger than the agent's `context_tokens` (spec G5).
    Compression,
    /// Asks the model.
    Agent,
    /// Waits for people.
    Approval,
    /// Runs what is permitted.
    Tools,
    /// The turn has ended.
    End,
}

impl Node {
    /// All nodes, in drawing order.
    pub const ALL: [Node; 5] = [Node::Compression, Node::Agent, Node::Approval, Node::Tools, Node::End];

    /// The edges, each with its label.
    pub const EDGES: [(Node, Node, &'static str); 10] = [
        (Node::Compression, Node::Agent, ""),
        (Node::Agent, Node::Tools, "some call needs nobody"),
        (Node::Agent, Node::Approval, "every call needs a person"),
        (Node::Agent, Node::Compression, "the next call would exceed context_tokens"),
        (Node::Agent, Node::End, "no calls"),
        (Node::Approval, Node::Tools, "some are approved"),
        (Node::Approval, Node::Agent, "all are rejected"),
        (Node::Approval, Node::Approval, "the next level, or deferred"),
        (Node::Tools, Node::Approval, "gated calls still wait"),
        (Node::Tools, Node::Compression, "all have results"),
    ];

    /// Its name in pictures and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Node::Compression => COMPRESSION,
            Node::Agent => AGENT,
            Node::Approval => APPROVAL,
            Node::Tools => TOOLS,
            Node::End => "END",
        }
    }
}

/// The current node: for a failed turn, the one from which a retry continues.
#[must_use]
pub fn position(state: &State) -> Node {
    if !state.status.is_open() {
        return Node::End;
    }
    if state.run.as_ref().is_some_and(|run| !run.agent_loop && !run.frames.is_empty()) {
        // A custom graph: its tasks decide what follows.
        return Node::Approval;
    }
    match state.loop_node() {
        Some(COMPRESSION) => return Node::Compression,
        Some(AGENT) => return Node::Agent,
        Some(TOOLS) => return Node::Tools,
        // Nothing follows automatically at a custom node, as at one that waits for people.
        Some(_) => return Node::Approval,
        None => {}
    }
    let mut unfinished = state.calls_of(RunNo::ROOT).filter(|call| call.phase != Phase::Finished).peekable();
    if unfinished.peek().is_none() {
        return if state.window.due.is_some() { Node::Compression } else { Node::Agent };
    }
    if unfinished.any(|call| call.phase == Phase::Delegated || call.goes_on()) {
        return Node::Tools;
    }
    Node::Approval
}

/// The current nodes, for people: those where its tasks are.
#[must_use]
pub fn nodes(state: &State) -> Vec<String> {
    let run = state.run.as_ref().filter(|run| state.status.is_open() && !run.frames.is_empty());
    let Some(run) = run else { return vec![position(state).name().to_owned()] };
    let open = |task: &&Arc<Task>| !matches!(task.phase, TaskPhase::Done | TaskPhase::Graph(_));
    let mut nodes: Vec<String> = run.tasks.values().filter(open).map(|task| run.path(task)).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

/// The effects to carry out now. None: the session is paused, or has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Make the conversation shorter.
    pub compress: bool,
    /// Begin these calls.
    pub start: Vec<CallNo>,
    /// Start the agents that these calls target (spec S5).
    pub delegate: Vec<CallNo>,
    /// Ask the models of these runs for their next answers (spec S4).
    pub ask: Vec<RunNo>,
}

/// Whether the current node of an agent's loop has done its work, so that the loop continues. Only for a loop with
/// custom nodes; others continue by themselves.
#[must_use]
pub fn node_done(state: &State) -> bool {
    let Some(entered) = state.run.as_ref().filter(|run| run.agent_loop).and_then(|run| run.frames.get(&FrameNo::ROOT))
    else {
        return false;
    };
    let runs = |call: &Call| matches!(call.phase, Phase::Permitted | Phase::Started(_) | Phase::Delegated);
    let begun = |call: &Call| matches!(call.phase, Phase::Started(_) | Phase::Delegated) || state.may_begin(call);
    match state.loop_node() {
        Some(COMPRESSION) => state.window.due.is_none(),
        Some(AGENT) => state.answer_pos > entered.at,
        Some(APPROVAL) => {
            state.calls_of(RunNo::ROOT).any(runs)
                || state.calls_of(RunNo::ROOT).all(|call| call.phase == Phase::Finished)
        }
        Some(TOOLS) => !state.calls_of(RunNo::ROOT).any(begun),
        _ => false,
    }
}

/// The effects that follow from a state.
#[must_use]
pub fn next(state: &State) -> Effects {
    if state.held || !state.status.is_active() {
        return Effects::default();
    }
    let begins = |of: fn(&Call) -> bool| {
        state.calls.iter().filter(|call| of(call) && state.may_begin(call)).map(|call| call.call).collect()
    };
    match position(state) {
        Node::Compression => Effects { compress: state.window.due.is_some(), ..Effects::default() },
        Node::Agent => Effects {
            ask: if !state.answered && !node_done(state) { vec![RunNo::ROOT] } else { Vec::new() },
            ..Effects::default()
        },
        Node::Tools => Effects {
            start: begins(|call| call.target.is_none()),
            delegate: begins(|call| call.target.is_some()),
            ask: state.asking().map(|nested| nested.call.run()).collect(),
            ..Effects::default()
        },
        Node::Approval | Node::End => Effects::default(),
    }
}

/// The loop as a drawing, marking a session's current node, if one is given (spec G7). While some calls run, others may
/// be pending: then both nodes are marked. In a failed turn only what had begun runs, to its end.
#[must_use]
pub fn drawing(state: Option<&State>) -> Drawing {
    const START: &str = "START";
    let mut drawing = Drawing::default();
    drawing.node(START, START, NodeKind::Start);
    for node in Node::ALL {
        let kind = if node == Node::End { NodeKind::End } else { NodeKind::Node };
        drawing.node(node.name(), node.name(), kind);
    }
    drawing.edge(START, Node::ALL[0].name(), "");
    for (from, to, label) in Node::EDGES {
        // A single way out has no choice to label.
        if Node::EDGES.iter().filter(|edge| edge.0 == from).count() > 1 {
            drawing.route(from.name(), to.name(), label);
        } else {
            drawing.edge(from.name(), to.name(), label);
        }
    }
    if let Some(state) = state {
        let (at, active) = (position(state), state.status.is_active());
        let calls = |is: &dyn Fn(&Phase) -> bool| {
            let calls = state.calls.iter().filter(|call| is(&call.phase)).count();
            u32::try_from(calls).unwrap_or(u32::MAX)
        };
        let waiting = calls(&|phase| matches!(phase, Phase::Waiting(_) | Phase::Asking));
        match at {
            Node::End => drawing.stand(at.name(), 0, 0),
            Node::Compression | Node::Agent => drawing.stand(at.name(), u32::from(active), 0),
            // Calls not asked about yet are not pending.
            Node::Approval => drawing.stand(at.name(), u32::from(active && waiting == 0), waiting),
            Node::Tools => {
                let running = calls(&|phase| match phase {
                    Phase::Started(_) => true,
                    Phase::Permitted | Phase::Delegated => active,
                    _ => false,
                });
                drawing.stand(at.name(), running, 0);
                if waiting > 0 { drawing.stand(Node::Approval.name(), 0, waiting) } else { &mut drawing }
            }
        };
    }
    drawing
}
