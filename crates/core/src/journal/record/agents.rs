//! Agents that begin to work for another agent, or in its place.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::number::CallNo;

/// See [`Record::AgentBegan`](super::Record::AgentBegan).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentBegan {
    /// The call it works for.
    pub call: CallNo,
    /// The agent.
    pub agent: Arc<str>,
    /// What it is asked to do: the first message of its conversation.
    pub input: String,
}

/// See [`Record::HandedOff`](super::Record::HandedOff).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HandedOff {
    /// The call that handed off; 0 where the application did.
    pub call: CallNo,
    /// The agent that answers from now on in the call's run.
    pub agent: Arc<str>,
}
