//! Whether a record of a call can come next.

use super::super::{
    agents,
    illegal::Illegal,
    record::{CallFinished, CallStatus, Record},
    state::{Call, Phase, State},
};
use crate::{call::gate::Target, number::CallNo};

/// The open call of this number.
pub(super) fn call(state: &State, number: CallNo) -> Result<&Call, Illegal> {
    state.call(number).ok_or(Illegal("it names a call that is not open"))
}

/// `false`: it cannot, or is no record of a call.
pub(super) fn fits(state: &State, record: &Record) -> Result<bool, Illegal> {
    let call = |number: CallNo| call(state, number);
    Ok(match record {
        Record::CallsGated(gates) => {
            gates.len() == state.calls.iter().filter(|call| call.phase == Phase::Proposed).count()
        }
        Record::AgentBegan(began) => {
            let call = call(began.call)?;
            call.phase == Phase::Permitted
                && call.target == Some(Target::Agent(began.agent.clone()))
                && call.args.as_ref().is_some_and(|args| agents::input(args) == began.input)
        }
        // The application itself chose the agent.
        Record::HandedOff(handed) if handed.call.is_none() => true,
        Record::HandedOff(handed) => {
            let call = call(handed.call)?;
            call.phase == Phase::Permitted && call.handoff() == Some(&handed.agent)
        }
        Record::CallStarted { call: number, attempt } => {
            let call = call(*number)?;
            *attempt == call.attempts + 1
                && call.args.is_some()
                && matches!(call.phase, Phase::Permitted | Phase::Started(_))
        }
        Record::CallFinished(finished) => finishes(state, call(finished.call)?, finished),
        Record::CallOutdated { call: number, .. } => {
            let call = call(*number)?;
            call.phase == Phase::Permitted && (call.shown.is_some() || call.stood_in.is_some())
        }
        Record::InputRequired(required) => {
            call(required.call)?.phase == Phase::Started(required.attempt) && !required.questions.is_empty()
        }
        Record::CallLost { call: number, .. } => {
            let call = call(*number)?;
            match call.phase {
                Phase::Started(_) => true,
                Phase::Permitted => call.is_live(),
                // An answer would reach nobody: its questions are withdrawn first.
                Phase::Asking => call.is_live() && !state.open.iter().any(|open| open.asked.is_input_of(call.call)),
                _ => false,
            }
        }
        Record::ApprovalSent { calls } | Record::ApprovalNotSent { calls } => {
            let finished = |number: &CallNo| state.call(*number).is_some_and(|call| call.phase == Phase::Finished);
            // In a fork of a failed turn, too: its retry must not approve them again.
            state.status.is_open() && calls.iter().all(finished)
        }
        _ => false,
    })
}

/// Whether a call can have this result now.
fn finishes(state: &State, call: &Call, finished: &CallFinished) -> bool {
    let ended = match &call.phase {
        Phase::Finished => false,
        Phase::Started(_) => true,
        Phase::Delegated => {
            finished.status == CallStatus::Error
                || state.calls_of(call.call.run()).all(|inner| inner.phase == Phase::Finished)
        }
        // It was handed off just before.
        Phase::Permitted if call.handoff() == Some(state.agent_of(call.run)) => true,
        Phase::Settled(status, _) => finished.status == *status,
        // A call that never started can only be abandoned, when its turn ends.
        Phase::Proposed | Phase::Gated | Phase::Waiting(_) | Phase::Asking | Phase::Permitted | Phase::Lost => {
            finished.status == CallStatus::Error
        }
    };
    ended && finished.tool_use_id == call.id && finished.run == call.run
}
