//! Why a decision on a state is refused, without details of the wire.

use countersign_core::{
    approval::decision::Decision,
    call::schema::located,
    journal::record::Action,
    refusal::{Code, Refusal},
};
use serde_json::Value;

use crate::interruption::Interruption;

/// Why a decision was refused. The state is then unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No such call is pending in this run.
    #[error("no call {call_id:?}{} is pending in this run: RunState::interruptions has what is", of_tool(tool.as_ref()))]
    #[non_exhaustive]
    Unknown {
        /// The call.
        call_id: String,
        /// Its tool, if the interruption names one.
        tool: Option<String>,
    },
    /// The call is already decided or answered, but has no result yet. The run continues it without another decision.
    #[error(
        "the call {call_id:?} of the tool {tool:?} was decided already ({decision}{} at {at}), and has no result yet; running it \
         without a decision goes on with it",
        by.as_ref().map(|by| format!(" by {by:?}")).unwrap_or_default()
    )]
    #[non_exhaustive]
    Decided {
        /// The call.
        call_id: String,
        /// Its tool.
        tool: String,
        /// The decision, or `answer`.
        decision: &'static str,
        /// Who decided, if that is known.
        by: Option<String>,
        /// When (RFC 3339).
        at: String,
    },
    /// Whether the call has taken effect is unknown, and approving it would run it once more: find out first, then
    /// [`respond`](super::RunState::respond) with its result, [`run_again`](super::RunState::run_again), or reject it.
    #[error(
        "it is not known whether the call {call_id:?} of the tool {tool:?} has taken effect, and approving it would run it again: \
         find out, then say what came of it (RunState::respond), let it run again (RunState::run_again), or reject it"
    )]
    #[non_exhaustive]
    InDoubt {
        /// The call.
        call_id: String,
        /// Its tool.
        tool: String,
    },
    /// Only certain people may decide the request, and the run does not say who decides: set
    /// [`RunConfig::principal`](crate::runner::config::RunConfig::principal), for a graph with
    /// [`Graph::run_with`](crate::graph::Graph::run_with).
    #[error(
        "the call {call_id:?} needs to know who decides, since {why}: say it with RunConfig::principal (of a graph: Graph::run_with; \
         in a store: StoredSession::config), such as Principal::person(\"ann\", roles), or Principal::trusted() for a program that checks that itself"
    )]
    #[non_exhaustive]
    NoPrincipal {
        /// The call.
        call_id: String,
        /// Why.
        why: &'static str,
    },
    /// Several calls with this id are pending, from different answers: take the right one from
    /// [`interruptions`](super::RunState::interruptions).
    #[error("several calls with the id {call_id:?} are pending: take the right one from RunState::interruptions")]
    #[non_exhaustive]
    Ambiguous {
        /// The id.
        call_id: String,
    },
    /// The call has its result already.
    #[error("the call {call_id:?} of the tool {tool:?} already has its result")]
    #[non_exhaustive]
    Executed {
        /// The call.
        call_id: String,
        /// Its tool.
        tool: String,
    },
    /// The call is pending, but was requested again since this was shown: because of other arguments or another tool,
    /// at another level, after a deferral, or since its outcome is unknown. [`interruptions`](super::RunState::interruptions) has the current
    /// request.
    #[error("the call {call_id:?} has been requested again since this was shown; decide on the current request")]
    #[non_exhaustive]
    Stale {
        /// The call.
        call_id: String,
        /// The [digest](Interruption::digest) of the current request.
        digest: String,
    },
    /// There is a different decision on this call, which has not taken effect: [`retract`](super::RunState::retract) it first.
    #[error("the call {call_id:?} already has another decision ({before}); retract it first")]
    #[non_exhaustive]
    Duplicate {
        /// The call.
        call_id: String,
        /// The earlier decision.
        before: &'static str,
    },
    /// Its tool does not allow this decision.
    #[error("the tool {tool:?} does not allow {decision:?}; it allows {}", allowed.join(", "))]
    #[non_exhaustive]
    NotAllowed {
        /// The tool.
        tool: String,
        /// The decision.
        decision: &'static str,
        /// The allowed ones.
        allowed: Vec<&'static str>,
    },
    /// The new arguments do not fit the tool.
    #[error("the new arguments of {tool:?} are invalid: {}", errors.join("; "))]
    #[non_exhaustive]
    InvalidEdit {
        /// The tool.
        tool: String,
        /// What is wrong, each with its path.
        errors: Vec<String>,
    },
    /// The decision is too large, or covers more than it may: a decision that also covers later calls needs an ordinary
    /// approval, and cannot approve for several people.
    #[error("the decision on the call {call_id:?} is invalid: {error}")]
    #[non_exhaustive]
    Invalid {
        /// The call.
        call_id: String,
        /// What is wrong with it.
        error: String,
    },
    /// The interruption needs an answer, not this decision: [`answer`](super::RunState::answer). A model's question
    /// ([`Question`](countersign_core::journal::record::Kind::Question)) can be rejected instead, but only this one question.
    #[error("the call {call_id:?} asks a question: answer it; only a model's question can be rejected instead")]
    #[non_exhaustive]
    NeedsAnswer {
        /// The call.
        call_id: String,
    },
    /// The answer does not fit the question.
    #[error("the answer to the call {call_id:?} is invalid: {error}")]
    #[non_exhaustive]
    InvalidAnswer {
        /// The call.
        call_id: String,
        /// What is wrong with it.
        error: String,
    },
    /// The tool or the agent of the call no longer exists, or cannot be reached: the call can be rejected, but not run.
    #[error("the call {call_id:?} cannot run: {why}")]
    #[non_exhaustive]
    Unresolvable {
        /// The call.
        call_id: String,
        /// Why.
        why: String,
    },
}

pub(super) fn unknown(item: &Interruption) -> DecisionError {
    DecisionError::Unknown { call_id: item.call_id.to_string(), tool: Some(item.tool.to_string()) }
}

fn of_tool(tool: Option<&String>) -> String {
    tool.map(|tool| format!(" of the tool {tool:?}")).unwrap_or_default()
}

pub(super) fn stale(item: &Interruption, action: &Action) -> DecisionError {
    DecisionError::Stale { call_id: item.call_id.to_string(), digest: action.digest.to_string() }
}

/// The error of a decision that core refuses, without details of the wire.
pub(super) fn refused(item: &Interruption, action: &Action, decision: &Decision, refusal: &Refusal) -> DecisionError {
    let call_id = item.call_id.to_string();
    match refusal.code {
        Code::StaleAction => stale(item, action),
        Code::AnswersRequired | Code::ResumeRequired => DecisionError::NeedsAnswer { call_id },
        Code::DecisionNotAllowed => DecisionError::NotAllowed {
            tool: item.tool.to_string(),
            decision: decision.kind().name(),
            allowed: action.allowed().iter().map(|kind| kind.name()).collect(),
        },
        _ => {
            let error = refusal.message.trim_start_matches("decisions[0]").trim_start_matches(['.', ':', ' ']);
            DecisionError::Invalid { call_id, error: error.to_owned() }
        }
    }
}

/// What is wrong with an answer, each error with its path, without details of the wire.
pub(super) fn told(refusal: &Refusal) -> String {
    let message = refusal.message.trim_start_matches("resume: ").trim_start_matches("answers: ");
    let Some(details) = &refusal.details else { return message.to_owned() };
    let details = details.value();
    let errors = details["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = |of: fn(&Value) -> Option<String>| errors.iter().filter_map(of).collect::<Vec<_>>().join("; ");
    if details["questions"].is_array() {
        // The message is the first of them.
        return all(|error| {
            let message = error["message"].as_str()?;
            Some(error["question"].as_str().map_or_else(|| message.to_owned(), |of| format!("{of:?} {message}")))
        });
    }
    let located = all(|error| Some(located(error["pointer"].as_str()?, error["message"].as_str()?)));
    if located.is_empty() { message.to_owned() } else { format!("{message}: {located}") }
}
