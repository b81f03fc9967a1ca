//! Reads that are answered together, by one statement.

use std::time::Duration;

use tokio_postgres::Row;

use super::{
    super::StoreError,
    connect::{Held, Link, Pool, read},
    group::{Shared, Waiting},
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

    async fn carry_out(pool: Pool, mut reads: Vec<Waiting<R>>) {
        if reads.len() == 1
            && let Some(one) = reads.pop()
        {
            return singly(&pool, one).await;
        }
        let held = match Held::of(&pool).await {
            Ok(held) => held,
            // Tried one by one they would only wait for a connection again.
            Err(error) => return reads.into_iter().for_each(|one| one.tell(Err(error.clone()))),
        };
        let wanted: Vec<&R> = reads.iter().map(|one| &one.wanted).collect();
        let found = R::all(&held, &wanted).await;
        if found.is_ok() || !held.has_ended().await {
            held.give_back();
        }
        match found {
            Ok(found) => reads.into_iter().zip(found).for_each(|(one, found)| one.tell(found)),
            // What is unreadable of one session, or takes too long, is no error of the others.
            Err(_) => {
                for one in reads {
                    let pool = pool.clone();
                    tokio::spawn(async move { singly(&pool, one).await });
                }
            }
        }
    }

    fn lost(_: &Pool) -> StoreError {
        StoreError::Failed("the store's threads have ended".to_owned())
    }
}

async fn singly<R: Read>(pool: &Pool, one: Waiting<R>) {
    let found = alone(pool, &one.wanted).await;
    one.tell(found);
}

async fn alone<R: Read>(pool: &Pool, wanted: &R) -> Answer<R> {
    read!(pool, |on| R::all(on, &[wanted]))?.pop().unwrap_or_else(|| Err(no_row()))
}

/// The database did not answer for one of them.
pub(super) fn no_row() -> StoreError {
    StoreError::Failed("the database gave no row".to_owned())
}
