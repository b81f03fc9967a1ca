//! Tools that come from elsewhere are reached before a session needs them (SPEC S13).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        input::InputRequired,
        record::Record,
        state::{Call, State},
    },
    limits,
};
use tokio::time::timeout;

use super::{Inner, live::LiveRef, now};
use crate::tool::Asks;

/// How long a start waits for them. What takes longer is waited for by the sessions that need it.
const AT_START: Duration = Duration::from_secs(10);

/// The calls that a transition asks about again, since their tools have changed.
pub(super) fn outdated_of(transition: &Transition) -> impl Iterator<Item = u32> {
    transition.entries().iter().filter_map(|entry| match entry.record {
        Record::CallOutdated { call } => Some(call),
        _ => None,
    })
}

impl Inner {
    /// Stores that a call has ended its attempt with questions to a person.
    pub(super) async fn call_asks(&self, live: &LiveRef, turn: u32, call: u32, attempt: u32, asks: Asks) {
        let Asks { questions, state, live: waits, timeout } = asks;
        let timeout = self.settings.patience(timeout, limits::APPROVAL_TIMEOUT_SECONDS);
        let required = InputRequired { call, attempt, questions, state, live: waits, timeout };
        self.must_store(live, turn, |state, _| Draft::new(state, now()).input_required(required.clone(), &self.agents))
            .await;
    }

    /// Of these calls, those that have their answers but nobody who waits for them: it was another process that did.
    pub(super) fn without_answers(&self, state: &State, calls: &[u32]) -> Option<Transition> {
        let parked = |call: &Call| {
            let tool = self.agents.get(&call.agent).and_then(|agent| agent.tool(&call.name));
            let (session_id, input) = (&state.session_id, call.input.as_ref());
            tool.zip(input).is_some_and(|(tool, input)| tool.entry.tool.has_parked(session_id, call.call, input))
        };
        let lost = state.calls.iter().filter(|call| calls.contains(&call.call) && call.is_live() && !parked(call));
        let lost: Vec<u32> = lost.map(|call| call.call).collect();
        if lost.is_empty() { None } else { Draft::new(state, now()).input_lost(&lost, &self.agents) }
    }

    /// Reaches what all agents' tools come from.
    pub(super) async fn reach_all_tools(&self) {
        let names = self.agents.names.iter().map(|name| &**name);
        if timeout(AT_START, self.agents.prepare(names)).await.is_err() {
            tracing::warn!("some tools are not known yet: what they come from does not answer");
        }
    }

    /// Reaches what the tools of a session's agents come from, if it is not reached: what its calls are checked against
    /// must be known before they go on.
    pub(super) async fn reach_tools(&self, live: &LiveRef) {
        if !self.agents.have_sources() {
            return;
        }
        let mut guard = live.lock().await;
        let Ok(state) = self.load(live, &mut guard).await else { return };
        drop(guard);
        let mut names: Vec<Arc<str>> = state.calls.iter().map(|call| call.agent.clone()).collect();
        names.push(state.agent.clone());
        names.sort();
        names.dedup();
        self.agents.prepare(names.iter().map(|name| &**name)).await;
    }
}
