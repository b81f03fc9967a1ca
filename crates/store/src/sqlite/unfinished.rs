//! `unowned_entries`, numbers whose entries belong to no session: pasts that are being copied, leftovers of copies that were abandoned or
//! cut off by a crash, and deleted sessions.
//!
//! They are removed in pieces when the writer is idle, and now and then while it is not. No number is ever reused
//! (`session_numbers`), so late work on a removed one affects no other.

use rusqlite::{Connection, params};

use super::{
    super::StoreError,
    schema::{error, key},
    statement::{all, find, run, uncommitted},
};

/// The most entries, and bytes of them, removed in one transaction, which always removes one.
const AT_ONCE: (i64, i64) = (512, 4 * 1024 * 1024);

/// A number for a new session, never used before.
pub(super) fn number(conn: &Connection) -> Result<i64, StoreError> {
    let number = find(conn, "UPDATE session_numbers SET last = last + 1 RETURNING last", [], |r| r.get(0))?;
    number.ok_or_else(|| StoreError::Failed("the store gives no number".to_owned()))
}

/// Reserves a number for a copy.
pub(super) fn begin(conn: &Connection) -> Result<i64, StoreError> {
    let number = number(conn)?;
    run(conn, "INSERT INTO unowned_entries (session) VALUES (?1)", [number])?;
    Ok(number)
}

/// Whether a number belongs to no session.
pub(super) fn is(conn: &Connection, number: i64) -> Result<bool, StoreError> {
    let found = find(conn, "SELECT 1 FROM unowned_entries WHERE session = ?1", [number], |_| Ok(()))?;
    Ok(found.is_some())
}

/// Ends a copy: its number belongs to a session from now on. `false` if there is none.
pub(super) fn end(conn: &Connection, number: i64) -> Result<bool, StoreError> {
    Ok(run(conn, "DELETE FROM unowned_entries WHERE session = ?1", [number])? == 1)
}

/// The numbers with leftover entries, which belong to no session.
pub(super) fn left(conn: &Connection) -> Result<Vec<i64>, StoreError> {
    all(conn, "SELECT session FROM unowned_entries", [], |r| r.get(0))
}

/// Removes some of a number's entries, in a transaction. `false` if nothing is left, or it belongs to a session.
pub(super) fn remove(conn: &Connection, number: i64) -> Result<bool, StoreError> {
    let tx = conn.unchecked_transaction().map_err(|e| error(&e))?;
    if !is(&tx, number)? {
        return Ok(false);
    }
    // Without reading the bodies themselves.
    let sql = "SELECT key, octet_length(body) FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3";
    let (first, last) = (key(number, 0)?, key(number, u64::from(u32::MAX))?);
    let found: Vec<(i64, i64)> = all(&tx, sql, params![first, last, AT_ONCE.0], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let mut left = AT_ONCE.1;
    let fits = found.iter().take_while(|(_, size)| {
        left = left.saturating_sub(*size);
        left >= 0
    });
    let fits = fits.count().max(1);
    let is_all = fits >= found.len() && found.len() < usize::try_from(AT_ONCE.0).unwrap_or(usize::MAX);
    let until = found.get(fits - 1).filter(|_| !is_all).map_or(last, |(key, _)| *key);
    for sql in
        ["DELETE FROM entries WHERE key BETWEEN ?1 AND ?2", "DELETE FROM past_snapshots WHERE key BETWEEN ?1 AND ?2"]
    {
        run(&tx, sql, [first, until])?;
    }
    if is_all {
        end(&tx, number)?;
    }
    tx.commit().map_err(|e| uncommitted(&e))?;
    Ok(!is_all)
}
