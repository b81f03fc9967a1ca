//! Whether a turn can continue, fail or end next, or its conversation be compressed.

use super::super::{
    record::{Record, Restart},
    state::{Phase, State, Status},
};

/// `false`: it cannot, or is no such record. The append before it is at `before`.
pub(super) fn fits(state: &State, before: u64, record: &Record) -> bool {
    match record {
        Record::Status { .. } => state.status.is_active(),
        Record::Restarted(restarted) if state.status == Status::Failed => {
            restarted.why == Restart::Restored && !restarted.held
        }
        Record::Restarted(restarted) => {
            state.status.is_active() && (restarted.held || restarted.why != Restart::Restored)
        }
        Record::MakeRoom(_) => asks_next(state) && state.window.due.is_none(),
        Record::Compressed(compressed) => {
            // Whether it ends where a turn begins is checked with the whole journal.
            asks_next(state)
                && state.window.due.is_some()
                && compressed.through >= state.window.from
                && compressed.through < before
        }
        Record::TurnFailed(failed) => {
            state.status.is_active() && state.open.iter().map(|open| &open.asked.n).eq(&failed.pending)
        }
        // A turn that is abandoned replaces nothing.
        Record::Retried(retried) => {
            state.is_to_be_retried()
                && retried.shown == state.unshown
                && (retried.replaced == 0 || retried.replaced == state.broken_off)
        }
        Record::TurnEnded(_) => state.status.is_active() && all_finished(state),
        _ => false,
    }
}

/// Whether it is the model's turn.
fn asks_next(state: &State) -> bool {
    state.status.is_active() && !state.answered && state.open.is_empty() && all_finished(state)
}

fn all_finished(state: &State) -> bool {
    state.calls.iter().all(|call| call.phase == Phase::Finished)
}
