//! The state of a graph, and what its nodes change in it.

use serde::{Serialize, de::DeserializeOwned};

pub use countersign_macros::{GraphState, Route};

/// The typed state that the nodes of a graph read and change (spec G1).
///
/// Nodes never change the state itself: each returns an update, and the updates of all tasks of a step are merged
/// together, in the order of the tasks, when the step is over. So what a step leads to does not depend on which of
/// its tasks was the fastest. Derive it: see [`countersign_macros::GraphState`].
pub trait GraphState: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// What a node changes; its default changes nothing. In journals it is a JSON object that has only the fields
    /// that change.
    type Update: Default + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Takes the updates of one step, in the order of its tasks. After an error `self` is not used any more.
    ///
    /// # Errors
    /// Two updates set a field that has no reducer, or an update does not fit the state.
    fn merge(&mut self, updates: Vec<Self::Update>) -> Result<(), MergeError>;
}

/// Why the updates of a step cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field:?} of the state: {problem}")]
pub struct MergeError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// Something that has an id, for lists whose items are replaced by id.
pub trait Identified {
    /// The id, unique in its list.
    fn id(&self) -> &str;
}

/// The ways that lead on from a node: an enum without data (spec G1). Derive it: see [`countersign_macros::Route`].
pub trait Route: Copy + Send + Sync + 'static {
    /// All ways, in the order in which they are drawn.
    const ALL: &'static [Self];

    /// What is written at the edge.
    fn label(self) -> &'static str;
}
