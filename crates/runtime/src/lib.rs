//! The Countersign runtime: agents whose dangerous tool calls wait for a person.

// What the derives write says `::countersign`, also here.
extern crate self as countersign;

pub mod agent;
pub mod compression;
pub mod graph;
pub mod model;
pub mod policy;
pub mod run;
pub mod run_state;
pub mod runner;
pub mod store;
pub mod tool;

pub use agent::Agent;
pub use countersign_core as core;
pub use countersign_macros::tool;
pub use run_state::{ContextStrategy, DecisionError, RunState, RunStateError};
pub use runner::{
    RunError, RunEvent, RunInput, RunResult, RunStream, Runner,
    config::{CancelHandle, Price, RejectedCall, RunConfig},
    context::{Instructions, RunContext},
    guardrail::{GuardrailKind, GuardrailOutput, GuardrailResult, ToolGuardrailOutput},
    hooks::RunHooks,
    interruption::Interruption,
    run, run_streamed,
};
pub use tool::{ToolContext, ToolEntry};

/// The README's program, run like every other example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
