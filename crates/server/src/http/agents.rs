//! The agents, and the graph they run on.

use axum::{Json, extract::State};
use countersign::{
    core::{
        journal::graph::{Node, mermaid},
        refusal::{Code, Refusal},
    },
    run::AgentView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, Segment};
use crate::{problem::Problem, server::App};

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

/// The query of `GET /v1/agents/{name}/graph`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphParams {
    session_id: Option<String>,
}

/// The graph an agent runs on (SPEC G7).
#[derive(Serialize, JsonSchema)]
pub(super) struct Graph {
    /// The agent.
    agent: String,
    /// The names of the nodes.
    nodes: Vec<&'static str>,
    /// The edges.
    edges: Vec<Edge>,
    /// The node where the session stands, if one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<&'static str>,
    /// The same as a Mermaid flow chart.
    mermaid: String,
}

/// An edge of a graph.
#[derive(Serialize, JsonSchema)]
pub(super) struct Edge {
    /// Where it begins.
    from: &'static str,
    /// Where it ends.
    to: &'static str,
    /// When it is taken; empty if always.
    label: &'static str,
}

pub(super) async fn graph(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    Params(params): Params<GraphParams>,
) -> Result<Json<Graph>, Problem> {
    if !app.runtime.agents().iter().any(|agent| *agent.name == *name) {
        return Err(Problem::of(Refusal::new(Code::UnknownAgent, format!("there is no agent {name:?}"))));
    }
    let current = match params.session_id {
        Some(session_id) => {
            let state = app.runtime.state(&by, &session_id).await?;
            let here = Node::ALL.into_iter().find(|node| node.name() == state.node);
            // The session may be another agent's by now.
            here.filter(|_| *state.session.agent == *name)
        }
        None => None,
    };
    let edges = Node::EDGES.map(|(from, to, label)| Edge { from: from.name(), to: to.name(), label });
    Ok(Json(Graph {
        agent: name,
        nodes: Node::ALL.map(Node::name).into(),
        edges: edges.into(),
        current: current.map(Node::name),
        mermaid: mermaid(current),
    }))
}
