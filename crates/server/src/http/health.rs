//! Health, readiness and metrics.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::extract::Caller;
use crate::{app::App, problem::Problem};

/// The answer of `/healthz` and `/readyz`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
}

const WELL: Json<Health> = Json(Health { status: "ok" });

pub(super) async fn healthz() -> Json<Health> {
    WELL
}

pub(super) async fn readyz(State(app): State<App>) -> Result<Json<Health>, Problem> {
    app.readiness.look(&app.runtime).await?;
    Ok(WELL)
}

pub(super) async fn metrics(State(app): State<App>, Caller(_): Caller) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text().await).into_response()
}
