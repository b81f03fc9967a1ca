//! Paused runs, kept in memory for a while.
//!
//! A node with a pending question keeps its future for a minute (`WARM_TASKS`, `WARM_SECONDS`), so an answer finds it
//! where it stopped. After that, or in another process, it starts from its first line with its steps and answers from
//! the journal. Both lead to the same records.
//!
//! A run of the library has a runtime for each of its parts. There the paused state that the program holds takes the
//! nodes along ([`Suspended`]), for as long as it exists.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use countersign_core::{
    journal::state::{State, Status},
    limits,
};
use tokio::runtime::{Handle, Id};

use super::{super::Inner, Hot};
use crate::{
    graph::{compiled::AnyGraph, task::AnyState},
    store::nodes::Epoch,
};

/// Paused runs, ready to resume: the latest ones, by session.
#[derive(Default)]
pub(in crate::run) struct Warm {
    runs: Mutex<WarmRuns>,
}

struct Kept {
    hot: Hot,
    /// The session's position when it was kept.
    pos: u64,
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

    fn remove(&self, session_id: &str) -> Option<Kept> {
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

/// The suspended nodes of a paused run, which the run's state takes from one of its parts to the next. Whoever resumes
/// the state first continues them; a second time, or from the state's text, they start over. Copies of a state share
/// them.
#[derive(Clone, Default)]
pub(crate) struct Suspended(Arc<Mutex<Option<Box<Nodes>>>>);

struct Nodes {
    hot: Hot,
    /// The graph that they belong to: another one of the same name may be another program.
    graph: Arc<dyn AnyGraph>,
    /// Where their timers and connections live.
    threads: Option<Id>,
}

fn threads() -> Option<Id> {
    Handle::try_current().ok().map(|threads| threads.id())
}

impl Suspended {
    fn take(&self) -> Option<Box<Nodes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes over the others' nodes.
    pub(crate) fn keep(&self, others: &Suspended) {
        let nodes = others.take();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }
}

impl Inner {
    /// Takes the nodes of a paused run out of this runtime, which is about to end.
    pub(crate) fn suspended(&self, state: &State) -> Suspended {
        let graph = self.graph_that_runs(state).filter(|_| state.status == Status::AwaitingInput);
        let kept = self.warm.remove(&state.session_id).filter(|kept| kept.pos == state.pos);
        let nodes = graph.zip(kept).map(|(graph, kept)| Box::new(Nodes { hot: kept.hot, graph, threads: threads() }));
        Suspended(Arc::new(Mutex::new(nodes)))
    }

    /// Continues with these nodes, if they belong to the graph that runs here. The run is at `pos`, with nothing after
    /// the state that they came with but the decisions made on it.
    pub(crate) fn continue_suspended(&self, state: &State, suspended: &Suspended, pos: u64) {
        let Some(nodes) = suspended.take() else { return };
        let same = self.graph_that_runs(state).is_some_and(|graph| Arc::ptr_eq(&graph, &nodes.graph));
        if same && nodes.threads == threads() {
            self.warm.keep(&state.session_id, nodes.hot, (pos, None));
        }
    }

    fn graph_that_runs(&self, state: &State) -> Option<Arc<dyn AnyGraph>> {
        let run = state.run.as_ref()?;
        if run.agent_loop { self.agents.agent_loop_of(&state.agent) } else { self.graphs.get(&run.graph).cloned() }
    }
}
