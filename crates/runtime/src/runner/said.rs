//! The decisions and answers made on a state, when it resumes.

use countersign_core::{
    approval::key::parse_approval_key,
    journal::record::{Kind, Millis},
    number::{CallNo, InterruptionNo},
    time::rfc3339,
};

use super::start::Stopped;
use crate::{
    run::{Reply, settle::overdue},
    run_state::RunState,
};

/// The overdue interruptions, if none of them was decided or answered: nothing watched the deadlines while the state
/// was kept.
pub(super) fn in_time(state: &RunState, at: Millis) -> Result<Vec<InterruptionNo>, Stopped> {
    let late = overdue(state.state(), at);
    match too_late(state, &late) {
        Some((call_id, expired_at)) => Err(Stopped::TooLate { call_id, expired_at, late }),
        None => Ok(late),
    }
}

/// A call or question that was decided or answered after its deadline, and that deadline.
fn too_late(state: &RunState, late: &[InterruptionNo]) -> Option<(String, String)> {
    state.state().open.iter().filter(|open| late.contains(&open.asked.n)).find_map(|open| {
        let said = |call: CallNo| state.staged.iter().any(|staged| staged.call == call);
        let answered = state.answers.iter().any(|staged| staged.n == open.asked.n);
        let decides = !matches!(open.asked.kind, Kind::Interrupt | Kind::Input);
        let action = open.asked.actions.iter().find(|action| answered || decides && said(action.call))?;
        let name = open.asked.question.as_ref().map_or_else(|| action.tool_use_id.to_string(), |at| at.name());
        Some((name, open.asked.expires_at.map(rfc3339).unwrap_or_default()))
    })
}

/// Retracts decisions and answers on overdue interruptions.
pub(super) fn retract_late(state: &mut RunState, late: &[InterruptionNo]) {
    for item in state.interruptions() {
        if parse_approval_key(&item.approval_key).is_some_and(|(_, n)| late.contains(&n)) {
            state.retract(&item);
        }
    }
}

/// The answers made on a state, as replies to their interruptions.
pub(super) fn answers(state: &RunState) -> impl Iterator<Item = (InterruptionNo, Reply)> {
    state.answers.iter().map(|staged| {
        let kind = state.state().waiting(staged.n).map(|open| open.asked.kind);
        let reply = match (kind, serde_json::from_str(staged.value.get())) {
            (Some(Kind::Question), Ok(answers)) => Reply::Answers(answers),
            _ => Reply::Resume(staged.value.clone()),
        };
        (staged.n, reply)
    })
}
