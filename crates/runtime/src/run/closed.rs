//! A store that was closed after a disk error: the sessions in memory are dropped with it.
//!
//! Their state may not be on disk, so none of it is shown or continued, and no effect begins. Running effects are
//! stopped: their outcome could not be stored, so it is unknown, and a person is asked when the store is open again.

use countersign_core::refusal::Refusal;

use super::{inner::Inner, refusals::store_refusal};
use crate::store::StoreError;

impl Inner {
    /// The refusal for a store error. If the store was closed, the runtime stops.
    pub(super) fn refused(&self, error: StoreError) -> Refusal {
        let closed = matches!(error, StoreError::Closed(_));
        let refusal = store_refusal(error);
        if closed && self.store_closed.set(refusal.clone()).is_ok() {
            tracing::error!("{}; all sessions are dropped from memory", refusal.message);
            self.closing.send_replace(true);
            for live in self.take_live() {
                // The caller may hold the session's lock.
                tokio::spawn(async move { live.lock().await.forget() });
            }
            self.warm.forget(None);
            self.conversations.forget(None);
        }
        refusal
    }

    /// Whether the store is open.
    ///
    /// # Errors
    /// `store_closed`.
    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        self.store_closed.get().map_or(Ok(()), |refusal| Err(refusal.clone()))
    }

    /// Why a subscription has no more events.
    pub(super) async fn no_more_events(&self, session_id: &str) -> Refusal {
        match self.check_open() {
            Err(closed) => closed,
            Ok(()) => self.why_gone(session_id).await,
        }
    }
}
