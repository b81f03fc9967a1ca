//! The audit log, for auditors (spec R8, W8).

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use countersign_core::{
    audit::{Anchor, AuditRecord},
    refusal::{Code, Refusal},
};
use countersign_runtime::run::{AuditCheck, AuditError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params};
use crate::{app::App, options::HISTORY_PAGE, problem::Problem};

/// The media type of one record per line, as in exports.
pub(super) const LINES: &str = "application/jsonl";
/// The names of the formats.
pub(super) const FORMATS: &[&str] = &["json", "jsonl"];
/// The names of the orders.
pub(super) const ORDERS: &[&str] = &["oldest", "newest"];

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Jsonl,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Oldest,
    Newest,
}

/// The query of `GET /v1/audit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadAudit {
    cursor: Option<u64>,
    #[serde(default)]
    order: Order,
    #[serde(default)]
    format: Format,
    limit: Option<usize>,
}

/// A page of the audit log.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditLog {
    /// The records.
    records: Vec<AuditRecord>,
    /// The `cursor` of the next page: the `n` of the last record; null on the last page. With the oldest first,
    /// later records also come after that `n`.
    next_cursor: Option<String>,
}

pub(super) async fn read(
    State(app): State<App>,
    Caller(by): Caller,
    Params(params): Params<ReadAudit>,
) -> Result<Response, Problem> {
    let limit = params.limit.unwrap_or(HISTORY_PAGE);
    let page = match params.order {
        Order::Oldest => app.runtime.audit(&by, params.cursor.unwrap_or(0), limit).await?,
        Order::Newest => app.runtime.audit_newest(&by, params.cursor.unwrap_or(u64::MAX), limit).await?,
    };
    Ok(match params.format {
        Format::Json => Json(AuditLog { records: page.rows, next_cursor: page.next_cursor }).into_response(),
        Format::Jsonl => ([(header::CONTENT_TYPE, LINES)], lines(&page.rows)).into_response(),
    })
}

/// One record per line, each with the text of its body as it is stored.
fn lines(records: &[AuditRecord]) -> String {
    let mut lines = String::new();
    for record in records {
        // Plain data, which always serializes.
        lines.push_str(&serde_json::to_string(record).unwrap_or_default());
        lines.push('\n');
    }
    lines
}

/// The query of `GET /v1/audit/verify`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifyAudit {
    anchor: Option<String>,
}

/// The result of a verification.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditVerification {
    /// Whether every record is the one that was written, in its place.
    intact: bool,
    /// How many records were read, from the first: those of all tenants, since the chain goes through all.
    checked: u64,
    /// How many of them belong to the caller's tenant: those that the caller may read.
    readable: u64,
    /// The end of the log as `NUMBER:HASH`, if it is intact. Kept elsewhere, it later reveals whether the log was
    /// truncated or rewritten.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<String>,
    /// The first fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<AuditFault>,
}

/// What is wrong with an audit log.
#[derive(Serialize, JsonSchema)]
pub(super) struct AuditFault {
    /// The number of the record, or of the one that was expected there.
    n: u64,
    /// What is wrong with it, in English.
    message: String,
}

pub(super) async fn verify(
    State(app): State<App>,
    Caller(by): Caller,
    Params(params): Params<VerifyAudit>,
) -> Result<Json<AuditVerification>, Problem> {
    let anchor = params.anchor.map(|text| text.parse::<Anchor>()).transpose().map_err(Problem::invalid)?;
    Ok(Json(match app.runtime.verify_audit(&by, anchor).await {
        Ok(AuditCheck { checked, readable, anchor, .. }) => {
            AuditVerification { intact: true, checked, readable, anchor: Some(anchor.to_string()), fault: None }
        }
        Err(AuditError::Fault { checked, readable, fault, .. }) => {
            let fault = Some(AuditFault { n: fault.n, message: fault.what });
            AuditVerification { intact: false, checked, readable, anchor: None, fault }
        }
        Err(AuditError::Refused(refusal)) => return Err(refusal.into()),
        Err(other) => return Err(Refusal::new(Code::Internal, other.to_string()).into()),
    }))
}
