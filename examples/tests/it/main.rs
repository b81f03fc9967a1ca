//! The examples do what they say, as real programs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]
#![allow(clippy::needless_pass_by_value, reason = "a test's bodies are written where they are sent")]

mod file_agent;
mod map_reduce;
mod served_graph;
mod support;
mod terminal_approval;
mod two_level;
