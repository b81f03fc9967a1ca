//! The inbox: pending approval requests across sessions, and decisions on them.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use countersign_core::{
    approval::{
        decision::{Decision, EditedAction},
        key::parse_approval_key,
        principal::Principal,
    },
    call::preview::{Preview, ShownPreview},
    journal::run::{Raw, given},
    wire::{event::ReviewConfig, schema::GivenAnswers},
};
use countersign_runtime::run::{
    ApprovalQuery, ApprovalView, EditOutcome, NewDecision, NewEdit, NewNote, Reply, of_stored,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    extract::{Body, Caller, Params, Segment, named_by_path, request_id},
    sessions::outcome,
};
use crate::{app::App, auth::pass::Pass, problem::Problem};

/// A page of approvals: pending ones by their deadlines, the soonest first; then those without one and resolved ones,
/// the newest first.
#[derive(Serialize, JsonSchema)]
pub(super) struct Approvals {
    /// The approvals.
    approvals: Vec<ApprovalView>,
    /// Where the next page begins; null on the last.
    next_cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Caller(by): Caller,
    Params(query): Params<ApprovalQuery>,
) -> Result<Json<Approvals>, Problem> {
    let page = app.runtime.approvals(&by, query).await?;
    Ok(Json(Approvals { approvals: page.rows, next_cursor: page.next_cursor }))
}

pub(super) async fn get(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(key): Segment,
) -> Result<Json<ApprovalView>, Problem> {
    Ok(Json(app.runtime.approval(&by, &key).await?))
}

/// The body of `POST /v1/approvals/{approval_key}`: one of `decisions`, `answers` and `resume`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Decide {
    /// May be sent, as in the WebSocket's frame.
    #[serde(default, rename = "type")]
    _kind: Option<ApprovalFrame>,
    /// May repeat the session that the path names.
    #[serde(default)]
    session_id: Option<String>,
    /// May repeat the path's key.
    #[serde(default)]
    approval_key: Option<String>,
    /// For actions: one decision each; missing ones repeat the first.
    #[serde(default)]
    decisions: Option<Vec<Decision>>,
    /// For questions: question text → answer.
    #[serde(default)]
    #[schemars(with = "Option<GivenAnswers>")]
    answers: Option<Box<RawValue>>,
    /// For a question of a graph's node: its answer, any JSON value, including `null`. For actions: "yes" or "no", for
    /// all of them.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Value")]
    resume: Option<Raw>,
    /// The `digest` of one of the actions, or of the questions, as shown; refused as `stale_action` if it does not
    /// match.
    #[serde(default)]
    digest: Option<String>,
    /// The reviewer's message, shown in history and passed to the model; refused beside a reply to a node of a graph.
    #[serde(default)]
    user_edit_content: Option<String>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

/// The `type` of a frame that decides.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ApprovalFrame {
    Approval,
}

/// The query of `POST /v1/approvals/{approval_key}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecideParams {
    #[serde(default)]
    wait: bool,
}

pub(super) async fn decide(
    State(app): State<App>,
    mut pass: Pass,
    Segment(key): Segment,
    Params(params): Params<DecideParams>,
    headers: HeaderMap,
    Body(body): Body<Decide>,
) -> Result<Response, Problem> {
    named_by_path("approval_key", body.approval_key.as_deref(), Some(&key))?;
    named_by_path(
        "session_id",
        body.session_id.as_deref(),
        parse_approval_key(&key).map(|(session_id, _)| session_id),
    )?;
    let request_id = request_id(&headers, body.request_id)?;
    let reply = Reply::of(body.decisions, body.answers.as_deref(), body.resume)?;
    let (digest, user_edit_content) = (body.digest, body.user_edit_content);
    let decision = NewDecision { approval_key: key.clone(), reply, digest, user_edit_content, request_id };
    let stored = app.runtime.decide(pass.by(), decision).await.map_err(Problem::of)?;
    if params.wait {
        return Ok(Json(outcome(&app, &mut pass, &stored.session_id).await?).into_response());
    }
    Ok(Json(of_stored(|| app.runtime.approval(pass.by(), &key)).await?).into_response())
}

/// The body of `POST /v1/approvals/{approval_key}/preview`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PreviewEdit {
    /// Which of the request's actions would be edited, from 0; the first if absent.
    #[serde(default)]
    action: usize,
    /// The call that would run instead.
    edited_action: EditedAction,
    /// The `digest` of one of the actions, as shown; refused as `stale_action` if it does not match.
    #[serde(default)]
    digest: Option<String>,
}

/// The outcome of an edit if it were decided now. The decision is judged again.
#[derive(Serialize, JsonSchema)]
pub(super) struct EditPreviewView {
    /// The outcome of the edit.
    outcome: EditOutcomeView,
    /// With `asks`: how people would be asked, at once, or after other calls or a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    review_config: Option<Box<ReviewConfig>>,
    /// With `refused`: the error that would answer the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
    /// What the edited call would do now; absent if its tool has no preview, and with `refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<ShownPreview>,
}

/// The outcome of an edit.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EditOutcomeView {
    /// It approves the edited call.
    Approves,
    /// People are asked about the edited call.
    Asks,
    /// The decision would be refused.
    Refused,
}

/// Ends with its request, so that a disconnected client stops the work, and with its credential. If the person's rights
/// change meanwhile, it starts over.
pub(super) async fn preview(
    State(app): State<App>,
    mut pass: Pass,
    Segment(approval_key): Segment,
    Body(body): Body<PreviewEdit>,
) -> Result<Json<EditPreviewView>, Problem> {
    let PreviewEdit { action, edited_action: edited, digest } = body;
    let edit = NewEdit { approval_key, action, edited, digest };
    let found = loop {
        let by = pass.by().clone();
        tokio::select! {
            biased;
            changed = pass.changed() => {
                changed?;
                pass.take_moved();
            }
            found = app.runtime.preview_edit(&by, edit.clone()) => break found?,
        }
    };
    let (outcome, review_config, problem) = match found.outcome {
        EditOutcome::Approves => (EditOutcomeView::Approves, None, None),
        EditOutcome::Asks(config) => (EditOutcomeView::Asks, Some(config), None),
        EditOutcome::Refused(refusal) => (EditOutcomeView::Refused, None, Some(Problem::of(refusal))),
    };
    let preview = found.preview.as_ref().map(Preview::shown);
    Ok(Json(EditPreviewView { outcome, review_config, problem, preview }))
}

/// The body of `POST /v1/approvals/{approval_key}/comments`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Comment {
    /// The comment; at most 4 KiB. The model does not see it.
    text: String,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn comment(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(key): Segment,
    headers: HeaderMap,
    Body(body): Body<Comment>,
) -> Result<Json<ApprovalView>, Problem> {
    let request_id = request_id(&headers, body.request_id)?;
    note(&app, by, key, NewNote::Comment(body.text.into()), request_id).await
}

/// The body of `POST /v1/approvals/{approval_key}/reassign`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Reassign {
    /// Holders of this role decide it from now on: one of the action's `reassign`, or the role that decides already.
    #[serde(default)]
    role: Option<String>,
    /// Only this person decides it, who must also hold the role; absent: any holder.
    #[serde(default)]
    subject: Option<String>,
    /// The reason.
    #[serde(default)]
    text: Option<String>,
    /// Makes a retry of the request safe.
    #[serde(default)]
    request_id: Option<String>,
}

pub(super) async fn reassign(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(key): Segment,
    headers: HeaderMap,
    Body(body): Body<Reassign>,
) -> Result<Json<ApprovalView>, Problem> {
    let Reassign { role, subject, text, request_id: of_body } = body;
    let request_id = request_id(&headers, of_body)?;
    let (subject, text) = (subject.map(Into::into), text.map(Into::into));
    note(&app, by, key, NewNote::Reassign { role: role.map(Into::into), subject, text }, request_id).await
}

async fn note(
    app: &App,
    by: Arc<Principal>,
    key: String,
    note: NewNote,
    request_id: Option<String>,
) -> Result<Json<ApprovalView>, Problem> {
    app.runtime.note(&by, &key, note, request_id).await?;
    Ok(Json(of_stored(|| app.runtime.approval(&by, &key)).await?))
}
