//! A client's decision or answer, parsed alike for WebSocket and HTTP.

use countersign_core::{
    approval::decision::Decision,
    journal::run::Raw,
    refusal::{Code, Refusal},
};
use countersign_runtime::run::NewDecision;
use serde_json::value::RawValue;

/// A client's `decisions`, `answers` or `resume` (spec W1).
///
/// # Errors
/// `invalid_message` for several of them, for none, and for answers that are not JSON.
pub(crate) fn reply(
    decisions: Option<Vec<Decision>>,
    answers: Option<&RawValue>,
    resume: Option<Raw>,
) -> Result<NewDecision, Refusal> {
    let invalid = |message: &str| Err(Refusal::new(Code::InvalidMessage, message));
    match (decisions, answers, resume) {
        (Some(decisions), None, None) => Ok(NewDecision { decisions, ..NewDecision::default() }),
        (None, Some(answers), None) => match serde_json::from_str(answers.get()) {
            Ok(answers) => Ok(NewDecision { answers: Some(answers), ..NewDecision::default() }),
            Err(error) => invalid(&format!("answers: {error}")),
        },
        (None, None, Some(resume)) => Ok(NewDecision { resume: Some(resume), ..NewDecision::default() }),
        (None, None, None) => invalid(
            "\"decisions\" (for actions), \"answers\" (for questions) or \"resume\" (for what a node of a graph asks) is missing",
        ),
        _ => invalid("send one of \"decisions\", \"answers\" and \"resume\", not several"),
    }
}

/// Its kinds, for the metrics.
pub(crate) fn said(reply: &NewDecision) -> Vec<&'static str> {
    match (&reply.answers, &reply.resume) {
        (Some(_), _) => vec!["answer"],
        (None, Some(_)) => vec!["resume"],
        (None, None) => reply.decisions.iter().map(|decision| decision.kind().name()).collect(),
    }
}
