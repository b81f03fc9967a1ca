//! What stops a run from within: guardrails that trip, budgets, answers of another type (spec S11, S22, S23).
//!
//! A trip fails the turn. Within an agent that works for another one's call it ends that work, in one append with all
//! that is open in it, at any depth.

use std::sync::Arc;

use countersign_core::{
    journal::{draft::Draft, failure::Turn, record::ModelResponded, state::State},
    locale::{Locale, Text},
    refusal::Code,
};

use super::{Inner, gate::Weighed, live::LiveRef, now, outcomes::Patience};
use crate::runner::guardrail::{GuardrailKind, GuardrailResult, bounded};

/// Why a run is stopped from within.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// What stands on record.
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
    NoAgent(Arc<str>),
}

impl Stop {
    /// Whether it ends the whole turn, also from within an agent that works for another one's call.
    pub(super) fn ends_all(&self) -> bool {
        matches!(self.why, Why::Budget { .. })
    }

    /// The agent that answers is not one of those that there are.
    pub(super) fn no_agent(name: &Arc<str>, message: String) -> Stop {
        Stop { code: "unknown_agent", message, why: Why::NoAgent(name.clone()) }
    }

    /// A guardrail has tripped, or failed. People and models are told which one; what it found, or what went wrong with it, may
    /// have secrets in it, and is told to those who run this alone.
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
        // As texts, which stand in quotes there: a line break in them begins no line of the log.
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
    /// What is said of a session that is as large as sessions may grow.
    pub(super) fn full(&self, state: &State) -> Option<String> {
        let most = self.session_bytes;
        (state.bytes >= most).then(|| {
            format!(
                "the session has about {} bytes, and may have {most}; go on in a new one, or in a fork from an earlier checkpoint",
                state.bytes
            )
        })
    }

    /// Keeps why a run was stopped, for whoever called it.
    pub(super) fn stopped(&self, stop: Stop) -> (&'static str, String) {
        let (code, message) = (stop.code, stop.message.clone());
        if let Some(watch) = &self.settings.watch {
            watch.seen().stopped = Some(stop);
        }
        (code, message)
    }

    /// Why the run is to stop after a call, if a guardrail of a tool said so.
    pub(super) fn stopping(&self) -> Option<(&'static str, String)> {
        let seen = self.settings.watch.as_ref()?.seen();
        seen.stopped.as_ref().map(|stop| (stop.code, stop.message.clone()))
    }

    /// The session as it stands, however long the store takes to give it. `None` if it is gone.
    pub(super) async fn loaded(&self, live: &LiveRef) -> Option<Arc<State>> {
        let mut patience = Patience::default();
        loop {
            let mut guard = live.lock().await;
            match self.load(live, &mut guard).await {
                Ok(state) => return Some(state),
                Err(error) if error.is_gone() || error.code == Code::StoreClosed => return None,
                Err(error) => {
                    drop(guard);
                    patience.wait(&error).await;
                }
            }
        }
    }

    /// A guardrail of a call stops the turn, or the agent whose call it is, if that works for another one's call.
    pub(super) async fn call_stopped(&self, live: &LiveRef, turn: Turn, call: u32, attempt: u32, stop: Stop) {
        let Some(state) = self.loaded(live).await else { return };
        // It is over with its turn, or with the agent that it was of.
        let Some(run) = state.calls.iter().find(|open| open.call == call).map(|open| open.run) else { return };
        let within: Vec<u32> = match run {
            0 => Vec::new(),
            run => state.calls_within(run).map(|inner| inner.call).collect(),
        };
        // The first failure of a turn is its failure.
        let fails = run == 0 && state.status.is_active();
        let (code, message) = if fails { self.stopped(stop) } else { (stop.code, stop.message) };
        self.must_store_outcome(live, turn, |state| {
            Draft::new(state, now()).call_stopped(call, attempt, &message, code, &self.agents)
        })
        .await;
        for call in within {
            self.agents.forget_call(&live.session_id, call);
        }
    }

    /// Stores an answer of an agent that works for another one's call, and that a guardrail stops because of one of the
    /// answer's calls.
    pub(super) async fn answer_stopped(
        &self,
        live: &LiveRef,
        turn: Turn,
        answer: &ModelResponded,
        weighed: &[Weighed],
        stop: &Stop,
    ) {
        let gates: Vec<_> = weighed.iter().map(|one| one.gate.clone()).collect();
        self.must_store(live, turn, |state, _| {
            let draft = Draft::new(state, now());
            Some(draft.model_stopped(answer.clone(), gates.clone(), &stop.message, &self.agents))
        })
        .await;
    }

    /// Ends the run of an agent that works for another one's call.
    pub(super) async fn agent_stopped(&self, live: &LiveRef, turn: Turn, run: u32, message: &str) {
        self.must_store(live, turn, |state, _| Some(Draft::new(state, now()).agent_failed(run, message, &self.agents)))
            .await;
    }

    /// Fails the turn.
    pub(super) async fn fail(&self, live: &LiveRef, turn: Turn, code: &'static str, message: String) {
        self.must_store(live, turn, |state, partial| {
            Some(Draft::new(state, now()).fail(code, message.clone(), partial, &self.agents))
        })
        .await;
    }
}
