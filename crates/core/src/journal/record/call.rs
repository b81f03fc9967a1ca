//! How calls end.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    number::{CallNo, RunNo},
    shared,
    todo::Todo,
};

/// How a call ended, in the wire's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallStatus {
    /// It ran, or a person supplied its result.
    Success,
    /// It failed, or could not be started.
    Error,
    /// A person, a standing rule or a deadline refused it.
    Rejected,
}

/// See [`Record::CallFinished`](super::Record::CallFinished).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFinished {
    /// The call's number.
    pub call: CallNo,
    /// The call's id as the model wrote it.
    #[serde(deserialize_with = "shared::string")]
    pub tool_use_id: Arc<str>,
    /// The tool that ran, or would have.
    #[serde(deserialize_with = "shared::string")]
    pub name: Arc<str>,
    /// How it ended.
    pub status: CallStatus,
    /// The result as text.
    pub output: String,
    /// Not streamed, and not part of the history (spec Q5).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Displayed outside groups.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub display_as_content: bool,
    /// The session's new to-do list, if the call wrote it (spec Q6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todos: Option<Vec<Todo>>,
    /// The run of the agent that called.
    #[serde(default, skip_serializing_if = "RunNo::is_root")]
    pub run: RunNo,
}

impl CallFinished {
    /// Whether it has a block in the stream: nested and hidden calls have none.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        !self.hidden && self.run.is_root()
    }
}

/// Why the outcome of a call is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Loss {
    /// What ran it ended midway, or the connection over which it had asked people something was given up.
    Interrupted,
    /// People answered what it had asked, but its attempt cannot resume with their answers.
    QuestionsGone,
}
