//! Sources of tools, such as MCP servers, are reached before a session needs them (spec S13).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    journal::{
        draft::{Draft, Transition},
        failure::Turn,
        input::InputRequired,
        record::Record,
        state::{Call, State},
    },
    number::CallNo,
    refusal::Refusal,
    session::Session,
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{Inner, live::LiveRef, outcomes::Done, pass_on::LEFT_TO_OTHERS};
use crate::tool::Asks;

/// How long calls wait for their tools' source, if it was never reached in this process; and after which time they are
/// left to other nodes, which may reach it.
const HELD_BACK: Duration = LEFT_TO_OTHERS;
const HELD_HERE: Duration = Duration::from_secs(3);
/// The pause before the next try.
const REACH_AGAIN: Duration = Duration::from_millis(250);

/// The calls that a transition asks about again, since their tools have changed.
pub(super) fn outdated_of(transition: &Transition) -> impl Iterator<Item = CallNo> {
    transition.records().filter_map(|record| match record {
        Record::CallOutdated { call, .. } => Some(*call),
        _ => None,
    })
}

impl Inner {
    /// Stores that a call ended its attempt with questions to a person.
    pub(super) async fn call_asks(&self, live: &LiveRef, turn: Turn, call: CallNo, attempt: u32, asks: Asks) {
        let Asks { questions, state, live: waits, timeout } = asks;
        let timeout = self.settings.patient(timeout);
        let required = InputRequired { call, attempt, questions, state, live: waits, timeout };
        self.must_store_outcome(live, turn, |state| {
            Draft::new(state, self.now()).input_required(required.clone(), &self.agents)
        })
        .await;
    }

    /// Stores that a call cannot use the answers that it was given.
    pub(super) async fn call_forgotten(&self, live: &LiveRef, turn: Turn, call: CallNo, attempt: u32) {
        self.must_store_outcome(live, turn, |state| {
            Draft::new(state, self.now()).call_forgotten(call, attempt, &self.agents)
        })
        .await;
    }

    /// Of these calls, those that have their answers but no running attempt to receive them: another process had it.
    pub(super) fn without_answers(&self, state: &State, calls: &[CallNo]) -> Option<Transition> {
        let parked = |call: &Call| {
            let tool = self.agents.get(&call.agent).and_then(|agent| agent.tool(&call.name));
            let (session_id, input) = (&state.session_id, call.input.as_ref());
            tool.zip(input).is_some_and(|(tool, input)| tool.entry.tool.has_parked(session_id, call.call.get(), input))
        };
        let lost = state.calls.iter().filter(|call| calls.contains(&call.call) && call.is_live() && !parked(call));
        let lost: Vec<CallNo> = lost.map(|call| call.call).collect();
        if lost.is_empty() { None } else { Draft::new(state, self.now()).input_lost(&lost, &self.agents) }
    }

    /// Starts to reach the sources of all agents' tools. Only the sessions that need one wait for it.
    pub(super) fn reach_all_tools(self: &Arc<Self>) {
        if self.agents.have_sources() {
            let inner = self.clone();
            tokio::spawn(async move { inner.agents.prepare(inner.agents.names.iter().map(|name| &**name)).await });
        }
    }

    /// Reaches the sources of the tools of a session's agents, if they are not reached: the schemas that check its
    /// calls must be known before they run.
    ///
    /// # Errors
    /// The session cannot be loaded.
    pub(super) async fn reach_tools(&self, live: &LiveRef) -> Result<(), Refusal> {
        if !self.agents.have_sources() {
            return Ok(());
        }
        let mut guard = live.lock().await;
        let state = self.known(live, &mut guard).await?;
        drop(guard);
        let mut names: Vec<Arc<str>> = state.calls.iter().map(|call| call.agent.clone()).collect();
        names.push(state.agent.clone());
        names.sort();
        names.dedup();
        self.agents.prepare(names.iter().map(|name| &**name)).await;
        Ok(())
    }

    /// Of these calls, those whose tool may come from a source never reached in this process.
    fn unreached(&self, state: &State, calls: &[CallNo]) -> Vec<CallNo> {
        let unreached = |call: &&Call| {
            let agent = self.agents.get(&call.agent);
            agent.is_some_and(|agent| agent.tool(&call.name).is_none() && agent.has_unreached())
        };
        let calls = state.calls.iter().filter(|call| calls.contains(&call.call));
        calls.filter(unreached).map(|call| call.call).collect()
    }

    /// Takes out of `start` the calls whose tool is not known yet: starting one would only use up a person's approval.
    /// Its source is retried for a limited time; then it counts as dead, and the call fails.
    pub(super) fn hold_back(
        self: &Arc<Self>,
        live: &LiveRef,
        session: &Session,
        start: &mut Vec<CallNo>,
        held: &mut Held,
        running: &mut JoinSet<Done>,
    ) {
        let unreached = self.unreached(session, start);
        if unreached.is_empty() {
            (held.since, held.was_told) = (None, false);
            return;
        }
        // Those that other nodes have not begun either have waited long enough.
        let here = *held.since.get_or_insert_with(Instant::now);
        let since = self.passed_on.since(&live.session_id, session.cursor.seq).unwrap_or(here);
        if since.elapsed() >= HELD_BACK {
            return;
        }
        start.retain(|call| !unreached.contains(call));
        if held.reaching.as_ref().is_none_or(AbortHandle::is_finished) {
            if !std::mem::replace(&mut held.was_told, true) {
                tracing::warn!(session = &*live.session_id, "calls wait: the source of their tools does not answer");
            }
            let (inner, live) = (self.clone(), live.clone());
            held.reaching = Some(running.spawn(async move {
                sleep(REACH_AGAIN).await;
                // A failure is retried with the next step.
                let _ = inner.reach_tools(&live).await;
                Done::Reached
            }));
        }
    }
}

/// Calls that a driver holds back, since their tools are not known yet.
#[derive(Default)]
pub(super) struct Held {
    /// Since when they wait here, this time.
    since: Option<Instant>,
    /// The task that retries.
    reaching: Option<AbortHandle>,
    was_told: bool,
}

impl Held {
    /// Whether calls have waited here for so long that another node may do better.
    pub(super) fn is_long(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= HELD_HERE)
    }

    /// How many tasks retry.
    pub(super) fn reaching(&self) -> usize {
        usize::from(self.reaching.as_ref().is_some_and(|task| !task.is_finished()))
    }
}
