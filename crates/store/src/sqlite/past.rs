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
    schema::{self, Absent, Stamp},
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
    /// The file as it was opened, if it is read as one that nobody changes.
    unchanging: Option<Stamp>,
}

/// How often a read is tried if the file changes meanwhile.
const TRIES: u32 = 5;

impl Past {
    /// Opens the store at `path` for reading.
    ///
    /// # Errors
    /// As [`super::SqliteStore::open_sealed`], except [`StoreError::InUse`]; a missing file is [`StoreError::Failed`].
    pub fn open(path: &Path, keys: Option<&Keys>) -> Result<Past, StoreError> {
        let file = schema::resolve(path, Absent::Refuse)?;
        let open = || {
            let (conn, unchanging) = schema::only_read(&file).map_err(|e| schema::named(&file, e))?;
            let values = sealing::reading(&conn, path, keys)?;
            Ok(Past { path: file.clone(), conn, values, unchanging })
        };
        // A server that has started meanwhile may have changed the file.
        open().or_else(|error| if log::is_there(&file) { open() } else { Err(error) })
    }

    /// Reads, again on a new connection if a server has changed the file meanwhile. Data that leaves the process is synced: the
    /// process that has the file open may not have done so yet.
    pub(super) fn read<T>(
        &mut self,
        read: impl Fn(&mut Connection, &Values) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut tries = 1;
        loop {
            let found = read(&mut self.conn, &self.values).map_err(|e| schema::named(&self.path, e));
            if self.unchanging.is_none() || self.unchanging == schema::stamp(&self.path) {
                log::sync(&self.path)?;
                return found;
            }
            if tries == TRIES {
                let path = self.path.display();
                return Err(StoreError::Failed(format!("{path} has changed during each of {TRIES} tries to read it")));
            }
            tries += 1;
            (self.conn, self.unchanging) = schema::only_read(&self.path).map_err(|e| schema::named(&self.path, e))?;
        }
    }

    /// The ids of at most `limit` sessions after `after`, in the order of ids.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub fn sessions(&mut self, after: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        let ids = "SELECT id FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?2";
        self.read(|conn, _| all(conn, ids, params![after, int(limit)], |r| r.get(0)))
    }

    /// A session's entries at positions after `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`], [`StoreError::Sealed`].
    pub fn entries(&mut self, session: &str, after: u64, limit: usize) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.read(|conn, values| {
            let bodies = rows::entries(conn, session, after, (limit, usize::MAX), values)?;
            rows::parse(session, bodies, values)
        })
    }

    /// A standing rule, even if revoked or expired; `None` once its session is deleted.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`], [`StoreError::Sealed`].
    pub fn rule(&mut self, session: &str, id: RuleId) -> Result<Option<RuleRow>, StoreError> {
        self.read(|conn, values| rules::rule(conn, values, session, id))
    }
}
