//! The examples do what they say, as the programs that they are.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod file_agent;
mod map_reduce;
mod served_graph;
mod support;
mod terminal_approval;
mod two_level;
