//! Standing rules: decisions for later calls too, listed and revoked (spec S7).

use axum::{Json, extract::State};
use countersign_runtime::run::{RuleQuery, RuleState, RuleView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Caller, Params, Segment};
use crate::{app::App, problem::Problem};

/// The query of `GET /v1/rules`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRules {
    state: Option<String>,
    session_id: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of standing rules, newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct Rules {
    /// The rules.
    rules: Vec<RuleView>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Params(params): Params<ListRules>,
) -> Result<Json<Rules>, Problem> {
    let ListRules { state, session_id, cursor, limit } = params;
    let states = state.iter().flat_map(|states| states.split(',')).filter_map(RuleState::of_name).collect();
    let query = RuleQuery { states, session_id, cursor, limit };
    let page = app.runtime.rules(&by, query).await?;
    Ok(Json(Rules { rules: page.rows, next_cursor: page.next_cursor }))
}

pub(super) async fn revoke(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(id): Segment,
) -> Result<Json<RuleView>, Problem> {
    Ok(Json(app.runtime.revoke_rule(&by, &id).await?))
}
