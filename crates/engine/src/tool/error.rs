//! Why a call failed, and what it asks before it can end.

use std::{any::Any, error::Error, fmt::Display, sync::Arc};

use countersign_core::{call::timeout::Timeout, journal::record::InputQuestion};

#[cfg(doc)]
use super::{Permit, Tool};

/// A failed call, described for the model.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What failed and, if known, how to fix it.
    pub message: String,
    /// Not a failure: it asks a question first.
    asks: Option<Box<Asks>>,
    /// Not a failure either: its question was answered, but the answer can no longer be delivered.
    forgotten: bool,
    /// Nothing of it was done by the attempt that failed.
    unbegun: bool,
}

/// Questions to a person, without whose answers a call cannot end (spec S13). The attempt ends with them; when they are
/// answered, the call is started again, and its permit has the answers ([`Permit::input`]).
#[derive(Clone, Debug)]
pub struct Asks {
    /// The questions; at least one.
    pub questions: Vec<InputQuestion>,
    /// State to be returned with the answers. It is kept in the journal.
    pub state: Option<Arc<str>>,
    /// The attempt stays alive in this process and waits for the answers; [`Tool::has_parked`] says whether it still
    /// does.
    pub live: bool,
    /// How long people have to answer; after that, each question's own default is its answer. If not configured, they
    /// have 300 s, or no limit in a run whose state a program keeps.
    pub timeout: Timeout,
}

impl ToolError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError { message: message.into(), asks: None, forgotten: false, unbegun: false }
    }

    /// Not an error: the call has questions for a person, and cannot end before they are answered. Without any question
    /// it is an error, since no answer could ever resume the call.
    #[must_use]
    pub fn asks(asks: Asks) -> ToolError {
        if asks.questions.is_empty() {
            return ToolError::new("the tool asks people, but gives no question");
        }
        let message = "it asks a question that nobody has answered";
        ToolError { asks: Some(Box::new(asks)), ..ToolError::new(message) }
    }

    /// Not an error: the call has asked a person something, and can no longer continue with the answer. The outcome of
    /// the call is unknown, so a person decides whether it runs again (spec R4).
    #[must_use]
    pub fn forgotten() -> ToolError {
        let message = "its question was answered, and it can no longer continue with the answer";
        ToolError { forgotten: true, ..ToolError::new(message) }
    }

    /// This error, of an attempt that did nothing: its message says that, for instance "the request was not sent". After
    /// an earlier attempt, whose outcome nobody knows, the model is told that the call may have taken effect (spec R4).
    #[must_use]
    pub fn unbegun(self) -> ToolError {
        ToolError { unbegun: true, ..self }
    }

    /// Turns any error into one whose text the model gets: `.map_err(ToolError::of)`. A `ToolError` is returned
    /// unchanged, even if boxed: it may ask a question, or mean that the outcome is unknown, and then the model must
    /// not simply repeat the call.
    pub fn of<E: Display + 'static>(error: E) -> ToolError {
        let any: &dyn Any = &error;
        let boxed = any.downcast_ref::<Box<dyn Error + Send + Sync>>().and_then(|error| error.downcast_ref());
        match any.downcast_ref().or(boxed) {
            Some(error) => ToolError::clone(error),
            None => ToolError::new(error.to_string()),
        }
    }

    /// The questions, if it has any.
    ///
    /// # Errors
    /// The error itself, if it asks nothing.
    pub fn into_asks(self) -> Result<Asks, ToolError> {
        match self {
            ToolError { asks: Some(asks), .. } => Ok(*asks),
            error => Err(error),
        }
    }

    /// Whether it is not an error but asks something.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.asks.is_some()
    }

    /// Whether the attempt that failed did nothing ([`ToolError::unbegun`]).
    #[must_use]
    pub fn is_unbegun(&self) -> bool {
        self.unbegun
    }

    /// Whether it cannot continue with its answer ([`ToolError::forgotten`]).
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.forgotten
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> ToolError {
        ToolError::new(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> ToolError {
        ToolError::new(message)
    }
}
