//! Sources of tools, such as MCP servers, are reached before a session needs them (spec S13).

use std::{sync::Arc, time::Duration};

use countersign_core::{
    journal::state::{Call, State},
    number::CallNo,
    refusal::Refusal,
    session::Session,
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep},
};

use super::{inner::Inner, live::uses::LiveRef, outcomes::Done, pass_on::LEFT_TO_OTHERS};

/// How long calls wait for their tools' source, if this process has never reached it.
const HELD_BACK: Duration = LEFT_TO_OTHERS;
/// After this time they are left to other nodes, which may reach it.
const HELD_HERE: Duration = Duration::from_secs(3);
/// The pause before the next try.
const REACH_AGAIN: Duration = Duration::from_millis(250);

impl Inner {
    /// Whether a call has its answers but no running attempt to receive them: another process had it.
    pub(super) fn has_lost_answers(&self, state: &State, call: &Call) -> bool {
        let tool = self.agents.get(&call.agent).and_then(|agent| agent.tool(&call.name));
        let is_parked = tool
            .zip(call.input.as_ref())
            .is_some_and(|(tool, input)| tool.entry.tool.has_parked(&state.session_id, call.call.get(), input));
        !is_parked
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

    /// Whether a call's tool may come from a source never reached in this process.
    pub(super) fn is_unreached(&self, call: &Call) -> bool {
        let agent = self.agents.get(&call.agent);
        agent.is_some_and(|agent| agent.tool(&call.name).is_none() && agent.has_unreached())
    }

    /// Whether the calls that a driver holds back, and that no other node has begun, have waited long enough: their
    /// source counts as dead, and they fail.
    pub(super) fn have_waited(&self, live: &LiveRef, session: &Session, held: &Held) -> bool {
        let since = self.passed_on.since(&live.session_id, session.cursor.seq).or(held.since);
        since.is_some_and(|since| since.elapsed() >= HELD_BACK)
    }

    /// Reaches the source of those of `start` that are held back because their tool is not known yet: starting one
    /// would only use up a person's approval. This is retried for a limited time.
    pub(super) fn hold_back(
        self: &Arc<Self>,
        live: &LiveRef,
        state: &State,
        start: &[CallNo],
        held: &mut Held,
        running: &mut JoinSet<Done>,
    ) {
        if !start.iter().any(|call| state.call(*call).is_some_and(|call| self.is_unreached(call))) {
            (held.since, held.was_told) = (None, false);
            return;
        }
        held.since.get_or_insert_with(Instant::now);
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
