//! Tools that come from elsewhere are reached before a session needs them (SPEC S13).

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{Inner, live::LiveRef};

/// How long a start waits for them. What takes longer is waited for by the sessions that need it.
const AT_START: Duration = Duration::from_secs(10);

impl Inner {
    /// Reaches what all agents' tools come from.
    pub(super) async fn reach_all_tools(&self) {
        let names = self.agents.names.iter().map(|name| &**name);
        if timeout(AT_START, self.agents.prepare(names)).await.is_err() {
            tracing::warn!("some tools are not known yet: what they come from does not answer");
        }
    }

    /// Reaches what the tools of a session's agents come from, if it is not reached: what its calls are checked against
    /// must be known before they go on.
    pub(super) async fn reach_tools(&self, live: &LiveRef) {
        if !self.agents.have_sources() {
            return;
        }
        let mut guard = live.lock().await;
        let Ok(state) = self.load(live, &mut guard).await else { return };
        drop(guard);
        let mut names: Vec<Arc<str>> = state.calls.iter().map(|call| call.agent.clone()).collect();
        names.push(state.agent.clone());
        names.sort();
        names.dedup();
        self.agents.prepare(names.iter().map(|name| &**name)).await;
    }
}
