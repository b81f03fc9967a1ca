//! The settings of a runtime, and building it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
};

use countersign_core::{
    limits::{KEPT_CONVERSATIONS_BYTES, SESSION_BYTES},
    locale::Locale,
};
use tokio::{runtime::Handle, sync::watch};

use super::{
    authority::{Authorities, Authority},
    conversations::Conversations,
    graph::warm::Warm,
    inner::{Inner, Runtime},
    settings::Settings,
};
use crate::{
    agent::{Agent, AgentError, Agents},
    graph::{Graph, GraphState, compiled::AnyGraph},
    model::retry::RetryPolicy,
    policy::Policy,
    store::Store,
};

/// Settings of a [`Runtime`].
pub struct RuntimeBuilder {
    store: Arc<dyn Store>,
    agents: Vec<Agent>,
    policy: Policy,
    locale: Locale,
    retry: RetryPolicy,
    graphs: Vec<Arc<dyn AnyGraph>>,
    settings: Settings,
    session_bytes: u64,
    keep: Option<std::time::Duration>,
    conversation_bytes: usize,
    threads: Option<Handle>,
    effects: bool,
    direct: bool,
}

impl RuntimeBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> RuntimeBuilder {
        RuntimeBuilder {
            store,
            agents: Vec::new(),
            policy: Policy::default(),
            locale: Locale::default(),
            retry: RetryPolicy::default(),
            graphs: Vec::new(),
            settings: Settings::default(),
            session_bytes: SESSION_BYTES,
            keep: None,
            conversation_bytes: KEPT_CONVERSATIONS_BYTES,
            threads: None,
            effects: true,
            direct: false,
        }
    }

    /// Adds an agent. The first one is the default.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> RuntimeBuilder {
        self.agents.push(agent);
        self
    }
    /// Sets the policy: when a person must decide, and who, in addition to what the tools themselves require (spec P1).
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> RuntimeBuilder {
        self.policy = policy;
        self
    }
    /// Adds a graph that sessions can run (spec G).
    #[must_use]
    pub fn graph<S: GraphState>(mut self, graph: &Graph<S>) -> RuntimeBuilder {
        self.graphs.push(graph.any().clone());
        self
    }
    /// The language of the server's own texts in new sessions.
    #[must_use]
    pub fn locale(mut self, locale: Locale) -> RuntimeBuilder {
        self.locale = locale;
        self
    }
    /// How failed model calls are retried.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> RuntimeBuilder {
        self.retry = retry;
        self
    }
    /// The approximate size in bytes up to which a session's content may grow, by default [`SESSION_BYTES`]. At this
    /// size the session's turn ends with the error `session_full`, and no new message is accepted.
    #[must_use]
    pub fn session_bytes(mut self, bytes: u64) -> RuntimeBuilder {
        self.session_bytes = bytes;
        self
    }
    /// Deletes sessions that have not been used for this long, unless they are running or pending, or a standing rule
    /// that was made in them applies to other sessions. By default none is deleted automatically.
    #[must_use]
    pub fn retention(mut self, unused: std::time::Duration) -> RuntimeBuilder {
        self.keep = Some(unused);
        self
    }
    /// Runs sessions in this tokio runtime instead of the caller's, so that long arguments and answers do not delay the
    /// caller's other work. It must outlive the [`Runtime`].
    #[must_use]
    pub fn threads(mut self, threads: Handle) -> RuntimeBuilder {
        self.threads = Some(threads);
        self
    }
    /// For a program that opens a server's store to read it, or to decide there: the runtime checks and stores inputs
    /// like any other, and leaves their effects to a runtime that carries out effects, now or when that one starts. It
    /// [stores directly](RuntimeBuilder::stored_directly), and needs no agents if it only reads.
    #[must_use]
    pub fn without_effects(mut self) -> RuntimeBuilder {
        self.effects = false;
        self.stored_directly()
    }
    /// For a program that opens a server's store itself, and trusts its caller to say who decides: each record of the
    /// audit log says `via: "store"`. Without this, records do not say so.
    #[must_use]
    pub fn stored_directly(mut self) -> RuntimeBuilder {
        self.direct = true;
        self
    }
    /// How many bytes of conversations are cached over all sessions, so that a model call reads only the new entries of
    /// its own. With 0 each call reads its whole conversation from the store.
    #[cfg(test)]
    pub(crate) fn kept_conversations(mut self, bytes: usize) -> RuntimeBuilder {
        self.conversation_bytes = bytes;
        self
    }
    /// Whether spans contain arguments, results and answers; by default they contain nothing written by a person or a
    /// model.
    #[must_use]
    pub fn trace_content(mut self, yes: bool) -> RuntimeBuilder {
        self.settings.trace_content = yes;
        self
    }
    /// Checks whether the makers of standing approvals may still decide: their rules are suspended while they may not
    /// (spec P4). Where the authority knows who holds a role (`Authority::holders`), an edit that nobody could approve
    /// afterwards is refused. Without an authority all rules apply.
    #[must_use]
    pub fn authority(mut self, authority: Arc<dyn Authority>) -> RuntimeBuilder {
        self.settings.authorities = Authorities(Some(authority));
        self
    }
    /// The roles whose holders may edit the state of graph sessions, provided that they may also decide every
    /// interruption that the edit withdraws; `user` is the session's owner. An empty list allows nobody. By default the
    /// session's owner may.
    #[must_use]
    pub fn state_edits(mut self, roles: Vec<String>) -> RuntimeBuilder {
        self.settings.state_edits = Some(roles);
        self
    }
    /// Adds the settings of a run of the library.
    pub(crate) fn settings(mut self, settings: Settings) -> RuntimeBuilder {
        self.settings = settings;
        self
    }
    /// Checks the agents and builds the runtime. Nothing runs yet.
    ///
    /// # Errors
    /// There is neither an agent nor a graph, unless the runtime is [without effects](RuntimeBuilder::without_effects);
    /// two agents, two graphs, or an agent and a graph have the same name; two tools of an agent have the same name; a
    /// schema is invalid.
    pub fn build(self) -> Result<Runtime, AgentError> {
        let mut graphs = HashMap::new();
        for graph in self.graphs {
            let name = graph.name().clone();
            if self.agents.iter().any(|agent| agent.name == name) {
                return Err(AgentError::new(format!("there is an agent and a graph of the name {name:?}")));
            }
            if graphs.insert(name.clone(), graph).is_some() {
                return Err(AgentError::new(format!("there are two graphs of the name {name:?}")));
            }
        }
        let mut agents = Agents::new(self.agents, self.policy, graphs.is_empty() && self.effects)?;
        agents.max_turns = self.settings.max_turns;
        let inner = Inner {
            store: self.store,
            agents,
            locale: self.locale,
            retry: self.retry,
            live: Mutex::default(),
            started: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            closing: watch::Sender::new(false),
            shut: watch::Sender::new(false),
            session_bytes: self.session_bytes,
            keep: self.keep,
            threads: self.threads,
            heavy: super::heavy::Heavy::reads(),
            edits: super::heavy::Heavy::edits(),
            history: tokio::sync::OnceCell::new(),
            store_closed: OnceLock::new(),
            drivers: watch::Sender::new(0),
            graphs,
            settings: self.settings,
            warm: Warm::default(),
            activity: super::activity::Activity::default(),
            probation: Mutex::default(),
            one_by_one: tokio::sync::Mutex::default(),
            attends: AtomicBool::new(false),
            own_after: Mutex::default(),
            kept_after: Mutex::default(),
            passed_on: super::pass_on::PassedOn::default(),
            logged_unread: Mutex::default(),
            conversations: Conversations::new(self.conversation_bytes),
            effects: self.effects,
            direct: self.direct,
        };
        Ok(Runtime { inner: Arc::new(inner) })
    }
}
