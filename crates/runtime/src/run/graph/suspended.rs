//! The nodes of a paused run, which its state carries along.
//!
//! A run of the library has a runtime for each of its parts. There the paused state that the program holds takes the
//! nodes along ([`Suspended`]), for as long as it exists.

use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::journal::state::{State, Status};
use tokio::runtime::{Handle, Id};

use super::{super::inner::Inner, hot::Hot};
use crate::graph::compiled::AnyGraph;

/// The suspended nodes of a paused run, which the run's state takes from one of its parts to the next. The first resume
/// of the state continues them; a second one, or one from the state's text, starts them over. Copies of a state share
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

    /// Continues with these nodes, if they belong to the graph that runs here. The run is at `pos`, with nothing but
    /// decisions after the state that they came with.
    pub(crate) fn continue_suspended(&self, state: &State, suspended: &Suspended, pos: u64) {
        let Some(nodes) = suspended.take() else { return };
        let same = self.graph_that_runs(state).is_some_and(|graph| Arc::ptr_eq(&graph, &nodes.graph));
        if same && nodes.threads == threads() {
            self.warm.keep(&state.session_id, nodes.hot, (pos, None));
        }
    }

    fn graph_that_runs(&self, state: &State) -> Option<Arc<dyn AnyGraph>> {
        let run = state.run.as_ref()?;
        if run.agent_loop { self.agents.loop_of(state) } else { self.graphs.get(&run.graph).cloned() }
    }
}
