//! Stopping a run from within: its turn, or the agent that works for another agent's call.

use std::sync::Arc;

use countersign_core::{
    journal::{
        draft::Draft,
        failure::Turn,
        record::{AnswersDiscarded, ModelResponded},
        state::State,
    },
    number::{CallNo, RunNo},
    refusal::Code,
};

use super::{gate::Weighed, inner::Inner, live::uses::LiveRef, patience::until_stored, stop::Stop};

impl Inner {
    /// Keeps why a run was stopped, for the caller.
    pub(super) fn stopped(&self, stop: Stop) -> (&'static str, String) {
        let (code, message) = (stop.code, stop.message.clone());
        if let Some(watch) = &self.settings.watch {
            watch.seen().stopped = Some(stop);
        }
        (code, message)
    }

    /// Why the run is to stop after a call, if a tool's guardrail stopped it.
    pub(super) fn stopping(&self) -> Option<(&'static str, String)> {
        let seen = self.settings.watch.as_ref()?.seen();
        seen.stopped.as_ref().map(|stop| (stop.code, stop.message.clone()))
    }

    /// The current session, retried until the store can read it. `None` if it is gone, or no longer needed.
    pub(super) async fn loaded(&self, live: &LiveRef) -> Option<Arc<State>> {
        let read = until_stored!(self, async {
            let mut guard = live.lock().await;
            match self.known(live, &mut guard).await {
                Ok(session) => Ok(Some(session.state)),
                Err(error) if error.code == Code::StoreClosed => Ok(None),
                Err(error) => Err(error),
            }
        });
        read.flatten()
    }

    /// A call's guardrail stops the turn, or the call's agent, if that works for another agent's call.
    pub(super) async fn call_stopped(&self, live: &LiveRef, turn: Turn, call: CallNo, attempt: u32, stop: Stop) {
        let Some(state) = self.loaded(live).await else { return };
        // The call has ended with its turn, or with its agent.
        let Some(run) = state.call(call).map(|open| open.run) else { return };
        let within: Vec<CallNo> =
            if run.is_root() { Vec::new() } else { state.calls_within(run).map(|inner| inner.call).collect() };
        // The first failure of a turn is its failure.
        let fails = run.is_root() && state.status.is_active();
        let (code, message) = if fails { self.stopped(stop) } else { (stop.code, stop.message) };
        self.must_store_outcome(live, turn, |state| {
            Draft::of(state.clone(), self.now()).call_stopped(call, attempt, &message, code, &self.agents)
        })
        .await;
        for call in within {
            self.agents.forget_call(&live.session_id, call);
        }
    }

    /// Stores an answer of an agent that works for another agent's call; a guardrail stops that agent because of one of
    /// the answer's calls.
    pub(super) async fn answer_stopped(
        &self,
        live: &LiveRef,
        turn: Turn,
        (answer, discarded): (&ModelResponded, Option<&AnswersDiscarded>),
        weighed: &[Weighed],
        stop: &Stop,
    ) {
        let gates: Vec<_> = weighed.iter().map(|one| one.gate.clone()).collect();
        self.must_store(live, turn, |state, _| {
            let draft = Draft::of(state.clone(), self.now()).discards(discarded);
            Some(draft.model_stopped(answer.clone(), gates.clone(), &stop.message, &self.agents))
        })
        .await;
    }

    /// Ends the run of an agent that works for another agent's call.
    pub(super) async fn agent_stopped(
        &self,
        live: &LiveRef,
        turn: Turn,
        run: RunNo,
        message: &str,
        discarded: Option<&AnswersDiscarded>,
    ) {
        self.must_store(live, turn, |state, _| {
            let draft = Draft::of(state.clone(), self.now()).discards(discarded);
            Some(draft.agent_failed(run, message, &self.agents))
        })
        .await;
    }

    pub(super) async fn fail(
        &self,
        live: &LiveRef,
        turn: Turn,
        code: &'static str,
        message: String,
        discarded: Option<&AnswersDiscarded>,
    ) {
        self.must_store(live, turn, |state, partial| {
            let draft = Draft::of(state.clone(), self.now()).discards(discarded);
            Some(draft.fail(code, message.clone(), partial, &self.agents))
        })
        .await;
    }
}
