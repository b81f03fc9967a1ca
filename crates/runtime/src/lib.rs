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
//! - [`Sessions`] is the same in fewer words: `store.session("s").approve("call_1").run(&agent)`.
//! - [`graph`] has work that is more than a conversation, [`run::Runtime`] what a server is made of.
//!
//! # What an interruption wants
//!
//! [`Interruption::kind`] says it. An [`Kind::Approval`] is [approved](RunState::approve), edited
//! ([`RunState::approve_with`]) or [rejected](RunState::reject). A [`Kind::Question`], an [`Kind::Interrupt`] of a graph's node and an
//! [`Kind::Input`] of a tool are [answered](RunState::answer).
//!
//! A call that is [`Kind::InDoubt`] was begun, and its process ended before it had a result: nobody knows whether it has run. Look
//! where its effect would be. **It ran**: give its result ([`RunState::respond`]). **It did not, or may run again**:
//! [approve](RunState::approve) it, and it runs once more. **Leave it**: [reject](RunState::reject) it, and the model is told that
//! nobody knows. A program that approves whatever waits runs such a call twice, so look at the kind first. A tool that is declared
//! [idempotent](ToolEntry::idempotent) is never in doubt: it gets the same [`ToolContext::idempotency_key`] again. What runs in
//! this process is not in doubt either: a second run of the session is refused ([`RunError::AtWork`]).
//!
//! ```
//! use countersign::{Kind, RunState};
//!
//! /// Approves what is asked for the first time, and leaves what may have run to a person.
//! fn decide(state: &mut RunState) -> Result<(), countersign::DecisionError> {
//!     for item in &state.interruptions() {
//!         match item.kind {
//!             Kind::Approval => state.approve(item)?,
//!             Kind::InDoubt => println!("{item}: look whether it did, then respond, approve or reject"),
//!             kind => println!("{item}: {kind:?}, to be answered"),
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # After a cancel
//!
//! A [`CancelHandle`] ends the turn: what ran is stopped, what waited is withdrawn, and the run ends with
//! [`RunError::Cancelled`]. Nothing of that turn goes on; a stopped call may have done a part of its work, and its result says so.
//! The conversation does go on: say the next thing on the error's state, or in its session.
//!
//! ```
//! # use countersign::{Agent, CancelHandle, Message, RunConfig, RunError, Runner, run, tool};
//! /// Is asked about.
//! #[tool(needs_approval)]
//! async fn buy() -> &'static str {
//!     "bought"
//! }
//! # use countersign::model::Answer;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let agent = Agent::new("Helper", |messages: Vec<Message>| async move {
//! #     let calls = messages.iter().any(|message| matches!(message, Message::ToolResult(_)));
//! #     if calls { Answer::text("Never mind.") } else { Answer::default().call("buy", &serde_json::json!({})) }
//! # }).tool(buy);
//! let mut paused = run(&agent, "Buy it.").await?;
//! paused.state.approve(&paused.interruptions[0])?;
//! let cancel = CancelHandle::new();
//! cancel.cancel(); // Mostly from another task, while it runs.
//! let cancelled = Runner::new(RunConfig::new().cancel(&cancel)).run(&agent, paused.state).await;
//! let Err(RunError::Cancelled { mut state }) = cancelled else { panic!("it was cancelled") };
//! state.add_input("Leave it, then.");
//! assert_eq!(run(&agent, *state).await?.final_output, "Never mind.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Testing an agent
//!
//! A test needs no provider: a model is an async function of the conversation, or follows a script
//! ([`model::scripted::Scripted`]). Ask for what must be true whatever the model says: what is asked about, with which arguments, and
//! what has run when nobody approved.
//!
//! ```
//! use std::sync::{
//!     Arc,
//!     atomic::{AtomicU32, Ordering},
//! };
//!
//! use countersign::{Agent, Message, model::Answer, run, tool::{Approval, function}};
//! use serde_json::{Map, Value, json};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let sent = Arc::new(AtomicU32::new(0));
//! let counts = sent.clone();
//! let send = function::tool("send", "Sends a mail.", move |_: Map<String, Value>| {
//!     let counts = counts.clone();
//!     async move { Ok(counts.fetch_add(1, Ordering::SeqCst)) }
//! });
//! let agent = Agent::new("Mailer", |messages: Vec<Message>| async move {
//!     match messages.last() {
//!         Some(Message::ToolResult(_)) => Answer::text("Done."),
//!         _ => Answer::default().call("send", &json!({ "to": "ann@example.com" })),
//!     }
//! })
//! .tool(send.needs_approval(Approval::always()));
//!
//! let mut paused = run(&agent, "Write to Ann.").await?;
//! assert_eq!(paused.interruptions[0].arguments, r#"{"to":"ann@example.com"}"#);
//! assert_eq!(sent.load(Ordering::SeqCst), 0, "nothing runs before somebody approves");
//! paused.state.reject(&paused.interruptions[0])?;
//! assert_eq!(run(&agent, paused.state).await?.final_output, "Done.");
//! assert_eq!(sent.load(Ordering::SeqCst), 0, "nor after somebody rejects");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! By default there are `sqlite` (the SQLite store), `http` (models of OpenAI and Anthropic and what speaks like them, tools that are
//! requests, tools that use a computer), `cel` (conditions as expressions) and `encryption` (of what a store holds). A program that needs none of
//! them turns them off with `default-features = false`. `mcp`, `genai`, `computer` and `otlp` are off by default.

// What the derives write says `::countersign`, also here.
extern crate self as countersign;

pub mod agent;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod model;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod run;
pub mod run_state;
pub mod runner;
mod same;
pub mod team;
pub mod tool;

pub use agent::{Agent, OnCut};
pub use countersign_core::{
    self as core,
    approval::principal::Principal,
    call::{args::Args, gate::DecisionType},
    content::{Content, Image, ImageError, MediaType, Part},
    conversation::Message,
    journal::{
        permit::Permit,
        record::{Cut, Kind, Usage},
    },
};
#[cfg(feature = "http")]
#[doc(hidden)]
pub use countersign_engine::outgoing;
pub use countersign_engine::{compression, policy};
pub use countersign_macros::tool;
#[cfg(feature = "mcp")]
pub use countersign_mcp as mcp;
pub use countersign_store as store;
/// What the methods of [`RunHooks`], of tools and of models give: a future in a box.
pub use futures::{future::BoxFuture, stream::BoxStream};
pub use run_state::{ContextStrategy, DecisionError, RunState, RunStateError};
pub use runner::{
    NestedEvent, RunError, RunEvent, RunFrame, RunInput, RunResult, RunStream, Runner, Sessions, StoredSession,
    config::{CancelHandle, Price, RejectedCall, RunConfig},
    context::{Instructions, RunContext},
    guardrail::{GuardrailKind, GuardrailOutput, GuardrailResult, ToolGuardrailOutput},
    hooks::RunHooks,
    interruption::Interruption,
    run, run_streamed,
};
pub use team::{ToolUse, agent_tool, handoff};
pub use tool::{Approval, ToolContext, ToolEntry, ToolError, condition::ProposedCall};

/// The README's program, run like every other example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
