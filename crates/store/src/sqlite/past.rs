//! Reading the sessions of a store that another process may have open.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_core::{approval::rule::RuleId, journal::record::Entry};
use rusqlite::{Connection, params};

use super::{
    super::{RuleRow, StoreError, seal::Keys},
    log, rows, rules,
    schema::{self, Absent},
    sealing::{self, Values},
    statement::all,
};
use crate::sql::int;

/// The journals of a store that another process may be writing.
#[derive(Debug)]
pub struct Past {
    path: PathBuf,
    conn: Connection,
    values: Values,
}

impl Past {
    /// Opens the store at `path` for reading.
    ///
    /// # Errors
    /// As [`super::SqliteStore::open_sealed`], except [`StoreError::InUse`]; a missing file is [`StoreError::Failed`].
    pub fn open(path: &Path, keys: Option<&Keys>) -> Result<Past, StoreError> {
        let file = schema::resolve(path, Absent::Refuse)?;
        let conn = schema::only_read(&file).map_err(|e| schema::named(&file, e))?;
        let values = sealing::reading(&conn, path, keys)?;
        Ok(Past { path: file, conn, values })
    }

    /// The ids of at most `limit` sessions after `after`, in the order of ids.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub fn sessions(&self, after: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        let limit = int(limit);
        all(&self.conn, "SELECT id FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?2", params![after, limit], |r| {
            r.get(0)
        })
        .map_err(|e| schema::named(&self.path, e))
    }

    /// A session's entries at positions after `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`], [`StoreError::Sealed`].
    pub fn entries(&mut self, session: &str, after: u64, limit: usize) -> Result<Vec<Arc<Entry>>, StoreError> {
        let bodies = rows::entries(&mut self.conn, session, after, (limit, usize::MAX), &self.values)
            .map_err(|e| schema::named(&self.path, e))?;
        let entries = rows::parse(session, bodies, &self.values)?;
        // As in `read_audit`: data that leaves the process is synced.
        log::sync(&self.path)?;
        Ok(entries)
    }

    /// A standing rule, even if revoked or expired; `None` once its session is deleted.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`], [`StoreError::Sealed`].
    pub fn rule(&self, session: &str, id: RuleId) -> Result<Option<RuleRow>, StoreError> {
        let rule = rules::rule(&self.conn, &self.values, session, id)?;
        log::sync(&self.path)?;
        Ok(rule)
    }
}
