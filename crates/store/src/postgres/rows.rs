//! The queries about one session and about the audit log, and how values of rows are read.

use std::sync::Arc;

use countersign_core::{
    audit::AuditRecord,
    journal::{
        record::{Entry, Millis},
        request_id::RequestId,
    },
    number::InterruptionNo,
};
use tokio_postgres::{Row, types::FromSql};

use super::{
    super::{AuditRange, Due, StoreError, Waypoint, index::Purpose, sql},
    connect::{Link, error},
    flight::{Value, ask, ask_once},
};
use crate::sql::int;

/// A stored position or number.
pub(super) fn count(stored: i64) -> Result<u64, StoreError> {
    u64::try_from(stored)
        .map_err(|_| StoreError::Corrupt(format!("{stored} is not a position or a number of a record")))
}

/// A stored number of an interruption, or of an action.
pub(super) fn small(stored: i64) -> Result<u32, StoreError> {
    u32::try_from(stored).map_err(|_| StoreError::Corrupt(format!("{stored} is not the number of an interruption")))
}

/// A stored text.
pub(super) fn text(stored: &[u8]) -> Result<Arc<str>, StoreError> {
    let text = std::str::from_utf8(stored);
    text.map(Arc::from).map_err(|e| StoreError::Corrupt(format!("a stored text is not UTF-8: {e}")))
}

/// A tenant in its stored form.
pub(super) fn tenant(tenant: Option<&str>) -> Vec<u8> {
    tenant.map_or_else(Vec::new, |tenant| [b"=", tenant.as_bytes()].concat())
}

/// The tenant of a stored form.
pub(super) fn tenant_of(stored: &[u8]) -> Result<Option<Arc<str>>, StoreError> {
    match stored {
        [] => Ok(None),
        [b'=', name @ ..] => text(name).map(Some),
        _ => Err(StoreError::Corrupt("a stored tenant is invalid".to_owned())),
    }
}

/// A column of a row.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|e| error(&e))
}

/// A text in a row.
pub(super) fn get_text(row: &Row, column: usize) -> Result<Arc<str>, StoreError> {
    text(get(row, column)?)
}

/// A text in a row, if there is one.
pub(super) fn get_maybe(row: &Row, column: usize) -> Result<Option<Arc<str>>, StoreError> {
    get::<Option<&[u8]>>(row, column)?.map(text).transpose()
}

pub(super) fn entry(session_id: &str, pos: u64, body: &[u8]) -> Result<Arc<Entry>, StoreError> {
    let entry = serde_json::from_slice::<Entry>(body)
        .map_err(|e| StoreError::Corrupt(format!("session {session_id}, position {pos}: {e}")))?;
    Ok(Arc::new(Entry { pos, ..entry }))
}

/// Refuses a session that needs more than this node knows.
pub(super) fn readable(row: &Row, column: usize, session_id: &str, knows: u32) -> Result<(), StoreError> {
    let needs = small(get(row, column)?)?;
    if needs > knows { Err(StoreError::Newer { session_id: session_id.into(), needs, knows }) } else { Ok(()) }
}

async fn one(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Option<Row>, StoreError> {
    Ok(all(on, sql, values).await?.pop())
}

/// The rows of one statement.
pub(super) async fn all(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
    ask(on, sql, values).await.map_err(|e| error(&e))
}

/// The same for a query among the rows of many sessions: which index fits depends on the values.
pub(super) async fn list(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
    ask_once(on, sql, &values).await.map_err(|e| error(&e))
}

const ENTRIES: &str = "SELECT s.pos, e.pos, e.body, s.format FROM sessions s
 LEFT JOIN entries e ON e.session = s.number AND e.pos > $2 AND e.pos <= least(s.pos, $3)
 WHERE s.id = $1 ORDER BY e.pos";
/// The same within bytes, which are added up without reading the bodies.
const ENTRIES_WITHIN: &str = "SELECT s.pos, e.pos, e.body, s.format FROM sessions s
 LEFT JOIN LATERAL (
   SELECT pos, body, sum(octet_length(body)) OVER (ORDER BY pos) AS bytes FROM entries
   WHERE session = s.number AND pos > $2 AND pos <= least(s.pos, $3)
 ) e ON e.bytes <= $4 OR e.pos = $2 + 1
 WHERE s.id = $1 ORDER BY e.pos";
/// The most entries that are read within bytes.
const AT_ONCE: u64 = 1024;

/// The entries of a session after `after`, within both limits but at least one.
pub(super) async fn entries(
    on: &Link,
    session_id: &str,
    after: u64,
    limit: usize,
    bytes: Option<usize>,
    knows: u32,
) -> Result<Vec<Arc<Entry>>, StoreError> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let end = |limit| Value::from(int(after.saturating_add(limit)));
    let mut values = vec![session_id.into(), int(after).into()];
    let rows = match bytes {
        None => {
            values.push(end(limit));
            all(on, ENTRIES, values).await?
        }
        Some(bytes) => {
            values.extend([end(limit.min(AT_ONCE)), int(bytes).into()]);
            all(on, ENTRIES_WITHIN, values).await?
        }
    };
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let last = count(get(first, 0)?)?;
    readable(first, 3, session_id, knows)?;
    let mut entries = Vec::with_capacity(rows.len());
    let missing = |pos: u64| StoreError::Corrupt(format!("session {session_id}, position {pos}: the entry is missing"));
    let mut wanted = after;
    for row in &rows {
        let Some(pos) = get::<Option<i64>>(row, 1)? else { break };
        wanted += 1;
        if int(wanted) != pos {
            return Err(missing(wanted));
        }
        entries.push(entry(session_id, wanted, get(row, 2)?)?);
    }
    let all = last.min(after.saturating_add(limit));
    if wanted < all && (bytes.is_none() || entries.is_empty()) {
        return Err(missing(wanted + 1));
    }
    Ok(entries)
}

/// See [`super::super::Store::request`].
pub(super) async fn request(on: &Link, session_id: &str, id: &RequestId) -> Result<Option<Purpose>, StoreError> {
    let sql = "SELECT purpose, fingerprint FROM request_ids
               WHERE session = (SELECT number FROM sessions WHERE id = $1) AND id = $2 AND sent_by = $3";
    let found = one(on, sql, vec![session_id.into(), id.id().into(), sent_by(id).into()]).await?;
    found.map(|row| Ok(Purpose::stored(get(&row, 0)?, get(&row, 1)?))).transpose()
}

/// Whose a request id is, as it is stored: the owner's has an empty text.
pub(super) fn sent_by(id: &RequestId) -> &str {
    id.by().unwrap_or_default()
}

/// Deadlines and reminders each have their own index. Sessions that this node cannot read are left to other nodes.
pub(super) const DUE: [&str; 2] = [
    "SELECT expires_at, session_id, number FROM interruptions WHERE resolution IS NULL AND expires_at <= $1
     AND (SELECT s.format FROM sessions s WHERE s.number = session) <= $3
     ORDER BY expires_at, session_id, number LIMIT $2",
    "SELECT remind_at, session_id, number FROM interruptions WHERE resolution IS NULL AND remind_at <= $1
     AND (SELECT s.format FROM sessions s WHERE s.number = session) <= $3
     ORDER BY remind_at, session_id, number LIMIT $2",
];

// One that was taken at a later time than now is free too: the clock was set back since.
macro_rules! take_due {
    ($when:literal) => {
        concat!(
            "UPDATE interruptions i SET seen_to = clock_timestamp() + interval '1 second' FROM (
               SELECT session, number FROM interruptions WHERE resolution IS NULL AND ",
            $when,
            " <= $1 AND coalesce(seen_to NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 second', true)
                 AND (SELECT s.format FROM sessions s WHERE s.number = session) <= $3
               ORDER BY ",
            $when,
            ", session_id, number LIMIT $2 FOR UPDATE SKIP LOCKED
             ) d WHERE i.session = d.session AND i.number = d.number RETURNING i.",
            $when,
            ", i.session_id, i.number"
        )
    };
}

/// See [`super::super::Store::due`].
pub(super) async fn due(on: &Link, now: Millis, limit: usize, knows: u32) -> Result<Vec<Due>, StoreError> {
    let mut due: Vec<(Millis, Due)> = Vec::new();
    for sql in DUE {
        let values = vec![now.into(), int(limit).into(), knows.into()];
        for row in list(on, sql, values).await? {
            due.push((get(&row, 0)?, (get_text(&row, 1)?, InterruptionNo::new(small(get(&row, 2)?)?))));
        }
    }
    Ok(sql::earliest(due, limit))
}

/// Those of [`DUE`] that no other node handles now. One that fails is handled again after a second.
const TAKE_DUE: [&str; 2] = [take_due!("expires_at"), take_due!("remind_at")];

/// See [`super::super::nodes::Nodes::take_due`].
pub(super) async fn take_due(on: &Link, now: Millis, limit: usize, knows: u32) -> Result<Vec<Due>, StoreError> {
    let mut due: Vec<(Millis, Due)> = Vec::new();
    for sql in TAKE_DUE {
        let left = int(limit - due.len().min(limit));
        for row in list(on, sql, vec![now.into(), left.into(), knows.into()]).await? {
            due.push((get(&row, 0)?, (get_text(&row, 1)?, InterruptionNo::new(small(get(&row, 2)?)?))));
        }
    }
    Ok(sql::earliest(due, limit))
}

pub(super) const RUNNING: &str = "SELECT id FROM sessions WHERE status = 'running' ORDER BY id";

/// See [`super::super::Store::running`].
pub(super) async fn running(on: &Link) -> Result<Vec<Arc<str>>, StoreError> {
    list(on, RUNNING, Vec::new()).await?.iter().map(|row| get_text(row, 0)).collect()
}

/// The ids of at most `limit` sessions after `after`, in the order of ids.
pub(super) async fn sessions(on: &Link, after: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
    let values = vec![after.into(), int(limit).into()];
    let rows = list(on, "SELECT id FROM sessions WHERE id > $1 ORDER BY id LIMIT $2", values).await?;
    rows.iter().map(|row| get_text(row, 0)).collect()
}

/// Each record, with the hash of the one before it. Bytes are added up without reading the bodies.
macro_rules! audit_within {
    ($which:literal, $order:literal) => {
        concat!(
            "SELECT a.n, a.hash, a.body, (SELECT b.hash FROM audit b WHERE b.n < a.n ORDER BY b.n DESC LIMIT 1) FROM (
               SELECT n, size, sum(size) OVER (ORDER BY n ",
            $order,
            ") AS bytes FROM (SELECT n, octet_length(body) AS size FROM audit WHERE ",
            $which,
            " ORDER BY n ",
            $order,
            " LIMIT $2) AS first) AS sized JOIN audit a ON a.n = sized.n
             WHERE sized.bytes <= $3 OR sized.bytes = sized.size ORDER BY a.n ",
            $order
        )
    };
}
const AUDIT: &str = audit_within!("n > $1", "");
pub(super) const AUDIT_OF: &str = audit_within!("n > $1 AND tenant = $4", "");
/// The same two, newest first.
const AUDIT_NEWEST: &str = audit_within!("n < $1", "DESC");
pub(super) const AUDIT_NEWEST_OF: &str = audit_within!("n < $1 AND tenant = $4", "DESC");

/// See [`super::super::Store::audit`].
pub(super) async fn audit(
    on: &Link,
    of: Option<Option<&str>>,
    range: AuditRange,
    (limit, bytes): (usize, usize),
) -> Result<Vec<AuditRecord>, StoreError> {
    let (sql, from) = match (range, of) {
        (AuditRange::After(n), None) => (AUDIT, n),
        (AuditRange::After(n), Some(_)) => (AUDIT_OF, n),
        (AuditRange::Before(n), None) => (AUDIT_NEWEST, n),
        (AuditRange::Before(n), Some(_)) => (AUDIT_NEWEST_OF, n),
    };
    let mut values = vec![int(from).into(), int(limit).into(), int(bytes).into()];
    values.extend(of.map(|of| tenant(of).into()));
    list(on, sql, values).await?.iter().map(audit_record).collect()
}

fn audit_record(row: &Row) -> Result<AuditRecord, StoreError> {
    let n = count(get(row, 0)?)?;
    let prev = get::<Option<&[u8]>>(row, 3)?.map_or_else(|| countersign_core::audit::Anchor::start().hash, hex::encode);
    let body = String::from_utf8(get(row, 2)?).unwrap_or_default();
    sql::audit_record(n, prev, get(row, 1)?, body)
}

/// See [`super::super::Store::waypoint`].
pub(super) async fn waypoint(
    on: &Link,
    session_id: &str,
    until: u64,
    version: u32,
) -> Result<Option<Waypoint>, StoreError> {
    let sql = "SELECT pos, body FROM past_snapshots WHERE session = (SELECT number FROM sessions WHERE id = $1)
               AND pos <= $2 AND version = $3 ORDER BY pos DESC LIMIT 1";
    let found = one(on, sql, vec![session_id.into(), int(until).into(), version.into()]).await?;
    let read = |row: Row| Ok(Waypoint { pos: count(get(&row, 0)?)?, version, body: get_text(&row, 1)? });
    found.map(read).transpose()
}

/// See [`super::super::Store::keep_waypoint`]. The session's row is locked, so that none outlives its session. Those of
/// older versions are dropped: no reader asks for them.
pub(super) async fn keep_waypoint(on: &Link, session_id: &str, waypoint: &Waypoint) -> Result<(), StoreError> {
    let sql = "WITH of AS (SELECT number FROM sessions WHERE id = $1 AND pos >= $2 FOR KEY SHARE),
               older AS (DELETE FROM past_snapshots WHERE session = (SELECT number FROM of) AND version < $3 AND pos <> $2)
               INSERT INTO past_snapshots (session, pos, version, body) SELECT number, $2, $3, $4 FROM of
               ON CONFLICT (session, pos) DO UPDATE SET version = excluded.version, body = excluded.body";
    let Waypoint { pos, version, body } = waypoint;
    let values = vec![session_id.into(), int(*pos).into(), (*version).into(), (&**body).into()];
    all(on, sql, values).await.map(drop)
}

/// See [`super::super::Store::history_id`]. It is a digest of the key that seals messages between nodes, and reveals
/// nothing about it.
pub(super) async fn history_id(on: &Link) -> Result<Option<Arc<str>>, StoreError> {
    let id = "SELECT left(encode(sha256('history'::bytea || notification_key), 'hex'), 32) FROM countersign";
    let row = all(on, id, Vec::new()).await?.pop();
    row.map(|row| get::<String>(&row, 0).map(Arc::from)).transpose()
}

/// See [`super::super::Store::renew_history_id`]. It is the history of this timeline. Of nodes that open the store at once, each
/// with the key that it met, one renews it: the key of a node that serves already is not taken from it.
/// Returns the new one.
pub(super) async fn renew_history_id(on: &Link, met: String, timeline: i64) -> Result<String, StoreError> {
    let new = "UPDATE countersign SET notification_key = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), timeline = $1
               WHERE encode(notification_key, 'hex') = $2 RETURNING encode(notification_key, 'hex')";
    match all(on, new, vec![timeline.into(), Value::text(met)]).await?.pop() {
        Some(row) => get(&row, 0),
        None => Err(StoreError::Conflict),
    }
}

/// The needs of an append beyond the update of one row: its tables, and room for 100 KB.
pub(super) const PROBES: [&str; 9] = [
    "INSERT INTO entries (session, pos, body) SELECT 0, n, (SELECT string_agg(sha256(m::text::bytea), '') FROM
       generate_series(n * 200, n * 200 + 199) AS m) FROM generate_series(1, 16) AS n",
    "INSERT INTO session_ids (id) SELECT uuid_send(gen_random_uuid())",
    "INSERT INTO request_ids (session, id, sent_by, purpose) VALUES (0, uuid_send(gen_random_uuid()), '', '')",
    "INSERT INTO audit_queue (body, tenant) VALUES ('', '')",
    "UPDATE sessions SET pos = pos WHERE number = 0",
    "UPDATE interruptions SET number = number WHERE session = 0",
    "UPDATE snapshots SET pos = pos WHERE session = 0",
    "UPDATE reviewers SET updated_at = updated_at WHERE session = 0",
    "UPDATE rules SET session = session WHERE session = 0",
];

/// Writes, to check that it is possible.
pub(super) async fn probe(on: &Link) -> Result<(), StoreError> {
    all(on, "UPDATE countersign SET probed = probed + 1", Vec::new()).await.map(drop)
}
