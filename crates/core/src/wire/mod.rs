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

/// The WebSocket's subprotocol, also sent in `hello`.
pub const PROTOCOL: &str = "countersign.v1";
/// The close code of a WebSocket whose token is no longer valid (RFC 6455, section 7.4.2: of the application's own).
pub const UNAUTHENTICATED: u16 = 4401;
