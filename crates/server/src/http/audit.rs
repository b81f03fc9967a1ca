//! The audit log, for auditors (spec R8, W8).

use axum::{Json, extract::State};
use countersign_core::audit::AuditRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, bounded_limit};
use crate::{
    app::App,
    options::{HISTORY_PAGE, HISTORY_PAGE_MAX},
    problem::Problem,
};

/// The query of `GET /v1/audit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadAudit {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

/// A page of the audit log, oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditLog {
    /// The records.
    audit: Vec<AuditRecord>,
    /// The `after` of the next page; null if there are no records yet.
    next_cursor: Option<String>,
}

pub(super) async fn read(
    State(app): State<App>,
    Caller(by): Caller,
    Params(params): Params<ReadAudit>,
) -> Result<Json<AuditLog>, Problem> {
    let limit = bounded_limit(params.limit, HISTORY_PAGE, HISTORY_PAGE_MAX)?;
    let mut audit = app.runtime.audit(&by, params.after, limit + 1).await?;
    let more = audit.len() > limit;
    audit.truncate(limit);
    let next_cursor = audit.last().filter(|_| more).map(|last| last.n.to_string());
    Ok(Json(AuditLog { audit, next_cursor }))
}
