//! The shared part of a runtime's clones: its store, its agents and its in-memory state. The files beside this one
//! implement its operations.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use countersign_core::{
    journal::{record::Millis, state::State},
    locale::Locale,
    refusal::Refusal,
    wire::{event::Request, request},
};
use tokio::{runtime::Handle, sync::watch};

use super::{
    activity::Activity, conversations::Conversations, graph::warm::Warm, heavy::Heavy, live::Live, looked::Looked,
    pass_on::PassedOn, settings::Settings,
};
use crate::{agent::Agents, graph::compiled::AnyGraph, model::retry::RetryPolicy, store::Store};

/// How many entries are read from the store at once.
pub(crate) const READ_PAGE: usize = 512;
/// And how many bytes of them, beyond the first.
pub(crate) const READ_BYTES: usize = 1024 * 1024;

/// Runs agents over a store. Cheap to clone; all clones are the same runtime.
///
/// The future of a command (message, decision, cancel, retry, fork, deletion, start or edit) may be dropped at any time, such
/// as by a timeout: what it has stored by then, or stores afterwards, takes effect. Futures that drive the session
/// themselves, such as [`Runtime::run`], stop the turn instead.
///
/// Three of a [`Refusal`]'s codes do not mean that the request was wrong. `outcome_unknown`: it may have been stored;
/// repeat it with the same `request_id`, and it takes effect only once. `newer_version_required`: nothing happened, and
/// nothing will here, since a newer version has stored records in the session that this one does not know; ask a
/// process of that version. `shutting_down`: nothing happened; ask another process, or this one after its restart.
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
    pub(super) live: Mutex<HashMap<Arc<str>, Arc<Live>>>,
    /// Whether it resumes interrupted work, and watches deadlines.
    pub(super) started: AtomicBool,
    /// Set first when the runtime shuts down: no new effect starts, running work may end.
    pub(super) draining: AtomicBool,
    /// True once running work is stopped.
    pub(super) closing: watch::Sender<bool>,
    /// True once a shutdown is over.
    pub(super) shut: watch::Sender<bool>,
    /// About how large a session may grow.
    pub(super) session_bytes: u64,
    /// Where sessions run; `None`: in the caller's runtime.
    pub(super) threads: Option<Handle>,
    /// Limits operations that fold whole journals.
    pub(super) heavy: Heavy,
    /// Limits previews of edits.
    pub(super) edits: Heavy,
    /// The id of the store's history, once it is known.
    pub(super) history: tokio::sync::OnceCell<Arc<str>>,
    /// The refusal for every request once the store was closed after a disk error.
    pub(super) store_closed: OnceLock<Refusal>,
    pub(super) drivers: watch::Sender<usize>,
    /// The graphs that sessions can run, by name.
    pub(crate) graphs: HashMap<Arc<str>, Arc<dyn AnyGraph>>,
    /// The settings of a run of the library.
    pub(crate) settings: Settings,
    /// Paused runs of graphs, kept in memory.
    pub(super) warm: Warm,
    /// See [`Inner::on_probation`].
    pub(super) probation: Mutex<HashSet<Arc<str>>>,
    /// Held while sessions are resumed one after the other.
    pub(super) one_by_one: tokio::sync::Mutex<()>,
    /// How long idle sessions are kept; `None`: until they are deleted explicitly.
    pub(super) keep: Option<Duration>,
    /// Metrics for operators.
    pub(super) activity: Activity,
    /// Whether it attends its sessions, or, with several nodes, those whose leases it has: it resumes them
    /// automatically.
    pub(super) attends: AtomicBool,
    /// This node's progress through its own sessions.
    pub(super) own_after: Mutex<Looked>,
    /// How far it has looked for deleted sessions among those whose conversations it keeps.
    pub(super) kept_after: Mutex<Arc<str>>,
    /// Sessions that are left to other nodes.
    pub(super) passed_on: PassedOn,
    /// Items that lists leave out and that were logged: kind and session.
    pub(super) logged_unread: Mutex<HashSet<(&'static str, Arc<str>)>>,
    /// The conversations that models have read most recently.
    pub(super) conversations: Conversations,
    /// Whether it carries out effects.
    pub(super) effects: bool,
    /// Whether its appends say that they are stored by a program that has opened the store itself.
    pub(super) direct: bool,
}

impl Inner {
    /// The time by the store's clock, in Unix milliseconds.
    pub(crate) fn now(&self) -> Millis {
        self.store.now()
    }

    /// The pending interruptions of a state, as clients see them.
    pub(crate) fn interruptions(state: &State) -> Vec<Request> {
        state.open.iter().map(|open| request::pending(&state.session_id, open)).collect()
    }
}
