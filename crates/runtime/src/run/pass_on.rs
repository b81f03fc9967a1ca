//! Sessions that cannot go on here and may elsewhere: their agent is not in this node's configuration, which is changed
//! node by node, or the source of their tools does not answer it (spec R5).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_core::journal::state::{Phase, State};
use tokio::time::Instant;

use super::{
    Inner,
    live::{LiveRef, LiveState},
};
use crate::store::nodes::Nodes;

/// How long such a session is left to other nodes. Then it fails here, for the same reason.
pub(super) const LEFT_TO_OTHERS: Duration = Duration::from_secs(30);

/// The sessions that this node has passed on, and when it did so first.
#[derive(Default)]
pub(super) struct PassedOn(Mutex<HashMap<Arc<str>, Instant>>);

impl PassedOn {
    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Instant>> {
        // The map is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a session was passed on.
    pub(super) fn since(&self, session_id: &str) -> Option<Instant> {
        self.all().get(session_id).copied()
    }

    /// Whether a session is left to other nodes, of which there are some.
    pub(super) fn has(&self, session_id: &str, nodes: &dyn Nodes) -> bool {
        self.since(session_id).is_some_and(|since| since.elapsed() < LEFT_TO_OTHERS) && !nodes.is_alone()
    }

    /// The sessions that are left to other nodes. Those that were passed on long ago are forgotten.
    pub(super) fn sessions(&self, nodes: &dyn Nodes) -> Vec<Arc<str>> {
        if nodes.is_alone() {
            return Vec::new();
        }
        let mut all = self.all();
        all.retain(|_, since| since.elapsed() < 3 * LEFT_TO_OTHERS);
        let left = all.iter().filter(|(_, since)| since.elapsed() < LEFT_TO_OTHERS);
        left.map(|(session_id, _)| session_id.clone()).collect()
    }
}

impl Inner {
    /// Whether the session's agent, or one that a call of it is for, is unknown to this program.
    pub(super) fn lacks_agent(&self, state: &State) -> bool {
        let calls = state.calls.iter().filter(|call| call.phase != Phase::Finished).map(|call| &call.agent);
        let graph = state.run.as_ref().filter(|run| !run.agent_loop).map(|run| &run.graph);
        let agent = graph.is_none().then_some(&state.agent);
        let is_unknown = |name: &&Arc<str>| self.agents.get(name).is_none() && !self.graphs.contains_key(&***name);
        graph.into_iter().chain(agent).chain(calls).any(|name| is_unknown(&name))
    }

    /// Hands a session over that cannot go on here, if another node is alive that may do better. `false`: it has had
    /// its time.
    pub(super) async fn pass_on(&self, live: &LiveRef, guard: &mut LiveState, why: &str) -> bool {
        let (Some(nodes), Some(epoch)) = (self.store.nodes(), guard.lease) else { return false };
        if nodes.is_alone() {
            return false;
        }
        let since = *self.passed_on.all().entry(live.session_id.clone()).or_insert_with(Instant::now);
        if since.elapsed() >= LEFT_TO_OTHERS {
            return false;
        }
        self.ends_in_order(live, guard).await;
        match nodes.hand_over(&live.session_id, epoch).await {
            Ok(_) => {
                tracing::warn!(session = &*live.session_id, "left to other nodes: {why}");
                (guard.lease, guard.working) = (None, None);
                true
            }
            Err(error) => {
                tracing::warn!(session = &*live.session_id, %error, "a session could not be handed over");
                false
            }
        }
    }
}
