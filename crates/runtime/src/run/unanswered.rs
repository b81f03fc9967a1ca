//! What became of an append whose answer was lost: the connection to the database ended around its commit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::journal::record::Entry;
use tokio::time::sleep;

use super::Inner;
use crate::store::{Append, StoreError, nodes::Epoch};

/// The first time between two tries, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long whoever sent an input waits to hear what became of it.
const WAITS: Duration = Duration::from_secs(10);
/// The most bytes of entries that are read at once to be compared.
const READ_BYTES: usize = 1 << 20;

impl Inner {
    /// Stores an append, by a node that has the lease `had`.
    ///
    /// If the store cannot say whether it has, the same append is sent again: it finds its place free, or taken by its own
    /// entries or by another's. So nobody has to recognise later what came of an attempt, nor carries out an outcome twice.
    /// What came of an effect is sent until that is known; of an input it is for its sender to look.
    ///
    /// # Errors
    /// As [`crate::store::Store::append`]; [`StoreError::Unknown`] of an input, or if the runtime closes.
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
                // It says nothing about the first.
                StoreError::Failed(_) | StoreError::Unknown => {}
                // Whoever has the lease now accounts for it.
                StoreError::Fenced | StoreError::Deleted(_) => return Err(error),
                _ => match self.has(&append).await {
                    Ok(true) => return Ok(lease_after(&append, had)),
                    Ok(false) => return Err(error),
                    Err(_) => {}
                },
            }
            // A store of this process that does not say has failed within; a database is back some time.
            let is_bounded = append.guards.lease.is_none() || self.store.nodes().is_none();
            if *self.closing.borrow() || is_bounded && begun.elapsed() > WAITS {
                return Err(StoreError::Unknown);
            }
        }
    }

    /// Whether its entries are the ones at their positions.
    async fn has(&self, append: &Append) -> Result<bool, StoreError> {
        let (mut pos, mut left) = (append.expected, &append.entries[..]);
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

/// The lease after an append that was stored: as the store has it, if that is known.
fn lease_after(append: &Append, had: Option<Epoch>) -> Option<Epoch> {
    match append.guards.lease {
        Some(lease) => Some(lease).filter(|_| append.after.is_at_work()),
        None => had,
    }
}

fn is_same(stored: &Arc<Entry>, own: &Arc<Entry>) -> bool {
    let text = |entry: &Entry| serde_json::to_string(entry).ok();
    text(own).is_some_and(|own| text(stored) == Some(own))
}
