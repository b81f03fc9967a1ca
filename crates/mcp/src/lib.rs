//! MCP servers as sources of tools (spec S13): over stdio and streamable HTTP, of the revisions 2025-11-25 and before,
//! and of 2026-07-28.
//!
//! A server is third-party software. Its descriptions are shown as its own and decide nothing: policy rules can match
//! its annotations, which never make a call easier to run. Who is asked is configured here, by [`RequireApproval`], and
//! by the policy.
//!
//! This crate is the only place that knows the protocol's library.
//!
//! ```no_run
//! # use countersign_mcp::{McpServer, RequireApproval};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = McpServer::stdio("files", ["npx", "-y", "@modelcontextprotocol/server-filesystem", "documents"])
//!     .require_approval(RequireApproval::lists(["write_file"], ["read_text_file"]))
//!     .build()?;
//! // An agent has its tools with `Agent::tools_of(files)`.
//! # Ok(())
//! # }
//! ```

mod approval;
mod asks;
mod digits;
mod failure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod link;
mod pace;
mod picked;
mod pipes;
mod result;
mod settings;
mod transport;

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;

use self::link::{
    Link,
    listed::{ListedTool, as_name},
};
pub use self::{approval::RequireApproval, picked::McpTool, settings::McpServer};
use countersign_engine::tool::{ToolEntry, source::ToolSource};

/// Default seconds to connect to a server.
pub const CONNECT_SECONDS: u32 = 30;
/// Default seconds that a call of a tool may take. Time spent waiting for people does not count.
pub const CALL_SECONDS: u32 = 60;
/// The supported revisions of the protocol, newest first.
pub const REVISIONS: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Longest limit of either, in seconds: one day.
pub const SECONDS_MAX: u32 = 24 * 3600;

/// Why a server's declaration is invalid, without its secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct McpError(String);

impl McpError {
    pub(crate) fn new(what: impl Into<String>) -> McpError {
        McpError(what.into())
    }
}

/// A tool of a server, as the server describes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct McpToolInfo {
    /// The server's own name for it.
    pub name: String,
    /// The name under which models call it.
    pub as_name: String,
    /// The server's description.
    pub description: String,
    /// Whether agents with the server's tools have it.
    pub used: bool,
    /// Why no agent can have it, if so: it is left out.
    pub mistake: Option<String>,
}

/// A server as a source of tools. It is connected when they are first needed; all agents that have its tools share one
/// connection. When the last of them is dropped, its process ends.
pub struct Mcp {
    link: Arc<Link>,
}

impl McpServer {
    /// Checks the declaration. Nothing is started or reached yet.
    ///
    /// # Errors
    /// An empty name or command, an invalid address or header, a tool in two lists, an unsupported revision of the
    /// protocol.
    pub fn build(self) -> Result<Arc<Mcp>, McpError> {
        Ok(Arc::new(Mcp { link: Arc::new(Link::new(self.checked()?)) }))
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").field("name", &self.link.settings.name).finish_non_exhaustive()
    }
}

impl Mcp {
    /// Connects to the server now, and returns its tools.
    ///
    /// # Errors
    /// It cannot be reached: why, and how its program's standard error ends, without its secrets.
    pub async fn connect(&self) -> Result<Vec<McpToolInfo>, McpError> {
        self.link.connection().await.map_err(|why| McpError::new(self.link.for_operators(&why)))?;
        Ok(self.link.listed().iter().map(ListedTool::info).collect())
    }

    /// The tools that were last listed; none before the first connection.
    #[must_use]
    pub fn tools_now(&self) -> Vec<McpToolInfo> {
        self.link.listed().iter().map(ListedTool::info).collect()
    }

    /// The names under which models would call its tools, if the declaration lists those that are used; `None` if only the
    /// server knows them.
    #[must_use]
    pub fn declared_names(&self) -> Option<Vec<String>> {
        let settings = &self.link.settings;
        let used = settings.allowed_tools.as_ref()?.iter().filter(|name| !settings.blocked_tools.contains(name));
        Some(used.map(|name| as_name(name, settings)).collect())
    }

    /// Tools named by `require_approval` and the lists that the server does not have, and its tools that are not used
    /// because of their built-in names, described. Empty before the first connection.
    #[must_use]
    pub fn unknown_names(&self) -> Vec<String> {
        self.link.unknown_names()
    }

    /// One tool of the server, by the server's own name, as a separate source, with its own name and approval. The
    /// server's lists do not apply to it, since it is named here.
    #[must_use]
    pub fn tool(&self, name: impl Into<Arc<str>>) -> McpTool {
        McpTool::new(self.link.clone(), name.into())
    }
}

impl ToolSource for Mcp {
    fn name(&self) -> &str {
        &self.link.settings.name
    }
    fn describe(&self) -> Value {
        self.link.settings.describe()
    }
    fn version(&self) -> u64 {
        self.link.version()
    }
    fn tools(&self) -> Vec<ToolEntry> {
        self.link.listed().iter().filter(|tool| tool.used).filter_map(|tool| tool.entry(&self.link, None)).collect()
    }
    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.prepare())
    }
    fn forget(&self, session_id: &str) {
        self.link.parked.forget(session_id);
    }
    fn forget_call(&self, session_id: &str, call: u32) {
        self.link.parked.forget_call(session_id, call);
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.close())
    }
}
