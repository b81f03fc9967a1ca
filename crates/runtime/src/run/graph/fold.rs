//! The states of a run's frames, folded from the journal.

use std::{collections::BTreeMap, sync::Arc};

use countersign_core::{
    journal::{
        progress::GraphRun,
        record::Record,
        run::{DoneTask, FrameBegan, FrameState, Raw, Then},
    },
    number::{FrameNo, StateVersion, TaskNo},
    refusal::Refusal,
};

use super::{
    hot::{Hot, HotFrame},
    rounds::{fatal, look, node_gone},
};
use crate::{
    graph::{
        NodeError,
        compiled::{AnyGraph, Kind},
        task::{AnyState, AnyUpdate},
    },
    run::{
        inner::{Inner, READ_BYTES, READ_PAGE},
        refusals::store_refusal,
    },
};

impl Inner {
    /// Folds the states of a run's frames as they were at `until`.
    pub(in crate::run) async fn fold_states(
        &self,
        session_id: &str,
        run: &GraphRun,
        until: u64,
    ) -> Result<Result<Hot, NodeError>, Refusal> {
        let mut fold = Fold { hot: Hot::new(run), done: BTreeMap::new() };
        if run.agent_loop {
            // Its state is the session's.
            return Ok(Ok(fold.hot.for_loop(run)));
        }
        let Some(root) = self.graphs.get(&run.graph).cloned() else {
            let what = format!("there is no graph {:?} in this program any more", run.graph);
            return Ok(Err(fatal("graph_gone", what)));
        };
        let mut after = run.since.saturating_sub(1);
        while after < until {
            let page = self.store.read_within(session_id, after, READ_PAGE, READ_BYTES).await.map_err(store_refusal)?;
            let Some(last) = page.last() else { return Err(self.no_entries(session_id).await) };
            after = last.pos;
            for entry in page.iter().filter(|entry| entry.pos <= until) {
                if let Err(error) = entry.records.iter().try_for_each(|record| fold.record(&root, record, entry.pos)) {
                    return Ok(Err(error));
                }
            }
        }
        // The fold has read everything, including the edits in the states it began with.
        fold.hot.edited = run.edited;
        Ok(Ok(fold.hot))
    }
}

/// A state on record, as this program's type of it.
fn state_of(graph: &dyn AnyGraph, version: StateVersion, json: &Raw) -> Result<AnyState, NodeError> {
    graph
        .upgraded(version, json)
        .and_then(|json| graph.read_state(&json))
        .map_err(|error| unreadable(graph, version, &error))
}

/// An update on record.
fn update_of(graph: &dyn AnyGraph, version: StateVersion, json: Option<&Raw>) -> Result<AnyUpdate, NodeError> {
    let json = json.map(|json| graph.upgraded(version, json)).transpose();
    json.and_then(|json| graph.read_update(json.as_ref())).map_err(|error| unreadable(graph, version, &error))
}

fn unreadable(graph: &dyn AnyGraph, version: StateVersion, error: &str) -> NodeError {
    let what = format!(
        "the state of {:?} on record has the version {version}, and this program's type of it, version {}, cannot read \
         it: {error}. Give the changed type the next version and upgrade what is on record (StateGraph::state_version), \
         and retry the run",
        graph.name(),
        graph.state_version(),
    );
    fatal("state_unreadable", what)
}

/// The states of a run being folded from its journal records.
struct Fold {
    hot: Hot,
    /// The tasks of each frame that are done in the current round.
    done: BTreeMap<FrameNo, Vec<TaskNo>>,
}

impl Fold {
    fn record(&mut self, root: &Arc<dyn AnyGraph>, record: &Record, pos: u64) -> Result<(), NodeError> {
        match record {
            Record::RunStarted(started) => {
                let state = state_of(&**root, started.state_version, &started.state)?;
                self.hot.frames = BTreeMap::from([(FrameNo::ROOT, HotFrame { graph: root.clone(), state })]);
            }
            Record::States(states) => {
                self.hot.frames.clear();
                for FrameState { frame, node, within, state, state_version } in states {
                    let graph = self.inner_graph(root, node.as_deref(), *within)?;
                    let state = state_of(&*graph, *state_version, state)?;
                    self.hot.frames.insert(*frame, HotFrame { graph, state });
                }
            }
            Record::FrameBegan(began) => {
                let FrameBegan { frame, node, within, state: Some(state), state_version, .. } = &**began else {
                    return Ok(());
                };
                let graph = self.inner_graph(root, node.as_deref(), *within)?;
                let state = state_of(&*graph, *state_version, state)?;
                self.hot.frames.insert(*frame, HotFrame { graph, state });
            }
            Record::TasksDone(done) => {
                let Some(frame) = self.hot.frames.get_mut(&done.frame) else { return Ok(()) };
                let tasks = self.done.entry(done.frame).or_default();
                for DoneTask { task, update } in &done.done {
                    let update = update_of(&*frame.graph, done.state_version, update.as_ref())?;
                    self.hot.updates.insert(*task, update);
                    tasks.push(*task);
                }
                if done.then != Then::Wait {
                    let mut tasks = std::mem::take(tasks);
                    tasks.sort_unstable();
                    let updates = tasks.iter().filter_map(|task| self.hot.updates.remove(task)).collect();
                    frame.graph.merge(&mut frame.state, updates)?;
                }
                if done.then == Then::End && !done.frame.is_root() {
                    self.hot.frames.remove(&done.frame);
                }
            }
            Record::StateEdited(edited) => {
                if let Some(frame) = self.hot.frames.get_mut(&FrameNo::ROOT) {
                    let update = update_of(&*frame.graph, edited.state_version, Some(&edited.update))?;
                    frame.graph.merge(&mut frame.state, vec![update])?;
                }
                self.hot.edited = pos;
            }
            _ => {}
        }
        Ok(())
    }

    fn inner_graph(
        &self,
        root: &Arc<dyn AnyGraph>,
        node: Option<&str>,
        within: FrameNo,
    ) -> Result<Arc<dyn AnyGraph>, NodeError> {
        let Some(node) = node else { return Ok(root.clone()) };
        let outer = self.hot.frames.get(&within).map(|frame| frame.graph.clone());
        match outer.and_then(|outer| look(&*outer, node)) {
            Some((_, Kind::Graph(graph), _)) => Ok(graph),
            _ => Err(node_gone(node)),
        }
    }
}
