//! A program's inputs to a runtime, and their results.

use std::sync::Arc;

use countersign_core::{
    content::Content,
    journal::{draft::OnPending, state::Status},
    locale::Locale,
    wire::event::{Request, RunFailure, StopReason},
};
use serde_json::value::RawValue;

use super::subscription::Subscription;

/// A new session.
#[derive(Debug, Default)]
pub struct NewSession {
    /// Its id; generated if absent.
    pub session_id: Option<String>,
    /// The agent that answers; the first of the runtime if absent.
    pub agent: Option<String>,
    /// The language of the server's own texts; the runtime's if absent.
    pub locale: Option<Locale>,
    /// The application's own data, a JSON object.
    pub context: Option<Box<RawValue>>,
    /// Makes a retry with the same `session_id` safe: a session of this id that was created otherwise is refused.
    pub request_id: Option<String>,
}

/// A user's message.
#[derive(Clone, Debug, Default)]
pub struct NewMessage {
    /// The session; created if unknown, and named by the runtime if absent.
    pub session_id: Option<String>,
    /// The agent that answers from now on.
    pub agent: Option<String>,
    /// The message; at least one part.
    pub content: Content,
    /// Makes a retry of the request safe.
    pub request_id: Option<String>,
    /// What to do if the session is running or has pending requests.
    pub on_pending: Option<OnPending>,
}

impl NewMessage {
    /// A text for a session.
    pub fn text(session_id: impl Into<String>, text: impl Into<Arc<str>>) -> NewMessage {
        NewMessage { session_id: Some(session_id.into()), content: text.into().into(), ..NewMessage::default() }
    }
}

/// An input that was stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stored {
    /// The session.
    pub session_id: Arc<str>,
    /// The session's events from this input on, if it is followed.
    pub follow: Option<Subscription>,
    /// Whether an earlier attempt of the same request had stored it, so that nothing was stored now.
    pub repeated: bool,
}

/// The state of a turn once nothing more happens automatically.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Outcome")]
#[non_exhaustive]
pub struct TurnOutcome {
    /// The session.
    pub session_id: Arc<str>,
    /// Its status. `running` if this node was shutting down: another one continues the turn, so ask again.
    pub status: Status,
    /// Why the turn ended, if it has; an incomplete answer is reported here too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The text of the latest answer.
    pub text: String,
    /// The pending approval keys.
    pub pending: Vec<String>,
    /// The pending requests.
    pub interruptions: Vec<Request>,
    /// Why the turn failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
}
