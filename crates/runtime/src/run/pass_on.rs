//! Sessions that cannot continue here but may elsewhere: their agent is not in this node's configuration, which is
//! changed node by node, or the source of their tools does not answer this node (spec R5).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::store::nodes::Nodes;

/// How long such a session is left to other nodes. After that it fails here, for the same reason.
pub(super) const LEFT_TO_OTHERS: Duration = Duration::from_secs(30);

/// Why a session is left to other nodes.
pub(super) struct Lack {
    pub(super) why: &'static str,
    /// After this time this node tries it again: before `LEFT_TO_OTHERS` only if that may help.
    again: Duration,
}

pub(super) const NO_AGENT: Lack = Lack { why: "its agent is not in this node's configuration", again: LEFT_TO_OTHERS };
/// A source may still be starting, on all nodes: some node always tries it.
pub(super) const NO_SOURCE: Lack =
    Lack { why: "the source of its tools does not answer this node", again: Duration::from_secs(6) };

/// The sessions that this node has passed on.
#[derive(Default)]
pub(super) struct PassedOn(Mutex<HashMap<Arc<str>, Passed>>);

struct Passed {
    /// The `seq` of the session's last event then. A later one shows that another node has continued it.
    seq: u64,
    /// When it was first passed on.
    since: Instant,
    /// When this node tries it again.
    again: Instant,
}

impl PassedOn {
    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Passed>> {
        // The map is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a session with this last event was first passed on.
    pub(super) fn since(&self, session_id: &str, seq: u64) -> Option<Instant> {
        self.all().get(session_id).filter(|passed| passed.seq == seq).map(|passed| passed.since)
    }

    /// Notes that a session with this last event is passed on.
    pub(super) fn add(&self, session_id: &Arc<str>, seq: u64, lack: &Lack) {
        let now = Instant::now();
        let since = self.since(session_id, seq).unwrap_or(now);
        let again = (now + lack.again).min(since + LEFT_TO_OTHERS);
        self.all().insert(session_id.clone(), Passed { seq, since, again });
    }

    /// Forgets a session that was not passed on after all.
    pub(super) fn forget(&self, session_id: &str) {
        self.all().remove(session_id);
    }

    /// Whether a session is left to other nodes, and there are any.
    pub(super) fn has(&self, session_id: &str, nodes: &dyn Nodes) -> bool {
        self.all().get(session_id).is_some_and(|passed| Instant::now() < passed.again) && !nodes.is_alone()
    }

    /// The sessions that are left to other nodes. Those that were passed on long ago are forgotten.
    pub(super) fn sessions(&self, nodes: &dyn Nodes) -> Vec<Arc<str>> {
        if nodes.is_alone() {
            return Vec::new();
        }
        let (mut all, now) = (self.all(), Instant::now());
        all.retain(|_, passed| passed.since.elapsed() < 3 * LEFT_TO_OTHERS);
        let left = all.iter().filter(|(_, passed)| now < passed.again);
        left.map(|(session_id, _)| session_id.clone()).collect()
    }
}
