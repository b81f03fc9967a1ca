//! Routes of agents and graphs.

use axum::routing::{get, post};
use countersign_core::refusal::Code;
use countersign_runtime::run::SessionView;

use super::{
    super::{
        agents, graphs,
        route::{GET, Kind, Route, body, json, of, query},
        runs,
    },
    shared::{AS_DOT, AS_MERMAID, FORMAT, IDEMPOTENCY_KEY},
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/v1/agents",
        id: "listAgents",
        summary: "The agents, the default one first.",
        answers: &[json(200, "The agents.", of::<agents::AgentsList>)],
        handler: || get(agents::list),
        ..GET
    },
    Route {
        path: "/v1/agents/{name}/graph",
        id: "getAgentGraph",
        summary: "The graph an agent runs on.",
        parameters: &[query("session_id", Kind::Text, "Mark this session's position."), FORMAT],
        answers: &[json(200, "The graph.", of::<graphs::AgentGraph>), AS_MERMAID, AS_DOT],
        refusals: &[
            Code::UnknownAgent,
            Code::InvalidSessionId,
            Code::SessionNotFound,
            Code::SessionDeleted,
            Code::StoreUnavailable,
        ],
        handler: || get(graphs::of_agent),
        ..GET
    },
    Route {
        path: "/v1/graphs",
        id: "listGraphs",
        summary: "The graphs of the program that embeds the server, which sessions can run.",
        answers: &[json(200, "The graphs.", of::<graphs::GraphList>)],
        handler: || get(graphs::list),
        ..GET
    },
    Route {
        path: "/v1/graphs/{name}/graph",
        id: "getGraph",
        summary: "A graph of the program.",
        parameters: &[FORMAT],
        answers: &[json(200, "The graph.", of::<graphs::Graph>), AS_MERMAID, AS_DOT],
        refusals: &[Code::InvalidMessage, Code::UnknownGraph],
        handler: || get(graphs::of_graph),
        ..GET
    },
    Route {
        method: "post",
        path: "/v1/graphs/{name}/runs",
        id: "startRun",
        summary: "Starts a graph run in a session; it continues in the background.",
        parameters: &[IDEMPOTENCY_KEY],
        body: body::<runs::StartRun>(),
        answers: &[
            json(201, "The session of the run.", of::<SessionView>),
            json(200, "The session of the run that the same request started before.", of::<SessionView>),
        ],
        refusals: &[
            Code::BadJson,
            Code::InvalidMessage,
            Code::InvalidSessionId,
            Code::UnknownGraph,
            Code::Forbidden,
            Code::SessionNotFound,
            Code::SessionDeleted,
            Code::SessionBusy,
            Code::ApprovalPending,
            Code::RequestIdReused,
            Code::TooLarge,
            Code::StoreUnavailable,
        ],
        open: false,
        handler: || post(runs::start),
    },
];
