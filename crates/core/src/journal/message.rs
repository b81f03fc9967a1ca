//! A user's message, as it comes in.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request_id::RequestId;
use crate::content::Content;

/// A user's message.
#[derive(Clone, Debug, Default)]
pub struct MessageInput {
    /// The content; at least one part.
    pub content: Content,
    /// Who wrote it.
    pub by: Option<Arc<str>>,
    /// The roles its author holds.
    pub roles: Vec<String>,
    /// The agent that answers from now on.
    pub agent: Option<Arc<str>>,
    /// The client's `request_id`.
    pub request_id: Option<RequestId>,
    /// What to do if the session is not idle.
    pub on_pending: Option<OnPending>,
}

/// What a message does to a session that is running or has pending requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnPending {
    /// Reject what is pending, with the message as the reason.
    Reject,
    /// Queue the message.
    Queue,
}
