//! The core's integration tests: laws that hold for every session, whatever happens to it.

#![allow(unreachable_pub)] // a test binary's modules share freely

mod decisions;
mod laws;
mod schema;
mod world;
