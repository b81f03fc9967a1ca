//! Sessions: creating, listing, renaming, sending messages, cancelling, deleting.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use countersign_core::{
    journal::draft::OnPending,
    limits,
    locale::Locale,
    refusal::Refusal,
    wire::{input::InputContent, schema::AnyObject},
};
use countersign_runtime::run::{
    NewMessage, NewSession, SessionQuery, SessionRow, SessionView, StateView, TurnOutcome, of_stored,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    events,
    extract::{Body, Caller, Mount, Params, Segment, named_by_path, request_id, wants_events},
};
use crate::{
    app::App,
    auth::pass::Pass,
    metrics::Transport,
    problem::Problem,
    repeats::{Makes, session_of},
};

/// The body of `POST /v1/sessions`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CreateSession {
    /// Its id, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent.
    #[serde(default)]
    session_id: Option<String>,
    /// The agent that answers; the first one if absent.
    #[serde(default)]
    agent: Option<String>,
    /// The language of the server's own texts.
    #[serde(default)]
    locale: Option<Locale>,
    /// The application's own data, a JSON object.
    #[serde(default)]
    #[schemars(with = "Option<AnyObject>")]
    context: Option<Box<RawValue>>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn create(
    State(app): State<App>,
    Caller(by): Caller,
    mount: Mount,
    headers: HeaderMap,
    Body(body): Body<CreateSession>,
) -> Result<Response, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    if body.context.as_ref().is_some_and(|context| !context.get().starts_with('{')) {
        return Err(Problem::invalid("context: must be a JSON object"));
    }
    let session_id = body.session_id.or_else(|| request_id.as_ref().map(|key| session_of(&by, Makes::Session, key)));
    let known = match &session_id {
        Some(id) => app.runtime.session(&by, id).await.is_ok(),
        None => false,
    };
    let new = NewSession { session_id, agent: body.agent, locale: body.locale, context: body.context, request_id };
    let view = app.runtime.create_session(&by, new).await?;
    if known {
        return Ok(Json(view).into_response());
    }
    Ok(created(&mount, view))
}

/// 201 with the new session and its location.
pub(super) fn created(Mount(mount): &Mount, session: SessionView) -> Response {
    let location = HeaderValue::from_str(&format!("{mount}/v1/sessions/{}", session.session_id));
    let mut response = (StatusCode::CREATED, Json(session)).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// A page of sessions, most recently used first.
#[derive(Serialize, JsonSchema)]
pub(super) struct Sessions {
    /// The sessions.
    sessions: Vec<SessionRow>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Params(query): Params<SessionQuery>,
) -> Result<Json<Sessions>, Problem> {
    let page = app.runtime.sessions(&by, query).await?;
    Ok(Json(Sessions { sessions: page.rows, next_cursor: page.next_cursor }))
}

pub(super) async fn get(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
) -> Result<Json<SessionView>, Problem> {
    Ok(Json(app.runtime.session(&by, &session_id).await?))
}

/// The query of `GET /v1/sessions/{session_id}/state`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadState {
    checkpoint: Option<u64>,
}

pub(super) async fn state(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Params(params): Params<ReadState>,
) -> Result<Json<StateView>, Problem> {
    Ok(Json(match params.checkpoint {
        Some(checkpoint) => app.runtime.state_at(&by, &session_id, checkpoint).await?,
        None => app.runtime.state(&by, &session_id).await?,
    }))
}

/// The body of `PATCH /v1/sessions/{session_id}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ChangeSession {
    /// Its title in lists: one line of at most 200 characters. An empty text restores the automatic one.
    title: String,
}

pub(super) async fn change(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Body(body): Body<ChangeSession>,
) -> Result<Json<SessionView>, Problem> {
    Ok(Json(app.runtime.rename_session(&by, &session_id, &body.title).await?))
}

pub(super) async fn delete(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
) -> Result<StatusCode, Problem> {
    app.runtime.delete_session(&by, &session_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The body of `POST /v1/sessions/{session_id}/messages`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PostMessage {
    /// May be sent, as in the WebSocket's frame.
    #[serde(default, rename = "type")]
    _kind: Option<MessageFrame>,
    /// May repeat the session that the path names.
    #[serde(default)]
    session_id: Option<String>,
    /// The text, or blocks of text and images.
    content: InputContent,
    /// The agent that answers from now on.
    #[serde(default)]
    agent: Option<String>,
    /// What to do if the session is running or has pending requests.
    #[serde(default)]
    on_pending: Option<OnPending>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

/// The `type` of a frame with a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MessageFrame {
    Message,
}

pub(super) async fn send(
    State(app): State<App>,
    mut pass: Pass,
    Segment(session_id): Segment,
    headers: HeaderMap,
    Body(body): Body<PostMessage, { limits::MESSAGE_FRAME_BYTES }>,
) -> Result<Response, Problem> {
    named_by_path("session_id", body.session_id.as_deref(), Some(&session_id))?;
    let request_id = request_id(&headers, body.request_id)?;
    let message = NewMessage {
        session_id: Some(session_id.clone()),
        agent: body.agent,
        content: body.content.into_content("content")?,
        request_id,
        on_pending: body.on_pending,
    };
    let follow = wants_events(&headers);
    let stored = match follow {
        true => app.runtime.message_followed(pass.by(), message).await?,
        false => app.runtime.message(pass.by(), message).await?,
    };
    app.metrics.message(Transport::Http, &stored);
    match stored.follow {
        Some(subscription) => Ok(events::turn(app, pass, subscription)),
        None => Ok(Json(outcome(&app, &mut pass, &session_id).await?).into_response()),
    }
}

/// The outcome of an input that is stored, once the session is idle, if the caller may still see the session by then.
pub(super) async fn outcome(app: &App, pass: &mut Pass, session_id: &str) -> Result<TurnOutcome, Refusal> {
    loop {
        let by = pass.by().clone();
        tokio::select! {
            biased;
            changed = pass.changed() => {
                changed.map_err(|mut refusal| {
                    refusal.message += "; the input is stored, and the session goes on with it";
                    refusal
                })?;
                pass.take_moved();
            }
            outcome = of_stored(|| app.runtime.wait(&by, session_id)) => return outcome,
        }
    }
}

/// The body of `POST /v1/sessions/{session_id}/cancel`; may be absent.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CancelTurn {
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn cancel(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    headers: HeaderMap,
    Body(body): Body<CancelTurn>,
) -> Result<Json<SessionView>, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    app.runtime.cancel(&by, &session_id, request_id).await?;
    Ok(Json(of_stored(|| app.runtime.session(&by, &session_id)).await?))
}
