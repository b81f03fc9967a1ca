//! Graphs: typed state, nodes that may stop for a person anywhere, routes that the compiler checks (spec G).
//!
//! A graph is built with [`StateGraph`] and given to a [`crate::run::Runtime`], which keeps its runs in a store as it keeps
//! everything: a run that waits is rows, and goes on after a crash, in another process, weeks later. What runs is in
//! rounds, as [`countersign_core::journal::run`] says.

mod build;
mod change;
pub(crate) mod compiled;
mod context;
mod error;
mod here;
mod options;
mod outcome;
mod state;
pub(crate) mod task;

pub mod agent_loop;

pub use build::{Each, FanOut, Node, StateGraph};
pub use compiled::Graph;
pub use context::{Answer, Context, Interrupt, Step};
pub use error::{CompileError, NodeError};
pub use here::{GraphInput, GraphResult};
pub use options::{NodeOptions, Retry};
pub use outcome::{Outcome, Waiting};
pub use state::{GraphState, Identified, MergeError, Route};

/// A node, or a question of one, that was waited for and is gone: see [`StateGraph::migrate`].
#[derive(Clone, Copy, Debug)]
pub struct Gone<'a> {
    /// The node.
    pub node: &'a str,
    /// The question; `None`: it is the node that is gone.
    pub question: Option<&'a str>,
}

/// What has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The node's name now.
    pub node: Option<std::sync::Arc<str>>,
    /// The question's name now.
    pub question: Option<std::sync::Arc<str>>,
}

impl Renamed {
    /// The node has this name now.
    #[must_use]
    pub fn node(name: impl Into<std::sync::Arc<str>>) -> Renamed {
        Renamed { node: Some(name.into()), question: None }
    }
    /// The question has this name now, and an answer to it is an answer to that.
    #[must_use]
    pub fn question(name: impl Into<std::sync::Arc<str>>) -> Renamed {
        Renamed { node: None, question: Some(name.into()) }
    }
}

/// What the derives write refers to; no part of the API.
#[doc(hidden)]
pub mod __private {
    pub use super::change::*;
    pub use serde;
}
