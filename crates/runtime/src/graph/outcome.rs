//! Where a run stands when nothing more happens by itself.

use std::sync::Arc;

use serde_json::Value;

/// Where a run stands when nothing more happens by itself. A pause is one of these values, not an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<S> {
    /// It is over.
    Done(S),
    /// It waits for people.
    Paused {
        /// The state, with all rounds that are over.
        state: S,
        /// What waits, oldest first.
        waiting: Vec<Waiting>,
    },
    /// It failed. [`crate::run::Runs::retry`] continues it.
    Failed {
        /// A stable code, such as `node_failed`, `step_limit`, `question_gone`.
        code: String,
        /// What failed.
        message: String,
    },
    /// Somebody cancelled it.
    Cancelled,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The key it is answered by.
    pub key: String,
    /// The node, with the nodes of the graphs it is in before it: `research/plan`.
    pub node: Arc<str>,
    /// The question's name in its node; of a step in doubt the step's.
    pub question: Arc<str>,
    /// What is shown.
    pub payload: Value,
    /// The JSON Schema that the answer must fit.
    pub schema: Option<Value>,
    /// The role that answers; `None` is the session's own subject.
    pub role: Option<String>,
    /// A step whose outcome is unknown: it is decided, not answered (spec R4).
    pub in_doubt: bool,
}

impl<S> Outcome<S> {
    /// What waits; nothing if it does not.
    #[must_use]
    pub fn waiting(&self) -> &[Waiting] {
        match self {
            Outcome::Paused { waiting, .. } => waiting,
            _ => &[],
        }
    }

    /// The key of the question of this name that waits.
    #[must_use]
    pub fn key(&self, question: &str) -> Option<&str> {
        self.waiting().iter().find(|waiting| &*waiting.question == question).map(|waiting| &*waiting.key)
    }

    /// The state at the end; `None` if it is not over.
    #[must_use]
    pub fn done(self) -> Option<S> {
        match self {
            Outcome::Done(state) => Some(state),
            _ => None,
        }
    }
}
