//! Appends of several sessions that are committed together, by one statement. It finds nothing of an append whose session
//! is not at the expected position, and that does not affect the others.

use std::{sync::Arc, time::Duration};

use super::{
    Write,
    statement::{stored, whole},
};
use crate::{
    StoreError,
    nodes::Epoch,
    postgres::{
        connect::{Held, Pool},
        group::{Settled, Shared},
        transaction::{Change as _, at_once, transact},
    },
};

/// The most bytes of an append that is committed with others: together a MiB.
pub(super) const SMALL: usize = 32 * 1024;

impl Shared for Write {
    type Done = Option<Epoch>;

    /// One is executed while the other waits for the disk.
    const AT_ONCE: usize = 2;
    /// Longer than a shared transaction waits for one lock. It takes longer if it waits for several, for a single append or for
    /// a connection.
    const PATIENCE: Duration = Duration::from_millis(100);

    fn only_of(&self) -> Option<&Arc<str>> {
        Some(&self.session_id)
    }

    async fn alone(&self, pool: &Pool) -> Result<Option<Epoch>, StoreError> {
        transact(pool, self).await
    }

    async fn together(pool: &Pool, batch: &[&Write]) -> Result<Vec<Settled<Write>>, StoreError> {
        let held = Held::of(pool).await?;
        let history = held.history.clone();
        // So that all nodes lock sessions in one order.
        let mut sorted: Vec<&Write> = batch.iter().copied().filter(|one| one.check(&history).is_ok()).collect();
        if sorted.is_empty() {
            held.give_back();
            return Ok(batch.iter().map(|_| None).collect());
        }
        sorted.sort_unstable_by(|a, b| a.session_id.cmp(&b.session_id));
        let rows = at_once(held, whole(&sorted, true)).await.map_err(StoreError::from);
        let stored = match &rows {
            // It is committed, so an unreadable result is no reason to repeat it.
            Ok(rows) => stored(rows).map_err(|_| history.unknown()),
            Err(error) => Err(error.clone()),
        };
        Ok(match stored {
            Ok(stored) => batch.iter().map(|one| stored.get(one.session_id.as_bytes()).copied().map(Ok)).collect(),
            Err(StoreError::Unknown) => batch.iter().map(|_| Some(Err(StoreError::Unknown))).collect(),
            Err(_) => batch.iter().map(|_| None).collect(),
        })
    }

    fn lost(pool: &Pool) -> StoreError {
        pool.history.unknown()
    }
}
