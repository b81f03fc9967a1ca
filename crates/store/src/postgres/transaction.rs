//! Transactions: the meaning of a failure, and when one is retried.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio_postgres::{Error, Row};

use super::{
    super::StoreError,
    connect::{Held, Pool, error, is_refusal, is_transient, told},
    flight::{Answers, Flight, Joined, Value, within},
    history::History,
};

/// How often a transaction that was aborted in favour of others is tried, and how long the second try waits: each later
/// one waits twice as long.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(5);
/// How long a caller waits for the outcome of a change: longer than a statement may take. A commit may take any time,
/// such as while a standby for which it waits does not answer.
pub(super) const ANSWER: Duration = Duration::from_secs(70);

/// Why nothing was committed, or nothing is known to be.
#[derive(Debug)]
pub(super) enum Undone {
    /// It was aborted in favour of others; nothing changed.
    Transient(StoreError),
    /// Anything else.
    Failed(StoreError),
}

impl From<Error> for Undone {
    fn from(e: Error) -> Undone {
        if is_transient(&e) { Undone::Transient(error(&e)) } else { Undone::Failed(error(&e)) }
    }
}

impl From<Undone> for StoreError {
    fn from(undone: Undone) -> StoreError {
        match undone {
            Undone::Transient(e) | Undone::Failed(e) => e,
        }
    }
}

impl From<StoreError> for Undone {
    fn from(e: StoreError) -> Undone {
        Undone::Failed(e)
    }
}

/// A transaction at READ COMMITTED: its row locks decide. Dropped, it is rolled back with its connection.
pub(super) struct Transaction(Held);

impl Transaction {
    async fn begin(pool: &Pool) -> Result<Transaction, Undone> {
        Transaction::on(Held::of(pool).await?).await
    }

    async fn on(held: Held) -> Result<Transaction, Undone> {
        // Waited for: a statement sent after a BEGIN that fails would be committed on its own.
        if held.pooled {
            if held.begin_pooled().await?? {
                let again = "the database has failed over".to_owned();
                return Err(Undone::Transient(StoreError::Failed(again)));
            }
        } else {
            within(&held, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", Vec::new()).await?;
        }
        Ok(Transaction(held))
    }

    /// The answers to statements that are sent together.
    pub(super) async fn send(&self, flight: Flight) -> Result<Vec<Vec<Row>>, Undone> {
        Ok(flight.send(&self.0).await?.rows.into_iter().collect::<Result<_, _>>()?)
    }

    /// Runs one statement.
    pub(super) async fn ask(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Undone> {
        Ok(within(&self.0, sql, values).await?)
    }

    /// Sends the last statements, and COMMIT with them: it rolls back if one of them fails. Returns the rows of each.
    async fn commit(self, last: Flight) -> Result<Vec<Vec<Row>>, Undone> {
        committed(self.0, last.with("COMMIT", Vec::new())).await
    }

    async fn roll_back(self) {
        if within(&self.0, "ROLLBACK", Vec::new()).await.is_ok() {
            self.0.give_back();
        }
    }
}

/// Sends statements of which the last one commits, and returns the rows of each.
async fn committed(held: Held, flight: Flight) -> Result<Vec<Vec<Row>>, Undone> {
    let Answers { rows, all_sent } = flight.send(&held).await?;
    // The first error made the later statements fail.
    match rows.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(rows) => {
            held.give_back();
            Ok(rows)
        }
        Err(e) if is_refusal(&e) || !all_sent => {
            if all_sent {
                // The last statement has ended the transaction.
                held.give_back();
            }
            Err(e.into())
        }
        Err(e) => {
            tracing::warn!("the outcome of a transaction is unknown: {}", told(&e));
            Err(held.history.unknown().into())
        }
    }
}

/// Sends a statement that does all of it, and returns its rows.
pub(super) async fn at_once(held: Held, statement: Joined) -> Result<Vec<Row>, Undone> {
    let flight = Flight::of(statement);
    let rows = if held.pooled {
        // It has its settings only if the transaction that sets them has begun.
        Transaction::on(held).await?.commit(flight).await?
    } else {
        committed(held, flight).await?
    };
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// The work of a transaction.
pub(super) trait Change: Sync {
    /// Its result.
    type Done: Send;
    /// A statement that may do all of it on its own, if there is one; [`Change::done_alone`] reports whether it did.
    fn alone(&self) -> Option<Joined> {
        None
    }
    /// Whether [`Change::alone`] did it. If not, it did nothing.
    fn done_alone(&self, _: &[Row]) -> Result<Option<Self::Done>, Undone> {
        Ok(None)
    }
    /// Whether it may still be done, asked once there is a connection: making one shows a fail-over.
    fn check(&self, _: &History) -> Result<(), StoreError> {
        Ok(())
    }
    /// Does all of it but the last statements, which it returns.
    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, Self::Done), Undone>>;
}

/// Runs a transaction, again if it was aborted in favour of others.
pub(super) async fn transact<C: Change>(pool: &Pool, change: &C) -> Result<C::Done, StoreError> {
    let (mut tries, mut pause) = (1, PAUSE);
    loop {
        match once(pool, change).await {
            Ok(done) => return Ok(done),
            Err(Undone::Transient(e)) if tries < TRIES => tracing::info!("a transaction is tried again: {e}"),
            Err(Undone::Transient(e) | Undone::Failed(e)) => return Err(e),
        }
        tokio::time::sleep(pause).await;
        (tries, pause) = (tries + 1, pause * 2);
    }
}

/// Runs statements in a transaction that is rolled back.
///
/// # Errors
/// [`StoreError::Failed`]: one of them fails.
pub(super) async fn try_out(pool: &Pool, statements: &[&'static str]) -> Result<(), StoreError> {
    let transaction = Transaction::begin(pool).await?;
    let mut tried = Ok(());
    for sql in statements {
        tried = transaction.ask(sql, Vec::new()).await.map(drop);
        if tried.is_err() {
            break;
        }
    }
    transaction.roll_back().await;
    Ok(tried?)
}

async fn once<C: Change>(pool: &Pool, change: &C) -> Result<C::Done, Undone> {
    if let Some(statement) = change.alone() {
        let held = Held::of(pool).await?;
        if let Err(error) = change.check(&held.history) {
            held.give_back();
            return Err(error.into());
        }
        let rows = at_once(held, statement).await?;
        if let Some(done) = change.done_alone(&rows)? {
            return Ok(done);
        }
    }
    let transaction = Transaction::begin(pool).await?;
    let applied = match change.check(&pool.history) {
        Ok(()) => change.apply(&transaction).await,
        Err(error) => Err(error.into()),
    };
    match applied {
        Ok((last, done)) => transaction.commit(last).await.map(|_| done),
        Err(undone) => {
            transaction.roll_back().await;
            Err(undone)
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_test_postgres::Database;
    use futures::FutureExt as _;

    use super::{
        super::{connect::pool, flight::ask},
        *,
    };

    /// Two rows, the second of which is not a number.
    struct HalfWritten;

    impl Change for HalfWritten {
        type Done = ();
        fn apply<'a>(&'a self, _: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
            let one = Flight::default().with("INSERT INTO numbers VALUES (1)", Vec::new());
            let both = one.with("INSERT INTO numbers VALUES ($1)", vec!["two".into()]);
            async { Ok((both, ())) }.boxed()
        }
    }

    #[tokio::test]
    async fn r3_nothing_is_committed_behind_a_statement_that_cannot_be_written() {
        let database = Database::new();
        database.run("CREATE TABLE numbers (n bigint)");
        let pool = pool(&database.url().parse().expect("a URL"), 2, std::sync::Arc::default()).expect("a pool");
        let undone = transact(&pool, &HalfWritten).await.expect_err("it is no number");
        assert!(matches!(undone, StoreError::Failed(_)), "nothing changed, and that is known: {undone:?}");
        let held = Held::of(&pool).await.expect("a connection");
        let rows = ask(&held, "SELECT n FROM numbers", Vec::new()).await.expect("rows");
        assert_eq!(rows.len(), 0);
    }
}
