//! The queries about one session, and how their results are parsed.

use std::sync::Arc;

use countersign_core::{
    audit::{Anchor, AuditRecord},
    call::args::Digest,
    journal::{
        checkpoint::FOLD_VERSION,
        record::{Entry, FORMAT, Millis},
        request_id::RequestId,
    },
    number::InterruptionNo,
};
use rusqlite::{Connection, Row, TransactionBehavior, params, params_from_iter, types::Value};

use super::{
    super::{AuditRange, Due, Head, StoreError, Tail, index::Purpose, page::Room, seal::Place, sql},
    schema::{error, key},
    sealing::{Values, column},
    statement::{all, all_while, find},
};
use crate::sql::int;

/// A head before its snapshot is opened and parsed.
#[derive(Debug)]
pub(super) struct RawHead {
    pos: i64,
    born: Millis,
    ending: Value,
    format: u32,
    snapshot: Value,
    /// The position of the snapshot; 0 without one.
    after: i64,
}

/// An entry before it is opened and parsed: its position, when its session was made, its body.
pub(super) type RawEntry = (u64, Millis, Value);

/// See [`super::super::Store::head`].
pub(super) fn head(conn: &Connection, session_id: &str) -> Result<Option<RawHead>, StoreError> {
    let head = find(
        conn,
        "SELECT s.pos, s.created_at, s.title, p.body, ifnull(p.pos, 0), s.format FROM sessions s
         LEFT JOIN snapshots p ON p.session = s.number AND p.version = ?2 WHERE s.id = ?1",
        params![session_id, FOLD_VERSION],
        |r| {
            let (ending, snapshot) = (column(r, 2)?, column(r, 3)?);
            Ok(RawHead { pos: r.get(0)?, born: r.get(1)?, ending, format: r.get(5)?, snapshot, after: r.get(4)? })
        },
    )?;
    if head.is_none() {
        check_not_deleted(conn, session_id)?;
    }
    Ok(head)
}

/// Refuses the id of a deleted session.
pub(super) fn check_not_deleted(conn: &Connection, session_id: &str) -> Result<(), StoreError> {
    match find(conn, "SELECT 1 FROM deleted_sessions WHERE id = ?1", [session_id], |_| Ok(()))? {
        Some(()) => Err(StoreError::Deleted(session_id.into())),
        None => Ok(()),
    }
}

impl RawHead {
    /// Parses it. A snapshot is a cache: one that cannot be read (it is not what was sealed), or that was folded by
    /// another version, is ignored.
    pub(super) fn parse(self, session_id: &str, values: &Values) -> Result<Head, StoreError> {
        let pos = u64::try_from(self.pos)
            .map_err(|_| StoreError::Corrupt(format!("session {session_id} ends at position {}", self.pos)))?;
        values.read_head(session_id, self.born, pos, self.ending)?;
        // A snapshot would hide the entries it was made of.
        readable(session_id, self.format)?;
        let place = Place::Snapshot { session: session_id, born: self.born };
        let body = match self.snapshot {
            Value::Null => None,
            stored => values.read_text(place, stored).inspect_err(|e| tracing::warn!("{e}; it is not used")).ok(),
        };
        Ok(Head { pos, snapshot: body.and_then(|body| sql::snapshot(session_id, pos, body.as_bytes())) })
    }
}

/// Refuses a session with entries that this build does not know, or would misread.
pub(super) fn readable(session_id: &str, needs: u32) -> Result<(), StoreError> {
    if needs > FORMAT { Err(StoreError::Newer { session_id: session_id.into(), needs, knows: FORMAT }) } else { Ok(()) }
}

/// The highest format of a session's entries; 0 if there is none.
pub(super) fn format(conn: &Connection, session_id: &str) -> Result<u32, StoreError> {
    Ok(find(conn, "SELECT format FROM sessions WHERE id = ?1", [session_id], |r| r.get(0))?.unwrap_or_default())
}

/// How many bytes a stored value has.
pub(super) fn length(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// The bodies of a session's entries after `after`, within both limits but at least one.
pub(super) fn entries(
    conn: &mut Connection,
    session_id: &str,
    after: u64,
    (limit, bytes): (usize, usize),
    values: &Values,
) -> Result<Vec<RawEntry>, StoreError> {
    // All queries see the same store.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred).map_err(|e| error(&e))?;
    entries_in(&tx, session_id, after, (limit, bytes), values)
}

fn entries_in(
    tx: &Connection,
    session_id: &str,
    after: u64,
    (limit, bytes): (usize, usize),
    values: &Values,
) -> Result<Vec<RawEntry>, StoreError> {
    let sql = "SELECT number, pos, created_at, title, format FROM sessions WHERE id = ?1";
    let found: Option<(i64, i64, Millis, Value, u32)> =
        find(tx, sql, [session_id], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, column(r, 3)?, r.get(4)?)))?;
    let Some((session, last, born, ending, format)) = found else { return Ok(Vec::new()) };
    readable(session_id, format)?;
    let last = u64::try_from(last).unwrap_or_default();
    values.read_head(session_id, born, last, ending)?;
    if after >= last {
        return Ok(Vec::new());
    }
    let mut end = last.min(after.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)));
    if bytes < usize::MAX {
        // Without reading the bodies themselves.
        let sql = "SELECT octet_length(body) FROM entries WHERE key > ?1 AND key <= ?2 ORDER BY key";
        let range = params![key(session, after)?, key(session, end)?];
        let sizes: Vec<i64> = all(tx, sql, range, |r| r.get(0))?;
        let mut left = int(bytes);
        let fit = sizes.iter().take_while(|size| {
            left = left.saturating_sub(**size);
            left >= 0
        });
        end = end.min(after + u64::try_from(fit.count().max(1)).unwrap_or(u64::MAX));
    }
    let bodies: Vec<(i64, Value)> = all(
        tx,
        "SELECT key & 4294967295, body FROM entries WHERE key > ?1 AND key <= ?2 ORDER BY key",
        params![key(session, after)?, key(session, end)?],
        |r| Ok((r.get(0)?, column(r, 1)?)),
    )?;
    let mut found = Vec::with_capacity(bodies.len());
    let mut bodies = bodies.into_iter().peekable();
    for pos in after + 1..=end {
        match bodies.next_if(|(at, _)| u64::try_from(*at) == Ok(pos)) {
            Some((_, body)) => found.push((pos, born, body)),
            None => {
                return Err(StoreError::Corrupt(format!("session {session_id}, position {pos}: the entry is missing")));
            }
        }
    }
    Ok(found)
}

/// See [`super::super::Store::tail`].
pub(super) fn tail(
    conn: &mut Connection,
    session_id: &str,
    within: (usize, usize),
    values: &Values,
) -> Result<Option<(RawHead, Vec<RawEntry>)>, StoreError> {
    // All queries see the same store.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred).map_err(|e| error(&e))?;
    let Some(head) = head(&tx, session_id)? else { return Ok(None) };
    let entries = entries_in(&tx, session_id, u64::try_from(head.after).unwrap_or_default(), within, values)?;
    Ok(Some((head, entries)))
}

/// Opens and parses the result of [`tail`].
pub(super) fn parse_tail(
    session_id: &str,
    (head, entries): (RawHead, Vec<RawEntry>),
    values: &Values,
) -> Result<Tail, StoreError> {
    let head = head.parse(session_id, values)?;
    let after = head.snapshot.as_ref().map_or(0, |snapshot| snapshot.pos);
    // They follow another position where the snapshot cannot be used.
    let follow = entries.first().is_some_and(|(pos, ..)| *pos == after + 1);
    let entries = if follow { parse(session_id, entries, values)? } else { Vec::new() };
    Ok(Tail { head, entries })
}

/// Opens and parses entries.
pub(super) fn parse(session_id: &str, bodies: Vec<RawEntry>, values: &Values) -> Result<Vec<Arc<Entry>>, StoreError> {
    let parse = |(pos, born, stored)| {
        let body = values.read_text(Place::Entry { session: session_id, born, pos }, stored)?;
        match serde_json::from_str::<Entry>(&body) {
            Ok(entry) => Ok(Arc::new(Entry { pos, ..entry })),
            Err(e) => Err(StoreError::Corrupt(format!("session {session_id}, position {pos}: {e}"))),
        }
    };
    bodies.into_iter().map(parse).collect()
}

/// See [`super::super::Store::request`].
pub(super) fn request(conn: &Connection, session_id: &str, id: &RequestId) -> Result<Option<Purpose>, StoreError> {
    find(
        conn,
        "SELECT q.purpose, q.fingerprint FROM sessions s JOIN request_ids q ON q.session = s.number
         WHERE s.id = ?1 AND q.id = ?2 AND q.sent_by = ?3",
        [session_id, id.id(), sent_by(id)],
        purpose,
    )
}

/// Whose a request id is, as it is stored: the owner's has an empty text.
pub(super) fn sent_by(id: &RequestId) -> &str {
    id.by().unwrap_or_default()
}

/// The purpose of a request id.
pub(super) fn purpose(row: &Row<'_>) -> rusqlite::Result<Purpose> {
    Ok(Purpose::stored(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str_or_null()?))
}

/// See [`super::super::Store::due`]. Sessions that this build cannot read are left to newer ones.
pub(super) fn due(conn: &Connection, now: Millis, limit: usize) -> Result<Vec<Due>, StoreError> {
    let mut due: Vec<(Millis, Due)> = Vec::new();
    for sql in [
        // The soonest deadlines have the highest places of all.
        "SELECT i.expires_at, s.id, i.key & 4294967295
         FROM interruptions i INDEXED BY interruptions_place CROSS JOIN sessions s ON s.number = i.key >> 32
         WHERE i.place >= max(1 << 61, (1 << 62) - ?1) AND i.expires_at <= ?1 AND s.format <= ?3
         ORDER BY i.place DESC, s.id, i.key LIMIT ?2",
        "SELECT i.remind_at, s.id, i.key & 4294967295 FROM interruptions i CROSS JOIN sessions s ON s.number = i.key >> 32
         WHERE i.resolution IS NULL AND i.remind_at IS NOT NULL AND i.remind_at <= ?1 AND s.format <= ?3
         ORDER BY i.remind_at, s.id, i.key LIMIT ?2",
    ] {
        let params = params![now, int(limit), FORMAT];
        due.extend(all(conn, sql, params, |r| Ok((r.get(0)?, (r.get(1)?, InterruptionNo::new(r.get(2)?)))))?);
    }
    Ok(sql::earliest(due, limit))
}

const AUDIT: &str = "SELECT n, hash, body FROM audit WHERE n > ?1 ORDER BY n LIMIT ?2";
/// The records before the first that has a tenant, for those without one.
pub(super) const AUDIT_BEFORE_TENANTS: &str = "SELECT n, hash, body FROM audit
 WHERE ?3 IS NULL AND n > ?1 AND n < ifnull((SELECT tenants_since FROM audit ORDER BY n DESC LIMIT 1), 9223372036854775807)
 ORDER BY n LIMIT ?2";
/// The records of a tenant since then, by their index.
pub(super) const AUDIT_OF: &str = "SELECT n, hash, body FROM audit INDEXED BY audit_tenant
 WHERE tenant IS ?3 AND tenants_since IS NOT NULL AND n > ?1 ORDER BY n LIMIT ?2";
/// The same three, newest first.
const AUDIT_NEWEST: &str = "SELECT n, hash, body FROM audit WHERE n < ?1 ORDER BY n DESC LIMIT ?2";
pub(super) const AUDIT_NEWEST_BEFORE_TENANTS: &str = "SELECT n, hash, body FROM audit
 WHERE ?3 IS NULL AND n < ?1 AND n < ifnull((SELECT tenants_since FROM audit ORDER BY n DESC LIMIT 1), 9223372036854775807)
 ORDER BY n DESC LIMIT ?2";
pub(super) const AUDIT_NEWEST_OF: &str = "SELECT n, hash, body FROM audit INDEXED BY audit_tenant
 WHERE tenant IS ?3 AND tenants_since IS NOT NULL AND n < ?1 ORDER BY n DESC LIMIT ?2";

/// See [`super::super::Store::audit`]. A body that is not a record, or not the sealed one, is returned with a hash that
/// cannot verify: it is up to the reader to name it.
pub(super) fn audit(
    conn: &Connection,
    values: &Values,
    of: Option<Option<&str>>,
    range: AuditRange,
    (limit, bytes): (usize, usize),
) -> Result<Vec<AuditRecord>, StoreError> {
    let (from, queries): (u64, &[&str]) = match (range, of) {
        (AuditRange::After(n), None) => (n, &[AUDIT]),
        (AuditRange::After(n), Some(_)) => (n, &[AUDIT_BEFORE_TENANTS, AUDIT_OF]),
        (AuditRange::Before(n), None) => (n, &[AUDIT_NEWEST]),
        (AuditRange::Before(n), Some(_)) => (n, &[AUDIT_NEWEST_OF, AUDIT_NEWEST_BEFORE_TENANTS]),
    };
    let mut rows: Vec<(i64, Vec<u8>, Value)> = Vec::new();
    let mut room = Room::new(bytes);
    for sql in queries {
        let mut params: Vec<Value> = vec![int(from).into(), int(limit.saturating_sub(rows.len())).into()];
        params.extend(of.map(|tenant| tenant.map(str::to_owned).into()));
        let fits = |r: &Row<'_>| {
            // Of another type if somebody has changed it.
            let bytes = r.get_ref(2)?.as_bytes().map_or(0, <[u8]>::len);
            Ok(if room.takes(bytes) { Some((r.get(0)?, r.get(1)?, column(r, 2)?)) } else { None })
        };
        if !all_while(conn, sql, params_from_iter(params), &mut rows, fits)? {
            break;
        }
    }
    let mut last: Option<(u64, String)> = None;
    let read = |(row, hash, stored)| {
        let n = number(row)?;
        let prev = match last.take() {
            Some((before, hash)) if before + 1 == n => hash,
            _ => hash_before(conn, values, row)?,
        };
        let record = record(values, n, prev, hash, stored)?;
        last = Some((n, record.hash.clone()));
        Ok(record)
    };
    rows.into_iter().map(read).collect()
}

fn number(n: i64) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::Corrupt(format!("audit record {n} has no number")))
}

/// The hash of the record before number `n`.
fn hash_before(conn: &Connection, values: &Values, n: i64) -> Result<String, StoreError> {
    let before = "SELECT n, hash FROM audit WHERE n < ?1 ORDER BY n DESC LIMIT 1";
    let before: Option<(i64, Vec<u8>)> = find(conn, before, [n], |r| Ok((r.get(0)?, r.get(1)?)))?;
    Ok(match before {
        Some((n, hash)) => hex::encode(audit_hash(values, number(n)?, hash)),
        None => Anchor::start().hash,
    })
}

fn record(values: &Values, n: u64, prev: String, hash: Vec<u8>, stored: Value) -> Result<AuditRecord, StoreError> {
    let body = match values.read_text(Place::Audit { n }, stored) {
        Ok(body) => body,
        Err(e) => {
            tracing::warn!("{e}");
            String::new()
        }
    };
    sql::audit_record(n, prev, &audit_hash(values, n, hash), body)
}

/// The hash of a record. A value that does not open yields a hash that matches no record: the log can still be appended
/// to, and verification reports this record.
pub(super) fn audit_hash(values: &Values, n: u64, stored: Vec<u8>) -> Vec<u8> {
    match values.open(Place::AuditHash { n }, &stored) {
        None => stored,
        Some(Ok(hash)) => hash,
        Some(Err(e)) => {
            tracing::warn!("{e}");
            Digest::of(&stored).as_bytes().to_vec()
        }
    }
}
