//! The Countersign runtime: agents whose dangerous tool calls wait for a person.

// What the derives write says `::countersign`, also here.
extern crate self as countersign;

pub mod agent;
pub mod compression;
pub mod graph;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
pub mod policy;
pub mod run;
pub mod run_state;
pub mod store;
pub mod team;
pub mod tool;

pub use countersign_core as core;

/// The README's program, run like every other example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
