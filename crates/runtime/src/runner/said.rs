//! The decisions and answers made on a state, when it resumes.

use countersign_core::{
    approval::key::{approval_key, parse_approval_key},
    journal::record::Kind,
    number::{CallNo, InterruptionNo},
    time::rfc3339,
};

use crate::{
    run::{NewDecision, Reply},
    run_state::{RunState, StagedAnswer},
};

/// A call that was decided or answered after its deadline, and that deadline.
pub(super) fn too_late(state: &RunState, late: &[InterruptionNo]) -> Option<(String, String)> {
    state.state().open.iter().filter(|open| late.contains(&open.asked.n)).find_map(|open| {
        let said = |call: CallNo| state.staged.iter().any(|staged| staged.call == call);
        let answered = state.answers.iter().any(|staged| staged.n == open.asked.n);
        let decides = !matches!(open.asked.kind, Kind::Interrupt | Kind::Input);
        let action = open.asked.actions.iter().find(|action| answered || decides && said(action.call))?;
        Some((action.tool_use_id.to_string(), open.asked.expires_at.map(rfc3339).unwrap_or_default()))
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
pub(crate) fn answers(state: &RunState, session_id: &str) -> Vec<NewDecision> {
    let reply = |staged: &StagedAnswer| {
        let approval_key = approval_key(session_id, staged.n);
        let kind = state.state().waiting(staged.n).map(|open| open.asked.kind);
        match (kind, serde_json::from_str(staged.value.get())) {
            (Some(Kind::Question), Ok(answers)) => NewDecision::new(approval_key, Reply::Answers(answers)),
            _ => NewDecision::new(approval_key, Reply::Resume(staged.value.clone())),
        }
    };
    state.answers.iter().map(reply).collect()
}
