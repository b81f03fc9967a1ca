//! Sessions that cannot go on here and may elsewhere: their agent is not in this node's configuration, which is changed
//! node by node, or the source of their tools does not answer it (spec R5).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

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

    /// When a session that is passed on now was passed on first.
    pub(super) fn first(&self, session_id: &Arc<str>) -> Instant {
        *self.all().entry(session_id.clone()).or_insert_with(Instant::now)
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
