//! The inbox: interruptions with their decisions and answers, as people and clients read them.

use std::sync::Arc;

use countersign_core::{
    approval::{
        decision::Decision,
        key::{approval_key, parse_approval_key},
        principal::Principal,
        question::Answers,
    },
    decide::resolve,
    journal::{
        record::{Interrupted, Note, Record, Restart, Withdrawal},
        run::Raw,
    },
    limits,
    number::InterruptionNo,
    refusal::{Code, Refusal},
    session::Session,
    time::rfc3339,
    wire::{
        client::check_session_id,
        event::{ApprovalUpdate, HeldTurn, Resolution},
        expand,
        request::{self, Request},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    inner::{Inner, READ_BYTES, READ_PAGE, Runtime},
    refusals::store_refusal,
    told::json_bytes,
    view::{ListPage, PAGE, visible_to},
};
use crate::store::{
    InterruptionFilter, InterruptionRow, Page,
    page::{self, Room},
};

/// How many entries are read at once to find updates of an interruption.
const UPDATES_PAGE: usize = 16;

/// An approval request in the inbox, with its resolution.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ApprovalView {
    /// The session.
    pub session_id: Arc<str>,
    /// The session's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// `waiting` or `resolved`.
    pub status: ApprovalStatus,
    /// Why the session's turn is on hold, while this is pending; `message` says what resumes it. If `restored`, it may
    /// have been decided and carried out after the backup: check outside before you decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldTurn>,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// When it was requested (RFC 3339).
    pub created_at: String,
    /// Comments and changes while it was pending, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<UpdateView>,
    /// How it was resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// If it was `cancelled`: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Withdrawal>,
    /// When it was resolved (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<String>,
    /// Who resolved it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The decisions or answers.
    #[serde(flatten)]
    #[schemars(with = "ReplyMembers")]
    pub reply: Option<ReplyView>,
}

/// A comment on a pending approval request, or a change to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpdateView {
    /// What.
    #[serde(flatten)]
    pub update: ApprovalUpdate,
    /// Who, if a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// When (RFC 3339).
    pub at: String,
}

/// A person's decisions on an approval request, or the answer to it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyView {
    /// To actions, one for each; to declined questions, one reject.
    Decisions(Vec<Decision>),
    /// To questions.
    Answers(Answers),
    /// To a node of a graph.
    Resume(#[schemars(with = "Value")] Raw),
}

/// A session's journal entries about a request.
struct Recorded {
    asked: Arc<Interrupted>,
    updates: Vec<UpdateView>,
    /// Whether the turn may be on hold. Only then is the session loaded, so that a list loads few.
    may_be_held: bool,
}

/// Who ended an interruption, and how.
#[derive(Default)]
struct End {
    by: Option<Arc<str>>,
    reply: Option<ReplyView>,
    reason: Option<Withdrawal>,
}

impl End {
    fn with(by: &Option<Arc<str>>, reply: ReplyView) -> End {
        End { by: by.clone(), reply: Some(reply), reason: None }
    }
}

/// The details of `approval_already_resolved`.
#[derive(Serialize)]
struct Winner {
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<Resolution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Withdrawal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(flatten)]
    reply: Option<ReplyView>,
}

/// The JSON form of a [`ReplyView`], if there is one: at most one of these.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct ReplyMembers {
    /// To actions, one for each; to declined questions, one reject.
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<Vec<Decision>>,
    /// To questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Answers>,
    /// To a node of a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    resume: Option<Raw>,
}

/// Whether an approval request is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalStatus {
    /// It is pending.
    Waiting,
    /// It is resolved.
    Resolved,
}

/// Which approvals to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ApprovalQuery {
    /// Waiting or resolved.
    pub status: Option<ApprovalStatus>,
    /// The role that decides.
    pub role: Option<String>,
    /// The agent that asks.
    pub agent: Option<String>,
    /// A tool that the request is about.
    pub tool: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// At most this many rows per page, 50 by default; fewer if they are long.
    pub limit: Option<usize>,
}

impl Runtime {
    /// The interruptions that `by` may see: first pending ones with a deadline, the soonest first, then pending ones
    /// without a deadline, then resolved ones, the newest first. A page of long requests has fewer of them.
    ///
    /// # Errors
    /// `invalid_message` (bad cursor), `store_unavailable`.
    pub async fn approvals(&self, by: &Principal, query: ApprovalQuery) -> Result<ListPage<ApprovalView>, Refusal> {
        let filter = InterruptionFilter {
            waiting: query.status.map(|status| status == ApprovalStatus::Waiting),
            role: query.role,
            agent: query.agent,
            tool: query.tool,
            session_id: query.session_id,
            visible_to: visible_to(by),
        };
        let page = Page { cursor: query.cursor, limit: query.limit.unwrap_or(PAGE) };
        let paged = self.inner.store.interruptions(filter, page).await.map_err(store_refusal)?;
        self.inner.log_unread("a request", paged.unread);
        let (mut rows, mut next_cursor) = (Vec::with_capacity(paged.rows.len()), paged.next);
        let mut room = Room::new(limits::PAGE_BYTES);
        let mut last = None;
        for row in &paged.rows {
            match self.inner.approval_view(row).await {
                // Requests are read one by one, so that no more of them than fit are in memory.
                Ok(Some(view)) if !room.takes(json_bytes(&view)) => {
                    next_cursor = last.map(page::after);
                    break;
                }
                // A session deleted since the page was read does not fail the page.
                Ok(view) => rows.extend(view),
                // Nor does one that cannot be read here, and so cannot be decided here.
                Err(error) if error.is_unreadable() => {
                    self.inner.log_unreadable("a request", &row.session_id, &error);
                }
                Err(error) => return Err(error),
            }
            last = Some(row);
        }
        self.inner.released().await?;
        Ok(ListPage { rows, next_cursor })
    }

    /// One interruption.
    ///
    /// # Errors
    /// `approval_not_found`, `store_unavailable`.
    pub async fn approval(&self, by: &Principal, key: &str) -> Result<ApprovalView, Refusal> {
        let not_found = || resolve::not_found(key);
        let (session, n) = self.session_of(by, key).await?;
        let row = self.inner.store.interruption(&session.session_id, n).await.map_err(store_refusal)?;
        let view = match row {
            Some(row) => self.inner.approval_view(&row).await?,
            None => None,
        };
        self.inner.released().await?;
        view.ok_or_else(not_found)
    }

    /// The session that a key belongs to, if `by` may see it, and the interruption's number there.
    pub(super) async fn session_of(&self, by: &Principal, key: &str) -> Result<(Session, InterruptionNo), Refusal> {
        let not_found = || resolve::not_found(key);
        let (session_id, n) = parse_approval_key(key).ok_or_else(not_found)?;
        check_session_id(session_id).map_err(|_| not_found())?;
        let session = self.read_state(by, session_id).await;
        let session = session.map_err(|e| if e.code == Code::SessionNotFound { not_found() } else { e })?;
        Ok((session, n))
    }
}

impl Inner {
    /// The inbox's view of a row; `None` if its session was deleted.
    async fn approval_view(self: &Arc<Self>, row: &InterruptionRow) -> Result<Option<ApprovalView>, Refusal> {
        let Some(Recorded { asked, updates, may_be_held }) = self.recorded(row).await? else { return Ok(None) };
        let held = if may_be_held && row.resolution.is_none() { self.why_held(&row.session_id).await? } else { None };
        let mut request = request::of(&row.session_id, &asked);
        if let Request::Actions(actions) = &mut request {
            for UpdateView { update, by, .. } in &updates {
                match update {
                    ApprovalUpdate::Reassigned { subject, .. } => actions.assignee.clone_from(subject),
                    ApprovalUpdate::Approved { .. } => actions.approved_by.extend(by.clone()),
                    ApprovalUpdate::Comment { .. } | ApprovalUpdate::Reminder => {}
                }
            }
        }
        let End { by, reply, reason } = self.ended_by(row).await?;
        Ok(Some(ApprovalView {
            session_id: row.session_id.clone(),
            subject: row.subject.clone(),
            status: if row.resolution.is_some() { ApprovalStatus::Resolved } else { ApprovalStatus::Waiting },
            held,
            request,
            created_at: rfc3339(row.asked_at),
            updates,
            resolution: row.resolution,
            reason,
            resolved_at: row.resolved_at.map(rfc3339),
            by,
            reply,
        }))
    }

    /// Why a session's turn is on hold, for reviewers; `None` if it is not.
    async fn why_held(self: &Arc<Self>, session_id: &str) -> Result<Option<HeldTurn>, Refusal> {
        let live = self.named(session_id)?;
        let mut guard = live.lock_to_read().await?;
        match self.load(&live, &mut guard).await {
            // Deleted since its request was read.
            Err(error) if error.code == Code::SessionDeleted => Ok(None),
            session => session.map(|session| HeldTurn::of_requests(&session)),
        }
    }

    /// The request, its current reviewers, and its updates. Little else happens in a paused session, so they are close
    /// together; messages queued meanwhile may be long.
    async fn recorded(&self, row: &InterruptionRow) -> Result<Option<Recorded>, Refusal> {
        let (mut asked, mut updates): (Option<Arc<Interrupted>>, _) = (None, Vec::new());
        let mut may_be_held = false;
        let end = row.resolved_pos.unwrap_or(u64::MAX);
        let mut after = row.asked_pos.saturating_sub(1);
        let mut most = UPDATES_PAGE;
        loop {
            let limit = most.min(usize::try_from(end.saturating_sub(after)).unwrap_or(most));
            // Other branches of a run, or other agents, may have continued for a long time.
            most = READ_PAGE.min(most * 4);
            let page =
                self.store.read_within(&row.session_id, after, limit, READ_BYTES).await.map_err(store_refusal)?;
            let ended = page.is_empty();
            for (entry, record) in page.iter().flat_map(|entry| entry.records.iter().map(move |record| (entry, record)))
            {
                may_be_held |= may_hold(record);
                match record {
                    Record::Interrupted(one) if one.n == row.n => asked = Some(one.clone()),
                    Record::Noted(noted) if noted.n == row.n => {
                        if let (Some(asked), Note::Reassigned { role: Some(role), .. }) = (&mut asked, &noted.note) {
                            Arc::make_mut(asked).hand_to(role);
                        }
                        updates.push(UpdateView {
                            update: expand::update(&noted.note),
                            by: noted.by.clone(),
                            at: rfc3339(entry.at),
                        });
                    }
                    _ => {}
                }
            }
            after = page.last().map_or(end, |entry| entry.pos);
            if asked.is_none() || ended || after >= end {
                return Ok(asked.map(|asked| Recorded { asked, updates, may_be_held }));
            }
        }
    }

    /// Who resolved an interruption, and how.
    async fn ended_by(&self, row: &InterruptionRow) -> Result<End, Refusal> {
        let Some(pos) = row.resolved_pos else { return Ok(End::default()) };
        let entry = self.entry(&row.session_id, pos).await?;
        let end = entry.iter().flat_map(|entry| &entry.records).find_map(|record| match record {
            Record::Decided(decided) if decided.n == row.n => {
                Some(End::with(&decided.by, ReplyView::Decisions(decided.decisions.clone())))
            }
            Record::Answered(answered) if answered.n == row.n => {
                Some(End::with(&answered.by, ReplyView::Answers(answered.answers.clone())))
            }
            Record::Resumed(resumed) if resumed.n == row.n => {
                Some(End::with(&resumed.by, ReplyView::Resume(resumed.value.clone())))
            }
            Record::Withdrawn { n, by, why } if *n == row.n => {
                Some(End { by: by.clone(), reply: None, reason: Some(*why) })
            }
            _ => None,
        });
        Ok(end.unwrap_or_default())
    }

    /// Who resolved it first (spec W5: `details: {resolution, decisions | answers, by, at}`).
    pub(crate) async fn resolved_refusal(&self, row: &InterruptionRow) -> Result<Refusal, Refusal> {
        let End { by, reply, reason } = self.ended_by(row).await?;
        let mut how = match row.resolution {
            Some(Resolution::Timeout) => "its deadline passed".to_owned(),
            Some(Resolution::Cancelled) => reason.unwrap_or(Withdrawal::TurnEnded).in_words().to_owned(),
            Some(Resolution::Decided) | None => {
                reply.as_ref().map_or_else(|| "decided".to_owned(), ReplyView::in_words)
            }
        };
        if let Some(by) = &by {
            how.push_str(&format!(" by {by:?}"));
        }
        let details = Winner { resolution: row.resolution, reason, by, at: row.resolved_at.map(rfc3339), reply };
        let what = format!("{:?} is already resolved: {how}", approval_key(&row.session_id, row.n));
        Ok(Refusal::new(Code::ApprovalAlreadyResolved, what).with_details(details))
    }
}

/// Whether a turn is on hold from this record on, or was before it.
fn may_hold(record: &Record) -> bool {
    match record {
        Record::Restarted(restarted) => restarted.held || restarted.why == Restart::Restored,
        Record::Forked(forked) => forked.held,
        Record::Status { hold, .. } => hold.is_some(),
        // A deadline that asks again, such as the next level, releases nothing.
        Record::TimedOut { .. } => true,
        _ => false,
    }
}

impl ReplyView {
    /// Its effect on the request: each kind of decision once, however many there are.
    fn in_words(&self) -> String {
        let ReplyView::Decisions(decisions) = self else { return "answered".to_owned() };
        let mut kinds: Vec<&str> = Vec::new();
        for kind in decisions.iter().map(|decision| decision.kind().name()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        format!("decided ({})", kinds.join(", "))
    }
}
