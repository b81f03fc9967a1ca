//! Running sessions: agents, graphs, and the runtime that runs them over a [store](countersign_store::Store).
//!
//! [`run`] takes inputs, journals their transitions and carries out the effects; the server is built on it. [`runner`]
//! and [`run_state`] are its interface for Rust programs. The crate `countersign` joins all of it with models and
//! tools.

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
