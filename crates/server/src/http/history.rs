//! A session's history, in pages (SPEC H).

use axum::{Json, extract::State};
use countersign::core::wire::history::HistoryMessage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, Segment, bounded_limit};
use crate::{options::HISTORY_PAGE_MAX, problem::Problem, server::App};

/// The query of `GET /v1/sessions/{session_id}/history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadHistory {
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of history, oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct History {
    /// The messages.
    messages: Vec<HistoryMessage>,
    /// Whether newer messages follow.
    has_more: bool,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn read(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Params(params): Params<ReadHistory>,
) -> Result<Json<History>, Problem> {
    let limit = bounded_limit(params.limit, HISTORY_PAGE_MAX, HISTORY_PAGE_MAX)?;
    let start = match params.cursor.as_deref() {
        None => 0,
        Some(cursor) => cursor
            .strip_prefix('m')
            .and_then(|at| at.parse::<usize>().ok())
            .ok_or_else(|| Problem::invalid("cursor: is not one that a page returned"))?,
    };
    let mut messages = app.runtime.history(&by, &session_id).await?;
    let end = start.saturating_add(limit);
    let has_more = end < messages.len();
    messages.truncate(end);
    messages.drain(..start.min(messages.len()));
    Ok(Json(History { messages, has_more, next_cursor: has_more.then(|| format!("m{end}")) }))
}
