//! Appends of several sessions that are committed together, by one statement. It finds nothing of an append whose session is
//! not at the expected position, and that does not affect the others. An append that is
//! not stored this way is stored alone, or refused with the reason, as if it had not waited.

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
        group::{Shared, Waiting},
        transaction::{at_once, transact},
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

    async fn carry_out(pool: Pool, mut appends: Vec<Waiting<Write>>) {
        if appends.len() == 1
            && let Some(one) = appends.pop()
        {
            return singly(&pool, one).await;
        }
        // So that all nodes lock sessions in one order.
        appends.sort_unstable_by(|a, b| a.wanted.session_id.cmp(&b.wanted.session_id));
        let held = match Held::of(&pool).await {
            Ok(held) => held,
            // Tried one by one they would only wait for a connection again.
            Err(error) => return appends.into_iter().for_each(|one| one.tell(Err(error.clone()))),
        };
        let writes: Vec<&Write> = appends.iter().map(|one| &one.wanted).collect();
        let history = held.history.clone();
        let rows = at_once(held, whole(&writes, true)).await.map_err(StoreError::from);
        let stored = match &rows {
            // It is committed, so an unreadable result is no reason to repeat it.
            Ok(rows) => stored(rows).map_err(|_| history.unknown()),
            Err(error) => Err(error.clone()),
        };
        for one in appends {
            let lease = stored.as_ref().map(|stored| stored.get(one.wanted.session_id.as_bytes()).copied());
            match lease {
                Ok(Some(lease)) => one.tell(Ok(lease)),
                Err(StoreError::Unknown) => one.tell(Err(StoreError::Unknown)),
                _ => {
                    let pool = pool.clone();
                    tokio::spawn(async move { singly(&pool, one).await });
                }
            }
        }
    }

    fn lost(pool: &Pool) -> StoreError {
        pool.history.unknown()
    }
}

async fn singly(pool: &Pool, one: Waiting<Write>) {
    let stored = transact(pool, &one.wanted).await;
    one.tell(stored);
}
