//! Tools that come from elsewhere, and change while the runtime runs: those of an MCP server (spec S13).

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::ToolEntry;

/// Where tools come from that are not known when an agent is built.
///
/// An agent's tools are looked at anew whenever [`ToolSource::version`] has changed. What cannot be used (a schema
/// that is none, a name that another tool has) is left out, and said in the log.
pub trait ToolSource: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;
    /// What decides who is asked about its tools; a part of the policy's version. Without secrets.
    fn describe(&self) -> Value;
    /// A number that changes with [`ToolSource::tools`].
    fn version(&self) -> u64;
    /// The tools as they are known now; none before it was reached for the first time.
    fn tools(&self) -> Vec<ToolEntry>;
    /// Reaches it, if it is not reached: returns when [`ToolSource::tools`] are known, or when it cannot be reached now.
    /// It takes bounded time, and none if it has failed a moment ago.
    fn prepare(&self) -> BoxFuture<'_, ()>;
    /// A turn of a session is over: what waits for answers of its people is ended.
    fn forget(&self, session_id: &str) {
        let _ = session_id;
    }
    /// A call will not be given its answers: what waits for them is ended.
    fn forget_call(&self, session_id: &str, call: u32) {
        let _ = (session_id, call);
    }
    /// Ends what it has begun: its process, its connection. It begins again when it is next prepared.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The tools of several sources, looked at together.
pub type Sources = Vec<Arc<dyn ToolSource>>;
