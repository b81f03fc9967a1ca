//! The queries about one session, and the texts they give.

use std::sync::Arc;

use countersign_core::{
    audit::{self, Anchor, AuditRecord},
    journal::{
        record::{Entry, Millis},
        state::State,
    },
};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::value::RawValue;

use super::{
    super::{Due, Head, StoreError},
    schema::{error, key},
    statement::{all, find},
};

/// A head before its snapshot is parsed.
#[derive(Debug)]
pub(super) struct RawHead {
    pos: i64,
    snapshot: Option<String>,
}

/// See [`super::super::Store::head`].
pub(super) fn head(conn: &Connection, session_id: &str) -> Result<Option<RawHead>, StoreError> {
    find(
        conn,
        "SELECT s.pos, p.body FROM sessions s LEFT JOIN snapshots p ON p.session = s.row WHERE s.id = ?1",
        [session_id],
        |r| Ok(RawHead { pos: r.get(0)?, snapshot: r.get(1)? }),
    )
}

impl RawHead {
    /// Parses it. A snapshot is a cache: one that cannot be read (an older version wrote it) is left out.
    pub(super) fn parse(self, session_id: &str) -> Result<Head, StoreError> {
        let pos = u64::try_from(self.pos)
            .map_err(|_| StoreError::Corrupt(format!("session {session_id} ends at position {}", self.pos)))?;
        let snapshot = self.snapshot.and_then(|body| match serde_json::from_str::<State>(&body) {
            Ok(state) if state.pos <= pos && *state.session_id == *session_id => Some(Arc::new(state)),
            Ok(_) => None,
            Err(e) => {
                tracing::info!("the snapshot of session {session_id} is not used: {e}");
                None
            }
        });
        Ok(Head { pos, snapshot })
    }
}

/// The bodies of a session's entries after `after`.
pub(super) fn entries(
    conn: &mut Connection,
    session_id: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, String)>, StoreError> {
    // Both queries see the same moment.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred).map_err(|e| error(&e))?;
    let found: Option<(i64, i64)> =
        find(&tx, "SELECT row, pos FROM sessions WHERE id = ?1", [session_id], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let Some((session, last)) = found else { return Ok(Vec::new()) };
    let last = u64::try_from(last).unwrap_or_default();
    if after >= last {
        return Ok(Vec::new());
    }
    let end = last.min(after.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)));
    let bodies: Vec<(i64, String)> = all(
        &tx,
        "SELECT key & 4294967295, body FROM entries WHERE key > ?1 AND key <= ?2 ORDER BY key",
        params![key(session, after)?, key(session, end)?],
        |r| Ok((r.get(0)?, r.get(1)?)),
    )?;
    let mut found = Vec::with_capacity(bodies.len());
    let mut bodies = bodies.into_iter().peekable();
    for pos in after + 1..=end {
        match bodies.next_if(|(at, _)| u64::try_from(*at) == Ok(pos)) {
            Some((_, body)) => found.push((pos, body)),
            None => {
                return Err(StoreError::Corrupt(format!("session {session_id}, position {pos}: the entry is missing")));
            }
        }
    }
    Ok(found)
}

/// Parses entries.
pub(super) fn parse(session_id: &str, bodies: &[(u64, String)]) -> Result<Vec<Arc<Entry>>, StoreError> {
    let parse = |(pos, body): &(u64, String)| match serde_json::from_str::<Entry>(body) {
        Ok(entry) => Ok(Arc::new(Entry { pos: *pos, ..entry })),
        Err(e) => Err(StoreError::Corrupt(format!("session {session_id}, position {pos}: {e}"))),
    };
    bodies.iter().map(parse).collect()
}

/// See [`super::super::Store::has_request`].
pub(super) fn has_request(conn: &Connection, session_id: &str, request_id: &str) -> Result<bool, StoreError> {
    find(
        conn,
        "SELECT 1 FROM sessions s JOIN requests q ON q.session = s.row WHERE s.id = ?1 AND q.id = ?2",
        [session_id, request_id],
        |_| Ok(()),
    )
    .map(|found| found.is_some())
}

/// See [`super::super::Store::due`].
pub(super) fn due(conn: &Connection, now: Millis, limit: usize) -> Result<Vec<Due>, StoreError> {
    // Each half by its own index, in order.
    let mut due: Vec<(Millis, Due)> = Vec::new();
    for sql in [
        "SELECT i.expires_at, s.id, i.key & 4294967295 FROM interruptions i CROSS JOIN sessions s ON s.row = i.key >> 32
         WHERE i.resolution IS NULL AND i.expires_at IS NOT NULL AND i.expires_at <= ?1
         ORDER BY i.expires_at, s.id, i.key LIMIT ?2",
        "SELECT i.remind_at, s.id, i.key & 4294967295 FROM interruptions i CROSS JOIN sessions s ON s.row = i.key >> 32
         WHERE i.resolution IS NULL AND i.remind_at IS NOT NULL AND i.remind_at <= ?1
         ORDER BY i.remind_at, s.id, i.key LIMIT ?2",
    ] {
        let params = params![now, i64::try_from(limit).unwrap_or(i64::MAX)];
        due.extend(all(conn, sql, params, |r| Ok((r.get(0)?, (r.get(1)?, r.get(2)?))))?);
    }
    due.sort_unstable();
    let mut earliest: Vec<Due> = Vec::new();
    for (_, one) in due {
        if earliest.len() < limit && !earliest.contains(&one) {
            earliest.push(one);
        }
    }
    Ok(earliest)
}

/// See [`super::super::Store::running`].
pub(super) fn running(conn: &Connection) -> Result<Vec<Arc<str>>, StoreError> {
    all(conn, "SELECT id FROM sessions INDEXED BY sessions_running WHERE status = 'running' ORDER BY id", [], |r| {
        r.get(0)
    })
}

/// See [`super::super::Store::audit`]. What is no record is given as one whose hash cannot be right: naming it is
/// the reader's.
pub(super) fn audit(conn: &Connection, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
    let (after, limit) = bounds(after, limit);
    let rows: Vec<(i64, Vec<u8>, String)> =
        all(conn, "SELECT n, hash, body FROM audit WHERE n > ?1 ORDER BY n LIMIT ?2", params![after, limit], |r| {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?))
        })?;
    // Each follows the one before it, also the first of a page.
    let mut prev = hash_before(conn, after.saturating_add(1))?;
    let mut records = Vec::with_capacity(rows.len());
    for (n, hash, body) in rows {
        let record = record(n, prev, &hash, body)?;
        prev = record.hash.clone();
        records.push(record);
    }
    Ok(records)
}

/// See [`super::super::Store::audit_of`].
pub(super) fn audit_of(
    conn: &Connection,
    tenant: Option<&str>,
    after: u64,
    limit: usize,
) -> Result<Vec<AuditRecord>, StoreError> {
    let (after, limit) = bounds(after, limit);
    // Where there are no tenants every record is one without; where there are, each is found by its own.
    let of = if tenant.is_some() { "tenant = ?3" } else { "tenant IS ?3" };
    let sql = format!("SELECT n, hash, body FROM audit WHERE {of} AND n > ?1 ORDER BY n LIMIT ?2");
    let rows: Vec<(i64, Vec<u8>, String)> =
        all(conn, &sql, params![after, limit, tenant], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    rows.into_iter().map(|(n, hash, body)| record(n, hash_before(conn, n)?, &hash, body)).collect()
}

fn bounds(after: u64, limit: usize) -> (i64, i64) {
    (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX))
}

/// The hash of the record before number `n`.
fn hash_before(conn: &Connection, n: i64) -> Result<String, StoreError> {
    let before = "SELECT hash FROM audit WHERE n < ?1 ORDER BY n DESC LIMIT 1";
    let before: Option<Vec<u8>> = find(conn, before, [n], |r| r.get(0))?;
    Ok(before.map_or_else(|| Anchor::start().hash, |hash| audit::hex(&hash)))
}

fn record(n: i64, prev: String, hash: &[u8], body: String) -> Result<AuditRecord, StoreError> {
    let n = u64::try_from(n).map_err(|_| StoreError::Corrupt(format!("audit record {n} has no number")))?;
    let body = RawValue::from_string(body)
        .or_else(|_| RawValue::from_string("null".to_owned()))
        .map_err(|e| StoreError::Corrupt(format!("audit record {n}: {e}")))?;
    Ok(AuditRecord { n, prev, hash: audit::hex(hash), body })
}
