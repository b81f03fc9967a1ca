//! Pictures of the graphs that agents run on, and of where sessions stand in them (SPEC G7).

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    drawing::Drawing,
    journal::{graph, state::Status},
    refusal::Refusal,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Runtime;

/// The graph of a session, with where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The session.
    pub session_id: Arc<str>,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// What the session is doing.
    pub status: Status,
    /// The `seq` of the last event that the picture knows of.
    pub seq: u64,
    /// The graph, with the session's positions.
    pub drawing: Drawing,
}

impl Runtime {
    /// The graph an agent runs on; `None` if there is no such agent.
    #[must_use]
    pub fn drawing(&self, agent: &str) -> Option<Drawing> {
        self.inner.agents.get(agent).map(|_| graph::drawing(None))
    }

    /// The graph a session runs on, with where it stands.
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
            drawing: graph::drawing(Some(&state)),
        })
    }
}
