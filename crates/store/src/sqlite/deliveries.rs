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
    group::Op,
    statement::{all, find, run},
};
#[cfg(feature = "postgres")]
use crate::contents::Endpoint;
use crate::sql::int;
use crate::{
    StoreError,
    deliveries::{Deliveries, FailedDelivery, FailedPage, Progress},
};

/// A change of an endpoint, for the writer.
pub(super) enum Change {
    Begin,
    Advance {
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    },
    Finish {
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    },
    SetGone(bool),
    /// Reports how many there were.
    Retry {
        n: Option<u64>,
        now: Millis,
        made: Arc<AtomicU64>,
    },
    /// Reports how many failed deliveries there were.
    Forget(Arc<AtomicU64>),
}

const COLUMNS: &str = "n, attempts, next_at, tried_at, why";

impl Change {
    /// Makes the change, and returns whether it applied.
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
                if run(conn, moved, params![endpoint, int(*from), int(*to)])? == 0 {
                    return Ok(false);
                }
                failed.iter().try_for_each(|delivery| keep(conn, endpoint, delivery))?;
                Ok(true)
            }
            Change::Finish { n, attempts, again } => {
                let gone = "DELETE FROM failed_deliveries WHERE endpoint = ?1 AND n = ?2 AND attempts = ?3";
                if run(conn, gone, params![endpoint, int(*n), attempts])? == 0 {
                    return Ok(false);
                }
                again.iter().try_for_each(|delivery| keep(conn, endpoint, delivery))?;
                Ok(true)
            }
            Change::SetGone(gone) => {
                run(conn, "UPDATE endpoints SET gone = ?2 WHERE name = ?1", params![endpoint, gone])
                    .map(|rows| rows > 0)
            }
            Change::Forget(dropped) => {
                let count = run(conn, "DELETE FROM failed_deliveries WHERE endpoint = ?1", [endpoint])?;
                dropped.store(count as u64, Ordering::SeqCst);
                run(conn, "DELETE FROM endpoints WHERE name = ?1", [endpoint]).map(|rows| rows > 0)
            }
            Change::Retry { n, now, made } => {
                let one = "UPDATE failed_deliveries SET attempts = 0, next_at = ?2 WHERE endpoint = ?1 AND n = ?3";
                let dead =
                    "UPDATE failed_deliveries SET attempts = 0, next_at = ?2 WHERE endpoint = ?1 AND next_at IS NULL";
                let count = match n {
                    Some(n) => run(conn, one, params![endpoint, now, int(*n)])?,
                    None => run(conn, dead, params![endpoint, now])?,
                };
                made.store(count as u64, Ordering::SeqCst);
                Ok(count > 0)
            }
        }
    }
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or_default()
}

fn keep(conn: &Connection, endpoint: &str, delivery: &FailedDelivery) -> Result<(), StoreError> {
    let FailedDelivery { n, attempts, next_at, tried_at, why } = delivery.clone().bounded();
    run(
        conn,
        "INSERT OR REPLACE INTO failed_deliveries (endpoint, n, attempts, next_at, tried_at, why) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![endpoint, int(n), attempts, next_at, tried_at, why],
    )
    .map(drop)
}

fn delivery(row: &Row<'_>) -> rusqlite::Result<FailedDelivery> {
    Ok(FailedDelivery {
        n: count(row.get(0)?),
        attempts: row.get(1)?,
        next_at: row.get(2)?,
        tried_at: row.get(3)?,
        why: row.get(4)?,
    })
}

/// At most `limit` endpoints after `after`, in the order of their names.
#[cfg(feature = "postgres")]
pub(super) fn endpoints(conn: &Connection, after: &str, limit: i64) -> Result<Vec<Endpoint>, StoreError> {
    let sql = "SELECT name, cursor, gone FROM endpoints WHERE name > ?1 ORDER BY name LIMIT ?2";
    all(conn, sql, params![after, limit], |row| {
        Ok(Endpoint { name: row.get(0)?, cursor: count(row.get(1)?), gone: row.get(2)? })
    })
}

/// A page of an endpoint's failed deliveries.
pub(super) fn page(conn: &Connection, endpoint: &str, page: FailedPage) -> Result<Vec<FailedDelivery>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM failed_deliveries WHERE endpoint = ?1 AND n > ?2 ORDER BY n LIMIT ?3");
    all(conn, &sql, params![endpoint, int(page.after), int(page.limit as u64)], delivery)
}

/// An endpoint's cursor, and whether it is gone.
fn cursor(conn: &Connection, endpoint: &str) -> Result<Option<(u64, bool)>, StoreError> {
    let both = |row: &Row<'_>| Ok((row.get(0).map(count)?, row.get(1)?));
    find(conn, "SELECT cursor, gone FROM endpoints WHERE name = ?1", [endpoint], both)
}

fn progress(conn: &Connection, endpoint: &str) -> Result<Option<Progress>, StoreError> {
    let Some((cursor, gone)) = cursor(conn, endpoint)? else { return Ok(None) };
    let counted = |sql| find(conn, sql, [endpoint], |row| row.get(0).map(count)).map(Option::unwrap_or_default);
    let last =
        format!("SELECT {COLUMNS} FROM failed_deliveries WHERE endpoint = ?1 ORDER BY tried_at DESC, n DESC LIMIT 1");
    Ok(Some(Progress {
        cursor,
        gone,
        waiting: counted("SELECT count(*) FROM failed_deliveries WHERE endpoint = ?1 AND next_at IS NOT NULL")?,
        dead: counted("SELECT count(*) FROM failed_deliveries WHERE endpoint = ?1 AND next_at IS NULL")?,
        last: find(conn, &last, [endpoint], delivery)?,
    }))
}

impl SqliteStore {
    async fn deliveries_change(&self, endpoint: String, change: Change) -> Result<bool, StoreError> {
        self.write(Op::Deliveries(endpoint, change)).await
    }
}

impl Deliveries for SqliteStore {
    fn claim(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let endpoint = endpoint.to_owned();
        async move {
            let name = endpoint.clone();
            let mut found = self.lanes()?.points.read(move |conn| cursor(conn, &name)).await?;
            if found.is_none() {
                self.deliveries_change(endpoint.clone(), Change::Begin).await?;
                found = self.lanes()?.points.read(move |conn| cursor(conn, &endpoint)).await?;
            }
            Ok(found.filter(|(_, gone)| !gone).map(|(cursor, _)| cursor))
        }
        .boxed()
    }

    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.deliveries_change(endpoint.to_owned(), Change::Advance { from, to, failed }).boxed()
    }

    fn due_again(
        &self,
        endpoint: &str,
        now: Millis,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        let (endpoint, limit) = (endpoint.to_owned(), int(limit as u64));
        let sql = format!(
            "SELECT {COLUMNS} FROM failed_deliveries WHERE endpoint = ?1 AND next_at <= ?2 UNION ALL
             SELECT {COLUMNS} FROM failed_deliveries WHERE endpoint = ?1 AND next_at > ?2 AND tried_at > ?2
             ORDER BY next_at, n LIMIT ?3"
        );
        let read = move |conn: &mut Connection| all(conn, &sql, params![endpoint, now, limit], delivery);
        async move { self.lanes()?.points.read(read).await }.boxed()
    }

    fn finish(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.deliveries_change(endpoint.to_owned(), Change::Finish { n, attempts, again }).boxed()
    }

    fn set_gone(&self, endpoint: &str, gone: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.deliveries_change(endpoint.to_owned(), Change::SetGone(gone)).boxed()
    }

    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>> {
        let endpoint = endpoint.to_owned();
        async move { self.lanes()?.lists.read(move |conn| progress(conn, &endpoint)).await }.boxed()
    }

    fn failed(&self, endpoint: &str, of: FailedPage) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        let endpoint = endpoint.to_owned();
        let read = move |conn: &mut Connection| page(conn, &endpoint, of);
        async move { self.lanes()?.lists.read(read).await }.boxed()
    }

    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>> {
        let (endpoint, made) = (endpoint.to_owned(), Arc::<AtomicU64>::default());
        async move {
            self.deliveries_change(endpoint, Change::Retry { n, now, made: made.clone() }).await?;
            Ok(made.load(Ordering::SeqCst))
        }
        .boxed()
    }

    fn forget(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let (endpoint, dropped) = (endpoint.to_owned(), Arc::<AtomicU64>::default());
        async move {
            let was_known = self.deliveries_change(endpoint, Change::Forget(dropped.clone())).await?;
            Ok(was_known.then(|| dropped.load(Ordering::SeqCst)))
        }
        .boxed()
    }

    fn endpoints(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let (sql, limit) = ("SELECT name FROM endpoints ORDER BY name LIMIT ?1", int(limit as u64));
        let read = move |conn: &mut Connection| all(conn, sql, [limit], |row| row.get(0));
        async move { self.lanes()?.lists.read(read).await }.boxed()
    }
}
