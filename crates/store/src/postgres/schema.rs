//! Opening a database: whether it is ours, and its version.

use tokio_postgres::{Client, Error};

use super::{super::StoreError, PostgresUrl, connect::told, rows::get};

/// The version of the tables and of their contents: the only one supported. It is fixed with the first release.
const VERSION: i32 = 0;
/// 'COPY' stands in place of [`VERSION`] while a store is copied into the tables, so that no version of this program serves them.
#[cfg(feature = "sqlite")]
const UNFINISHED: i32 = 0x434F_5059;
/// The oldest supported version of PostgreSQL.
const SERVER: i32 = 13;

const TABLES: &str = "SELECT count(*) FILTER (WHERE c.relname = 'countersign'), count(*) FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

/// One node at a time looks whether there are tables, and makes them. In each schema it is a lock of its own: 'CSGN', and a
/// number of the schema.
const LOCK: &str = "SELECT pg_advisory_lock(x'4353474e'::int, hashtext(current_schema()::text))";
const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// Makes the tables if there are none.
pub(super) async fn make(client: &Client, url: &PostgresUrl) -> Result<(), StoreError> {
    check(client, url).await?;
    lock(client, url).await?;
    let made = match recognise(client, url).await {
        Ok(false) => create(client, url, VERSION).await,
        recognised => recognised.map(drop),
    };
    unlock(client, url).await?;
    made
}

/// Makes the tables for a copy, which must find none. `false` if the tables of a copy that was not finished are there.
#[cfg(feature = "sqlite")]
pub(super) async fn make_unfinished(client: &Client, url: &PostgresUrl) -> Result<bool, StoreError> {
    check(client, url).await?;
    lock(client, url).await?;
    let made = match recognise(client, url).await {
        Ok(false) => create(client, url, UNFINISHED).await.map(|()| true),
        Ok(true) => Err(StoreError::NotServed(format!(
            "{url} has a store already; a copy needs a database, or a schema of its search_path, without tables"
        ))),
        Err(StoreError::NotServed(_)) => Ok(false),
        Err(e) => Err(e),
    };
    unlock(client, url).await?;
    made
}

/// The copy is finished: servers may open the store.
#[cfg(feature = "sqlite")]
pub(super) const FINISH: &str = "UPDATE countersign SET version = 0 WHERE version = 1129271385 RETURNING version";
#[cfg(feature = "sqlite")]
const _: () = assert!(VERSION == 0 && UNFINISHED == 1_129_271_385, "FINISH has both");

async fn lock(client: &Client, url: &PostgresUrl) -> Result<(), StoreError> {
    client.execute(LOCK, &[]).await.map(drop).map_err(|e| failed(url, &e))
}

async fn unlock(client: &Client, url: &PostgresUrl) -> Result<(), StoreError> {
    client.execute(UNLOCK, &[]).await.map(drop).map_err(|e| failed(url, &e))
}

fn failed(url: &PostgresUrl, e: &Error) -> StoreError {
    StoreError::Failed(format!("cannot use {url}: {}", told(e)))
}

/// Refuses servers that are too old, and databases without the schema.
async fn check(client: &Client, url: &PostgresUrl) -> Result<(), StoreError> {
    let failed = |e: &Error| failed(url, e);
    let settings = "SELECT current_setting('server_version_num')::int / 10000, current_setting('fsync'),
                    current_setting('full_page_writes')";
    let row = client.query_one(settings, &[]).await.map_err(|e| failed(&e))?;
    let server: i32 = get(&row, 0)?;
    let (fsync, pages): (&str, &str) = (get(&row, 1)?, get(&row, 2)?);
    if server < SERVER {
        return Err(StoreError::Failed(format!("{url} is PostgreSQL {server}; {SERVER} or later is needed")));
    }
    if fsync == "off" || pages == "off" {
        tracing::warn!(
            "{url} has fsync or full_page_writes off: a power cut may take what was acknowledged, or the whole database"
        );
    }
    let schema: Option<String> =
        get(&client.query_one("SELECT current_schema()::text", &[]).await.map_err(|e| failed(&e))?, 0)?;
    if schema.is_none() {
        return Err(StoreError::Failed(format!("{url} has none of the schemas of its search_path")));
    }
    Ok(())
}

async fn create(client: &Client, url: &PostgresUrl, version: i32) -> Result<(), StoreError> {
    // All or none: a table `countersign` says that all are there.
    let tables = include_str!("schema.sql");
    let all = format!("BEGIN; {tables} INSERT INTO countersign VALUES (true, {version}, 0); COMMIT");
    client.batch_execute(&all).await.map_err(|e| failed(url, &e))
}

/// Refuses tables that are not ours before anything is written. `false` if there are none.
pub(super) async fn recognise(client: &Client, url: &PostgresUrl) -> Result<bool, StoreError> {
    let failed = |e: &Error| failed(url, e);
    let row = client.query_one(TABLES, &[]).await.map_err(|e| failed(&e))?;
    let (ours, all): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
    if ours == 0 && all == 0 {
        return Ok(false);
    }
    let not_ours = || {
        StoreError::Corrupt(format!(
            "{url} has tables of another program; a store needs a database or a schema of its own"
        ))
    };
    if ours == 0 {
        return Err(not_ours());
    }
    let version = client.query_opt("SELECT version FROM countersign", &[]).await.map_err(|_| not_ours())?;
    match version.and_then(|row| row.try_get::<_, i32>(0).ok()) {
        Some(VERSION) => Ok(true),
        #[cfg(feature = "sqlite")]
        Some(UNFINISHED) => Err(StoreError::NotServed(format!(
            "{url} has the beginning of a copy that is not finished. If no `countersign store copy` is at work, drop its \
             schema, make it again, and copy again"
        ))),
        Some(version) => Err(StoreError::Corrupt(format!(
            "{url} was written by another version of countersign (its schema is {version}, and this one knows only \
             {VERSION})"
        ))),
        None => Err(not_ours()),
    }
}
