//! The outcome of an append whose confirmation was lost: the connection to the database ended around its commit.

use std::time::Duration;

use countersign_core::journal::record::Entry;
use tokio::time::{Instant, sleep};

use super::inner::{Inner, READ_BYTES};
use crate::store::{Append, StoreError, nodes::Epoch};

/// The first pause between two tries, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long to try to find out: the session is locked meanwhile, so that no other input builds on an unknown state.
const LONGEST: Duration = Duration::from_secs(10);

impl Inner {
    /// Stores an append, by a node that has the lease `had`.
    ///
    /// If the store cannot confirm it, the same append is sent again: its position is free, or taken by its own entries
    /// or by another's. So a caller that retries after a short outage need not know the outcome of an attempt.
    ///
    /// # Errors
    /// As [`crate::store::Store::append`]; [`StoreError::Unknown`] if the store still cannot say after a while.
    pub(super) async fn append(
        &self,
        append: impl Fn() -> Append,
        had: Option<Epoch>,
    ) -> Result<Option<Epoch>, StoreError> {
        match self.store.append(append()).await {
            Err(StoreError::Unknown) => self.append_again(append(), had).await,
            answer => answer,
        }
    }

    async fn append_again(&self, append: Append, had: Option<Epoch>) -> Result<Option<Epoch>, StoreError> {
        tracing::warn!(session = &*append.session_id, "the store did not answer an append; it is sent again");
        let (begun, mut pause) = (Instant::now(), PAUSE);
        loop {
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
            let error = match self.store.append(append.clone()).await {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            };
            match error {
                StoreError::Closed(_) => return Err(StoreError::Unknown),
                // This error says nothing about the first try.
                StoreError::Failed(_) | StoreError::Unknown => {}
                StoreError::Deleted(_) => return Err(error),
                // Also if fenced: the stored append may have released the lease itself.
                _ => match self.has_for_good(&append).await {
                    Ok(true) => return Ok(lease_after(&append, had)),
                    Ok(false) => return Err(error),
                    Err(_) => {}
                },
            }
            if *self.closing.borrow() || begun.elapsed() > LONGEST {
                return Err(StoreError::Unknown);
            }
        }
    }

    /// Whether it is stored where a fail-over of the store does not lose it: until then it may be on one machine only.
    async fn has_for_good(&self, append: &Append) -> Result<bool, StoreError> {
        self.store.sync().await?;
        self.has(append).await
    }

    /// Whether the stored entries at its positions are its own.
    async fn has(&self, append: &Append) -> Result<bool, StoreError> {
        let (mut pos, mut left) = (append.expected(), &append.entries[..]);
        while !left.is_empty() {
            let page = self.store.read_within(&append.session_id, pos, left.len(), READ_BYTES).await?;
            if page.is_empty() || !page.iter().zip(left).all(|(stored, own)| is_same(stored, own)) {
                return Ok(false);
            }
            pos += page.len() as u64;
            left = left.get(page.len()..).unwrap_or_default();
        }
        Ok(true)
    }
}

/// The lease after a stored append: as the store has it, if that is known.
fn lease_after(append: &Append, had: Option<Epoch>) -> Option<Epoch> {
    append.guards.lease.map_or(had, |lease| append.after.is_at_work().then_some(lease))
}

fn is_same(stored: &Entry, own: &Entry) -> bool {
    let text = |entry: &Entry| serde_json::to_string(entry).ok();
    text(own).is_some_and(|own| text(stored) == Some(own))
}
