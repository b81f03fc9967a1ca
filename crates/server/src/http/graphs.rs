//! Graphs as pictures: of an agent, and of a session with its position (spec G7).

use axum::{
    Json,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use countersign_core::{
    drawing::Drawing,
    refusal::{Code, Refusal},
};
use countersign_runtime::run::GraphView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, Segment};
use crate::{app::App, problem::Problem};

/// The media type of Mermaid.
pub(super) const MERMAID: &str = "text/vnd.mermaid";
/// The media type of Graphviz's language.
pub(super) const DOT: &str = "text/vnd.graphviz";
/// The names of the formats.
pub(super) const FORMATS: &[&str] = &["json", "mermaid", "dot"];

/// The requested format.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Mermaid,
    Dot,
}

impl Format {
    fn answer<T: Serialize>(self, drawing: Drawing, json: impl FnOnce(Drawing) -> T) -> Response {
        let (media, text) = match self {
            Format::Json => return Json(json(drawing)).into_response(),
            Format::Mermaid => (MERMAID, drawing.to_mermaid()),
            Format::Dot => (DOT, drawing.to_dot()),
        };
        ([(CONTENT_TYPE, format!("{media}; charset=utf-8"))], text).into_response()
    }
}

/// The query of `GET /v1/agents/{name}/graph`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentParams {
    session_id: Option<String>,
    #[serde(default)]
    format: Format,
}

/// The query of `GET /v1/sessions/{session_id}/graph` and `GET /v1/graphs/{name}/graph`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionParams {
    #[serde(default)]
    format: Format,
}

/// The graphs that sessions can run.
#[derive(Serialize, JsonSchema)]
pub(super) struct GraphList {
    /// By name.
    graphs: Vec<GraphRow>,
    /// Where the next page begins; null on the last, which for now is the first.
    next_cursor: Option<String>,
}

/// A graph of the program.
#[derive(Serialize, JsonSchema)]
pub(super) struct GraphRow {
    /// Its name.
    name: String,
}

pub(super) async fn list(State(app): State<App>, Caller(_): Caller) -> Json<GraphList> {
    let mut names: Vec<String> = app.runtime.graph_names().map(ToString::to_string).collect();
    names.sort();
    Json(GraphList { graphs: names.into_iter().map(|name| GraphRow { name }).collect(), next_cursor: None })
}

/// A graph of the program.
#[derive(Serialize, JsonSchema)]
pub(super) struct Graph {
    /// Its name.
    name: String,
    /// The graph.
    drawing: Drawing,
}

pub(super) async fn of_graph(
    State(app): State<App>,
    Caller(_): Caller,
    Segment(name): Segment,
    Params(params): Params<SessionParams>,
) -> Result<Response, Problem> {
    let drawing = app.runtime.graph_drawing(&name)?;
    Ok(params.format.answer(drawing, |drawing| Graph { name, drawing }))
}

/// The graph an agent runs on.
#[derive(Serialize, JsonSchema)]
pub(super) struct AgentGraph {
    /// The agent.
    agent: String,
    /// The graph, with the session's positions if a session was requested.
    drawing: Drawing,
}

pub(super) async fn of_agent(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    Params(params): Params<AgentParams>,
) -> Result<Response, Problem> {
    let Some(drawing) = app.runtime.drawing(&name) else {
        return Err(Problem::of(Refusal::new(Code::UnknownAgent, format!("there is no agent {name:?}"))));
    };
    let drawing = match params.session_id {
        Some(session_id) => {
            let view = app.runtime.session_graph(&by, &session_id).await?;
            // Another agent may have taken over the session.
            if *view.agent == *name { view.drawing } else { drawing }
        }
        None => drawing,
    };
    Ok(params.format.answer(drawing, |drawing| AgentGraph { agent: name, drawing }))
}

pub(super) async fn of_session(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Params(params): Params<SessionParams>,
) -> Result<Response, Problem> {
    let view = app.runtime.session_graph(&by, &session_id).await?;
    Ok(params.format.answer(view.drawing, |drawing| GraphView { drawing, ..view }))
}
