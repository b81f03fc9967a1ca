//! Reading: sessions, their state, agents.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use countersign_core::{
    approval::{key::approval_key, principal::Principal},
    call::reviewer::Reviewer,
    content::TakesImages,
    journal::{
        graph,
        record::{Block, Entry, ForkedFrom, ModelResponded, Record, Usage},
        run::Raw,
        state::{State, Status},
    },
    locale::Locale,
    refusal::{Code, Refusal},
    session::Session,
    time::rfc3339,
    todo::Todo,
    wire::{
        event::{HeldTurn, Request, RunFailure, StopReason},
        expand,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::{
    activity::Activity,
    inner::{Inner, READ_BYTES, READ_PAGE, Runtime},
    inputs::TurnOutcome,
    live::LiveState,
    nodes::term_ended,
    refusals::{store_refusal, visible},
};
use crate::{
    agent::output::Output,
    store::{Page, PendingCount, SessionFilter, StoreError, Summary, Visible},
};

/// The role that may read the audit log.
pub const AUDITOR: &str = "auditor";

/// The longest wait for the id of the store's history: a greeting does not wait for an unreachable database.
const HISTORY_ID_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a principal has an auditor's rights; `what` begins the error, such as `the audit log needs`.
///
/// # Errors
/// `forbidden`.
pub fn check_auditor(by: &Principal, what: &str) -> Result<(), Refusal> {
    if by.trusted || by.holds(AUDITOR) {
        return Ok(());
    }
    Err(Refusal::new(Code::Forbidden, format!("{what} the role {AUDITOR:?}")))
}

/// A session, as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionRow {
    /// Its id.
    pub session_id: Arc<str>,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// Its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The title that its owner gave it, or the beginning of its first message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// Its status.
    pub status: Status,
    /// When it was created (RFC 3339).
    pub created_at: String,
    /// When it last changed (RFC 3339).
    pub updated_at: String,
    /// The pending approval keys.
    pub pending: Vec<String>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionView {
    /// Its id.
    pub session_id: Arc<str>,
    /// The agent that answers.
    pub agent: Arc<str>,
    /// Its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Arc<str>>,
    /// The title that its owner gave it, or the beginning of its first message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// Its status.
    pub status: Status,
    /// When it was created (RFC 3339).
    pub created_at: String,
    /// When it last changed (RFC 3339).
    pub updated_at: String,
    /// The pending approval keys.
    pub pending: Vec<String>,
    /// The session and the checkpoint from which it was forked, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Why its turn is on hold, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldTurn>,
    /// Why its turn failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunFailure>,
}

impl SessionView {
    pub(crate) fn of_state(state: &State) -> SessionView {
        let SessionRow { session_id, agent, subject, title, status, created_at, updated_at, pending } =
            SessionRow::of(&Summary::of(state));
        SessionView {
            session_id,
            agent,
            subject,
            title,
            status,
            created_at,
            updated_at,
            pending,
            forked_from: state.forked_from.clone(),
            held: HeldTurn::of_state(state),
            error: state.failure.as_deref().map(RunFailure::from),
        }
    }
}

impl SessionRow {
    fn of(summary: &Summary) -> SessionRow {
        SessionRow {
            session_id: summary.session_id.clone(),
            agent: summary.agent.clone(),
            subject: summary.subject.clone(),
            title: summary.title.clone(),
            status: summary.status,
            created_at: rfc3339(summary.created_at),
            updated_at: rfc3339(summary.updated_at),
            pending: summary.pending.iter().map(|n| approval_key(&summary.session_id, *n)).collect(),
        }
    }
}

/// An agent, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentView {
    /// Its name.
    pub name: Arc<str>,
    /// Its purpose, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// The configured name of its model.
    pub model: Arc<str>,
    /// Whether its model takes images: if not, a message with one is refused.
    pub takes_images: bool,
    /// Its tools.
    pub tools: Vec<Arc<str>>,
    /// The maximum number of model calls in one turn.
    pub max_turns: u32,
}

/// The state of a session, for inspection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StateView {
    /// The session.
    #[serde(flatten)]
    pub session: SessionView,
    /// The language of the server's own texts.
    pub locale: Locale,
    /// The nodes it is at: of the agent's loop, or of a graph.
    pub nodes: Vec<String>,
    /// The `seq` of the last event.
    pub seq: u64,
    /// Turns so far.
    pub turns: u32,
    /// Model calls of the current turn.
    pub turn_calls: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// The pending requests.
    pub interruptions: Vec<Request>,
    /// The agent's to-do list.
    pub todos: Vec<Todo>,
    /// The state of the graph that the session runs, as JSON, with all finished rounds. Absent for agents' sessions,
    /// and if the program does not have the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    pub values: Option<Raw>,
}

impl StateView {
    pub(super) fn of(now: &Session) -> StateView {
        let Session { cursor, state } = now;
        StateView {
            session: SessionView::of_state(state),
            locale: state.locale,
            nodes: graph::nodes(state),
            seq: cursor.seq,
            turns: state.turns,
            turn_calls: state.turn_calls,
            usage: state.usage,
            todos: state.todos.clone(),
            interruptions: Inner::interruptions(state),
            values: None,
        }
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListPage<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

/// How many broken sessions are remembered, so that each poll of a list does not log them again.
const TOLD: usize = 10_000;

/// The rows of a page, unless a query sets another number.
pub(super) const PAGE: usize = 50;

/// Which sessions to list.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SessionQuery {
    /// Their status.
    pub status: Option<Status>,
    /// The agent that answers.
    pub agent: Option<String>,
    /// The end of the previous page.
    pub cursor: Option<String>,
    /// Rows per page; 50 by default.
    pub limit: Option<usize>,
}

impl Runtime {
    /// The agents, in the order they were added.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentView> {
        let agents = &self.inner.agents;
        let ready = agents.names.iter().filter_map(|name| agents.get(name));
        ready
            .map(|ready| AgentView {
                name: ready.agent.name.clone(),
                description: ready.agent.description.clone(),
                model: ready.agent.model_name.clone(),
                takes_images: ready.agent.model.images() != TakesImages::None,
                tools: ready.specs().iter().map(|spec| spec.name.clone()).collect(),
                max_turns: ready.agent.max_turns,
            })
            .collect()
    }

    /// The session's state.
    ///
    /// # Errors
    /// `session_not_found`, `too_busy`, `store_unavailable`.
    pub async fn state(&self, by: &Principal, session_id: &str) -> Result<StateView, Refusal> {
        self.state_queued(by, session_id, Some(by)).await
    }

    /// The same. It waits among the heavy reads of `queued`, or is refused (`too_busy`); `None`: neither, since what is
    /// stored must not be refused any more.
    pub(super) async fn state_queued(
        &self,
        by: &Principal,
        session_id: &str,
        queued: Option<&Principal>,
    ) -> Result<StateView, Refusal> {
        let state = self.read_state(by, session_id).await?;
        Ok(StateView { values: self.inner.graph_values(queued, &state).await?, ..StateView::of(&state) })
    }

    /// The `seq` of the session's last event.
    ///
    /// # Errors
    /// `session_not_found`, `store_unavailable`.
    pub async fn last_seq(&self, by: &Principal, session_id: &str) -> Result<u64, Refusal> {
        self.read_state(by, session_id).await.map(|state| state.cursor.seq)
    }

    /// The session, as lists show it.
    ///
    /// # Errors
    /// `session_not_found`, `store_unavailable`.
    pub async fn session(&self, by: &Principal, session_id: &str) -> Result<SessionView, Refusal> {
        self.read_state(by, session_id).await.map(|state| SessionView::of_state(&state))
    }

    /// The sessions `by` may see, most recently used first.
    ///
    /// # Errors
    /// `invalid_message` (bad cursor), `store_unavailable`.
    pub async fn sessions(&self, by: &Principal, query: SessionQuery) -> Result<ListPage<SessionRow>, Refusal> {
        let filter = SessionFilter { status: query.status, agent: query.agent, visible_to: visible_to(by) };
        let page = Page { cursor: query.cursor, limit: query.limit.unwrap_or(PAGE) };
        let paged = self.inner.store.sessions(filter, page).await.map_err(store_refusal)?;
        self.inner.log_unread("a session", paged.unread);
        self.inner.released().await?;
        Ok(ListPage { rows: paged.rows.iter().map(SessionRow::of).collect(), next_cursor: paged.next })
    }

    /// The id of the store's history ([`Store::history_id`](crate::store::Store::history_id)); `None` if it cannot be
    /// read within a second.
    pub async fn history_id(&self) -> Option<Arc<str>> {
        let read = async || {
            let id = self.inner.store.history_id().await?;
            Ok::<_, StoreError>(id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string().into()))
        };
        let known = tokio::time::timeout(HISTORY_ID_TIMEOUT, self.inner.history.get_or_try_init(read)).await;
        known.ok()?.ok().cloned()
    }

    /// Whether the store is open: not closed after a disk error. Nothing is read or written to check.
    ///
    /// # Errors
    /// `store_closed`.
    pub fn store_is_open(&self) -> Result<(), Refusal> {
        self.inner.check_open()
    }

    /// This runtime's metrics since it was built, for operators.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.inner.activity
    }

    /// The number of pending interruptions in the store, of all nodes; `None` if they are not counted.
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`.
    pub async fn pending(&self) -> Result<Option<PendingCount>, Refusal> {
        self.inner.check_open()?;
        self.inner.store.pending().await.map_err(|error| self.inner.refused(error))
    }

    /// Whether the store can be written to, and effects can begin here.
    ///
    /// # Errors
    /// `store_unavailable`, `store_closed`.
    pub async fn ready(&self) -> Result<(), Refusal> {
        self.inner.check_open()?;
        self.inner.store.check().await.map_err(|error| self.inner.refused(error))?;
        // It would accept inputs, but carry out no effects.
        self.inner.term().map(drop).ok_or_else(term_ended)
    }

    pub(super) async fn read_state(&self, by: &Principal, session_id: &str) -> Result<Session, Refusal> {
        self.inner.read_state(by, session_id).await
    }
}

impl Inner {
    /// A session for a client.
    pub(super) async fn read_state(self: &Arc<Self>, by: &Principal, session_id: &str) -> Result<Session, Refusal> {
        let live = self.named(session_id)?;
        let mut guard = live.lock_to_read().await?;
        let state = self.load(&live, &mut guard).await?;
        drop(guard);
        self.released().await?;
        visible(by, &state).map(|()| state)
    }

    /// Logs the rows that a page leaves out because they cannot be read here.
    pub(super) fn log_unread(&self, what: &'static str, unread: Vec<(Arc<str>, StoreError)>) {
        for (session_id, error) in unread {
            let error = store_refusal(error);
            if error.is_for_newer() {
                log_for_newer(what, &session_id, &error);
            } else if self.is_logged_first(what, &session_id) {
                // A value that only a newer build knows looks like a damaged one.
                tracing::warn!(
                    session = &*session_id, %error,
                    "{what} cannot be read and is left out of lists: it is damaged, or a newer version has stored it"
                );
            }
        }
    }

    /// Logs that lists leave something out because its session cannot be read here.
    pub(super) fn log_unreadable(&self, what: &'static str, session_id: &Arc<str>, error: &Refusal) {
        if error.is_for_newer() {
            log_for_newer(what, session_id, error);
        } else if self.is_logged_first(what, session_id) {
            tracing::error!(session = &**session_id, %error, "{what} cannot be read and is left out of lists");
        }
    }

    /// Lists are polled: what they leave out is logged once.
    fn is_logged_first(&self, what: &'static str, session_id: &Arc<str>) -> bool {
        let mut logged = self.logged_unread.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= TOLD {
            logged.clear();
        }
        logged.insert((what, session_id.clone()))
    }
}

/// Newer builds list what they have stored.
fn log_for_newer(what: &str, session_id: &str, error: &Refusal) {
    tracing::debug!(session = session_id, %error, "{what} cannot be read here and is left out of a list");
}

pub(super) fn visible_to(by: &Principal) -> Option<Visible> {
    if by.trusted {
        return None;
    }
    let roles = by.roles.iter().filter(|role| !Reviewer::is_owner_name(role)).cloned().collect();
    let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
    Some(Visible { subject: text(&by.subject), tenant: text(&by.tenant), roles })
}

impl Inner {
    pub(super) async fn entry(&self, session_id: &str, pos: u64) -> Result<Option<Arc<Entry>>, Refusal> {
        let page = self.store.read(session_id, pos.saturating_sub(1), 1).await.map_err(store_refusal)?;
        Ok(page.into_iter().next().filter(|entry| entry.pos == pos))
    }

    /// The blocks of the answer at `pos` that were recorded before it. Other records may lie between.
    async fn shown_before(&self, session_id: &str, pos: u64, shown: u32) -> Result<Vec<Block>, Refusal> {
        let wanted = usize::try_from(shown).unwrap_or(usize::MAX);
        let (mut blocks, mut end) = (Vec::new(), pos.saturating_sub(1));
        while blocks.len() < wanted && end > 0 {
            let from = end.saturating_sub(u64::from(shown) + 4);
            let mut found = Vec::new();
            let look = |entry: &Entry| {
                found.extend(entry.records.iter().filter_map(|record| match record {
                    Record::BlockShown(block) => Some(block.clone()),
                    _ => None,
                }));
            };
            self.read_between(session_id, from, end, look).await?;
            found.append(&mut blocks);
            blocks = found;
            end = from;
        }
        Ok(blocks.split_off(blocks.len().saturating_sub(wanted)))
    }

    /// Passes the entries after `from` up to `end` to `take`, in order, and never holds more than a page of them.
    pub(super) async fn read_between(
        &self,
        session_id: &str,
        mut from: u64,
        end: u64,
        mut take: impl FnMut(&Entry) + Send,
    ) -> Result<(), Refusal> {
        while from < end {
            let limit = usize::try_from(end - from).unwrap_or(READ_PAGE).min(READ_PAGE);
            let page = self.store.read_within(session_id, from, limit, READ_BYTES).await.map_err(store_refusal)?;
            let Some(last) = page.last() else { return Err(self.no_entries(session_id).await) };
            from = last.pos;
            page.iter().for_each(|entry| take(entry));
        }
        Ok(())
    }

    /// The outcome of a session, with the text of its latest answer. The session stays locked no longer than needed.
    pub(super) async fn outcome(
        &self,
        state: &State,
        guard: MutexGuard<'_, LiveState>,
    ) -> Result<TurnOutcome, Refusal> {
        let answer = guard.answer_at(state.answer_pos);
        drop(guard);
        let mut text = String::new();
        if let Some(output) = &state.output {
            text = output.to_string();
        } else if state.answer_pos > 0 && state.has_answered() {
            let entry = match answer {
                Some(entry) => Some(entry),
                None => self.entry(&state.session_id, state.answer_pos).await?,
            };
            if let Some(answer) = entry.as_deref().and_then(own_answer) {
                let shown = self.shown_before(&state.session_id, state.answer_pos, answer.shown).await?;
                for block in shown.iter().chain(&answer.blocks) {
                    if let Block::Text { text: part, .. } = block {
                        text.push_str(part);
                    }
                }
            }
            let typed = self.agents.get(&state.agent).is_some_and(|ready| ready.agent.output.is_some());
            if typed && state.status == Status::Completed {
                text = Output::json(&text).to_owned();
            }
        }
        let stop_reason = match state.status {
            Status::Completed => Some(state.cut.map_or(StopReason::EndTurn, StopReason::from)),
            Status::Cancelled => Some(StopReason::Cancelled),
            _ => state.failure.as_ref().map(|failure| expand::stop_reason(failure)),
        };
        Ok(TurnOutcome {
            session_id: state.session_id.clone(),
            status: state.status,
            stop_reason,
            text,
            pending: state.pending_keys(),
            interruptions: Inner::interruptions(state),
            error: state.failure.as_deref().map(RunFailure::from),
        })
    }
}

/// The answer of the session's own agent in an append.
pub(super) fn own_answer(entry: &Entry) -> Option<&ModelResponded> {
    entry.records.iter().find_map(|record| match record {
        Record::ModelResponded(answer) if answer.run.is_root() => Some(answer),
        _ => None,
    })
}
