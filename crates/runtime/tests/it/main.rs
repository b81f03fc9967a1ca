//! The runtime's integration tests, one module a subject.
#![allow(unreachable_pub, reason = "a test binary's modules share freely")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod crashes;
mod models_aimock;
mod models_fake;
mod models_openai;
mod models_openai_errors;
mod runs;
mod store_conformance;
mod store_differential;
mod store_lists;
mod store_sqlite;
mod store_support;
mod streams;
mod support;
