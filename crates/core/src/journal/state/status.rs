//! The status of a session.

use serde::{Deserialize, Serialize};

/// A session's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// No turn has begun.
    #[default]
    Idle,
    /// A turn is running.
    Running,
    /// A turn is paused: a person must decide or answer.
    AwaitingInput,
    /// The last turn ended normally.
    Completed,
    /// The last turn failed.
    Failed,
    /// The last turn was cancelled.
    Cancelled,
}

impl Status {
    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Idle => "idle",
            Status::Running => "running",
            Status::AwaitingInput => "awaiting_input",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// The status named `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Status> {
        [Status::Idle, Status::Running, Status::AwaitingInput, Status::Completed, Status::Failed, Status::Cancelled]
            .into_iter()
            .find(|status| status.name() == name)
    }

    /// Whether a turn is under way.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Status::Running | Status::AwaitingInput)
    }

    /// Whether a turn is not over: it is under way, or has failed and may be retried.
    #[must_use]
    pub fn is_open(self) -> bool {
        self.is_active() || self == Status::Failed
    }
}
