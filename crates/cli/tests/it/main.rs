//! The real binary, on a free port, with real clients: every statement of spec W, and what belongs to it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]
#![allow(clippy::ok_expect, clippy::needless_pass_by_value, reason = "a test reads better so")]

mod approvals;
mod attacks;
mod attacks_words;
mod audit;
mod audit_independent;
mod bad_input;
mod builtin;
mod chat;
mod check;
mod commands;
mod compression;
#[cfg(feature = "computer")]
mod computer;
mod connections;
mod content_message;
mod decisions;
mod demo;
mod disk;
mod edges;
mod failed;
mod files;
mod forks;
mod golden;
mod golden_003;
mod graph;
mod groups;
mod held;
mod history;
mod http;
mod http_tools;
mod identities;
mod images;
mod jwt;
mod large;
mod litellm;
mod matrix;
mod mcp_hostile;
mod mcp_pypi;
mod nodes;
mod pending;
mod policy;
mod policy_always;
mod policy_test;
mod policy_time;
mod postgres;
mod providers;
mod questions;
mod questions_bad;
mod questions_waiting;
mod reconnect;
mod restart;
mod resume;
mod revocation;
mod sdk_types;
mod sealed;
mod secrets;
mod security;
mod support;
mod team;
mod third_party;
mod timeouts;
#[cfg(feature = "otlp")]
mod traces;
mod wire;
