//! Deliveries in SQLite. Nothing in these tables is content, so a sealed store has them as they are.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use countersign_core::journal::record::Millis;
use futures::future::{BoxFuture, FutureExt as _};
use rusqlite::{Connection, Row, params};

use super::{
    SqliteStore,
    statement::{all, find, run},
    write::Op,
};
use crate::{
    StoreError,
    letters::{Letter, LetterPage, Letters, Progress},
};

/// A change of an endpoint, for the writer.
pub(super) enum Change {
    Begin,
    Advance {
        from: u64,
        to: u64,
        failed: Vec<Letter>,
    },
    Settle {
        n: u64,
        attempts: u32,
        again: Option<Letter>,
    },
    /// Reports how many there were.
    Retry {
        n: Option<u64>,
        now: Millis,
        made: Arc<AtomicU64>,
    },
}

const COLUMNS: &str = "n, attempts, next_at, tried_at, why";

impl Change {
    /// Makes the change; whether it applied.
    pub(super) fn apply(&self, conn: &Connection, endpoint: &str) -> Result<bool, StoreError> {
        match self {
            Change::Begin => run(
                conn,
                "INSERT INTO endpoints (name, cursor) SELECT ?1, ifnull(max(n), 0) FROM audit WHERE true
                 ON CONFLICT (name) DO NOTHING",
                params![endpoint],
            )
            .map(|_| true),
            Change::Advance { from, to, failed } => {
                let moved = "UPDATE endpoints SET cursor = ?3 WHERE name = ?1 AND cursor = ?2";
                if run(conn, moved, params![endpoint, number(*from), number(*to)])? == 0 {
                    return Ok(false);
                }
                failed.iter().try_for_each(|letter| keep(conn, endpoint, letter))?;
                Ok(true)
            }
            Change::Settle { n, attempts, again } => {
                let gone = "DELETE FROM letters WHERE endpoint = ?1 AND n = ?2 AND attempts = ?3";
                if run(conn, gone, params![endpoint, number(*n), attempts])? == 0 {
                    return Ok(false);
                }
                again.iter().try_for_each(|letter| keep(conn, endpoint, letter))?;
                Ok(true)
            }
            Change::Retry { n, now, made } => {
                let one = "UPDATE letters SET attempts = 0, next_at = ?2 WHERE endpoint = ?1 AND n = ?3";
                let dead = "UPDATE letters SET attempts = 0, next_at = ?2 WHERE endpoint = ?1 AND next_at IS NULL";
                let count = match n {
                    Some(n) => run(conn, one, params![endpoint, now, number(*n)])?,
                    None => run(conn, dead, params![endpoint, now])?,
                };
                made.store(count as u64, Ordering::SeqCst);
                Ok(count > 0)
            }
        }
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or_default()
}

fn keep(conn: &Connection, endpoint: &str, letter: &Letter) -> Result<(), StoreError> {
    let Letter { n, attempts, next_at, tried_at, why } = letter.clone().bounded();
    run(
        conn,
        "INSERT OR REPLACE INTO letters (endpoint, n, attempts, next_at, tried_at, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![endpoint, number(n), attempts, next_at, tried_at, why],
    )
    .map(drop)
}

fn letter(row: &Row<'_>) -> rusqlite::Result<Letter> {
    Ok(Letter {
        n: count(row.get(0)?),
        attempts: row.get(1)?,
        next_at: row.get(2)?,
        tried_at: row.get(3)?,
        why: row.get(4)?,
    })
}

/// At most `limit` endpoints after `after`, in the order of their names, and how far each is.
#[cfg(feature = "postgres")]
pub(super) fn endpoints(conn: &Connection, after: &str, limit: i64) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
    let sql = "SELECT name, cursor FROM endpoints WHERE name > ?1 ORDER BY name LIMIT ?2";
    all(conn, sql, params![after, limit], |row| Ok((row.get(0)?, count(row.get(1)?))))
}

/// A page of an endpoint's letters.
pub(super) fn page(conn: &Connection, endpoint: &str, page: LetterPage) -> Result<Vec<Letter>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM letters WHERE endpoint = ?1 AND n > ?2 ORDER BY n LIMIT ?3");
    all(conn, &sql, params![endpoint, number(page.after), number(page.limit as u64)], letter)
}

fn cursor(conn: &Connection, endpoint: &str) -> Result<Option<u64>, StoreError> {
    find(conn, "SELECT cursor FROM endpoints WHERE name = ?1", [endpoint], |row| row.get(0).map(count))
}

fn progress(conn: &Connection, endpoint: &str) -> Result<Option<Progress>, StoreError> {
    let Some(cursor) = cursor(conn, endpoint)? else { return Ok(None) };
    let counted = |sql| find(conn, sql, [endpoint], |row| row.get(0).map(count)).map(Option::unwrap_or_default);
    let last = format!("SELECT {COLUMNS} FROM letters WHERE endpoint = ?1 ORDER BY tried_at DESC, n DESC LIMIT 1");
    Ok(Some(Progress {
        cursor,
        waiting: counted("SELECT count(*) FROM letters WHERE endpoint = ?1 AND next_at IS NOT NULL")?,
        dead: counted("SELECT count(*) FROM letters WHERE endpoint = ?1 AND next_at IS NULL")?,
        last: find(conn, &last, [endpoint], letter)?,
    }))
}

impl SqliteStore {
    async fn letters_change(&self, endpoint: String, change: Change) -> Result<bool, StoreError> {
        self.write(Op::Letters(endpoint, change)).await
    }
}

impl Letters for SqliteStore {
    fn attend(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let endpoint = endpoint.to_owned();
        async move {
            let name = endpoint.clone();
            if let Some(found) = self.lanes()?.points.read(move |conn| cursor(conn, &name)).await? {
                return Ok(Some(found));
            }
            self.letters_change(endpoint.clone(), Change::Begin).await?;
            self.lanes()?.points.read(move |conn| cursor(conn, &endpoint)).await
        }
        .boxed()
    }

    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.letters_change(endpoint.to_owned(), Change::Advance { from, to, failed }).boxed()
    }

    fn waiting(&self, endpoint: &str, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>> {
        let (endpoint, limit) = (endpoint.to_owned(), number(limit as u64));
        let sql = format!(
            "SELECT {COLUMNS} FROM letters WHERE endpoint = ?1 AND next_at IS NOT NULL AND next_at <= ?2
             ORDER BY next_at, n LIMIT ?3"
        );
        let read = move |conn: &mut Connection| all(conn, &sql, params![endpoint, now, limit], letter);
        async move { self.lanes()?.points.read(read).await }.boxed()
    }

    fn settle(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.letters_change(endpoint.to_owned(), Change::Settle { n, attempts, again }).boxed()
    }

    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>> {
        let endpoint = endpoint.to_owned();
        async move { self.lanes()?.lists.read(move |conn| progress(conn, &endpoint)).await }.boxed()
    }

    fn failed(&self, endpoint: &str, of: LetterPage) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>> {
        let endpoint = endpoint.to_owned();
        let read = move |conn: &mut Connection| page(conn, &endpoint, of);
        async move { self.lanes()?.lists.read(read).await }.boxed()
    }

    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>> {
        let (endpoint, made) = (endpoint.to_owned(), Arc::<AtomicU64>::default());
        async move {
            self.letters_change(endpoint, Change::Retry { n, now, made: made.clone() }).await?;
            Ok(made.load(Ordering::SeqCst))
        }
        .boxed()
    }
}
