//! Pictures of graphs, with a session's current nodes (spec G7).
//!
//! A [`Drawing`] is data: what to draw, not where on the paper. It is written as JSON, as a
//! [Mermaid](https://mermaid.js.org) flow chart and in the language of [Graphviz](https://graphviz.org). Names and
//! labels are always shown and cannot become syntax of those languages.
//!
//! ```
//! use countersign_core::drawing::{Drawing, NodeKind};
//!
//! let mut drawing = Drawing::default();
//! drawing.node("START", "START", NodeKind::Start).node("review", "Review", NodeKind::Node);
//! drawing.edge("START", "review", "").route("review", "review", "once more");
//! drawing.stand("review", 0, 1);
//! assert!(drawing.to_mermaid().contains("class review current"));
//! ```

mod dot;
mod mermaid;
mod plan;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A graph to be drawn. Any value can be drawn: a node that is only named by an edge or a position is drawn under its
/// id, the first of two nodes with the same id counts, and a `parent` that does not exist, or is circular, is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drawing {
    /// The nodes, those of sub-graphs among them, in drawing order.
    pub nodes: Vec<DrawnNode>,
    /// The edges.
    pub edges: Vec<DrawnEdge>,
    /// The session's current nodes; empty without a session.
    #[serde(default)]
    pub current: Vec<Position>,
}

/// A node of a drawing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrawnNode {
    /// Its id, unique in the drawing. It may contain any character.
    pub id: String,
    /// Its text; several lines are possible. If empty, the id is used.
    pub label: String,
    /// Its kind.
    pub kind: NodeKind,
    /// The id of the sub-graph it is in, to any depth; none at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Where a run begins.
    Start,
    /// Where it ends.
    End,
    /// An ordinary node.
    Node,
    /// A graph of its own: drawn as a frame around the nodes that name it as their parent, or as one box without any.
    Graph,
}

/// An edge of a drawing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrawnEdge {
    /// The id of the node where it begins.
    pub from: String,
    /// The id of the node where it ends.
    pub to: String,
    /// When it is taken; may be empty.
    pub label: String,
    /// One of several that the node before may choose; drawn dashed.
    #[serde(default)]
    pub conditional: bool,
}

/// A current node of a session. It may have no tasks: at the end, for example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The id of the node.
    pub node: String,
    /// Tasks that run there.
    pub running: u32,
    /// Tasks that wait there for a person.
    pub waiting: u32,
}

impl Drawing {
    /// Adds a node at the top.
    pub fn node(&mut self, id: impl Into<String>, label: impl Into<String>, kind: NodeKind) -> &mut Drawing {
        self.nodes.push(DrawnNode { id: id.into(), label: label.into(), kind, parent: None });
        self
    }

    /// Adds a node inside the sub-graph `parent`.
    pub fn node_in(
        &mut self,
        parent: impl Into<String>,
        id: impl Into<String>,
        label: impl Into<String>,
        kind: NodeKind,
    ) -> &mut Drawing {
        self.nodes.push(DrawnNode { id: id.into(), label: label.into(), kind, parent: Some(parent.into()) });
        self
    }

    /// Adds an edge that is always taken. The label may be empty.
    pub fn edge(&mut self, from: impl Into<String>, to: impl Into<String>, label: impl Into<String>) -> &mut Drawing {
        self.edges.push(DrawnEdge { from: from.into(), to: to.into(), label: label.into(), conditional: false });
        self
    }

    /// Adds an edge that the node `from` may choose. The label says when; it may be empty.
    pub fn route(&mut self, from: impl Into<String>, to: impl Into<String>, label: impl Into<String>) -> &mut Drawing {
        self.edges.push(DrawnEdge { from: from.into(), to: to.into(), label: label.into(), conditional: true });
        self
    }

    /// Adds the graph `inner` as the sub-graph `id`, a node at the top. Its ids, including those of its positions, are
    /// prefixed with `id/`: two graphs that are embedded in a third may use the same names.
    pub fn embed(&mut self, id: impl Into<String>, label: impl Into<String>, inner: Drawing) -> &mut Drawing {
        let id = id.into();
        self.node(id.clone(), label, NodeKind::Graph);
        let within = |name: String| format!("{id}/{name}");
        self.nodes.extend(inner.nodes.into_iter().map(|node| DrawnNode {
            id: within(node.id),
            parent: Some(node.parent.map_or_else(|| id.clone(), within)),
            ..node
        }));
        self.edges.extend(inner.edges.into_iter().map(|edge| DrawnEdge {
            from: within(edge.from),
            to: within(edge.to),
            ..edge
        }));
        self.current.extend(inner.current.into_iter().map(|at| Position { node: within(at.node), ..at }));
        self
    }

    /// Marks a current node of the session, with these numbers of tasks. They are added to those of a node that is
    /// marked already.
    pub fn stand(&mut self, node: impl Into<String>, running: u32, waiting: u32) -> &mut Drawing {
        let node = node.into();
        if let Some(known) = self.current.iter_mut().find(|at| at.node == node) {
            known.running = known.running.saturating_add(running);
            known.waiting = known.waiting.saturating_add(waiting);
        } else {
            self.current.push(Position { node, running, waiting });
        }
        self
    }

    /// The drawing as a Mermaid flow chart. Current nodes have the class `current`, and `waiting` if all their tasks
    /// wait.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        mermaid::write(&plan::Plan::of(self))
    }

    /// The drawing in Graphviz's language, DOT. Current nodes have a thick line, dashed if all their tasks wait, and
    /// the class `current` or `current waiting`, which SVG keeps.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::write(&plan::Plan::of(self))
    }
}
