//! Why any input is refused: because of the store, or of the session's owner or size.

use countersign_core::{
    approval::principal::Principal,
    journal::state::State,
    refusal::{Code, Refusal},
};

use super::inner::Inner;
use crate::store::StoreError;

pub(crate) fn store_refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::Deleted(_) => Refusal::new(Code::SessionDeleted, error.to_string()),
        StoreError::BadCursor => Refusal::new(Code::InvalidMessage, format!("cursor: {error}")),
        StoreError::Corrupt(_) | StoreError::Sealed(_) => Refusal::new(Code::Internal, error.to_string()).unreadable(),
        StoreError::Newer { .. } => Refusal::new(Code::NewerVersionRequired, error.to_string()).unreadable(),
        StoreError::Closed(_) => Refusal::new(Code::StoreClosed, error.to_string()),
        StoreError::Unknown => Refusal::new(
            Code::OutcomeUnknown,
            "it is not known whether this was stored: check, or send it again with the same request_id",
        ),
        StoreError::Conflict | StoreError::Outdated => {
            Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {error}")).overtaken()
        }
        StoreError::Fenced => Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {error}")).fenced(),
        other => Refusal::new(Code::StoreUnavailable, format!("nothing was stored: {other}")),
    }
}

/// Refuses a session that the caller may not see as if it were absent (spec W8).
pub(crate) fn visible(by: &Principal, state: &State) -> Result<(), Refusal> {
    if state.pos > 0 && by.may_see(state) { Ok(()) } else { Err(session_not_found(&state.session_id)) }
}

/// Like [`visible`], for actions that only the session's owner may take.
pub(crate) fn owned(by: &Principal, state: &State) -> Result<(), Refusal> {
    visible(by, state)?;
    if by.owns(state) { Ok(()) } else { Err(Refusal::new(Code::Forbidden, "only the session's owner may do this")) }
}

/// Whether this principal may continue the turn: after the store was restored from a backup, only a person may, since a
/// program would send the same input again, and the turn would repeat its effects.
pub(crate) fn may_continue(by: &Principal, state: &State) -> Result<(), Refusal> {
    if !state.is_unknown_since_a_backup() || by.check_may_decide().is_ok() {
        return Ok(());
    }
    let message = "the store was restored from a backup, and what this turn has done since is not known here: only a \
                   person may continue it; a service or an agent can only cancel it";
    Err(Refusal::new(Code::Forbidden, message))
}

fn session_not_found(session_id: &str) -> Refusal {
    Refusal::new(Code::SessionNotFound, format!("there is no session {session_id:?}"))
}

impl Inner {
    /// The text for a session that has reached its size limit.
    pub(super) fn full(&self, state: &State) -> Option<String> {
        let most = self.session_bytes;
        (state.bytes >= most).then(|| {
            format!(
                "the session has about {} bytes, and may have {most}; continue in a new one, or in a fork from an earlier checkpoint",
                state.bytes
            )
        })
    }
}
