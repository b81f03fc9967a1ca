//! Whether the server is well, and what it counts.

use std::time::{Duration, Instant};

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use countersign::{
    core::refusal::{Code, Refusal},
    run::Runtime,
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::{sync::Mutex, time::timeout};

use super::extract::Caller;
use crate::{problem::Problem, server::App};

/// The answer of `/healthz` and `/readyz`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
}

/// How long an answer of the store is good for `/readyz`: anybody may ask, and each look is a commit.
const FRESH: Duration = Duration::from_secs(5);
/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the store could be written to when it was last looked at.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), Refusal>)>>);

impl Readiness {
    /// Whether the store can be written to, now or up to [`FRESH`] ago. All who ask meanwhile share one look.
    async fn look(&self, runtime: &Runtime) -> Result<(), Refusal> {
        runtime.store_is_open()?;
        let mut last = self.0.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < FRESH
        {
            return known.clone();
        }
        let late = |_| Err(Refusal::new(Code::StoreUnavailable, "the store does not answer"));
        let found = timeout(PATIENCE, runtime.ready()).await.unwrap_or_else(late);
        *last = Some((Instant::now(), found.clone()));
        found
    }
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
    ([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}
