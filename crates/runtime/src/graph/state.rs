//! The state of a graph, and its updates.

use serde::{Serialize, de::DeserializeOwned};

/// The typed state that the nodes of a graph read and change (spec G1).
///
/// Nodes never change the state itself: each returns an update, and the updates of all tasks of a round are merged
/// together, in task order, when the round ends. So the result of a round does not depend on which task was
/// fastest. Derive it: `#[derive(GraphState)]`.
pub trait GraphState: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// An update; its default changes nothing. In journals it is a JSON object with only the changed fields.
    type Update: Default + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Merges the updates of one round, in task order. After an error `self` is no longer used.
    ///
    /// # Errors
    /// Two updates set a field that has no reducer, or an update does not match the state.
    fn merge(&mut self, updates: Vec<Self::Update>) -> Result<(), MergeError>;
}

/// Why the updates of a round cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {field:?} of the state: {problem}")]
#[non_exhaustive]
pub struct MergeError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it, and how to fix it.
    pub problem: String,
}

impl MergeError {
    /// What is wrong with a field, and how to fix it.
    pub fn new(field: &'static str, problem: impl Into<String>) -> MergeError {
        MergeError { field, problem: problem.into() }
    }
}

/// An item with an id, for lists whose items are replaced by id.
pub trait Identified {
    /// The id, unique in its list.
    fn id(&self) -> &str;
}

/// The branches of a conditional edge: an enum without data (spec G1). Derive it: `#[derive(Route)]`.
pub trait Route: Copy + Send + Sync + 'static {
    /// All branches, in drawing order.
    const ALL: &'static [Self];

    /// The label of the edge.
    fn label(self) -> &'static str;
}
