//! Graphs: typed state, nodes that can pause for a person anywhere, routes that the compiler checks (spec G).
//!
//! A graph is built with [`StateGraph`] and given to a [`crate::run::Runtime`], which journals its runs in a store. A
//! paused run is only rows there, and can resume after a crash, in another process, or weeks later. Nodes run in
//! rounds, as described in [`countersign_core::journal::run`].

mod build;
mod change;
pub(crate) mod compiled;
mod context;
mod error;
mod options;
mod outcome;
mod state;
pub(crate) mod task;

pub mod agent_loop;

pub use build::{Each, FanOut, Node, StateGraph};
pub use compiled::Graph;
pub use context::{Answer, Context, Interrupt, Step};
pub use error::{CompileError, NodeError};
pub use options::{NodeOptions, Retry};
pub use outcome::{Outcome, Pending};
pub use state::{GraphState, Identified, MergeError, Route};

/// A node or question that a paused run refers to but that no longer exists: see [`StateGraph::migrate`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Gone<'a> {
    /// The node.
    pub node: &'a str,
    /// The question; `None` if the node itself no longer exists.
    pub question: Option<&'a str>,
}

/// Its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The node's new name.
    pub node: Option<std::sync::Arc<str>>,
    /// The question's new name.
    pub question: Option<std::sync::Arc<str>>,
}

impl Renamed {
    /// The node is now called `name`.
    #[must_use]
    pub fn node(name: impl Into<std::sync::Arc<str>>) -> Renamed {
        Renamed { node: Some(name.into()), question: None }
    }
    /// The question is now called `name`. An answer to the old question answers it.
    #[must_use]
    pub fn question(name: impl Into<std::sync::Arc<str>>) -> Renamed {
        Renamed { node: None, question: Some(name.into()) }
    }
}

/// Referenced by the derives' generated code; not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use super::change::*;
    pub use serde;
}
