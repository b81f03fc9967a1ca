//! Graphs.

mod change;
mod state;

pub use state::{GraphState, Identified, MergeError, Route};

/// What the derives write refers to; no part of the API.
#[doc(hidden)]
pub mod __private {
    pub use super::change::*;
    pub use serde;
}
