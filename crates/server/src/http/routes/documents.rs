//! Routes of the server's health, and of the documents that describe it.

use axum::routing::get;
use countersign_core::{refusal::Code, wire::schema::AnyObject};

use super::{
    super::{
        documents, health,
        route::{GET, Route, json, of, other},
    },
    shared::{IF_NONE_MATCH, UNCHANGED},
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        path: "/healthz",
        id: "healthz",
        summary: "Whether the process is alive.",
        answers: &[json(200, "It does.", of::<health::Health>)],
        open: true,
        handler: || get(health::healthz),
        ..GET
    },
    Route {
        path: "/readyz",
        id: "readyz",
        summary: "Whether the server takes work: its runtime has started and is not shutting down, and the store can be written to.",
        answers: &[json(200, "It does.", of::<health::Health>)],
        refusals: &[Code::StoreUnavailable, Code::ShuttingDown],
        open: true,
        handler: || get(health::readyz),
        ..GET
    },
    Route {
        path: "/metrics",
        id: "metrics",
        summary: "Metrics for Prometheus.",
        answers: &[other(200, "OpenMetrics text.", "application/openmetrics-text")],
        handler: || get(health::metrics),
        ..GET
    },
    Route {
        path: "/openapi.json",
        id: "openapi",
        summary: "This document.",
        parameters: &[IF_NONE_MATCH],
        answers: &[json(200, "OpenAPI 3.1.", of::<AnyObject>), UNCHANGED],
        open: true,
        handler: || get(documents::openapi),
        ..GET
    },
    Route {
        path: "/asyncapi.json",
        id: "asyncapi",
        summary: "The WebSocket's frames.",
        parameters: &[IF_NONE_MATCH],
        answers: &[json(200, "AsyncAPI 3.", of::<AnyObject>), UNCHANGED],
        open: true,
        handler: || get(documents::asyncapi),
        ..GET
    },
    Route {
        path: "/wire.schema.json",
        id: "wireSchema",
        summary: "The WebSocket's frames, and the events of event streams.",
        parameters: &[IF_NONE_MATCH],
        answers: &[json(200, "JSON Schema 2020-12.", of::<AnyObject>), UNCHANGED],
        open: true,
        handler: || get(documents::wire_schema),
        ..GET
    },
];
