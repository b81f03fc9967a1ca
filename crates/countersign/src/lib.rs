//! Agents whose dangerous tool calls wait for a person.
//!
//! A tool is an async function. When a call needs approval, the run pauses and reports its interruptions. Its state can
//! be saved: to a file, a database, a request. Later, here or in another process, the run resumes where it stopped,
//! with the decisions.
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
//!     // From here on it could be another process. If several take the state, only one gets it.
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
//! - [`macro@tool`] makes a tool of a function, [`ToolEntry`](tool::ToolEntry) configures it; [`Agent`] combines model,
//!   instructions and tools.
//! - [`fn@run`] runs an agent, [`run_streamed`] streams its events, [`Runner`] and [`RunConfig`] configure the run; a
//!   stream can include the events of nested agents ([`RunConfig::nested_events`]).
//! - [`RunState`] is everything needed to resume: you make decisions on it, and can keep it as text. A [`RunError`] has
//!   one too, so a failed turn can resume once the cause of the failure is fixed.
//! - A store ([`RunConfig::store`], [`RunConfig::session`]) records a run as it proceeds. The session continues with
//!   the next input or, if its process died in the middle of a turn, from the state that [`RunState::load`] reads.
//! - [`Sessions`] is a shorthand: `store.session("s").approve("call_1").run(&agent)`.
//! - [`graph`] is for work that is more than a conversation, [`run::Runtime`] for building servers.
//!
//! # Handling interruptions
//!
//! What to do with an interruption depends on its [kind](Interruption::kind). An
//! [`Approval`](InterruptionKind::Approval) is [approved](RunState::approve), edited ([`RunState::approve_with`]) or
//! [rejected](RunState::reject). A [`Question`](InterruptionKind::Question), an
//! [`Interrupt`](InterruptionKind::Interrupt) of a graph's node and an [`Input`](InterruptionKind::Input) of a tool are
//! [answered](RunState::answer).
//!
//! The outcome of a call that is [`InDoubt`](InterruptionKind::InDoubt) is unknown: the call had begun, and its process
//! ended before there was a result. Check whether the call took effect. **If it did**, give its result
//! ([`RunState::respond`]). **If it did not, or may run again**, use [`RunState::run_again`]. **To give it up**,
//! [reject](RunState::reject) it: the model learns that its outcome is unknown. Such a call cannot be
//! [approved](RunState::approve), so a program that approves every interruption runs no call twice. A tool declared
//! [idempotent](tool::ToolEntry::idempotent) never has an unknown outcome: it runs again with the same
//! [`idempotency_key`](tool::ToolContext::idempotency_key). Nor does a call that is running in this process: a second
//! run of the session is refused ([`RunErrorKind::SessionBusy`]).
//!
//! ```
//! use countersign::{InterruptionKind, RunState};
//!
//! /// Approves new calls, and leaves those that may have run already to a person.
//! fn decide(state: &mut RunState) -> Result<(), countersign::DecisionError> {
//!     for item in &state.interruptions() {
//!         match item.kind {
//!             InterruptionKind::Approval => state.approve(item)?,
//!             InterruptionKind::InDoubt => println!("{item}: look whether it did, then respond, run_again or reject"),
//!             kind => println!("{item}: {kind:?}, to be answered"),
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # After an error
//!
//! A state and its clones run only once in a process: a second run is refused ([`RunErrorKind::Claimed`]), since it
//! would repeat their calls. A run that fails has a state to resume from, in which the calls that ran have their
//! results:
//!
//! ```
//! # use countersign::{Agent, Message, RunErrorKind, model::ModelResponse, run, tool};
//! /// Buys it.
//! #[tool(needs_approval)]
//! async fn buy() -> &'static str {
//!     "bought"
//! }
//! # use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let down = Arc::new(AtomicBool::new(true));
//! # let agent = Agent::new("Helper", move |messages: Vec<Message>| {
//! #     let down = down.clone();
//! #     async move { match messages.last() {
//! #         Some(Message::ToolResult(_)) if down.swap(false, Ordering::SeqCst) => Err("down"),
//! #         Some(Message::ToolResult(_)) => Ok(ModelResponse::text("It is bought.")),
//! #         _ => Ok(ModelResponse::default().call("buy", &serde_json::json!({}))),
//! #     } }
//! # }).tool(buy);
//! # let mut paused = run(&agent, "Buy it.").await?;
//! # paused.state.approve(&paused.interruptions[0])?;
//! let (mut state, mut tries) = (paused.state, 0..3);
//! let over = loop {
//!     match run(&agent, state).await {
//!         Ok(over) => break over,
//!         Err(error) if error.kind() == RunErrorKind::Model && tries.next().is_some() => {
//!             state = error.into_state().expect("where it failed");
//!         }
//!         Err(error) => return Err(error.into()),
//!     }
//! };
//! assert_eq!(over.final_output, "It is bought.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If a run is dropped in the middle, or its process dies, only a store ([`RunConfig::store`]) knows what the run has
//! done. The text of a state is a copy, which can run once more, even in this process: use it to run a state twice on
//! purpose.
//!
//! # After a cancel
//!
//! A [`CancelHandle`] ends the turn: running calls are stopped, pending interruptions are withdrawn, and the run ends
//! with [`RunErrorKind::Cancelled`]. Nothing of that turn resumes; a stopped call may have done part of its work, and
//! its result says so. The conversation continues: add the next input to the error's state, or send it to the session.
//!
//! ```
//! # use countersign::{Agent, CancelHandle, Message, RunConfig, RunErrorKind, Runner, run, tool};
//! /// Buys it.
//! #[tool(needs_approval)]
//! async fn buy() -> &'static str {
//!     "bought"
//! }
//! # use countersign::model::ModelResponse;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let agent = Agent::new("Helper", |messages: Vec<Message>| async move {
//! #     let calls = messages.iter().any(|message| matches!(message, Message::ToolResult(_)));
//! #     if calls { ModelResponse::text("Never mind.") } else { ModelResponse::default().call("buy", &serde_json::json!({})) }
//! # }).tool(buy);
//! let mut paused = run(&agent, "Buy it.").await?;
//! paused.state.approve(&paused.interruptions[0])?;
//! let cancel = CancelHandle::new();
//! cancel.cancel(); // Usually from another task, while it runs.
//! let cancelled = Runner::new(RunConfig::new().cancel(&cancel)).run(&agent, paused.state).await.expect_err("cancelled");
//! assert_eq!(cancelled.kind(), RunErrorKind::Cancelled);
//! let mut state = cancelled.into_state().expect("where it was cancelled");
//! state.add_input("Leave it, then.");
//! assert_eq!(run(&agent, state).await?.final_output, "Never mind.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Testing an agent
//!
//! A test needs no provider: a model is an async function of the conversation, or follows a script
//! ([`model::scripted::Scripted`]). Assert what must hold whatever the model says: which calls need approval, with
//! which arguments, and what has run without it.
//!
//! ```
//! use std::sync::{
//!     Arc,
//!     atomic::{AtomicU32, Ordering},
//! };
//!
//! use countersign::{Agent, Message, model::ModelResponse, run, tool::{Approval, function}};
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
//!         Some(Message::ToolResult(_)) => ModelResponse::text("Done."),
//!         _ => ModelResponse::default().call("send", &json!({ "to": "ann@example.com" })),
//!     }
//! })
//! .tool(send.needs_approval(Approval::always()));
//!
//! let mut paused = run(&agent, "Write to Ann.").await?;
//! assert_eq!(paused.interruptions[0].args, r#"{"to":"ann@example.com"}"#);
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
//! Enabled by default: `sqlite` (the SQLite store), `http` (models of OpenAI, Anthropic and compatible providers,
//! tools that make HTTP requests, tools that use a computer), `cel` (conditions as expressions) and `encryption` (of
//! stored data). A program that needs none of them disables them with `default-features = false`. `postgres` (the
//! PostgreSQL store), `mcp`, `genai`, `computer` and `otlp` are off by default.
//!
//! # What is here
//!
//! This crate exports the names that a program writes: what it calls, makes, implements, matches, or uses in its own
//! signatures. A program that must name a type it only passes on can find it in the crate that defines it:
//! `countersign-engine` for models and tools, `countersign-store` for implementing a store, `countersign-runtime` for
//! what a server reads about its sessions. The types are the same, so such a program can depend on both crates.

pub use countersign_core::{
    approval::{
        decision::Decision,
        principal::{Principal, PrincipalKind},
        rule::Always,
    },
    call::{args::Args, gate::DecisionType},
    content::{Content, Image, ImageError, MediaType, Part},
    conversation::Message,
    journal::{
        draft::CallResult,
        permit::Permit,
        record::{CallStatus, Cut, Kind as InterruptionKind, Usage},
        run::Raw,
        state::Status,
    },
    locale::Locale,
    setting::SettingError,
    wire::event::Resolution,
};
pub use countersign_engine::tool::guardrail::ToolGuardrailOutput;
pub use countersign_macros::tool;
pub use countersign_runtime::{
    agent::{
        Agent, AgentError, OnCut,
        context::RunContext,
        guardrail::{GuardrailKind, GuardrailOutput, GuardrailResult},
        team::{ToolUseBehavior, agent_tool, handoff},
    },
    hooks::{ApprovalResolved, ModelEnd, RunHooks},
    interruption::Interruption,
    run::budget::Price,
    run_state::{ContextStrategy, DecisionError, RunState, RunStateError},
    runner::{
        NestedEvent, RunError, RunErrorKind, RunEvent, RunFrame, RunResult, RunStream, Runner, Sessions, StoredSession,
        config::{CancelHandle, RejectedCall, RunConfig},
        run, run_streamed,
    },
};
/// The return type of the methods of [`RunHooks`], of tools and of models.
pub use futures::{future::BoxFuture, stream::BoxStream};

/// When a conversation is compressed.
pub mod compression {
    pub use countersign_engine::compression::Compression;
}

/// The parts of a conversation's messages, for implementing a model.
pub mod conversation {
    pub use countersign_core::{
        conversation::{AssistantMessage, ToolResult},
        journal::record::{Block, ToolUse},
    };
}

/// Graphs: typed state, nodes that can pause for a person anywhere, routes that the compiler checks.
///
/// A [`StateGraph`](graph::StateGraph) builds a graph, which runs on its own ([`Graph::run`](graph::Graph::run)), in a
/// [`Runtime`](run::Runtime) over a store, or as the loop of an agent ([`agent_loop`](graph::agent_loop)).
pub mod graph {
    pub use countersign_macros::{GraphState, Route};
    #[doc(hidden)]
    pub use countersign_runtime::graph::__private;
    pub use countersign_runtime::{
        graph::{
            CompileError, Context, Each, Gone, Graph, GraphState, Identified, MergeError, Node, NodeError, NodeOptions,
            Outcome, Pending, Renamed, Retry, Route, StateGraph,
        },
        runner::GraphResult,
    };

    /// The loop of an agent as a graph that a program can change.
    pub mod agent_loop {
        pub use countersign_runtime::graph::agent_loop::{
            AfterAgent, AfterApproval, AfterTools, AgentLoop, AgentState, AgentUpdate, CallStage, after_agent,
            after_approval, after_tools, approval_payload,
        };
    }
}

/// MCP servers as sources of tools.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use countersign_mcp::{Mcp, McpError, McpServer, RequireApproval};
}

/// Models: the trait, and its implementations for providers. An async function of the conversation is a model too:
///
/// ```
/// use countersign::{Agent, Message, model::ModelResponse, run, tool};
///
/// /// Adds.
/// #[tool]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let agent = Agent::new("Adder", |messages: Vec<Message>| async move {
///     match messages.last() {
///         Some(Message::ToolResult(sum)) => ModelResponse::text(format!("It is {}.", sum.text)),
///         _ => ModelResponse::default().call("add", &serde_json::json!({ "a": 2, "b": 3 })),
///     }
/// })
/// .tool(add);
/// assert_eq!(run(&agent, "How much is 2 + 3?").await?.final_output, "It is 5.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod model {
    pub use countersign_engine::{
        key::ApiKey,
        model::{
            Model, ModelConfigError, ModelError, ModelEvent, ModelRequest, ModelResponse, OutputSchema, TakesImages,
            Transcript,
        },
    };

    /// Models that use Anthropic's Messages API.
    #[cfg(feature = "http")]
    pub mod anthropic {
        pub use countersign_models::anthropic::{Anthropic, AnthropicConfig, Thinking};
    }

    /// Models of the providers that the genai crate supports.
    #[cfg(feature = "genai")]
    pub mod genai {
        pub use countersign_models::genai::{Genai, GenaiConfig};
    }

    /// MCP servers that the model's provider calls.
    pub mod hosted_mcp {
        pub use countersign_engine::model::hosted_mcp::{HostedApproval, HostedMcp};
    }

    /// Models that use OpenAI's Responses API.
    #[cfg(feature = "http")]
    pub mod openai {
        pub use countersign_models::openai::{OpenAi, OpenAiConfig};
    }

    /// Models that use OpenAI's Chat Completions API, also on compatible servers.
    #[cfg(feature = "http")]
    pub mod openai_chat {
        pub use countersign_models::openai_chat::{OpenAiChat, OpenAiChatConfig};
    }

    /// How often, and after how long, a failed model call is retried.
    pub mod retry {
        pub use countersign_engine::model::retry::RetryPolicy;
    }

    /// A model that follows a script, for tests and demonstrations.
    pub mod scripted {
        pub use countersign_models::scripted::Scripted;
    }
}

/// Spans for an OpenTelemetry collector.
#[cfg(feature = "otlp")]
pub mod otlp {
    pub use countersign_runtime::otlp::{OtlpError, Traces, traces};
}

/// Approval rules that apply to all tools.
pub mod policy {
    pub use countersign_core::call::{gate::Ask, reviewer::Reviewer, timeout::Timeout};
    pub use countersign_engine::policy::{Glob, HintFilter, Policy, PolicyRule, Then};
}

/// Running sessions over a store: agents and graphs for several people, the parts of a server.
pub mod run {
    pub use countersign_core::{
        audit::{Anchor, AuditRecord},
        journal::{
            draft::OnPending,
            record::{Held, Withdrawal},
        },
        refusal::{Code, Refusal},
        wire::event::{HeldTurn, Request, RunFailure, StopReason},
    };
    pub use countersign_runtime::run::{
        ApprovalQuery, ApprovalStatus, ApprovalView, AuditCheck, AuditError, CheckpointQuery, EditedCall, ForkEdit,
        ListPage, NewDecision, NewFork, NewMessage, NewRetry, NewSession, Reply, Runs, Runtime, SessionQuery,
        SessionRow, SessionView, Stored, TurnOutcome,
    };
}

/// What a reviewer sees of a call, with every deceptive character escaped.
pub mod shown {
    pub use countersign_core::call::shown::{Shown, line};
}

/// Where sessions are kept.
pub mod store {
    pub use countersign_store::{Store, StoreError};

    /// A store in memory.
    pub mod memory {
        pub use countersign_store::memory::MemoryStore;
    }

    /// The keys of an encrypted store.
    pub mod seal {
        pub use countersign_store::seal::{Key, Keys};
    }

    /// A store in a PostgreSQL database.
    #[cfg(feature = "postgres")]
    pub mod postgres {
        pub use countersign_store::postgres::{PostgresOptions, PostgresStore, PostgresUrl};
    }

    /// A store in a SQLite file.
    #[cfg(feature = "sqlite")]
    pub mod sqlite {
        pub use countersign_store::sqlite::{SqliteOptions, SqliteStore};
    }
}

/// Tools: what an agent can do, which calls need approval, and how a call runs.
pub mod tool {
    pub use countersign_core::call::{
        display::{ContentMessage, StreamRule},
        preview::{Preview, PreviewKind},
        template::Template,
    };
    #[doc(hidden)]
    pub use countersign_engine::tool::__private;
    pub use countersign_engine::tool::{
        AppContext, Approval, Hints, OnApprovalOutput, Previewer, Tool, ToolContext, ToolEntry, ToolError, ToolSpec,
        on_approval,
    };

    /// The built-in tools: they talk to the user, work on a folder, or control a computer.
    pub mod builtin {
        #[cfg(feature = "computer")]
        pub use countersign_tools::builtin::Chromium;
        #[cfg(feature = "http")]
        pub use countersign_tools::builtin::{
            Button, Computer, ComputerAction, Environment, Hosts, Point, Screenshot, computer, each_action,
        };
        pub use countersign_tools::builtin::{
            Shell, Workspace, apply_patch, ask_user_question, edit_file, list_files, read_file, share_thought, shell,
            write_file, write_todos,
        };
    }

    /// Programs as tools.
    pub mod command {
        pub use countersign_tools::command::CommandTool;
    }

    /// When a call needs approval.
    pub mod condition {
        pub use countersign_engine::tool::{
            CallFacts, Condition,
            condition::{CelCondition, ProposedCall},
        };
    }

    /// Async functions as tools.
    pub mod function {
        pub use countersign_engine::tool::function::{tool, tool_with_context};
    }

    /// Tools that make HTTP requests.
    #[cfg(feature = "http")]
    pub mod http {
        pub use countersign_tools::http::{HttpRequest, HttpToolError};
    }

    /// Tools from another source, which may change.
    pub mod source {
        pub use countersign_engine::tool::source::ToolSource;
    }
}

/// Runs the README's program, like every other example of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the tool of the page about tools.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tools.md")]
struct Tools;

/// Compiles the graph of the page about graphs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/graphs.md")]
struct Graphs;
