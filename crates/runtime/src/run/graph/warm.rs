//! Runs that wait for people, kept as they are for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use countersign_core::{journal::run::GraphRun, limits};

use super::Hot;
use crate::graph::task::AnyState;

/// Runs that wait, ready to go on: the latest ones, by session.
#[derive(Default)]
pub(in crate::run) struct Warm {
    runs: Mutex<WarmRuns>,
}

#[derive(Default)]
struct WarmRuns {
    by_session: HashMap<Arc<str>, Hot>,
    /// Oldest first, with when they were kept.
    order: VecDeque<(Arc<str>, Instant)>,
    tasks: usize,
}

impl Warm {
    pub(super) fn take(&self, session_id: &str) -> Option<Hot> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let hot = runs.by_session.remove(session_id)?;
        runs.tasks -= hot.parked.len();
        runs.order.retain(|(known, _)| **known != *session_id);
        Some(hot)
    }

    pub(super) fn keep(&self, session_id: &Arc<str>, hot: Hot) {
        let tasks = hot.parked.len();
        // What is dropped here may be nodes of the user's: not under the lock.
        let mut dropped = Vec::new();
        self.expire();
        if tasks == 0 || tasks > limits::WARM_TASKS {
            return;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        while runs.tasks + tasks > limits::WARM_TASKS {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(hot) = runs.by_session.remove(&oldest) {
                runs.tasks -= hot.parked.len();
                dropped.push(hot);
            }
        }
        runs.tasks += tasks;
        runs.order.push_back((session_id.clone(), Instant::now()));
        if let Some(old) = runs.by_session.insert(session_id.clone(), hot) {
            runs.tasks -= old.parked.len();
            dropped.push(old);
        }
        drop(runs);
    }

    /// The root's state of a run that is kept, if it is the one that is asked for.
    pub(in crate::run) fn root(&self, session_id: &str, run: &GraphRun) -> Option<AnyState> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let hot = runs.by_session.get(session_id).filter(|hot| hot.fits(run))?;
        hot.root().map(|(_, state)| state.clone())
    }

    /// Forgets what was kept for long enough.
    pub(in crate::run) fn expire(&self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Vec::new();
        while runs.order.front().is_some_and(|(_, kept)| kept.elapsed().as_secs() >= limits::WARM_SECONDS) {
            let Some((oldest, _)) = runs.order.pop_front() else { break };
            if let Some(hot) = runs.by_session.remove(&oldest) {
                runs.tasks -= hot.parked.len();
                dropped.push(hot);
            }
        }
        drop(runs);
    }

    /// Forgets a session's run, or all.
    pub(in crate::run) fn forget(&self, session_id: Option<&str>) {
        match session_id {
            Some(session_id) => drop(self.take(session_id)),
            None => {
                let runs = std::mem::take(&mut *self.runs.lock().unwrap_or_else(PoisonError::into_inner));
                drop(runs);
            }
        }
    }
}
