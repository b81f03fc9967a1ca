//! Cancelling turns.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{draft::Draft, request_id::RequestId, state::State},
    refusal::Refusal,
};

use super::{command::to_the_end, inner::Runtime, live::uses::LiveRef, nodes::contested, refusals::owned};
use crate::store::{Durability, index::Purpose};

impl Runtime {
    /// Cancels the session's turn: running work is stopped, pending interruptions resolve as cancelled (spec W1).
    ///
    /// # Errors
    /// `session_not_found`, `nothing_to_cancel`, `request_id_reused`, `store_unavailable`.
    pub async fn cancel(&self, by: &Principal, session_id: &str, request_id: Option<String>) -> Result<(), Refusal> {
        let live = self.inner.named(session_id)?;
        let (runtime, by) = (self.clone(), by.clone());
        to_the_end(async move {
            let cancelled = runtime.cancel_in(&live, &by, request_id).await;
            runtime.inner.or_refused(cancelled).await?;
            runtime.inner.spawn_driver(live);
            Ok(())
        })
        .await
    }

    /// Cancels the turn, which another task drives.
    pub(crate) async fn cancel_in(
        &self,
        live: &LiveRef,
        by: &Principal,
        request_id: Option<String>,
    ) -> Result<(), Refusal> {
        contested!(self.try_cancel(live, by, request_id.clone()).await)
    }

    async fn try_cancel(&self, live: &LiveRef, by: &Principal, request_id: Option<String>) -> Result<(), Refusal> {
        let mut guard = live.lock().await;
        let state = self.inner.load(live, &mut guard).await?;
        owned(by, &state)?;
        // Only the owner cancels, and a cancel has no other content.
        let request_id = request_id.as_deref().map(RequestId::from);
        if self.inner.is_repeat(&live.session_id, request_id.as_ref(), Purpose::CANCEL).await? {
            return self.inner.confirmed().await;
        }
        let partial = guard.written();
        let at = self.inner.now();
        let subject = by.subject.clone();
        let make = |state: &Arc<State>| {
            Draft::of(state.clone(), at).cancel(subject.as_ref(), request_id, partial, &self.inner.agents)
        };
        self.inner.transact(live, &mut guard, Durability::Synced, make).await?;
        self.inner.warm.forget(Some(&live.session_id));
        live.wake();
        Ok(())
    }
}
