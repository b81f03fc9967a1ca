//! Opening a database: whether it is ours, and its version.

use std::collections::BTreeSet;

use tokio_postgres::{Error, Row, error::SqlState};

use super::{
    super::StoreError,
    address::PostgresUrl,
    connect::{Own, told},
    opening::acknowledged,
    rows::get,
};

/// The version of the tables and of their contents: the only one supported. `tests/formats` pins it.
const VERSION: i32 = 1;
/// 'COPY' is in place of [`VERSION`] while a store is copied into the tables, so that no version of this program serves
/// them.
#[cfg(feature = "sqlite")]
const BEGUN: i32 = 0x434F_5059;
/// 'FULL' is there once everything is copied and durable, until the copied store is marked as moved.
#[cfg(feature = "sqlite")]
const FULL: i32 = 0x4655_4C4C;
/// The oldest supported version of PostgreSQL.
const SERVER: i32 = 13;

/// The statements that create them.
const SCHEMA: &str = include_str!("schema.sql");

/// Each table, and whether it has a primary key and its other unique keys.
const TABLES: &str = "SELECT c.relname::text, count(*) FILTER (WHERE k.contype = 'p') > 0,
   count(*) FILTER (WHERE k.contype = 'u') > 0
 FROM pg_class c LEFT JOIN pg_constraint k ON k.conrelid = c.oid
 WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
   AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
 GROUP BY 1";

/// One node at a time checks whether there are tables, and creates them: the lock is held until the transaction ends.
/// In each schema it is a different lock: 'CSGN', and a number of the schema.
const LOCK: &str = "SELECT pg_advisory_xact_lock(x'4353474e'::int, hashtext(current_schema()::text))";

/// Creates the tables if there are none.
pub(super) async fn make(own: &Own, url: &PostgresUrl) -> Result<(), StoreError> {
    let made = async {
        check(own, url).await?;
        rows(own, url, LOCK).await?;
        if recognise(own, url).await? { Ok(()) } else { create(own, url, VERSION).await }
    };
    transaction(own, url, made).await
}

/// Refuses a database that has no store.
pub(super) async fn find(own: &Own, url: &PostgresUrl) -> Result<(), StoreError> {
    let found = async {
        check(own, url).await?;
        recognise(own, url).await
    };
    match transaction(own, url, found).await? {
        true => Ok(()),
        false => Err(StoreError::Failed(format!("there is no store in {url} yet"))),
    }
}

/// Runs everything in one transaction: through a pooler two would be in two sessions.
async fn transaction<T>(
    own: &Own,
    url: &PostgresUrl,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let all = async {
        own.begin().await.map_err(|e| failed(url, &e))?;
        let done = work.await;
        let ended = own.end(done.is_ok()).await.map_err(|e| failed(url, &e));
        let done = done.and_then(|done| ended.map(|()| done))?;
        own.pin().await.map_err(|e| failed(url, &e))?;
        Ok(done)
    };
    acknowledged(own, url, all).await
}

/// The rows of a statement of the transaction.
async fn rows(own: &Own, url: &PostgresUrl, sql: &str) -> Result<Vec<Row>, StoreError> {
    own.within(sql, &[]).await.map_err(|e| failed(url, &e))
}

/// The only row of one.
async fn row(own: &Own, url: &PostgresUrl, sql: &str) -> Result<Row, StoreError> {
    let row = rows(own, url, sql).await?.pop();
    row.ok_or_else(|| StoreError::Failed(format!("cannot use {url}: an answer is missing")))
}

/// The contents of a database into which a store is copied. Each copy has its own id.
#[cfg(feature = "sqlite")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has no tables.
    Nothing,
    /// Tables with a partial copy.
    Begun,
    /// All of the copy of this id, whose original may not be marked as moved yet.
    Full(String),
    /// A store, and the id of its copy, if it was made by one.
    Store(Option<String>),
}

/// The contents of the database. Nothing is written.
#[cfg(feature = "sqlite")]
pub(super) async fn look(own: &Own, url: &PostgresUrl) -> Result<Found, StoreError> {
    let looked = async {
        check(own, url).await?;
        let Some((version, _)) = version(own, url).await? else { return Ok(Found::Nothing) };
        let copy: Option<String> = get(&row(own, url, "SELECT copy FROM countersign").await?, 0)?;
        match (version, copy) {
            (BEGUN, _) => Ok(Found::Begun),
            (FULL, Some(copy)) => Ok(Found::Full(copy)),
            (VERSION, copy) => Ok(Found::Store(copy)),
            (other, _) => Err(of_another_version(url, other)),
        }
    };
    transaction(own, url, looked).await
}

/// Creates the tables for a copy, and returns its id.
#[cfg(feature = "sqlite")]
pub(super) async fn begin(own: &Own, url: &PostgresUrl) -> Result<String, StoreError> {
    let begun = async {
        rows(own, url, LOCK).await?;
        if version(own, url).await?.is_some() {
            let told = format!("{url} was empty, and somebody else has just made tables in it");
            return Err(StoreError::NotServed(told));
        }
        create(own, url, BEGUN).await?;
        let id = "UPDATE countersign SET copy = gen_random_uuid()::text RETURNING copy";
        get(&row(own, url, id).await?, 0)
    };
    transaction(own, url, begun).await
}

/// Marks the copy as full. The commit waits for the disk, and so for all before it.
#[cfg(feature = "sqlite")]
pub(super) const FILLED: &str =
    "UPDATE countersign SET version = 1179995212 WHERE version = 1129271385 RETURNING version";
/// Marks the copy as finished: servers may open the store.
#[cfg(feature = "sqlite")]
pub(super) const FINISH: &str = "UPDATE countersign SET version = 1 WHERE version = 1179995212 RETURNING version";
#[cfg(feature = "sqlite")]
const _: () = assert!(VERSION == 1 && BEGUN == 1_129_271_385 && FULL == 1_179_995_212, "FILLED and FINISH have them");

fn failed(url: &PostgresUrl, e: &Error) -> StoreError {
    StoreError::Failed(format!("cannot use {url}: {}", told(e)))
}

/// Refuses servers that are too old, and databases without the schema.
async fn check(own: &Own, url: &PostgresUrl) -> Result<(), StoreError> {
    let settings = "SELECT current_setting('server_version_num')::int / 10000, current_setting('fsync'),
                    current_setting('full_page_writes'), current_schema()::text,
                    (SELECT s::text FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (s, place)
                     WHERE to_regclass(quote_ident(s) || '.countersign') IS NOT NULL ORDER BY place LIMIT 1)";
    let row = row(own, url, settings).await?;
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
    let Some(first) = get::<Option<&str>>(&row, 3)? else {
        return Err(StoreError::Failed(format!(
            "{url} has none of the schemas of its search_path that this user may use"
        )));
    };
    // Such as a schema named after the user, made since: nobody would expect a second store.
    match get::<Option<&str>>(&row, 4)? {
        Some(other) if other != first => Err(StoreError::Failed(format!(
            "{url} has a store in the schema {other}, and before that in its search_path the schema {first} without one; name the \
             one that is meant, as in ALTER ROLE countersign IN DATABASE countersign SET search_path = {other}"
        ))),
        _ => Ok(()),
    }
}

async fn create(own: &Own, url: &PostgresUrl, version: i32) -> Result<(), StoreError> {
    // All or none, in one transaction: the table `countersign` proves that all exist.
    let all = format!("{SCHEMA} INSERT INTO countersign VALUES (true, {version}, 0)");
    own.run(&all).await.map_err(|e| failed(url, &e))
}

/// Refuses tables that are not ours, or must not be served, before anything is written. `false` if there are none.
pub(super) async fn recognise(own: &Own, url: &PostgresUrl) -> Result<bool, StoreError> {
    match version(own, url).await? {
        None => Ok(false),
        Some((VERSION, tables)) => complete(url, &tables).map(|()| true),
        #[cfg(feature = "sqlite")]
        Some((BEGUN, _)) => Err(begun(url)),
        #[cfg(feature = "sqlite")]
        Some((FULL, _)) => Err(StoreError::NotServed(format!(
            "{url} has a copy that is complete but not finished: its original may still be served. Run the same \
             `countersign store copy` again, which compares and finishes"
        ))),
        Some((other, _)) => Err(of_another_version(url, other)),
    }
}

/// Refuses a store that was restored without some of its tables or keys, by which appends find each other.
fn complete(url: &PostgresUrl, tables: &[Table]) -> Result<(), StoreError> {
    let found = |has: fn(&Table) -> bool| tables.iter().filter(move |table| has(table)).map(|table| &*table.name);
    let (all, keyed): (BTreeSet<_>, BTreeSet<_>) = (found(|_| true).collect(), found(|table| table.is_keyed).collect());
    let made = SCHEMA.split("CREATE TABLE ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let missing = made.filter_map(|name| match name {
        name if !all.contains(name) => Some(format!("the table {name}")),
        name if !keyed.contains(name) => Some(format!("the keys of {name}")),
        _ => None,
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "{url} has only part of a store, without {}; restore all of the backup into an empty database",
        missing.join(", ")
    )))
}

/// Why a partial copy cannot be used.
#[cfg(feature = "sqlite")]
pub(super) fn begun(url: &PostgresUrl) -> StoreError {
    StoreError::NotServed(format!(
        "{url} has the beginning of a copy that is not finished. If no `countersign store copy` is at work, drop its \
         schema, make it again, and copy again; the store that was copied is as it was"
    ))
}

fn of_another_version(url: &PostgresUrl, version: i32) -> StoreError {
    StoreError::Corrupt(format!(
        "{url} was written by another version of countersign (its schema is {version}, and this one knows only {VERSION})"
    ))
}

/// A table of the schema.
struct Table {
    name: String,
    /// Whether it has a primary key, and the table of sessions also that of their ids.
    is_keyed: bool,
}

/// The version of the tables, which must be ours, with all of them; `None` if there are none.
async fn version(own: &Own, url: &PostgresUrl) -> Result<Option<(i32, Vec<Table>)>, StoreError> {
    let mut tables = Vec::new();
    for row in rows(own, url, TABLES).await? {
        let (name, primary, unique): (String, bool, bool) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let is_keyed = primary && (unique || name != "sessions");
        tables.push(Table { name, is_keyed });
    }
    if tables.is_empty() {
        return Ok(None);
    }
    let not_ours = || {
        StoreError::Corrupt(format!(
            "{url} has tables of another program; a store needs a database or a schema of its own"
        ))
    };
    if !tables.iter().any(|table| table.name == "countersign") {
        return Err(not_ours());
    }
    let version = own.within("SELECT version FROM countersign", &[]).await.map_err(|e| match e.code() {
        Some(&(SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN)) => not_ours(),
        // Such as missing rights.
        _ => failed(url, &e),
    })?;
    let version = version.first().and_then(|row| row.try_get(0).ok()).ok_or_else(not_ours)?;
    Ok(Some((version, tables)))
}
