//! The agent loop as a graph, in plain sight (SPEC G2).
//!
//! ```text
//! START → compression → agent → { tools, approval, END }
//!                approval → { tools, agent }      tools → { approval, compression }
//! ```
//!
//! The approval node only decides, the tools node only executes. Where a session stands is a function of
//! its state, and so is what may happen next: pausing is the absence of effects.

use super::state::{Call, Phase, State};

/// The node that makes room in the conversation.
pub const COMPRESSION: &str = "compression";
/// The node that asks the model.
pub const AGENT: &str = "agent";
/// The node that waits for people.
pub const APPROVAL: &str = "approval";
/// The node that runs what is permitted.
pub const TOOLS: &str = "tools";

/// A node of the agent loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Makes room in the conversation. It lets everything through for now.
    Compression,
    /// Asks the model.
    Agent,
    /// Waits for people.
    Approval,
    /// Runs what is permitted.
    Tools,
    /// The turn is over.
    End,
}

impl Node {
    /// All nodes, in drawing order.
    pub const ALL: [Node; 5] = [Node::Compression, Node::Agent, Node::Approval, Node::Tools, Node::End];

    /// The edges, each with its label.
    pub const EDGES: [(Node, Node, &'static str); 9] = [
        (Node::Compression, Node::Agent, ""),
        (Node::Agent, Node::Tools, "some call needs nobody"),
        (Node::Agent, Node::Approval, "every call needs a person"),
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

/// Where the session stands.
#[must_use]
pub fn position(state: &State) -> Node {
    if !state.status.is_active() {
        return Node::End;
    }
    if state.run.as_ref().is_some_and(|run| !run.agent_loop && !run.frames.is_empty()) {
        // A graph of the user's: what follows there is its tasks'.
        return Node::Approval;
    }
    match state.loop_node() {
        Some(COMPRESSION) => return Node::Compression,
        Some(AGENT) => return Node::Agent,
        Some(TOOLS) => return Node::Tools,
        // At a node of the user's nothing follows by itself, as at one that waits for people.
        Some(_) => return Node::Approval,
        None => {}
    }
    let mut unfinished = state.calls.iter().filter(|call| call.phase != Phase::Finished).peekable();
    if unfinished.peek().is_none() {
        return Node::Agent;
    }
    if unfinished.any(|call| matches!(call.phase, Phase::Permitted | Phase::Started(_))) {
        return Node::Tools;
    }
    Node::Approval
}

/// What the runtime should do now. Nothing at all is a pause, or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Ask the model for the next answer.
    pub call_model: bool,
    /// Begin these calls.
    pub start: Vec<u32>,
}

/// Whether the node of an agent's loop that the session stands at has done its work, and the loop goes on from it. Only
/// of a loop that has nodes of the user's; the others go on by themselves.
#[must_use]
pub fn node_done(state: &State) -> bool {
    let Some(entered) = state.run.as_ref().filter(|run| run.agent_loop).and_then(|run| run.frames.get(&0)) else {
        return false;
    };
    let runs = |call: &Call| matches!(call.phase, Phase::Permitted | Phase::Started(_));
    match state.loop_node() {
        Some(COMPRESSION) => true,
        Some(AGENT) => state.answer_pos > entered.at,
        Some(APPROVAL) => state.calls.iter().any(runs) || state.calls.iter().all(|call| call.phase == Phase::Finished),
        Some(TOOLS) => !state.calls.iter().any(runs),
        _ => false,
    }
}

/// The effects that follow from a state.
#[must_use]
pub fn next(state: &State) -> Effects {
    match position(state) {
        Node::Agent => Effects { call_model: !state.answered && !node_done(state), start: Vec::new() },
        Node::Tools => Effects {
            call_model: false,
            start: state.calls.iter().filter(|c| c.phase == Phase::Permitted).map(|c| c.call).collect(),
        },
        Node::Compression | Node::Approval | Node::End => Effects::default(),
    }
}

/// The loop as a Mermaid flow chart, with the node at `current` marked.
#[must_use]
pub fn mermaid(current: Option<Node>) -> String {
    use std::fmt::Write as _;
    let mut out = String::from("flowchart TD\n    START((START)) --> compression\n");
    for node in Node::ALL {
        let shape = if node == Node::End { "((END))" } else { "" };
        let _ = writeln!(out, "    {}{shape}", node.name());
    }
    for (from, to, label) in Node::EDGES {
        let label = if label.is_empty() { String::new() } else { format!("|{label}|") };
        let _ = writeln!(out, "    {} -->{label} {}", from.name(), to.name());
    }
    if let Some(node) = current {
        let _ = writeln!(out, "    classDef current stroke-width:4px\n    class {} current", node.name());
    }
    out
}
