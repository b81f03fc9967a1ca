//! The runner: takes inputs, journals their transitions, and carries out the effects.
//!
//! [`Runtime`] is its front: create sessions, send messages, decide interruptions. Nothing is acknowledged before it is
//! stored, and no effect begins before the records that caused it are stored. A paused session is rows in the store and
//! nothing else.

mod activity;
mod advance;
mod audit;
mod authority;
pub mod budget;
mod builder;
mod cancel;
pub(crate) mod claim;
mod closed;
mod compress;
mod conversations;
mod create;
mod decide;
mod delete;
mod drawing;
mod drive;
mod driver;
mod edit;
mod ended;
pub mod failpoint;
mod feed;
mod followers;
mod fork;
mod gate;
mod graph;
mod graph_api;
mod graph_runs;
pub(crate) mod guard;
mod heavy;
mod history;
pub(crate) mod hold;
mod inbox;
mod live;
mod message;
mod nodes;
mod note;
mod open_text;
mod outcomes;
mod overdue;
mod pass_on;
mod past;
mod patience;
mod policy;
mod recover;
mod rename;
mod retention;
mod retry;
mod rules;
pub(crate) mod settle;
mod sources;
pub mod spans;
mod start;
pub(crate) mod stops;
mod stream;
pub mod subscription;
mod transcript;
mod unanswered;
mod unasked;
mod view;
mod waypoints;
mod work;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    approval::principal::Principal,
    content::Content,
    journal::{draft::OnPending, record::Millis, request_id::RequestId, state::State},
    locale::Locale,
    refusal::{Code, Refusal},
    session::Session,
    wire::{client::check_session_id, event::Request},
};
pub(crate) use graph::Suspended;
use live::Live;
pub(crate) use live::LiveRef;
use serde::Serialize;
use serde_json::value::RawValue;
use subscription::Subscription;
use tokio::{runtime::Handle, sync::watch};

use crate::{
    agent::Agents,
    graph::compiled::AnyGraph,
    model::retry::RetryPolicy,
    store::{Store, StoreError, index::Purpose},
};
pub use activity::{Activity, Durations};
pub use audit::{AuditCheck, AuditError};
pub use authority::{Authority, RuleMaker, Suspension, SuspensionCode};
pub use builder::RuntimeBuilder;
pub use countersign_core::decide::reply::Reply;
pub use decide::NewDecision;
pub use drawing::GraphView;
pub use edit::{EditOutcome, EditPreview, NewEdit};
pub use fork::{EditedCall, ForkEdit, MadeFork, NewFork};
pub use graph_api::Runs;
pub use graph_runs::{BegunRun, NewRun};
pub use history::{Direction, HistoryPage, HistoryQuery};
pub use inbox::{ApprovalQuery, ApprovalStatus, ApprovalView, ReplyView, UpdateView};
pub use note::NewNote;
pub use past::{CheckpointQuery, CheckpointView};
pub use policy::{AskView, Effect, HintView, PolicyRuleView, PolicyView, ThenView, ToolApprovalView};
pub use retry::NewRetry;
pub use rules::{RuleDecision, RuleQuery, RuleScope, RuleState, RuleView};
pub use start::Start;
pub use view::{AUDITOR, AgentView, ListPage, SessionQuery, SessionRow, SessionView, StateView, check_auditor};
pub(crate) use view::{READ_BYTES, READ_PAGE};

/// Runs agents over a store. Cheap to clone; all clones are the same runtime.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("agents", &self.inner.agents.names).finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) agents: Agents,
    pub(crate) locale: Locale,
    pub(crate) retry: RetryPolicy,
    live: Mutex<HashMap<Arc<str>, Arc<Live>>>,
    /// Whether it resumes what was interrupted, and watches deadlines.
    started: AtomicBool,
    /// Set first when the runtime shuts down: no new effect starts, running work may end.
    draining: AtomicBool,
    /// True once running work is stopped.
    closing: watch::Sender<bool>,
    /// About how large a session may grow.
    session_bytes: u64,
    /// Where sessions run; `None`: in the caller's runtime.
    threads: Option<Handle>,
    /// Limits operations that fold whole journals.
    heavy: heavy::Heavy,
    /// Limits previews of edits.
    edits: heavy::Heavy,
    /// The id of the store's history, once it is known.
    history: tokio::sync::OnceCell<Arc<str>>,
    /// The refusal for every request once the store was closed after a disk error.
    store_closed: OnceLock<Refusal>,
    drivers: tokio::sync::watch::Sender<usize>,
    /// The graphs that sessions can run, by name.
    pub(crate) graphs: HashMap<Arc<str>, Arc<dyn AnyGraph>>,
    /// The settings of a run of the library.
    pub(crate) settings: guard::Settings,
    /// Paused runs of graphs, kept in memory.
    warm: graph::Warm,
    /// See [`Inner::on_probation`].
    probation: Mutex<HashSet<Arc<str>>>,
    /// Held while sessions are resumed one after the other.
    one_by_one: tokio::sync::Mutex<()>,
    /// How long idle sessions are kept; `None`: until they are deleted explicitly.
    keep: Option<std::time::Duration>,
    /// Metrics for operators.
    activity: activity::Activity,
    /// Whether it attends its sessions, or on several nodes those that it has leases of: it resumes them by itself.
    attends: AtomicBool,
    /// This node's progress through its own sessions.
    own_after: Mutex<nodes::Looked>,
    /// How far it has looked for deleted sessions among those of which it keeps conversations.
    kept_after: Mutex<Arc<str>>,
    /// Sessions that are left to other nodes.
    passed_on: pass_on::PassedOn,
    /// Broken sessions whose absence from lists was logged.
    told_broken: Mutex<HashSet<Arc<str>>>,
    /// The conversations that models have read last.
    conversations: conversations::Conversations,
    /// Whether it carries out effects.
    effects: bool,
    /// Whether its appends say that they are stored by a program that has opened the store itself.
    direct: bool,
}

/// A new session.
#[derive(Debug, Default)]
pub struct NewSession {
    /// Its id; generated if absent.
    pub session_id: Option<String>,
    /// The agent that answers; the first of the runtime if absent.
    pub agent: Option<String>,
    /// The language of the server's own texts; the runtime's if absent.
    pub locale: Option<Locale>,
    /// The application's own data, a JSON object.
    pub context: Option<Box<RawValue>>,
}

/// A user's message.
#[derive(Clone, Debug, Default)]
pub struct NewMessage {
    /// The session; created if unknown, and named by the runtime if absent.
    pub session_id: Option<String>,
    /// The agent that answers from now on.
    pub agent: Option<String>,
    /// The message; at least one part.
    pub content: Content,
    /// Makes it safe to send again.
    pub request_id: Option<String>,
    /// What to do if the session is running or has pending interruptions.
    pub on_pending: Option<OnPending>,
}

impl NewMessage {
    /// A text for a session.
    pub fn text(session_id: impl Into<String>, text: impl Into<Arc<str>>) -> NewMessage {
        NewMessage { session_id: Some(session_id.into()), content: text.into().into(), ..NewMessage::default() }
    }
}

/// An input that was stored.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stored {
    /// The session.
    pub session_id: Arc<str>,
    /// The session's events from this input on, if it is followed.
    pub follow: Option<Subscription>,
}

/// The state of a turn when nothing more happens by itself.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Outcome")]
#[non_exhaustive]
pub struct TurnOutcome {
    /// The session.
    pub session_id: Arc<str>,
    /// Its status. `running` if the node was told to stop while this was waited for: another one goes on, so ask again.
    pub status: countersign_core::journal::state::Status,
    /// Why the turn has ended, if it has: an incomplete answer says so here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<countersign_core::wire::event::StopReason>,
    /// The text of the latest answer.
    pub text: String,
    /// The pending keys.
    pub pending: Vec<String>,
    /// The pending interruptions.
    pub interruptions: Vec<Request>,
    /// Why the turn failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<countersign_core::wire::event::RunFailure>,
}

impl Runtime {
    /// Starts building a runtime over `store`.
    pub fn builder(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder::new(store)
    }

    /// Resumes sessions that a crash has interrupted, here or on another node, and times interruptions out from now on,
    /// until [`Runtime::shutdown`] (spec W7, R4, R5). Call it once, in a tokio runtime. One [without
    /// effects](RuntimeBuilder::without_effects) only connects its tools' sources, and waits for that.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn start(&self) -> Result<(), Refusal> {
        if !self.inner.effects {
            self.inner.agents.prepare(self.inner.agents.names.iter().map(|name| &**name)).await;
            self.inner.started.store(true, Ordering::SeqCst);
            return Ok(());
        }
        self.inner.reach_all_tools();
        match self.inner.store.nodes() {
            None => {
                self.inner.attends.store(true, Ordering::SeqCst);
                self.inner.resume_interrupted().await?;
            }
            Some(nodes) => {
                self.inner.try_look(nodes).await?;
                self.inner.attends.store(true, Ordering::SeqCst);
                tokio::spawn(self.inner.clone().attend_nodes());
                tokio::spawn(self.inner.clone().attend_texts());
            }
        }
        tokio::spawn(self.inner.clone().watch_deadlines());
        if let Some(keep) = self.inner.keep {
            tokio::spawn(self.inner.clone().watch_retention(keep));
        }
        self.inner.started.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Shuts down: no new effect starts, running tools get `grace` to finish, then they are killed and their outcome is
    /// unknown.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        let mut drivers = self.inner.drivers.subscribe();
        let idle = async {
            let _ = drivers.wait_for(|running| *running == 0).await;
        };
        let _ = tokio::time::timeout(grace, idle).await;
        self.inner.closing.send_replace(true);
        let mut drivers = self.inner.drivers.subscribe();
        let _ = tokio::time::timeout(Duration::from_secs(5), drivers.wait_for(|running| *running == 0)).await;
        self.inner.warm.forget(None);
        self.inner.conversations.forget(None);
        self.inner.agents.close().await;
    }

    /// Whether it was [started](Runtime::start).
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.inner.started.load(Ordering::SeqCst)
    }

    /// Whether it shuts down, and starts no new effect.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.draining.load(Ordering::SeqCst)
    }

    /// The time by the store's clock, in Unix milliseconds.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.inner.now()
    }

    /// Runs a session here until no effect follows.
    ///
    /// # Errors
    /// `session_busy`: another node has it, and stores nothing.
    pub(crate) async fn run_until_idle(&self, session_id: &Arc<str>) -> Result<(), Refusal> {
        let live = self.inner.live(session_id);
        self.inner.clone().drive_until_idle(&live, None).await
    }

    pub(crate) async fn loaded(&self, session_id: &Arc<str>) -> Result<Session, Refusal> {
        let live = self.inner.live(session_id);
        let mut guard = live.lock().await;
        self.inner.load(&live, &mut guard).await
    }

    /// The text of a session's latest answer, and its state.
    pub(crate) async fn answer_and_session(&self, session_id: &Arc<str>) -> Result<(String, Session), Refusal> {
        let live = self.inner.live(session_id);
        let mut guard = live.lock().await;
        let state = self.inner.load(&live, &mut guard).await?;
        let outcome = self.inner.outcome(&state, guard).await?;
        Ok((outcome.text, state))
    }

    /// Waits until no more effects follow in the session, and returns its outcome.
    ///
    /// # Errors
    /// `session_not_found`, `store_unavailable`.
    pub async fn wait(&self, by: &Principal, session_id: &str) -> Result<TurnOutcome, Refusal> {
        let live = self.inner.named(session_id)?;
        self.inner.rests(&live).await;
        let mut guard = live.lock().await;
        let state = self.inner.load(&live, &mut guard).await?;
        visible(by, &state)?;
        let outcome = self.inner.outcome(&state, guard).await?;
        self.inner.released().await?;
        Ok(outcome)
    }

    /// Subscribes to a session: its events after `after` (0: from the start; `None`: from now on), then live.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (`after` is beyond the last event), `store_unavailable`.
    pub async fn subscribe(
        &self,
        by: &Principal,
        session_id: &str,
        after: Option<u64>,
    ) -> Result<Subscription, Refusal> {
        let live = self.inner.named(session_id)?;
        let mut guard = live.lock_to_read().await?;
        let state = self.inner.load(&live, &mut guard).await?;
        visible(by, &state)?;
        Subscription::new(&self.inner, &live, &mut guard, after)
    }
}

pub(crate) fn store_refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::Deleted(_) => Refusal::new(Code::SessionDeleted, error.to_string()),
        StoreError::BadCursor => Refusal::new(Code::InvalidMessage, format!("cursor: {error}")),
        StoreError::Corrupt(_) | StoreError::Sealed(_) => Refusal::new(Code::Internal, error.to_string()).unreadable(),
        StoreError::Newer { .. } => Refusal::new(Code::NewerVersionRequired, error.to_string()).unreadable(),
        StoreError::Closed(_) => Refusal::new(Code::StoreClosed, error.to_string()),
        StoreError::Unknown => Refusal::new(
            Code::OutcomeUnknown,
            "it is not known whether this was stored: look, or send it again with the same request_id",
        ),
        StoreError::Conflict | StoreError::Outdated => {
            Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {error}")).overtaken()
        }
        StoreError::Fenced => Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {error}")).fenced(),
        other => Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {other}")),
    }
}

/// Refuses a session that the caller may not see as if it were absent (spec W8).
pub(crate) fn visible(by: &Principal, state: &State) -> Result<(), Refusal> {
    if state.pos > 0 && by.may_see(state) { Ok(()) } else { Err(session_not_found(&state.session_id)) }
}

/// Like [`visible`], for actions that only the session's subject may take.
pub(crate) fn owned(by: &Principal, state: &State) -> Result<(), Refusal> {
    visible(by, state)?;
    if by.owns(state) { Ok(()) } else { Err(Refusal::new(Code::Forbidden, "only the session's owner may do this")) }
}

/// Whether this principal may continue the turn: only a person continues one whose store was restored from a backup, since
/// a program would send what it had sent before, and the turn would do again what it has done.
pub(crate) fn may_continue(by: &Principal, state: &State) -> Result<(), Refusal> {
    if !state.is_unknown_since_a_backup() || by.check_may_decide().is_ok() {
        return Ok(());
    }
    let message = "the store was restored from a backup, and what this turn has done since is not known here: only a \
                   person may continue it; a service or an agent can only cancel it";
    Err(Refusal::new(Code::Forbidden, message))
}

fn session_not_found(session_id: &str) -> Refusal {
    Refusal::new(Code::SessionNotFound, format!("there is no session {session_id:?}"))
}

/// The id that a client gives, or a new one.
fn session_id(given: Option<&str>) -> Result<Arc<str>, Refusal> {
    match given {
        Some(id) => check_session_id(id).map(|()| Arc::from(id)),
        None => Ok(uuid::Uuid::now_v7().to_string().into()),
    }
}

/// What distinguishes a new session, or the calls of an answer, from all others (spec R11).
pub(crate) fn unique() -> Arc<str> {
    uuid::Uuid::new_v4().simple().to_string().into()
}

/// The `request_id` as the session keeps it, of an input that says `asked`: others' ids have their names, so that no
/// request is mistaken for another person's.
pub(crate) fn kept_id(by: &Principal, state: &State, id: Option<&str>, asked: &impl Serialize) -> Option<RequestId> {
    let whose = by.subject.as_deref().filter(|_| !by.owns(state));
    id.map(|id| RequestId::of(id, whose, &state.birth, asked))
}

impl Inner {
    /// The time by the store's clock, in Unix milliseconds.
    pub(crate) fn now(&self) -> Millis {
        self.store.now()
    }

    /// Whether this input, with its id as it is [kept](kept_id), was acknowledged before (spec W1).
    ///
    /// # Errors
    /// `request_id_reused`: its id was acknowledged for something else.
    async fn is_repeat(&self, session_id: &str, kept: Option<&RequestId>, of: Purpose) -> Result<bool, Refusal> {
        let Some(kept) = kept else { return Ok(false) };
        let of = of.with(kept);
        match self.store.request(session_id, kept).await.map_err(store_refusal)? {
            None => Ok(false),
            Some(known) if known.covers(&of) => Ok(true),
            Some(known) => {
                let other = if known.is_kind_of(&of) { " with other content" } else { "" };
                let what = format!(
                    "request_id: {:?} was used in this session before, for: {}{other}; give each input an id of its own",
                    kept.id(),
                    known.kind()
                );
                Err(Refusal::new(Code::RequestIdReused, what))
            }
        }
    }

    /// The pending interruptions of a state, as clients see them.
    pub(crate) fn interruptions(state: &State) -> Vec<Request> {
        state.open.iter().map(|open| countersign_core::wire::request::pending(&state.session_id, open)).collect()
    }
}
