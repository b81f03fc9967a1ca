//! The past of a session: its checkpoints, and forks (spec G6).

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use countersign_core::{call::args::Args, limits, wire::input::InputContent};
use countersign_runtime::run::{CheckpointQuery, CheckpointView, EditedCall, ForkEdit, MadeFork, NewFork};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    extract::{Body, Caller, Mount, Params, Segment, request_id},
    sessions::created,
};
use crate::{
    app::App,
    problem::Problem,
    repeats::{Makes, session_of},
};

/// A page of checkpoints, newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct CheckpointList {
    /// The checkpoints.
    checkpoints: Vec<CheckpointView>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(session_id): Segment,
    Params(query): Params<CheckpointQuery>,
) -> Result<Json<CheckpointList>, Problem> {
    let page = app.runtime.checkpoints(&by, &session_id, query).await?;
    Ok(Json(CheckpointList { checkpoints: page.rows, next_cursor: page.next_cursor }))
}

/// The body of `POST /v1/sessions/{session_id}/fork`; may be absent.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ForkSession {
    /// The checkpoint to fork from; the newest if absent.
    #[serde(default)]
    checkpoint: Option<u64>,
    /// The new session's id, `[A-Za-z0-9._-]{1,128}` but not `.` or `..`; generated if absent.
    #[serde(default)]
    session_id: Option<String>,
    /// What to change in the fork.
    #[serde(default)]
    edit: Option<Edit>,
    /// Whether the new session continues automatically; otherwise nothing runs, not even after a deadline, until a
    /// pending request is decided or answered, a message is sent, or it is retried.
    #[serde(default)]
    run: bool,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

/// A change in a fork: one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// Another user message, in place of the one there or as the next one: at a checkpoint before or right after a
    /// message that begins a turn.
    #[serde(default)]
    message: Option<InputContent>,
    /// Calls of the latest answer that have not begun there, and what runs in their place. The policy applies to each
    /// again.
    #[serde(default)]
    calls: Vec<EditCall>,
}

/// An edited call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditCall {
    /// The id of the call, as the model gave it.
    tool_use_id: String,
    /// The tool; the call's own if absent.
    #[serde(default)]
    name: Option<String>,
    /// The arguments.
    args: Args,
}

pub(super) async fn fork(
    State(app): State<App>,
    Caller(by): Caller,
    mount: Mount,
    Segment(session_id): Segment,
    headers: HeaderMap,
    Body(body): Body<ForkSession, { limits::MESSAGE_FRAME_BYTES }>,
) -> Result<Response, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    // A repeated request finds its session by the id derived from its key.
    let new_id =
        body.session_id.or_else(|| request_id.as_ref().map(|key| session_of(&by, Makes::Fork(&session_id), key)));
    let edit = match body.edit {
        None => ForkEdit::default(),
        Some(Edit { message, calls }) => ForkEdit {
            message: message.map(|message| message.into_content("edit.message")).transpose()?,
            calls: calls
                .into_iter()
                .map(|call| EditedCall { tool_use_id: call.tool_use_id, name: call.name, args: call.args })
                .collect(),
        },
    };
    let new = NewFork { checkpoint: body.checkpoint, session_id: new_id, edit, run: body.run, request_id };
    let MadeFork { session, made } = app.runtime.fork(&by, &session_id, new).await?;
    Ok(if made { created(&mount, session) } else { Json(session).into_response() })
}
