//! The runner: takes inputs, journals their transitions, and carries out the effects.
//!
//! [`Runtime`] is its interface: create sessions, send messages, decide interruptions. Nothing is acknowledged before
//! it is stored, and no effect begins before the records that caused it are stored. A paused session is rows in the
//! store and nothing else.

mod activity;
mod advance;
mod audit;
mod authority;
pub mod budget;
mod builder;
mod cancel;
pub(crate) mod claim;
mod closed;
mod command;
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
mod ids;
mod inbox;
mod inner;
mod inputs;
mod live;
mod looked;
mod message;
mod nodes;
mod note;
mod of_stored;
mod open_text;
mod outcomes;
mod overdue;
mod pass_on;
mod past;
mod patience;
mod policy;
mod recover;
mod refusals;
mod rename;
mod retention;
mod retry;
mod rules;
pub(crate) mod settings;
pub(crate) mod settle;
mod shown;
mod sources;
pub mod spans;
mod start;
pub(crate) mod stop;
mod stream;
pub mod subscription;
pub(crate) mod told;
mod transcript;
mod unanswered;
mod unasked;
mod view;
mod waypoints;
mod work;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign_core::{approval::principal::Principal, journal::record::Millis, refusal::Refusal, session::Session};

use self::{refusals::visible, subscription::Subscription};
use crate::store::Store;

/// How long what is killed at the end of a shutdown may take.
const KILLED: Duration = Duration::from_secs(5);

pub(crate) use self::{
    graph::suspended::Suspended,
    ids::kept_id,
    inner::{READ_BYTES, READ_PAGE},
    live::uses::LiveRef,
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
pub use inner::Runtime;
pub use inputs::{NewMessage, NewSession, Stored, TurnOutcome};
pub use note::NewNote;
pub use of_stored::of_stored;
pub use past::{CheckpointQuery, CheckpointView};
pub use policy::{AskView, Effect, HintView, PolicyRuleView, PolicyView, ThenView, ToolApprovalView};
pub use retry::NewRetry;
pub use rules::{RuleDecision, RuleQuery, RuleScope, RuleState, RuleView};
pub use start::Start;
pub use view::{AUDITOR, AgentView, ListPage, SessionQuery, SessionRow, SessionView, StateView, check_auditor};

impl Runtime {
    /// Starts building a runtime over `store`.
    pub fn builder(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder::new(store)
    }

    /// Resumes sessions that a crash has interrupted, here or on another node, and times interruptions out from now on,
    /// until [`Runtime::shutdown`] (spec W7, R4, R5). Call it once, in a tokio runtime. A runtime [without
    /// effects](RuntimeBuilder::without_effects) only connects its tools' sources, and waits until they are connected.
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

    /// Shuts down: no new effect starts, running tools get `grace` to finish, then they are killed, and their outcomes
    /// are unknown.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        self.idle(grace).await;
        self.inner.closing.send_replace(true);
        self.idle(KILLED).await;
        self.inner.warm.forget(None);
        self.inner.conversations.forget(None);
        self.inner.agents.close().await;
        self.inner.shut.send_replace(true);
    }

    /// Resolves once it is [shut down](Runtime::shutdown).
    pub async fn closed(&self) {
        // The sender is held here: this cannot fail.
        let _ = self.inner.shut.subscribe().wait_for(|shut| *shut).await;
    }

    /// Waits until nothing runs, and no longer than this.
    async fn idle(&self, most: Duration) {
        let mut drivers = self.inner.drivers.subscribe();
        let _ = tokio::time::timeout(most, drivers.wait_for(|running| *running == 0)).await;
    }

    /// Whether it was [started](Runtime::start).
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.inner.started.load(Ordering::SeqCst)
    }

    /// Whether it is shutting down, and starts no new effect.
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
