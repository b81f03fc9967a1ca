//! Stopping a run from within, its turn or the agent that works for another agent's call, because a guardrail trips, a
//! budget is used up or an answer is invalid (spec S11, S22, S23).
//!
//! A trip fails the turn. In an agent that works for another agent's call it ends only that work, in one append with
//! everything open in it, at any depth.

use std::sync::Arc;

use countersign_core::{
    journal::{
        draft::Draft,
        failure::Turn,
        record::{AnswersDiscarded, ModelResponded},
        state::State,
    },
    locale::{Locale, Text},
    number::{CallNo, RunNo},
    refusal::Code,
};

use super::{gate::Weighed, inner::Inner, live::uses::LiveRef, patience::until_stored};
use crate::agent::guardrail::{GuardrailKind, GuardrailResult, bounded};

/// Why a run is stopped from within.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// The recorded code.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) why: Why,
}

/// See [`Stop`].
#[derive(Clone, Debug)]
pub(crate) enum Why {
    Guardrail(Box<GuardrailResult>),
    Budget { what: &'static str, spent: f64, limit: f64 },
    Output(Vec<String>),
    Instructions,
    Unreadable,
    NoAgent(Arc<str>),
}

impl Stop {
    /// Whether it ends the whole turn, also from within an agent that works for another agent's call.
    pub(super) fn ends_all(&self) -> bool {
        matches!(self.why, Why::Budget { .. })
    }

    /// The session cannot be read, and retrying does not help.
    pub(super) fn unreadable(message: String) -> Stop {
        Stop { code: "internal", message, why: Why::Unreadable }
    }

    /// The current agent is not one of those configured.
    pub(super) fn no_agent(name: &Arc<str>, message: String) -> Stop {
        Stop { code: "unknown_agent", message, why: Why::NoAgent(name.clone()) }
    }

    /// A guardrail has tripped, or failed. People and models learn which one; its finding or error may contain
    /// secrets, and is for the operators alone.
    pub(super) fn tripped(result: GuardrailResult, session_id: &str, locale: Locale) -> Stop {
        let (code, stopped, unchecked) = match result.kind {
            GuardrailKind::Input => ("input_guardrail", Text::GuardrailInput, Text::InputUnchecked),
            GuardrailKind::Output => ("output_guardrail", Text::GuardrailOutput, Text::OutputUnchecked),
            GuardrailKind::ToolInput => ("tool_input_guardrail", Text::GuardrailToolInput, Text::ToolInputUnchecked),
            GuardrailKind::ToolOutput => {
                ("tool_output_guardrail", Text::GuardrailToolOutput, Text::ToolOutputUnchecked)
            }
        };
        let (kind, guardrail, agent) = (code.trim_end_matches("_guardrail"), &*result.guardrail, &*result.agent);
        let (tool, tool_use_id) = (result.tool.as_deref(), result.call_id.as_deref());
        // As quoted strings: a line break in one starts no new log line.
        match &result.error {
            Some(error) => {
                tracing::warn!(
                    session = session_id,
                    kind,
                    guardrail,
                    agent,
                    tool,
                    tool_use_id,
                    error = error.as_str(),
                    "a guardrail failed; it stops what it could not check"
                );
            }
            None => {
                let info = bounded(&result.info.to_string());
                tracing::warn!(
                    session = session_id,
                    kind,
                    guardrail,
                    agent,
                    tool,
                    tool_use_id,
                    info = info.as_str(),
                    "a guardrail tripped"
                );
            }
        }
        let text = if result.error.is_some() { unchecked } else { stopped };
        let message = locale.fill(text, &[("name", &format!("{guardrail:?}"))]);
        Stop { code, message, why: Why::Guardrail(Box::new(result)) }
    }
}

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

    /// The current session, retried until the store can read it. `None` if it was deleted, or is no longer needed.
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

    /// A call's guardrail stops the turn, or the call's agent, if that works for another agent's call. `result` is what the
    /// attempt has come to.
    pub(super) async fn call_stopped(
        &self,
        live: &LiveRef,
        turn: Turn,
        (call, attempt): (CallNo, u32),
        result: &str,
        stop: Stop,
    ) {
        let Some(state) = self.loaded(live).await else { return };
        // The call has ended with its turn, or with its agent.
        let Some(run) = state.call(call).map(|open| open.run) else { return };
        let within: Vec<CallNo> =
            if run.is_root() { Vec::new() } else { state.calls_within(run).map(|inner| inner.call).collect() };
        // The first failure of a turn is its failure.
        let fails = run.is_root() && state.status.is_active();
        let (code, message) = if fails { self.stopped(stop) } else { (stop.code, stop.message) };
        self.must_store_outcome(live, turn, |state| {
            Draft::of(state.clone(), self.now()).call_stopped((call, attempt), result, &message, code, &self.agents)
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
