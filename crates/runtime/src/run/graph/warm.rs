//! Paused runs, kept in memory for a while.
//!
//! A node with a pending question keeps its future for a minute (`WARM_TASKS`, `WARM_SECONDS`), so an answer finds it
//! where it stopped. After that, or in another process, it starts from its first line with its steps and answers from
//! the journal. Both lead to the same records.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use countersign_core::limits;

use super::hot::Hot;
use crate::{graph::task::AnyState, store::nodes::Epoch};

/// Paused runs, ready to resume: the latest ones, by session.
#[derive(Default)]
pub(in crate::run) struct Warm {
    runs: Mutex<WarmRuns>,
}

pub(super) struct Kept {
    pub(super) hot: Hot,
    /// The session's position when it was kept.
    pub(super) pos: u64,
    /// The lease under which it ran; `None` if it came with a state: then only the position counts.
    lease: Option<Epoch>,
}

#[derive(Default)]
struct WarmRuns {
    by_session: HashMap<Arc<str>, Kept>,
    /// Oldest first, with when they were kept.
    order: VecDeque<(Arc<str>, Instant)>,
    tasks: usize,
}

impl Warm {
    /// The run, unless another node held the lease since it was kept: then it may differ from the stored one.
    pub(super) fn take(&self, session_id: &str, pos: u64, now: Epoch) -> Option<Hot> {
        let kept = self.remove(session_id)?;
        let is_current = kept.lease.map_or(kept.pos == pos, |lease| now.follows(lease));
        is_current.then_some(kept.hot)
    }

    pub(super) fn remove(&self, session_id: &str) -> Option<Kept> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = runs.by_session.remove(session_id)?;
        runs.tasks -= kept.hot.parked.len();
        runs.order.retain(|(known, _)| **known != *session_id);
        Some(kept)
    }

    pub(in crate::run) fn keep(&self, session_id: &Arc<str>, hot: Hot, (pos, lease): (u64, Option<Epoch>)) {
        let tasks = hot.parked.len();
        // Dropping user-written nodes may run their code: not under the lock.
        let mut dropped = Vec::new();
        self.expire();
        if tasks == 0 || tasks > limits::WARM_TASKS {
            return;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        while runs.tasks + tasks > limits::WARM_TASKS {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(kept) = runs.by_session.remove(&oldest) {
                runs.tasks -= kept.hot.parked.len();
                dropped.push(kept);
            }
        }
        runs.tasks += tasks;
        runs.order.push_back((session_id.clone(), Instant::now()));
        if let Some(old) = runs.by_session.insert(session_id.clone(), Kept { hot, pos, lease }) {
            runs.tasks -= old.hot.parked.len();
            dropped.push(old);
        }
        drop(runs);
    }

    /// The root's state of a session's run at this position, if it is in memory.
    pub(in crate::run) fn root(&self, session_id: &str, pos: u64) -> Option<AnyState> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = runs.by_session.get(session_id).filter(|kept| kept.pos == pos)?;
        kept.hot.root().map(|(_, state)| state.clone())
    }

    /// Drops runs that were kept for long enough.
    pub(in crate::run) fn expire(&self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Vec::new();
        while runs.order.front().is_some_and(|(_, kept)| kept.elapsed().as_secs() >= limits::WARM_SECONDS) {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(kept) = runs.by_session.remove(&oldest) {
                runs.tasks -= kept.hot.parked.len();
                dropped.push(kept);
            }
        }
        drop(runs);
    }

    /// Drops a session's run, or all.
    pub(in crate::run) fn forget(&self, session_id: Option<&str>) {
        match session_id {
            Some(session_id) => drop(self.remove(session_id)),
            None => {
                let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
                drop(runs);
            }
        }
    }
}
