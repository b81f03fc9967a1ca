//! What can go wrong in a node, and in the making of a graph.

use std::fmt;

/// Why a node failed. Made from any error by `?`; a pause is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// A stable code: `node_failed`, unless the graph itself says another.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) permanent: bool,
}

impl NodeError {
    /// It failed; it is tried again if the node's retry says so.
    pub fn new(message: impl Into<String>) -> NodeError {
        NodeError { code: "node_failed", message: message.into(), permanent: false }
    }

    /// It failed in a way that trying again will not change.
    pub fn permanent(message: impl Into<String>) -> NodeError {
        NodeError { permanent: true, ..NodeError::new(message) }
    }

    pub(crate) fn coded(code: &'static str, message: impl Into<String>) -> NodeError {
        NodeError { code, ..NodeError::permanent(message) }
    }

    /// What failed.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// `NodeError` itself is no `std::error::Error`, so that every error becomes one by `?`.
impl<E: std::error::Error> From<E> for NodeError {
    fn from(error: E) -> NodeError {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        NodeError::new(message)
    }
}

/// Why nodes and edges are no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph {graph:?}: {problem}")]
pub struct CompileError {
    /// The graph.
    pub graph: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}
