//! The agents.

use axum::{Json, extract::State};
use countersign_runtime::run::AgentView;
use schemars::JsonSchema;
use serde::Serialize;

use super::extract::Caller;
use crate::app::App;

/// The agents of the server.
#[derive(Serialize, JsonSchema)]
pub(super) struct AgentsList {
    /// The agents, the default one first.
    agents: Vec<AgentView>,
    /// Always null: all agents are on one page.
    next_cursor: Option<String>,
}

pub(super) async fn list(State(app): State<App>, Caller(_): Caller) -> Json<AgentsList> {
    Json(AgentsList { agents: app.runtime.agents(), next_cursor: None })
}
