//! Resealing a store: plain to sealed, old keys to a new one, sealed to plain.
//!
//! It goes through the tables a bounded transaction at a time and skips values that are right already, so that it can
//! be stopped at any moment and started again. A store that was plain is marked until all of it is sealed and the pages
//! of the old values are gone; no server opens it meanwhile. One that only changes its key stays usable with both.

use std::path::Path;

use rusqlite::{
    Connection, params,
    types::{ToSqlOutput, ValueRef},
};

use super::{
    super::{
        StoreError,
        seal::{Keys, Place, SealError, Sealer, key_of},
    },
    lock::Ownership,
    log,
    schema::{self, Absent, SqliteOptions, error},
    sealing::{self, Ending, Seal},
    statement::run,
    unfinished,
};

/// Most values per transaction.
const VALUES: usize = 512;
/// Bytes of content after which a transaction ends.
const BYTES: usize = 4 * 1024 * 1024;
/// Most unreadable values that are named.
const NAMED: usize = 10;

/// The progress or the result of [`rekey`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rekeyed {
    /// Values rewritten.
    pub rewritten: u64,
    /// Values that were right already.
    pub kept: u64,
    /// Values that could not be opened, and are unchanged.
    pub unreadable: u64,
    /// The first of those, described.
    pub named: Vec<String>,
}

/// Seals everything in the store at `path` with the first key, or makes all of it plain; then frees the old pages, so
/// that the old content is gone from its files. Calls `progress` after each transaction. It can be stopped at any
/// moment and started again. A value that cannot be opened stays as it is and is counted: its key stays one of the
/// store's, and a store that was to be plain is not opened before it is sealed again.
///
/// # Errors
/// [`StoreError::InUse`] if a process has the store open; [`StoreError::Sealed`] if a key of the store is missing or
/// wrong; [`StoreError::Failed`], even if another process only reads the file at the end: then it must be run again.
pub fn rekey(
    path: &Path,
    keys: &Keys,
    to_plain: bool,
    progress: &mut dyn FnMut(&Rekeyed),
) -> Result<Rekeyed, StoreError> {
    let path = schema::resolve(path, Absent::Refuse)?;
    let _ownership = Ownership::take(&path)?;
    let (conn, _) =
        schema::writer(&path, &SqliteOptions::default(), Absent::Refuse).map_err(|e| schema::named(&path, e))?;
    let seal = sealing::seal(&conn)?;
    let Some(mut work) = Work::begin(&conn, &path, keys, to_plain, seal.as_ref())? else {
        return Ok(Rekeyed::default());
    };
    drop_unsealed(&conn)?;
    for column in &COLUMNS {
        let mut after = i64::MIN;
        while let Some(last) = work.transaction(column, after)? {
            after = last;
            progress(&work.done);
        }
    }
    work.end()
}

/// Removes data that is not resealed: leftovers of copies, which belong to no session, and waypoints, which can be
/// rebuilt from the entries.
fn drop_unsealed(conn: &Connection) -> Result<(), StoreError> {
    for number in unfinished::left(conn)? {
        while unfinished::remove(conn, number)? {
            log::write_back(conn, log::bound(conn)?)?;
        }
    }
    run(conn, "DELETE FROM past_snapshots", []).map(drop)
}

/// A column with content.
struct Column {
    /// Selects the key of the row, the session, when it was made, a number in it, and the content.
    select: &'static str,
    update: &'static str,
    /// Holds a title where plain, and an [`Ending`] where sealed.
    ending: bool,
    place: for<'a> fn(session: &'a str, born: i64, n: u64) -> Place<'a>,
}

/// Every column with content that stays. Content of a deleted session is sealed like the rest.
const COLUMNS: [Column; 6] = [
    Column {
        select: "SELECT e.key, coalesce(s.id, ''), coalesce(s.created_at, 0), e.key & 4294967295, e.body
                 FROM entries e LEFT JOIN sessions s ON s.number = e.key >> 32 WHERE e.key > ?1 ORDER BY e.key",
        update: "UPDATE entries SET body = ?2 WHERE key = ?1",
        ending: false,
        place: |session, born, pos| Place::Entry { session, born, pos },
    },
    Column {
        select: "SELECT p.session, coalesce(s.id, ''), coalesce(s.created_at, 0), 0, p.body
                 FROM snapshots p LEFT JOIN sessions s ON s.number = p.session WHERE p.session > ?1 ORDER BY p.session",
        update: "UPDATE snapshots SET body = ?2 WHERE session = ?1",
        ending: false,
        place: |session, born, _| Place::Snapshot { session, born },
    },
    Column {
        select: "SELECT number, id, created_at, pos, title FROM sessions WHERE number > ?1 ORDER BY number",
        update: "UPDATE sessions SET title = ?2 WHERE number = ?1",
        ending: true,
        place: |session, born, _| Place::Head { session, born },
    },
    Column {
        select: "SELECT r.row, coalesce(s.id, ''), coalesce(s.created_at, 0),
                 min((r.key & 4294967295) * 256 + r.action, 4294967295), r.body
                 FROM rules r LEFT JOIN sessions s ON s.number = r.key >> 32 WHERE r.row > ?1 ORDER BY r.row",
        update: "UPDATE rules SET body = ?2 WHERE row = ?1",
        ending: false,
        place: |session, born, n| Place::Rule { session, born, n: u32::try_from(n).unwrap_or(u32::MAX) },
    },
    Column {
        select: "SELECT n, '', 0, n, body FROM audit WHERE n > ?1 ORDER BY n",
        update: "UPDATE audit SET body = ?2 WHERE n = ?1",
        ending: false,
        place: |_, _, n| Place::Audit { n },
    },
    Column {
        select: "SELECT n, '', 0, n, hash FROM audit WHERE n > ?1 ORDER BY n",
        update: "UPDATE audit SET hash = ?2 WHERE n = ?1",
        ending: false,
        place: |_, _, n| Place::AuditHash { n },
    },
];

/// Content as it is stored.
struct Stored {
    key: i64,
    session: String,
    born: i64,
    n: u64,
    content: Content,
}

enum Content {
    Plain(Vec<u8>),
    Sealed(Vec<u8>),
}

/// The next values of a column.
fn next(conn: &Connection, column: &Column, after: i64) -> rusqlite::Result<Vec<Stored>> {
    let mut query = conn.prepare_cached(column.select)?;
    let mut rows = query.query([after])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while found.len() < VALUES
        && bytes < BYTES
        && let Some(row) = rows.next()?
    {
        let n = u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default();
        let content = match row.get_ref(4)? {
            ValueRef::Text(title) if column.ending => {
                let title = String::from_utf8_lossy(title);
                Content::Plain(Ending { pos: n, title: Some(&title) }.to_bytes())
            }
            ValueRef::Null if column.ending => Content::Plain(Ending { pos: n, title: None }.to_bytes()),
            ValueRef::Text(text) => Content::Plain(text.to_vec()),
            // A plain hash; a sealed one is longer.
            ValueRef::Blob(hash) if hash.len() == 32 => Content::Plain(hash.to_vec()),
            ValueRef::Blob(sealed) => Content::Sealed(sealed.to_vec()),
            _ => Content::Sealed(Vec::new()),
        };
        bytes += match &content {
            Content::Plain(bytes) | Content::Sealed(bytes) => bytes.len(),
        };
        found.push(Stored { key: row.get(0)?, session: row.get(1)?, born: row.get(2)?, n, content });
    }
    Ok(found)
}

struct Work<'w> {
    conn: &'w Connection,
    sealer: Sealer,
    to_plain: bool,
    /// Whether there may be plain values: the store was plain, or was becoming so, when this was started.
    plain_allowed: bool,
    done: Rekeyed,
}

impl<'w> Work<'w> {
    /// `None` if there is nothing to do.
    fn begin(
        conn: &'w Connection,
        path: &Path,
        keys: &Keys,
        to_plain: bool,
        seal: Option<&Seal>,
    ) -> Result<Option<Work<'w>>, StoreError> {
        let work = |sealer, plain_allowed| Work { conn, sealer, to_plain, plain_allowed, done: Rekeyed::default() };
        let Some(seal) = seal else {
            if to_plain {
                return Ok(None);
            }
            let sealer = Sealer::anew(keys.clone())?;
            sealing::begin(conn, &sealer, true)?;
            return Ok(Some(work(sealer, true)));
        };
        let sealer = seal.sealer(keys, path)?;
        let mixed = seal.mixed(&sealer)?;
        if !to_plain && seal.is_all(keys.first()) {
            return Ok(None);
        }
        sealing::know(conn, &sealer)?;
        if to_plain && !mixed {
            sealing::mark_mixed(conn, &sealer)?;
        }
        Ok(Some(work(sealer, mixed)))
    }

    /// Rewrites the next values of a column in one transaction. Returns the key of the last one; `None` if there are no
    /// more.
    fn transaction(&mut self, column: &Column, after: i64) -> Result<Option<i64>, StoreError> {
        let found = next(self.conn, column, after).map_err(|e| error(&e))?;
        let tx = self.conn.unchecked_transaction().map_err(|e| error(&e))?;
        for Stored { key, session, born, n, content } in &found {
            let place = (column.place)(session, *born, *n);
            if let Some(plain) = self.opened(place, content) {
                let sealed = if self.to_plain { None } else { Some(self.sealer.seal(place, &plain)?) };
                let value = match &sealed {
                    Some(sealed) => ValueRef::Blob(sealed),
                    None if column.ending => {
                        let title = Ending::of_bytes(&plain).and_then(|ending| ending.title);
                        title.map_or(ValueRef::Null, |title| ValueRef::Text(title.as_bytes()))
                    }
                    None if matches!(place, Place::AuditHash { .. }) => ValueRef::Blob(&plain),
                    None => ValueRef::Text(&plain),
                };
                run(&tx, column.update, params![key, ToSqlOutput::Borrowed(value)])?;
                self.done.rewritten += 1;
            }
        }
        tx.commit().map_err(|e| error(&e))?;
        log::write_back(self.conn, log::bound(self.conn)?)?;
        Ok(found.last().map(|stored| stored.key))
    }

    /// The plain content to rewrite; `None` if it stays as it is.
    fn opened(&mut self, place: Place<'_>, content: &Content) -> Option<Vec<u8>> {
        let opened = match content {
            Content::Plain(_) if !self.plain_allowed => {
                Err(SealError::Value { place: place.to_string(), what: "is not encrypted, but the store is".into() })
            }
            Content::Plain(plain) if !self.to_plain => Ok(plain.clone()),
            Content::Sealed(sealed)
                if self.to_plain || key_of(sealed) != Some(self.sealer.keys().first().as_bytes()) =>
            {
                self.sealer.open(place, sealed)
            }
            Content::Plain(_) | Content::Sealed(_) => {
                self.done.kept += 1;
                return None;
            }
        };
        match opened {
            Ok(plain) => Some(plain),
            Err(e) => {
                self.done.unreadable += 1;
                if self.done.named.len() < NAMED {
                    self.done.named.push(e.to_string());
                }
                None
            }
        }
    }

    /// Frees the pages of the old values, and then marks the store as done.
    fn end(self) -> Result<Rekeyed, StoreError> {
        let failed = |e: rusqlite::Error| error(&e);
        // VACUUM's copy is as large as the store, too large for memory, and sealed by now.
        self.conn.pragma_update(None, "temp_store", "FILE").map_err(failed)?;
        run(self.conn, "VACUUM", [])?;
        // The log has the old pages until it is checkpointed and truncated.
        let busy: i64 = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
        if busy != 0 {
            let what = "somebody is reading the store, so that its old pages cannot be freed; run it again";
            return Err(StoreError::Failed(what.to_owned()));
        }
        let tx = self.conn.unchecked_transaction().map_err(failed)?;
        match (self.to_plain, self.done.unreadable) {
            (false, unreadable) => {
                run(&tx, "UPDATE encryption SET mixed = NULL", [])?;
                if unreadable == 0 {
                    run(&tx, "DELETE FROM encryption_keys WHERE id <> ?1", [self.sealer.keys().first()])?;
                }
            }
            (true, 0) => {
                run(&tx, "DELETE FROM encryption", [])?;
                run(&tx, "DELETE FROM encryption_keys", [])?;
            }
            (true, _) => {}
        }
        tx.commit().map_err(failed)?;
        Ok(self.done)
    }
}
