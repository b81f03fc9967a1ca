//! The library's integration tests, one module a subject.
#![allow(unreachable_pub, reason = "a test binary's modules share freely")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod answers;
mod client;
mod clock;
mod compression;
mod computer;
#[cfg(feature = "computer")]
mod computer_chromium;
#[cfg(feature = "computer")]
mod computer_sessions;
mod conversations;
mod crashes;
mod cut_answers;
mod edits;
#[cfg(feature = "postgres")]
mod fail_over;
mod failing;
mod files;
mod forks;
mod formats;
mod gone;
mod graph_again;
mod graph_alone;
mod graph_bounds;
mod graph_changed;
mod graph_edges;
mod graph_gates;
mod graph_names;
mod graph_reported;
mod graph_sessions;
mod graph_spawned;
mod graph_state;
mod graph_support;
mod graph_versions;
mod graphs;
mod groups;
mod held;
mod history;
mod http_tools;
mod identities;
mod images;
mod langgraph;
mod large;
mod library;
mod logged;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_asks;
#[cfg(feature = "mcp")]
mod mcp_changed;
#[cfg(feature = "mcp")]
mod mcp_fails;
#[cfg(feature = "mcp")]
mod mcp_fake;
#[cfg(feature = "mcp")]
mod mcp_npm;
#[cfg(feature = "mcp")]
mod mcp_open;
#[cfg(feature = "mcp")]
mod mcp_restart;
#[cfg(feature = "mcp")]
mod mcp_turns;
#[cfg(feature = "mcp")]
mod mcp_unasked;
mod models_aimock;
mod models_aimock_apis;
mod models_anthropic;
mod models_fake;
#[cfg(feature = "genai")]
mod models_genai;
mod models_hosted_mcp;
mod models_odd;
mod models_openai;
mod models_openai_errors;
mod models_responses;
mod one_commit;
mod paced;
mod policy;
mod power;
mod refused;
mod restored;
mod run_state;
mod run_state_people;
mod runs;
#[cfg(feature = "postgres")]
mod several;
mod shell;
#[cfg(feature = "otlp")]
mod spans;
#[cfg(feature = "otlp")]
mod spans_graphs;
mod store_failing;
mod streams;
mod support;
mod table;
mod team;
mod terms;
mod tool_changes;
mod unread;

/// What runs a test on every store.
#[allow(dead_code, reason = "the stores' tests use all of it")]
#[path = "../../../store/tests/it/store_support.rs"]
mod store_support;
/// The random sessions of the core's own tests.
#[allow(dead_code, reason = "the core's tests use all of it")]
#[path = "../../../core/tests/it/world/mod.rs"]
mod world;
