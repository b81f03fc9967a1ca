//! Reads that are answered together, by one statement.

use std::time::Duration;

use tokio_postgres::Row;

use super::{
    super::StoreError,
    connect::{Held, Link, Pool, read},
    group::{Settled, Shared},
    rows::get,
};

/// A read that one statement can answer for many.
pub(super) trait Read: Send + Sync + 'static {
    type Found: Send + 'static;

    /// What each of them finds, in their order.
    ///
    /// # Errors
    /// None of them finds anything.
    fn all(on: &Link, wanted: &[&Self]) -> impl Future<Output = Result<Vec<Answer<Self>>, StoreError>> + Send;
}

/// What one of them finds, or why it cannot be read.
pub(super) type Answer<R> = Result<<R as Read>::Found, StoreError>;

/// Which of them a row is for, by the number in a column (from 1), and where its answer goes.
pub(super) fn nth<'a, R: Read>(
    row: &Row,
    column: usize,
    found: &'a mut [Answer<R>],
    wanted: &[&'a R],
) -> Result<Option<(&'a mut Answer<R>, &'a R)>, StoreError> {
    let nth = usize::try_from(get::<i64>(row, column)?).unwrap_or_default().wrapping_sub(1);
    Ok(found.get_mut(nth).zip(wanted.get(nth).copied()))
}

impl<R: Read> Shared for R {
    type Done = R::Found;

    /// They wait for nothing but the database.
    const AT_ONCE: usize = 1;
    /// Several times what many short ones take: a long one, such as that of a large session, delays no others.
    const PATIENCE: Duration = Duration::from_millis(20);

    async fn alone(&self, pool: &Pool) -> Answer<R> {
        read!(pool, |on| R::all(on, &[self]))?.pop().unwrap_or_else(|| Err(no_row()))
    }

    async fn together(pool: &Pool, batch: &[&R]) -> Result<Vec<Settled<R>>, StoreError> {
        let held = Held::of(pool).await?;
        let found = R::all(&held, batch).await;
        if found.is_ok() || !held.has_ended().await {
            held.give_back();
        }
        Ok(match found {
            Ok(found) => found.into_iter().map(Some).collect(),
            // What is unreadable of one session, or takes too long, is no error of the others.
            Err(_) => batch.iter().map(|_| None).collect(),
        })
    }

    fn lost(_: &Pool) -> StoreError {
        StoreError::Failed("the store's threads have ended".to_owned())
    }
}

/// The database did not answer for one of them.
pub(super) fn no_row() -> StoreError {
    StoreError::Failed("the database gave no row".to_owned())
}
