//! Runs of the graphs of an embedding program, and the retry of any failed session (spec W2, G3, G6).

use std::num::NonZeroU32;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use countersign_core::journal::run::Raw;
use countersign_runtime::run::{BegunRun, NewRetry, NewRun, SessionView, StateView};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{
    extract::{Body, Caller, Mount, Segment, request_id},
    sessions::created,
};
use crate::{
    app::App,
    problem::Problem,
    repeats::{Makes, session_of},
};

/// The body of `POST /v1/graphs/{name}/runs`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct StartRun {
    /// The session, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent, created if unknown.
    #[serde(default)]
    session_id: Option<String>,
    /// The initial state: a JSON object, as the graph's type reads it.
    #[schemars(with = "Value")]
    state: Raw,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn start(
    State(app): State<App>,
    Caller(by): Caller,
    mount: Mount,
    Segment(graph): Segment,
    headers: HeaderMap,
    Body(body): Body<StartRun>,
) -> Result<Response, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    let session_id =
        body.session_id.or_else(|| request_id.as_ref().map(|key| session_of(&by, Makes::Run(&graph), key)));
    let new = NewRun { session_id, state: body.state, request_id };
    let BegunRun { session, made } = app.runtime.start_run(&by, &graph, new).await?;
    Ok(if made { created(&mount, session) } else { Json(session).into_response() })
}

/// The body of `POST /v1/sessions/{session_id}/state`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct EditState {
    /// The update, a JSON object as a node would return it: the fields, and for those with a reducer `{"add": …}` or
    /// `{"replace": …}`.
    #[schemars(with = "Value")]
    update: Raw,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn edit(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    headers: HeaderMap,
    Body(body): Body<EditState>,
) -> Result<Json<StateView>, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    Ok(Json(app.runtime.edit_run(&by, &session_id, body.update, request_id).await?))
}

/// The body of `POST /v1/sessions/{session_id}/retry`; may be absent.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Retry {
    /// How many more model calls the turn may make, where it has exhausted its limit: 1 to the number that its agent
    /// allows for a turn.
    #[serde(default)]
    #[schemars(range(min = 1))]
    more_calls: Option<NonZeroU32>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn retry(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    headers: HeaderMap,
    Body(body): Body<Retry>,
) -> Result<Json<SessionView>, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    let new = NewRetry { more_calls: body.more_calls.map_or(0, NonZeroU32::get), request_id };
    Ok(Json(app.runtime.retry(&by, &session_id, new).await?))
}
