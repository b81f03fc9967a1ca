//! A session's history, in pages (spec H).

use axum::{Json, extract::State};
use countersign_core::wire::history::HistoryMessage;
use countersign_runtime::run::{Direction, HistoryPage, HistoryQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, Segment};
use crate::{app::App, options::HISTORY_PAGE, problem::Problem};

/// The query of `GET /v1/sessions/{session_id}/history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadHistory {
    direction: Option<Direction>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of history, oldest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct History {
    /// The messages, oldest first in either paging direction.
    messages: Vec<HistoryMessage>,
    /// Whether there are more in that direction.
    has_more: bool,
    /// Where the next page begins, and where paging the other way continues; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn read(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Params(params): Params<ReadHistory>,
) -> Result<Json<History>, Problem> {
    let limit = params.limit.unwrap_or(HISTORY_PAGE);
    let query = HistoryQuery { direction: params.direction.unwrap_or_default(), cursor: params.cursor, limit };
    let HistoryPage { messages, next_cursor } = app.runtime.history(&by, &session_id, query).await?;
    Ok(Json(History { messages, has_more: next_cursor.is_some(), next_cursor }))
}
