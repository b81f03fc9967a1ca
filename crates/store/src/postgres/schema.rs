//! Opening a database: whether it is ours, and its version.

use tokio_postgres::{Client, Error};

use super::{super::StoreError, PostgresUrl, connect::told, rows::get};

/// The version of the tables and of their contents: the only one supported. It is fixed with the first release.
const VERSION: i32 = 0;
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
    let failed = |e: &Error| StoreError::Failed(format!("cannot use {url}: {}", told(e)));
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
    client.execute(LOCK, &[]).await.map_err(|e| failed(&e))?;
    let made = make_once(client, url).await;
    client.execute(UNLOCK, &[]).await.map_err(|e| failed(&e))?;
    made
}

async fn make_once(client: &Client, url: &PostgresUrl) -> Result<(), StoreError> {
    let failed = |e: &Error| StoreError::Failed(format!("cannot use {url}: {}", told(e)));
    if recognise(client, url).await? {
        return Ok(());
    }
    // All or none: a table `countersign` says that all are there.
    let tables = include_str!("schema.sql");
    let all = format!("BEGIN; {tables} INSERT INTO countersign VALUES (true, {VERSION}, 0); COMMIT");
    client.batch_execute(&all).await.map_err(|e| failed(&e))
}

/// Refuses tables that are not ours before anything is written. `false` if there are none.
pub(super) async fn recognise(client: &Client, url: &PostgresUrl) -> Result<bool, StoreError> {
    let failed = |e: &Error| StoreError::Failed(format!("cannot use {url}: {}", told(e)));
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
        Some(version) => Err(StoreError::Corrupt(format!(
            "{url} was written by another version of countersign (its schema is {version}, and this one knows only \
             {VERSION})"
        ))),
        None => Err(not_ours()),
    }
}
