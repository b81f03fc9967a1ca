//! Waypoints: states of sessions at past positions, kept beside their entries in `past_snapshots`.

use std::sync::Arc;

use countersign_core::journal::record::Millis;
use rusqlite::{Connection, params, types::Value};

use super::{
    super::{StoreError, Waypoint, seal::Place},
    rows,
    schema::key,
    sealing::{Values, column},
    statement::{find, run},
};

/// A waypoint in its stored form, so that the writer only writes.
#[derive(Debug)]
pub(super) struct Kept {
    session_id: Arc<str>,
    born: Millis,
    pos: u64,
    version: u32,
    body: Value,
}

impl Kept {
    /// Seals one; `None` if its session was deleted.
    pub(super) fn of(
        conn: &Connection,
        values: &Values,
        session_id: Arc<str>,
        waypoint: &Waypoint,
    ) -> Result<Option<Kept>, StoreError> {
        let sql = "SELECT created_at FROM sessions WHERE id = ?1";
        let born: Option<Millis> = find(conn, sql, [&*session_id], |r| r.get(0))?;
        let Some(born) = born else { return Ok(None) };
        let Waypoint { pos, version, ref body } = *waypoint;
        let place = Place::Waypoint { session: &session_id, born, pos };
        let body = values.text(place, body.to_string())?;
        Ok(Some(Kept { session_id, born, pos, version, body }))
    }

    /// Roughly how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        rows::length(&self.body)
    }

    /// Keeps it, unless its session was deleted or has not reached it. Those of older versions are dropped: no reader
    /// asks for them.
    pub(super) fn apply(&self, conn: &Connection) -> Result<bool, StoreError> {
        let Kept { session_id, born, pos, version, body } = self;
        let sql = "SELECT number FROM sessions WHERE id = ?1 AND created_at = ?2 AND pos >= ?3";
        let found: Option<i64> = find(conn, sql, params![session_id, born, key(0, *pos)?], |r| r.get(0))?;
        let Some(session) = found else { return Ok(false) };
        let older = "DELETE FROM past_snapshots WHERE key BETWEEN ?1 AND ?2 AND version < ?3";
        run(conn, older, params![key(session, 0)?, key(session, u64::from(u32::MAX))?, version])?;
        let sql = "INSERT OR REPLACE INTO past_snapshots (key, version, body) VALUES (?1, ?2, ?3)";
        run(conn, sql, params![key(session, *pos)?, version, body])?;
        Ok(true)
    }
}

/// See [`super::super::Store::waypoint`].
pub(super) fn last(
    conn: &Connection,
    values: &Values,
    session_id: &str,
    until: u64,
    version: u32,
) -> Result<Option<Waypoint>, StoreError> {
    let sql = "SELECT number, created_at FROM sessions WHERE id = ?1";
    let found: Option<(i64, Millis)> = find(conn, sql, [session_id], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let Some((session, born)) = found else { return Ok(None) };
    let sql = "SELECT key & 4294967295, body FROM past_snapshots WHERE key BETWEEN ?1 AND ?2 AND version = ?3
               ORDER BY key DESC LIMIT 1";
    let range = params![key(session, 0)?, key(session, until.min(u64::from(u32::MAX)))?, version];
    let found: Option<(i64, Value)> = find(conn, sql, range, |r| Ok((r.get(0)?, column(r, 1)?)))?;
    let Some((pos, stored)) = found else { return Ok(None) };
    let pos = u64::try_from(pos).unwrap_or_default();
    match values.read_text(Place::Waypoint { session: session_id, born, pos }, stored) {
        Ok(body) => Ok(Some(Waypoint { pos, version, body: body.into() })),
        // A cache that cannot be opened is ignored.
        Err(e) => {
            tracing::warn!("{e}; it is not used");
            Ok(None)
        }
    }
}
