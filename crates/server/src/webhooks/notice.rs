//! The content of a message: from an audit record and the inbox, without arguments and texts.

use countersign_core::{
    approval::key::parse_approval_key, audit::AuditRecord, call::reviewer::Reviewer, journal::record::Millis,
    time::rfc3339,
};
use countersign_store::{InterruptionRow, Store, StoreError};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize, Serializer};

/// Characters of a record's hash in a message's id.
const ID_CHARS: usize = 32;

/// What a message is about: its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeKind {
    /// People are asked to decide.
    Requested,
    /// A reminder that they still are.
    Reminded,
    /// Other people are asked, since it was reassigned.
    Reassigned,
    /// Other people are asked, because its deadline has passed.
    Escalated,
    /// It was decided, answered or cancelled.
    Resolved,
    /// Its deadline has passed, and nobody else is asked.
    TimedOut,
    /// A call was interrupted and its outcome is unknown: people are asked to report it.
    InDoubt,
    /// A test by the operator. It cannot be chosen.
    Test,
}

impl NoticeKind {
    /// Those that an endpoint may get.
    pub const ALL: &'static [NoticeKind] = &[
        NoticeKind::Requested,
        NoticeKind::Reminded,
        NoticeKind::Reassigned,
        NoticeKind::Escalated,
        NoticeKind::Resolved,
        NoticeKind::TimedOut,
        NoticeKind::InDoubt,
    ];

    /// Whether it announces a pending request.
    fn asks(self) -> bool {
        use NoticeKind::{InDoubt, Reassigned, Reminded, Requested};
        matches!(self, Requested | Reminded | Reassigned | InDoubt)
    }

    /// Its name, as in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NoticeKind::Requested => "approval.requested",
            NoticeKind::Reminded => "approval.reminded",
            NoticeKind::Reassigned => "approval.reassigned",
            NoticeKind::Escalated => "approval.escalated",
            NoticeKind::Resolved => "approval.resolved",
            NoticeKind::TimedOut => "approval.timed_out",
            NoticeKind::InDoubt => "call.in_doubt",
            NoticeKind::Test => "webhook.test",
        }
    }
}

impl Serialize for NoticeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A message.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Notice {
    /// The same for every attempt and every endpoint.
    #[serde(skip)]
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: NoticeKind,
    /// When it happened.
    pub(super) timestamp: String,
    pub(super) data: Data,
}

/// Its subject; unknown parts are left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Data {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approval_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    /// The kind of request: an approval, a question and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<String>,
    /// The role that decides; `user` for the session's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    /// The roles that are asked next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) escalated_to: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    /// The person who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// How it ended: `decided`, `timeout` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resolution: Option<&'static str>,
    /// If it was cancelled: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The kinds of its decisions, in the order of its actions; `answer` for questions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) decisions: Vec<String>,
    /// Where the console shows it.
    pub(super) url: String,
}

/// The part of a record's body that matters here.
#[derive(Deserialize)]
struct Body {
    event: String,
    at: String,
    session_id: String,
    tenant: Option<String>,
    approval_key: Option<String>,
    kind: Option<String>,
    role: Option<String>,
    #[serde(default)]
    escalated_to: Vec<Reviewer>,
    by: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    decisions: Vec<Typed>,
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

impl Body {
    /// The kind of message for it, and how the request ended. `None`: there is no message.
    ///
    /// A call whose outcome is unknown is announced with the request about it, which always follows and which a person
    /// can open, not with the record of its loss.
    fn kind(&self) -> Option<(NoticeKind, Option<&'static str>)> {
        Some(match self.event.as_str() {
            "requested" if self.kind.as_deref() == Some("in_doubt") => (NoticeKind::InDoubt, None),
            "requested" => (NoticeKind::Requested, None),
            "reminded" => (NoticeKind::Reminded, None),
            "reassigned" => (NoticeKind::Reassigned, None),
            "timed_out" if self.escalated_to.is_empty() => (NoticeKind::TimedOut, Some("timeout")),
            "timed_out" => (NoticeKind::Escalated, Some("timeout")),
            "decided" | "answered" | "resumed" => (NoticeKind::Resolved, Some("decided")),
            "withdrawn" => (NoticeKind::Resolved, Some("cancelled")),
            _ => return None,
        })
    }
}

impl Notice {
    /// The message about a record; `None` if the record has no message, is another tenant's, or announces a request
    /// that was resolved meanwhile. The names of agents and tools are from the inbox, which has none for a session that
    /// was deleted since. Instead of a message: why it cannot be made here now.
    pub(super) async fn of(
        record: &AuditRecord,
        store: &dyn Store,
        console: &str,
        wanted: &super::Endpoint,
    ) -> Result<Option<Result<Notice, String>>, StoreError> {
        let Ok(body) = serde_json::from_str::<Body>(record.body.get()) else { return Ok(None) };
        let (Some((kind, resolution)), Some(key)) = (body.kind(), body.approval_key.clone()) else { return Ok(None) };
        let Some((session_id, n)) = parse_approval_key(&key) else { return Ok(None) };
        let is_other = wanted.tenant.as_ref().is_some_and(|tenant| Some(tenant) != body.tenant.as_ref());
        if is_other || !wanted.kinds.contains(&kind) {
            return Ok(None);
        }
        let row = match store.interruption(session_id, n).await {
            // It may be pending or not: a newer version may have stored how it ended.
            Err(error @ (StoreError::Corrupt(_) | StoreError::Sealed(_))) if kind.asks() => {
                return Ok(Some(Err(format!("the request {key:?} cannot be read: {error}"))));
            }
            Err(StoreError::Corrupt(_) | StoreError::Sealed(_)) => None,
            row => row?,
        };
        // A receiver that is notified of a pending request now would act on one that is resolved, or was deleted.
        if kind.asks() && row.as_ref().is_none_or(|row| row.resolution.is_some()) {
            return Ok(None);
        }
        let data = data(body, key, row, resolution, console);
        let id = format!("msg_{}", record.hash.get(..ID_CHARS).unwrap_or(&record.hash));
        Ok(Some(Ok(Notice { id, kind, timestamp: data.1, data: data.0 })))
    }

    /// A test message.
    pub(super) fn test(console: &str, now: Millis) -> Notice {
        let data = Data { url: format!("{console}/#/inbox"), ..Data::default() };
        let id = format!("msg_test_{}", uuid::Uuid::now_v7().simple());
        Notice { id, kind: NoticeKind::Test, timestamp: rfc3339(now), data }
    }
}

fn data(
    body: Body,
    approval_key: String,
    row: Option<InterruptionRow>,
    resolution: Option<&'static str>,
    console: &str,
) -> (Data, String) {
    let url = format!("{console}/#/inbox?open={}", utf8_percent_encode(&approval_key, NON_ALPHANUMERIC));
    let answers = matches!(body.event.as_str(), "answered" | "resumed").then(|| "answer".to_owned());
    let pending = resolution.is_none();
    let data = Data {
        approval_key: Some(approval_key),
        session_id: Some(body.session_id),
        tenant: body.tenant,
        kind: body.kind,
        agent: row.as_ref().map(|row| row.agent.to_string()),
        tools: row.iter().flat_map(|row| row.tools.iter().map(ToString::to_string)).collect(),
        role: body.role.or_else(|| row.as_ref().map(|row| row.role.clone())),
        escalated_to: Reviewer::names(&body.escalated_to),
        expires_at: row.and_then(|row| row.expires_at).filter(|_| pending).map(rfc3339),
        by: body.by,
        resolution,
        reason: body.reason,
        decisions: body.decisions.into_iter().map(|decision| decision.r#type).chain(answers).collect(),
        url,
    };
    (data, body.at)
}
