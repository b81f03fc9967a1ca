//! One process owns a PostgreSQL store: an advisory lock that its own connection holds, and that the database releases when
//! that connection ends, however that happens.
//!
//! The lock is for a store of its own: compare-and-append keeps every journal whole without it, but effects would be carried
//! out and deadlines fired by two processes that do not know of each other.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio_postgres::{Client, Error};

use super::{
    super::StoreError,
    PostgresUrl,
    connect::{connect, told},
};

/// How long the lock of a killed process may outlive it: the database may still be busy with its last statement.
const LINGER: Duration = Duration::from_secs(2);
/// The lock, in each schema its own: 'CSGN', and a number of the schema.
const TAKE: &str = "SELECT pg_try_advisory_lock(x'4353474e'::int, hashtext(current_schema()::text))";
const HOLDER: &str = "SELECT a.client_addr::text FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = x'4353474e'::int::oid
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.objid::bigint = (hashtext(current_schema()::text)::bigint & 4294967295) LIMIT 1";

/// Why the store is closed, once its lock is lost: another process may own it by now.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed(Arc<OnceLock<String>>);

impl Closed {
    /// # Errors
    /// [`StoreError::Closed`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.get().map_or(Ok(()), |why| Err(StoreError::Closed(why.clone())))
    }
}

/// Holds the lock until it is dropped.
pub(super) struct Ownership(Client);

impl Ownership {
    /// Takes the lock. `closed` is set when it is lost.
    pub(super) async fn take(url: &PostgresUrl, closed: &Closed) -> Result<Ownership, StoreError> {
        let (closes, place) = (closed.clone(), url.clone());
        let lost = move |why: String| {
            let why = format!("the connection that held its lock was lost: {why}");
            tracing::error!("the store {place} is closed until it is opened again, and acknowledges nothing: {why}");
            // It is lost once.
            let _ = closes.0.set(why);
        };
        let client = connect(url, lost).await?;
        let failed = |e: &Error| StoreError::Failed(format!("cannot use {url}: {}", told(e)));
        let since = Instant::now();
        loop {
            let taken = client.query_one(TAKE, &[]).await.and_then(|row| row.try_get(0)).map_err(|e| failed(&e))?;
            match taken {
                Some(true) => return Ok(Ownership(client)),
                Some(false) => {}
                None => return Err(StoreError::Failed(format!("{url} has none of the schemas of its search_path"))),
            }
            if since.elapsed() >= LINGER {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let holder = client.query_opt(HOLDER, &[]).await.ok().flatten();
        let holder = holder.and_then(|row| row.try_get::<_, Option<String>>(0).ok().flatten());
        let holder = holder.map(|address| format!(" (at {address})")).unwrap_or_default();
        Err(StoreError::InUse(format!(
            "{url} is in use by another countersign process{holder}; for now a PostgreSQL store belongs to one process, as a \
             SQLite store does"
        )))
    }

    /// The connection that holds the lock.
    pub(super) fn client(&self) -> &Client {
        &self.0
    }
}
