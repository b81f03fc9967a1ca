//! Tools that come from elsewhere, and change while the runtime runs: those of an MCP server (spec S13).
//!
//! A reader of a source's tools sees each tool in its current form. A server is connected before a session's calls
//! continue, since they are checked against its tools. For calls whose tool has changed, see
//! `countersign_core::journal::outdated`.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::ToolEntry;

/// A source of tools that are not known when an agent is built.
///
/// An agent's tools are reread whenever [`ToolSource::version`] has changed. Invalid ones (a malformed schema, a
/// name that another tool has) are left out, and logged.
pub trait ToolSource: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;
    /// The settings that determine who is asked about calls of its tools. They are part of the policy's version, and
    /// contain no secrets.
    fn describe(&self) -> Value;
    /// A number that changes with [`ToolSource::tools`].
    fn version(&self) -> u64;
    /// The currently known tools; none before the first connection.
    fn tools(&self) -> Vec<ToolEntry>;
    /// Connects to it, if necessary: returns when [`ToolSource::tools`] are known, or when it cannot be reached now. It
    /// takes bounded time, and returns at once during back-off.
    fn prepare(&self) -> BoxFuture<'_, ()>;
    /// A turn of a session has ended: everything that waits for its answers ends.
    fn forget(&self, session_id: &str) {
        let _ = session_id;
    }
    /// A call will not get its answers: everything that waits for them ends.
    fn forget_call(&self, session_id: &str, call: u32) {
        let _ = (session_id, call);
    }
    /// Ends its process and its connection. It starts again when it is next prepared.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The tools of several sources, as one list.
pub type Sources = Vec<Arc<dyn ToolSource>>;
