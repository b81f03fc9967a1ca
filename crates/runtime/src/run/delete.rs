//! Deleting sessions.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{
        draft::Draft,
        state::{Phase, State},
    },
    refusal::{Code, Refusal},
    session::Session,
};

use super::{
    command::to_the_end,
    inner::{Inner, Runtime},
    live::{LiveState, uses::LiveRef},
    nodes::contested,
    refusals::{owned, store_refusal},
};
use crate::store::{Durability, Page, RuleFilter};

impl Runtime {
    /// Deletes a session: running work is stopped, and all of its data is removed, including its standing rules. If any
    /// of those rules apply to other sessions too, only a person may delete the session; that revokes the rules. A turn
    /// with open requests or calls is cancelled first, so that the audit log has the outcomes of its requests and calls
    /// (spec R8).
    ///
    /// # Errors
    /// `session_not_found`, `forbidden`, `store_unavailable`.
    pub async fn delete_session(&self, by: &Principal, session_id: &str) -> Result<(), Refusal> {
        let live = self.inner.named(session_id)?;
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move { contested!(runtime.try_delete(&live, &by).await) }).await
    }

    async fn try_delete(&self, live: &LiveRef, by: &Principal) -> Result<(), Refusal> {
        let session_id = &live.session_id;
        let mut guard = live.lock().await;
        let mut state = self.inner.load(live, &mut guard).await?;
        owned(by, &state)?;
        if by.check_may_decide().is_err() && self.stands_elsewhere(session_id).await? {
            let message = "standing rules of this session are for other sessions too and would end with it; \
                           only a person may delete it, or revoke them first";
            return Err(Refusal::new(Code::Forbidden, message));
        }
        state = self.inner.ended_for_good(live, &mut guard, state, by.subject.as_ref()).await?;
        // Anything that another node has stored meanwhile is checked first: a rule, or the outcome of a call.
        if !self.inner.store.delete(session_id, Some(state.pos)).await.map_err(|error| self.inner.refused(error))? {
            guard.load_again();
            return Err(Refusal::new(Code::StoreUnavailable, "the session has moved on").overtaken());
        }
        self.inner.is_deleted(live, &mut guard);
        Ok(())
    }

    /// Whether a rule made in the session also applies to others.
    async fn stands_elsewhere(&self, session_id: &str) -> Result<bool, Refusal> {
        let filter = RuleFilter {
            standing: Some(true),
            now: self.inner.now(),
            everywhere: Some(true),
            session_id: Some(session_id.to_owned()),
            ..RuleFilter::default()
        };
        let rules = self.inner.store.rules(filter, Page { cursor: None, limit: 1 }).await.map_err(store_refusal)?;
        // One that cannot be read may be a "never".
        Ok(!rules.rows.is_empty() || !rules.unread.is_empty())
    }
}

impl Inner {
    /// The state of a session that is about to be deleted, once its turn is cancelled if that has open requests or calls,
    /// so that the audit log has their outcomes (spec R8).
    pub(super) async fn ended_for_good(
        &self,
        live: &LiveRef,
        guard: &mut LiveState,
        state: Session,
        by: Option<&Arc<str>>,
    ) -> Result<Session, Refusal> {
        let unfinished = !state.open.is_empty() || state.calls.iter().any(|call| call.phase != Phase::Finished);
        if !state.status.is_open() || !unfinished {
            return Ok(state);
        }
        let (at, partial) = (self.now(), guard.written());
        let cancel = |state: &Arc<State>| Draft::of(state.clone(), at).cancel_for_good(by, partial);
        self.transact(live, guard, Durability::Synced, cancel).await?;
        self.load(live, guard).await
    }
}
