//! The Countersign server.

pub mod config;
