//! The to-do list that a session keeps for its agent (spec Q6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the built-in tool that writes the list.
pub const TOOL: &str = "write_todos";

/// The arguments of `write_todos`: the whole list, which replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todos {
    /// In the order they are shown.
    pub todos: Vec<Todo>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// Its progress.
    pub status: TodoStatus,
}

/// The progress of a to-do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done now.
    InProgress,
    /// Done.
    Completed,
}
