//! The outcome of a run that is paused or has ended.

use std::sync::Arc;

use serde_json::Value;

/// The outcome of a run that is paused or has ended. A pause is a value, not an error.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a run that has failed is an outcome, not an error"]
#[non_exhaustive]
pub enum Outcome<S> {
    /// It is done.
    Done(S),
    /// It has pending interruptions.
    #[non_exhaustive]
    Paused {
        /// The state after all completed rounds.
        state: S,
        /// The pending questions, oldest first.
        pending: Vec<Pending>,
    },
    /// It failed. [`crate::run::Runs::retry`] continues it.
    #[non_exhaustive]
    Failed {
        /// A stable code, such as `node_failed`, `round_limit`, `question_gone`.
        code: String,
        /// What failed.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
}

/// A pending question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pending {
    /// The key it is answered by.
    pub key: String,
    /// The node, preceded by the nodes of its enclosing graphs: `research/plan`.
    pub node: Arc<str>,
    /// The question's name in its node; for a step with unknown outcome, the step's name.
    pub question: Arc<str>,
    /// The payload shown.
    pub payload: Value,
    /// The JSON Schema that the answer must match.
    pub schema: Option<Value>,
    /// The role that answers; `None` for the session's owner.
    pub role: Option<String>,
    /// Whether this is a step whose outcome is unknown, which is decided, not answered (spec R4).
    pub in_doubt: bool,
}

impl<S> Outcome<S> {
    /// The pending questions; empty if the run is not paused.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        match self {
            Outcome::Paused { pending, .. } => pending,
            _ => &[],
        }
    }

    /// The key of the pending question with this name.
    #[must_use]
    pub fn key(&self, question: &str) -> Option<&str> {
        self.pending().iter().find(|one| &*one.question == question).map(|one| &*one.key)
    }

    /// The final state; `None` if it is not done.
    #[must_use]
    pub fn done(self) -> Option<S> {
        match self {
            Outcome::Done(state) => Some(state),
            _ => None,
        }
    }
}
