//! Routes of the server's health, and of the documents that describe it.

use axum::routing::get;
use countersign_core::{refusal::Code, wire::schema::AnyObject};

use super::{
    super::{
        documents, health,
        route::{Route, json, of, other},
    },
    shared::{IF_NONE_MATCH, UNCHANGED},
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "get",
        path: "/healthz",
        id: "healthz",
        summary: "Whether the process lives.",
        parameters: &[],
        body: None,
        answers: &[json(200, "It does.", of::<health::Health>)],
        refusals: &[],
        open: true,
        handler: || get(health::healthz),
    },
    Route {
        method: "get",
        path: "/readyz",
        id: "readyz",
        summary: "Whether the store can be written to.",
        parameters: &[],
        body: None,
        answers: &[json(200, "It can.", of::<health::Health>)],
        refusals: &[Code::StoreUnavailable],
        open: true,
        handler: || get(health::readyz),
    },
    Route {
        method: "get",
        path: "/metrics",
        id: "metrics",
        summary: "Metrics for Prometheus.",
        parameters: &[],
        body: None,
        answers: &[other(200, "OpenMetrics text.", "application/openmetrics-text")],
        refusals: &[],
        open: false,
        handler: || get(health::metrics),
    },
    Route {
        method: "get",
        path: "/openapi.json",
        id: "openapi",
        summary: "This document.",
        parameters: &[IF_NONE_MATCH],
        body: None,
        answers: &[json(200, "OpenAPI 3.1.", of::<AnyObject>), UNCHANGED],
        refusals: &[],
        open: true,
        handler: || get(documents::openapi),
    },
    Route {
        method: "get",
        path: "/asyncapi.json",
        id: "asyncapi",
        summary: "The WebSocket's frames.",
        parameters: &[IF_NONE_MATCH],
        body: None,
        answers: &[json(200, "AsyncAPI 3.", of::<AnyObject>), UNCHANGED],
        refusals: &[],
        open: true,
        handler: || get(documents::asyncapi),
    },
    Route {
        method: "get",
        path: "/wire.schema.json",
        id: "wireSchema",
        summary: "The WebSocket's frames, and the events of event streams.",
        parameters: &[IF_NONE_MATCH],
        body: None,
        answers: &[json(200, "JSON Schema 2020-12.", of::<AnyObject>), UNCHANGED],
        refusals: &[],
        open: true,
        handler: || get(documents::wire_schema),
    },
];
