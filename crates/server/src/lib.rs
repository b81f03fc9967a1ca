//! The Countersign server: a WebSocket protocol, its HTTP twin and the console's files over a [`Runtime`].
//!
//! [`Server`] is an axum router that can run on its own ([`Server::serve`]) or inside another application
//! ([`Server::router`]). It has no state: sessions, decisions and events are the runtime's, and the
//! requester's identity comes from the connection, never from a message.
//!
//! ```no_run
//! # async fn example(runtime: countersign_runtime::run::Runtime) -> std::io::Result<()> {
//! use countersign_server::{Options, Server};
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7410").await?;
//! Server::new(runtime, Options::default()).serve(listener, std::future::pending()).await
//! # }
//! ```
//!
//! [`Runtime`]: countersign_runtime::run::Runtime

mod accept;
mod activity;
mod app;
mod auth;
#[doc(hidden)]
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::auth::fuzzing::{jwt, keys};
}
mod console;
mod http;
mod listener;
mod metrics;
mod options;
mod origin;
#[doc(hidden)]
pub mod outgoing;
mod places;
mod problem;
mod readiness;
mod repeats;
mod server;
mod serving;
mod site;
mod webhooks;
mod ws;

pub use auth::{Auth, JwtAlgorithm, JwtOptions, KeySource, Token};
pub use http::{asyncapi::asyncapi, openapi::openapi};
pub use options::{ConnectionLimits, HEARTBEAT, Options};
pub use problem::Problem;
#[doc(hidden)]
pub use server::InProcess;
pub use server::Server;
pub use webhooks::{Endpoint, Format, Mail, NoticeKind, SigningKey, Webhooks};
