//! The wire protocol: what clients send, and what a session's records look like to them (spec W).

pub mod client;
pub mod event;
pub mod expand;
mod fields;
pub mod fold;
pub mod history;
pub mod input;
pub mod payload;
pub mod request;
pub mod schema;
