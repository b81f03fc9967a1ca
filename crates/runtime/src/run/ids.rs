//! The ids of sessions and inputs: given by clients, or generated.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{request_id::RequestId, state::State},
    refusal::{Code, Refusal},
    wire::client::check_session_id,
};
use serde::Serialize;

use super::{inner::Inner, refusals::store_refusal};
use crate::store::index::Purpose;

/// The id that a client gives, or a new one.
pub(super) fn session_id(given: Option<&str>) -> Result<Arc<str>, Refusal> {
    match given {
        Some(id) => check_session_id(id).map(|()| Arc::from(id)),
        None => Ok(uuid::Uuid::now_v7().to_string().into()),
    }
}

/// What distinguishes a new session, or the calls of an answer, from all others (spec R11).
pub(crate) fn unique() -> Arc<str> {
    uuid::Uuid::new_v4().simple().to_string().into()
}

/// The `request_id`, as the session keeps it, of an input with the content `asked`: ids of others than the owner
/// include their names, so that no request is mistaken for another person's.
pub(crate) fn kept_id(by: &Principal, state: &State, id: Option<&str>, asked: &impl Serialize) -> Option<RequestId> {
    let whose = by.subject.as_deref().filter(|_| !by.owns(state));
    id.map(|id| RequestId::of(id, whose, &state.birth, asked))
}

impl Inner {
    /// Whether this input, with its id as it is [kept](kept_id), was acknowledged before (spec W1).
    ///
    /// # Errors
    /// `request_id_reused`: its id was acknowledged for something else.
    pub(super) async fn is_repeat(
        &self,
        session_id: &str,
        kept: Option<&RequestId>,
        of: Purpose,
    ) -> Result<bool, Refusal> {
        let Some(kept) = kept else { return Ok(false) };
        let of = of.with(kept);
        match self.store.request(session_id, kept).await.map_err(store_refusal)? {
            None => Ok(false),
            Some(known) if known.covers(&of) => Ok(true),
            Some(known) => {
                let other = if known.is_kind_of(&of) { " with other content" } else { "" };
                let what = format!(
                    "request_id: {:?} was used in this session before, for: {}{other}; give each input an id of its own",
                    kept.id(),
                    known.kind()
                );
                Err(Refusal::new(Code::RequestIdReused, what))
            }
        }
    }
}
