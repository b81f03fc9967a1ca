//! Errors of nodes, and of building a graph.

use std::fmt;

/// Why a node failed. Any error converts to it with `?`; a pause is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// A stable code: `node_failed`, unless the engine sets another.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) permanent: bool,
}

impl NodeError {
    /// A failure, retried if the node's options say so.
    pub fn new(message: impl Into<String>) -> NodeError {
        NodeError { code: "node_failed", message: message.into(), permanent: false }
    }

    /// A failure that a retry would not change.
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

// `NodeError` itself does not implement `std::error::Error`, so that every error converts to it with `?`.
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

/// Why a graph cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the graph {graph:?}: {problem}")]
#[non_exhaustive]
pub struct CompileError {
    /// The graph.
    pub graph: String,
    /// What is wrong, and how to fix it.
    pub problem: String,
}
