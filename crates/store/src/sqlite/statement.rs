//! Running prepared statements.

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Params, Row};

use super::{super::StoreError, schema::error};

/// Runs a statement that gives no rows.
pub(super) fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<usize, StoreError> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(|e| error(&e))
}

/// The first row of a query.
pub(super) fn find<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    conn.prepare_cached(sql).and_then(|mut query| query.query_row(params, row).optional()).map_err(|e| error(&e))
}

/// All rows of a query.
pub(super) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    conn.prepare_cached(sql).and_then(|mut query| query.query_map(params, row)?.collect()).map_err(|e| error(&e))
}

/// Adds the rows of a query until `row` has enough of them; whether it took all.
pub(super) fn all_while<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    taken: &mut Vec<T>,
    mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
) -> Result<bool, StoreError> {
    let take = || {
        let mut query = conn.prepare_cached(sql)?;
        let mut rows = query.query(params)?;
        while let Some(next) = rows.next()? {
            match row(next)? {
                Some(one) => taken.push(one),
                None => return Ok(false),
            }
        }
        Ok(true)
    };
    take().map_err(|e: rusqlite::Error| error(&e))
}

/// The meaning of a failed commit. A full disk has written nothing that counts, and is rolled back; after any other
/// failure the disk's contents are unknown.
pub(super) fn uncommitted(e: &rusqlite::Error) -> StoreError {
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => error(e),
        _ => StoreError::Closed(e.to_string()),
    }
}
