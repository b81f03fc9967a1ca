//! The building blocks of a session: what a [`model`](model::Model) and a [`tool`](tool::Tool) are, when a person is
//! asked ([`policy`]), and when a conversation is compressed ([`compression`]). Models, tools and MCP are crates that
//! build on this one.

pub mod compression;
pub mod key;
pub mod model;
#[cfg(feature = "http")]
pub mod outgoing;
pub mod policy;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod redact;
#[doc(hidden)]
pub mod same;
pub mod tool;
