//! Reasons that stop a run from within: guardrails that trip, budgets, invalid answers (spec S11, S22, S23).
//!
//! A trip fails the turn. In an agent that works for another agent's call it ends only that work, in one append with
//! everything open in it, at any depth.

use std::sync::Arc;

use countersign_core::locale::{Locale, Text};

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
