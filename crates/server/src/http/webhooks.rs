//! Webhooks, for auditors: the progress of deliveries, and failed ones (spec U4).

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use countersign_core::{
    approval::principal::{Principal, PrincipalKind},
    refusal::{Code, Refusal, shortened},
    time::rfc3339,
};
use countersign_runtime::run::check_auditor;
use countersign_store::{
    Store, StoreError,
    deliveries::{FailedDelivery, FailedPage, Progress},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Body, Caller, NoKey, Params, Segment};
use crate::{
    app::App,
    options::PAGE,
    problem::Problem,
    webhooks::{Endpoint, Webhooks},
};

/// The beginning of the error for a caller without the role `auditor`.
const NEED: &str = "webhooks need";

/// The query of `GET /v1/webhooks/{name}/failed`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFailed {
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A body without members.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Who is notified.
#[derive(Serialize, JsonSchema)]
pub(super) struct WebhookList {
    /// The webhooks.
    webhooks: Vec<WebhookView>,
    /// Where the next page begins; null on the last, which for now is the first.
    next_cursor: Option<String>,
}

/// A webhook.
#[derive(Serialize, JsonSchema)]
pub(super) struct WebhookView {
    /// Its name.
    name: String,
    /// The host that messages go to.
    host: String,
    /// The form of its messages: `standard`, `slack`, `teams`, `feishu` or `email`.
    format: &'static str,
    /// The types of the messages it gets.
    events: Vec<&'static str>,
    /// It gets only messages about this tenant's sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// `active`; or `gone`: the receiver asked for no more messages, so nothing is sent until a server starts.
    status: &'static str,
    /// The number of the last audit record that was handled; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<u64>,
    /// How many messages were not delivered, and will be retried.
    waiting: u64,
    /// How many were not delivered, and will not be retried.
    dead: u64,
    /// The failed message that was attempted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failed: Option<FailedMessage>,
}

/// A message that did not arrive.
#[derive(Serialize, JsonSchema)]
pub(super) struct FailedMessage {
    /// The number of its record in the audit log.
    n: u64,
    /// How many attempts there were.
    attempts: u32,
    /// When the next attempt is; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    /// When the last attempt was.
    tried_at: String,
    /// Why it did not arrive then.
    message: String,
}

/// Messages that did not arrive.
#[derive(Serialize, JsonSchema)]
pub(super) struct FailedMessages {
    /// The messages.
    failed: Vec<FailedMessage>,
    /// The cursor of the next page; null on the last.
    next_cursor: Option<String>,
}

/// How many messages are sent again.
#[derive(Serialize, JsonSchema)]
pub(super) struct Retried {
    /// How many.
    retried: u64,
}

/// How many messages were dropped.
#[derive(Serialize, JsonSchema)]
pub(super) struct Forgotten {
    /// How many of them had not arrived.
    dropped: u64,
}

/// The outcome of a test.
#[derive(Serialize, JsonSchema)]
pub(super) struct Tested {
    /// Whether it arrived.
    delivered: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl From<FailedDelivery> for FailedMessage {
    fn from(delivery: FailedDelivery) -> FailedMessage {
        let FailedDelivery { n, attempts, next_at, tried_at, why } = delivery;
        FailedMessage { n, attempts, next_at: next_at.map(rfc3339), tried_at: rfc3339(tried_at), message: why }
    }
}

fn failed_store(error: &StoreError) -> Problem {
    tracing::error!("the progress of webhooks cannot be read or written: {error}");
    let code = match error {
        StoreError::Unknown => Code::OutcomeUnknown,
        StoreError::Closed(_) => Code::StoreClosed,
        _ => Code::StoreUnavailable,
    };
    Problem::of(Refusal::new(code, error.to_string()))
}

/// Whether an auditor may see and repeat an endpoint's messages: one of a tenant those of that tenant's endpoints, one
/// without a tenant those of endpoints without one.
fn may_see(by: &Principal, endpoint: &Endpoint) -> bool {
    by.trusted || by.tenant.as_deref() == endpoint.tenant.as_deref()
}

fn no_webhook(name: &str) -> Problem {
    let shown = shortened(name);
    Problem::of(Refusal::new(Code::WebhookNotFound, format!("there is no webhook {shown:?} that you may see")))
}

/// The webhooks, if the caller may see this one.
fn named<'a>(app: &'a App, by: &Principal, name: &str) -> Result<&'a Webhooks, Problem> {
    check_auditor(by, NEED)?;
    let found = app
        .webhooks
        .as_ref()
        .filter(|webhooks| webhooks.endpoints().any(|endpoint| endpoint.name == name && may_see(by, endpoint)));
    found.ok_or_else(|| no_webhook(name))
}

pub(super) async fn list(State(app): State<App>, Caller(by): Caller) -> Result<Json<WebhookList>, Problem> {
    check_auditor(&by, NEED)?;
    let mut views = Vec::new();
    if let Some(webhooks) = &app.webhooks {
        for endpoint in webhooks.endpoints().filter(|endpoint| may_see(&by, endpoint)) {
            let progress =
                webhooks.store().deliveries().progress(&endpoint.name).await.map_err(|error| failed_store(&error))?;
            views.push(view(endpoint, progress.as_ref()));
        }
    }
    Ok(Json(WebhookList { webhooks: views, next_cursor: None }))
}

fn view(endpoint: &Endpoint, last: Option<&Progress>) -> WebhookView {
    let is_gone = last.is_some_and(|progress| progress.gone);
    WebhookView {
        name: endpoint.name.clone(),
        host: endpoint.host().unwrap_or_default(),
        format: endpoint.format.name(),
        events: endpoint.kinds.iter().map(|kind| kind.name()).collect(),
        tenant: endpoint.tenant.clone(),
        status: if is_gone { "gone" } else { "active" },
        cursor: last.map(|progress| progress.cursor),
        waiting: last.map_or(0, |progress| progress.waiting),
        dead: last.map_or(0, |progress| progress.dead),
        last_failed: last.and_then(|progress| progress.last.clone()).map(FailedMessage::from),
    }
}

pub(super) async fn failed(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    Params(params): Params<ReadFailed>,
) -> Result<Json<FailedMessages>, Problem> {
    let (limit, webhooks) = (params.limit.unwrap_or(PAGE), named(&app, &by, &name)?);
    let after = match params.cursor.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => return Err(Problem::invalid("`cursor` must be the next_cursor of the page before".to_owned())),
    };
    let page = FailedPage { after, limit: limit + 1 };
    let mut deliveries =
        webhooks.store().deliveries().failed(&name, page).await.map_err(|error| failed_store(&error))?;
    let more = deliveries.len() > limit;
    deliveries.truncate(limit);
    let next_cursor = deliveries.last().filter(|_| more).map(|last| last.n.to_string());
    Ok(Json(FailedMessages { failed: deliveries.into_iter().map(FailedMessage::from).collect(), next_cursor }))
}

pub(super) async fn retry_one(
    State(app): State<App>,
    Caller(by): Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    NoKey: NoKey,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Retried>, Problem> {
    let Path((name, n)) = path.map_err(|error| Problem::invalid(format!("the path: {}", error.body_text())))?;
    let n = n.parse().map_err(|_| Problem::invalid("the path: n: must be the number of a record of the audit log"))?;
    let webhooks = named(&app, &by, &name)?;
    let store = webhooks.store();
    let retried = store.deliveries().retry(&name, Some(n), store.now()).await.map_err(|error| failed_store(&error))?;
    if retried == 0 {
        let what = format!("no message of record {n} of the audit log has failed at webhook {name:?}");
        return Err(Problem::of(Refusal::new(Code::WebhookNotFound, what)));
    }
    sends_again(store, &name).await;
    Ok(Json(Retried { retried }))
}

/// An endpoint that had answered that it is gone is sent to again: an auditor says that it is back.
async fn sends_again(store: &dyn Store, name: &str) {
    if let Err(error) = store.deliveries().set_gone(name, false).await {
        tracing::error!("webhook {name:?}: nothing is sent to it while it counts as gone: {error}");
    }
}

pub(super) async fn retry_all(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    NoKey: NoKey,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Retried>, Problem> {
    let webhooks = named(&app, &by, &name)?;
    let store = webhooks.store();
    let retried = store.deliveries().retry(&name, None, store.now()).await.map_err(|error| failed_store(&error))?;
    sends_again(store, &name).await;
    Ok(Json(Retried { retried }))
}

/// Also for a webhook that is no longer in the file: it belongs to auditors without a tenant.
pub(super) async fn forget(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    NoKey: NoKey,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Forgotten>, Problem> {
    check_auditor(&by, NEED)?;
    // Dropped messages reach nobody, so only a person may drop them.
    if by.kind != PrincipalKind::Person {
        let what = "only a person may drop the messages of a webhook, with a token of their own";
        return Err(Problem::of(Refusal::new(Code::Forbidden, what)));
    }
    let Some(webhooks) = &app.webhooks else { return Err(no_webhook(&name)) };
    let may_forget = match webhooks.endpoints().find(|endpoint| endpoint.name == name) {
        Some(endpoint) => may_see(&by, endpoint),
        None => by.trusted || by.tenant.is_none(),
    };
    if !may_forget {
        return Err(no_webhook(&name));
    }
    let forgotten = webhooks.forget(&name).await.map_err(|error| failed_store(&error))?;
    let dropped = forgotten.ok_or_else(|| no_webhook(&name))?;
    let who = by.subject.as_deref().unwrap_or("somebody without a token");
    tracing::warn!("webhook {name:?} was forgotten by {who:?}, with {dropped} messages that had not arrived");
    Ok(Json(Forgotten { dropped }))
}

pub(super) async fn test(
    State(app): State<App>,
    Caller(by): Caller,
    Segment(name): Segment,
    NoKey: NoKey,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Tested>, Problem> {
    let tested = named(&app, &by, &name)?.test(&name).await;
    // It existed a moment ago.
    let message = tested.and_then(Result::err);
    Ok(Json(Tested { delivered: message.is_none(), message }))
}
