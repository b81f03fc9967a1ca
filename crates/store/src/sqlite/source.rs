//! A store that is copied elsewhere: read by the one process that owns it, and marked as moved at the end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_core::{
    audit::AuditRecord,
    journal::record::{Entry, Millis},
    number::InterruptionNo,
};
use rusqlite::{Connection, params};

use super::{
    super::{
        AuditRange, RuleRow, StoreError,
        contents::{Counts, Endpoint, Pending, Told},
        deliveries::{FailedDelivery, FailedPage},
        seal::Keys,
    },
    deliveries,
    lock::Ownership,
    rows, rules,
    schema::{self, Absent, SqliteOptions, error},
    sealing::{self, Values},
    statement::{all, find},
};
use crate::sql::int;

/// A store to copy. No other process has it open.
pub(crate) struct Source {
    conn: Connection,
    values: Values,
    path: PathBuf,
    /// Where an earlier copy has moved it.
    pub(crate) moved: Option<Moved>,
    _ownership: Ownership,
}

/// Where a store was moved.
pub(crate) struct Moved {
    pub(crate) place: String,
    /// The id of the copy, which the database has too.
    pub(crate) copy: String,
}

impl Source {
    /// Opens the store at `path`, which may have been moved already.
    pub(crate) fn open(path: &Path, keys: Option<&Keys>) -> Result<Source, StoreError> {
        let path = schema::resolve(path, Absent::Refuse)?;
        Source::open_at(path.clone(), keys).map_err(|e| schema::named(&path, e))
    }

    fn open_at(path: PathBuf, keys: Option<&Keys>) -> Result<Source, StoreError> {
        let ownership = Ownership::take(&path)?;
        let moved = moved(&path)?;
        let conn = match moved {
            Some(_) => schema::only_read(&path)?.0,
            None => schema::writer(&path, &SqliteOptions::default(), Absent::Refuse)?.0,
        };
        let values = sealing::reading(&conn, &path, keys)?;
        Ok(Source { conn, values, path, moved, _ownership: ownership })
    }

    /// The file, without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn counts(&self) -> Result<Counts, StoreError> {
        let count = |sql: &str| {
            let counted: Option<i64> = find(&self.conn, sql, [], |r| r.get(0))?;
            Ok::<_, StoreError>(u64::try_from(counted.unwrap_or_default()).unwrap_or_default())
        };
        Ok(Counts {
            sessions: count("SELECT count(*) FROM sessions")?,
            // Leftover entries that belong to no session are not copied.
            entries: count("SELECT ifnull(sum(pos), 0) FROM sessions")?,
            deleted: count("SELECT count(*) FROM deleted_sessions")?,
            interruptions: count("SELECT count(*) FROM interruptions")?,
            pending: count("SELECT count(*) FROM interruptions WHERE resolution IS NULL")?,
            requests: count("SELECT count(*) FROM request_ids")?,
            reviewers: count("SELECT count(*) FROM reviewers")?,
            rules: count("SELECT count(*) FROM rules")?,
            standing: count("SELECT count(*) FROM rules WHERE revoked_at IS NULL")?,
            audit: count("SELECT count(*) FROM audit")?,
            endpoints: count("SELECT count(*) FROM endpoints")?,
            failed_deliveries: count("SELECT count(*) FROM failed_deliveries")?,
        })
    }

    /// The ids and last positions of at most `limit` sessions after `after`, in the order of ids.
    pub(crate) fn sessions(&self, after: &str, limit: i64) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
        let sql = "SELECT id, pos FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?2";
        let found: Vec<(Arc<str>, i64)> = all(&self.conn, sql, params![after, limit], |r| Ok((r.get(0)?, r.get(1)?)))?;
        found.into_iter().map(|(id, pos)| Ok((id, number(pos)?))).collect()
    }

    /// The entries of a session after a position, within both limits but at least one.
    pub(crate) fn entries(
        &mut self,
        session: &str,
        after: u64,
        most: (usize, usize),
    ) -> Result<Vec<Arc<Entry>>, StoreError> {
        let bodies = rows::entries(&mut self.conn, session, after, most, &self.values)?;
        rows::parse(session, bodies, &self.values)
    }

    /// The rules that were made in a session, whether they are in force or not.
    pub(crate) fn rules(&self, session: &str) -> Result<Vec<RuleRow>, StoreError> {
        rules::of_session(&self.conn, &self.values, session)
    }

    /// At most `limit` ids of deleted sessions after `after`.
    pub(crate) fn deleted(&self, after: &str, limit: i64) -> Result<Vec<Arc<str>>, StoreError> {
        let sql = "SELECT id FROM deleted_sessions WHERE id > ?1 ORDER BY id LIMIT ?2";
        all(&self.conn, sql, params![after, limit], |r| r.get(0))
    }

    /// At most `limit` records of the audit log after number `after`, each with its tenant.
    pub(crate) fn audit(&self, after: u64, limit: usize) -> Result<Vec<Told>, StoreError> {
        let records = rows::audit(&self.conn, &self.values, None, AuditRange::After(after), (limit, usize::MAX))?;
        let tenant = |record: AuditRecord| {
            let sql = "SELECT tenant FROM audit WHERE n = ?1";
            let n = int(record.n);
            let tenant: Option<Option<Arc<str>>> = find(&self.conn, sql, [n], |r| r.get(0))?;
            Ok(Told { record, tenant: tenant.flatten() })
        };
        records.into_iter().map(tenant).collect()
    }

    /// The pending interruptions of a session.
    pub(crate) fn pending(&self, session: &str) -> Result<Vec<Pending>, StoreError> {
        let sql = "SELECT i.key & 4294967295, i.role, i.asked_at, i.expires_at, i.remind_at FROM sessions s
                   JOIN interruptions i ON i.key BETWEEN s.number << 32 AND (s.number << 32 | 4294967295)
                   WHERE s.id = ?1 AND i.resolution IS NULL ORDER BY i.key";
        all(&self.conn, sql, [session], |r| {
            Ok(Pending {
                n: InterruptionNo::new(r.get(0)?),
                role: r.get(1)?,
                asked_at: r.get(2)?,
                expires_at: r.get(3)?,
                remind_at: r.get(4)?,
            })
        })
    }

    /// At most `limit` endpoints after `after`, in the order of their names.
    pub(crate) fn endpoints(&self, after: &str, limit: i64) -> Result<Vec<Endpoint>, StoreError> {
        deliveries::endpoints(&self.conn, after, limit)
    }

    /// At most `limit` failed deliveries of an endpoint, of records after number `after`.
    pub(crate) fn failed_deliveries(
        &self,
        endpoint: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FailedDelivery>, StoreError> {
        deliveries::page(&self.conn, endpoint, FailedPage { after, limit })
    }

    /// Marks it as moved: from then on only commands that read open it, and it is never served.
    pub(crate) fn mark_moved(&mut self, to: &Moved, at: Millis) -> Result<(), StoreError> {
        mark(&mut self.conn, to, at).map_err(|e| error(&e))
    }
}

/// Where the store at `path` was moved, if it was.
fn moved(path: &Path) -> Result<Option<Moved>, StoreError> {
    let conn = schema::reader(path)?;
    if !schema::is_moved(&conn)? {
        return Ok(None);
    }
    find(&conn, "SELECT place, copy FROM moved", [], |row| Ok(Moved { place: row.get(0)?, copy: row.get(1)? }))
}

fn mark(conn: &mut Connection, to: &Moved, at: Millis) -> rusqlite::Result<()> {
    let tx = conn.transaction()?;
    tx.execute_batch(
        "CREATE TABLE moved (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), place TEXT NOT NULL, copy TEXT NOT NULL,
         at INTEGER NOT NULL) STRICT",
    )?;
    tx.execute("INSERT INTO moved VALUES (1, ?1, ?2, ?3)", params![to.place, to.copy, at])?;
    tx.pragma_update(None, "user_version", schema::MOVED)?;
    tx.commit()
}

fn number(stored: i64) -> Result<u64, StoreError> {
    u64::try_from(stored).map_err(|_| StoreError::Corrupt(format!("{stored} is not a position")))
}
