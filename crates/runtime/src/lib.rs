//! Sessions at work: agents, graphs, and what runs them over a [store](countersign_store::Store).
//!
//! [`run`] takes inputs, journals what they do and carries out the effects; the server is built on it. [`runner`] and
//! [`run_state`] are what a Rust program sees of it. The crate `countersign` joins all of it with models and tools.

pub mod agent;
pub mod graph;
pub mod hooks;
pub mod interruption;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod run;
pub mod run_state;
pub mod runner;
mod same;

use countersign_engine::{compression, model, policy, tool};
use countersign_store as store;
