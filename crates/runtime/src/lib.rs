//! Agents whose dangerous tool calls wait for a person.
//!
//! A tool is an async function. Where it needs approval the run stops, says what waits, and can be written down: to a file, a
//! database, a request. Later, here or in another process, it goes on where it stopped, with what was decided.
//!
//! ```
//! use countersign::{Agent, RunState, run, tool};
//!
//! /// Get the weather for a given city.
//! #[tool(needs_approval = |_call, args| args.location == "San Francisco")]
//! async fn get_weather(location: String) -> String {
//!     format!("The weather in {location} is sunny")
//! }
//!
//! # fn confirm(question: String) -> bool {
//! #     assert_eq!(
//! #         question,
//! #         r#"Agent Data agent would like to use the tool get_weather with {"location":"San Francisco"}. Do you approve?"#
//! #     );
//! #     true
//! # }
//! # const SCRIPT: &str = r#"{"turns": [{"tool_calls": [{"name": "transfer_to_Data_agent", "args": {}}]},
//! #     {"tool_calls": [{"name": "get_weather", "args": {"location": "Oakland"}},
//! #     {"name": "get_weather", "args": {"location": "San Francisco"}}]}, {"text": "{{ last_tool_result }}"}]}"#;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = countersign::model::scripted::Scripted::from_json(SCRIPT)?;
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # let model = std::sync::Arc::new(model);
//! let data_agent = Agent::new("Data agent", model.clone())
//!     .instructions("You are a data agent")
//!     .handoff_description("You know everything about the weather")
//!     .tool(get_weather);
//! let agent = Agent::new("Basic test agent", model).instructions("You are a basic agent").handoff(data_agent);
//!
//! let mut result = run(&agent, "What is the weather in Oakland and San Francisco?").await?;
//! while result.is_paused() {
//!     result.state.write("result.json")?;
//!
//!     // From here on it could be another process. Of several that take the state, one gets it.
//!     let mut state = RunState::take("result.json")?;
//!     for interruption in &state.interruptions() {
//!         if confirm(format!("{interruption}. Do you approve?")) {
//!             state.approve(interruption)?;
//!         } else {
//!             state.reject(interruption)?;
//!         }
//!     }
//!     result = run(&agent, state).await?;
//! }
//! println!("{}", result.final_output);
//! # assert_eq!(result.final_output, "The weather in San Francisco is sunny");
//! # Ok(())
//! # }
//! ```
//!
//! - [`macro@tool`] makes a tool of a function, [`ToolEntry`] sets the rest of it; [`Agent`] puts model, instructions and tools together.
//! - [`fn@run`] runs an agent, [`run_streamed`] tells of it while it goes on, [`Runner`] and [`RunConfig`] say how; a stream
//!   can have the events of nested agents too ([`RunConfig::nested_events`]).
//! - [`RunState`] is all that is needed to go on: decisions are made on it, and it is text. A [`RunError`] has one, too: a turn that
//!   failed goes on when what it failed by is mended.
//! - A store ([`RunConfig::store`], [`RunConfig::session`]) keeps what a run does as it does it: a session goes on with the next
//!   input, and one whose process died in the middle of a turn goes on with the state that [`RunState::save`] takes out of it.
//! - [`graph`] has work that is more than a conversation, [`run::Runtime`] what a server is made of.

// What the derives write says `::countersign`, also here.
extern crate self as countersign;

pub mod agent;
pub mod compression;
pub mod graph;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod model;
#[cfg(feature = "otlp")]
pub mod otlp;
#[doc(hidden)]
pub mod outgoing;
mod owner_only;
pub mod policy;
pub mod run;
pub mod run_state;
pub mod runner;
mod same;
pub mod store;
pub mod team;
pub mod tool;

pub use agent::Agent;
pub use countersign_core::{self as core, call::gate::DecisionType, journal::record::Usage};
pub use countersign_macros::tool;
/// What the methods of [`RunHooks`], of tools and of models give: a future in a box.
pub use futures::{future::BoxFuture, stream::BoxStream};
pub use run_state::{ContextStrategy, DecisionError, RunState, RunStateError};
pub use runner::{
    NestedEvent, RunError, RunEvent, RunFrame, RunInput, RunResult, RunStream, Runner,
    config::{CancelHandle, Price, RejectedCall, RunConfig},
    context::{Instructions, RunContext},
    guardrail::{GuardrailKind, GuardrailOutput, GuardrailResult, ToolGuardrailOutput},
    hooks::RunHooks,
    interruption::Interruption,
    run, run_streamed,
};
pub use team::ToolUse;
pub use tool::{Approval, ToolContext, ToolEntry, ToolError, condition::ProposedCall};

/// The README's program, run like every other example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
