//! Drawings of the graphs that agents run on, and of sessions' positions in them (spec G7).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    drawing::Drawing,
    journal::{
        graph,
        progress::TaskPhase,
        state::{State, Status},
    },
    refusal::Refusal,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::inner::Runtime;
use crate::graph::Graph;

/// The graph of a session, with its positions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The session.
    pub session_id: Arc<str>,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// What the session is doing.
    pub status: Status,
    /// The `seq` of the last event that the drawing includes.
    pub seq: u64,
    /// The graph, with the session's positions.
    pub drawing: Drawing,
}

impl Runtime {
    /// The graph an agent runs on, or the graph of this name; `None` if there is neither.
    #[must_use]
    pub fn drawing(&self, name: &str) -> Option<Drawing> {
        if let Some(ready) = self.inner.agents.get(name) {
            return Some(ready.agent.graph.as_ref().map_or_else(|| graph::drawing(None), Graph::drawing));
        }
        self.inner.graphs.get(name).map(|graph| graph.drawing())
    }

    /// The names of the graphs that sessions can run.
    pub fn graph_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.inner.graphs.keys()
    }

    /// The graph a session runs on, with its positions.
    ///
    /// # Errors
    /// `invalid_session_id`, `session_not_found`, `store_unavailable`.
    pub async fn session_graph(&self, by: &Principal, session_id: &str) -> Result<GraphView, Refusal> {
        let state = self.read_state(by, session_id).await?;
        Ok(GraphView {
            session_id: state.session_id.clone(),
            agent: state.agent.clone(),
            status: state.status,
            seq: state.cursor.seq,
            drawing: self.drawing_of(&state),
        })
    }

    /// The drawing of the graph that a session runs, with its positions marked: in a failed turn those from which a
    /// retry continues.
    fn drawing_of(&self, state: &State) -> Drawing {
        let Some(run) = &state.run else { return graph::drawing(Some(state)) };
        let found = if run.agent_loop {
            self.inner.agents.loop_of(state).map(|graph| graph.drawing())
        } else {
            self.drawing(&run.graph)
        };
        let Some(mut drawing) = found else { return graph::drawing(Some(state)) };
        if run.frames.is_empty() || !state.status.is_open() {
            drawing.stand("END", 0, 0);
        }
        // A node that the runner executes itself has calls that run or are pending.
        if let Some(node) = state.loop_node().filter(|node| graph::is_builtin(node)) {
            for position in graph::drawing(Some(state)).current {
                let at = if position.running > 0 { node.to_owned() } else { position.node };
                drawing.stand(at, position.running, position.waiting);
            }
            return drawing;
        }
        for task in run.tasks.values() {
            let (running, waiting) = match task.phase {
                TaskPhase::Ready => (u32::from(state.status.is_active()), 0),
                TaskPhase::Waiting => (0, 1),
                TaskPhase::Failed(..) => (0, 0),
                TaskPhase::Graph(_) | TaskPhase::Done => continue,
            };
            drawing.stand(run.path(task), running, waiting);
        }
        drawing
    }
}
