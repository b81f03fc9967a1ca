//! Forks: the past of another session, copied in pieces of bounded size, so that nothing waits for all of it.
//!
//! The copied entries are stored under a number that no session has, recorded by [`unfinished`](super::unfinished), so
//! they are invisible. The append that ends the fork gives that number to the session, in one transaction with the rest
//! of it.
//!
//! A piece is a megabyte and a separate transaction, queued among other writes, so nothing waits for more than one
//! piece and no more is in memory. In an encrypted store each entry is opened and sealed for its new place. The append
//! that ends the fork syncs all pieces. A taken id is refused before anything is copied, and checked again at the end.
//! With a copy by reference, deleting the original or encrypting it under another key would affect every fork.
//! The memory store shares entries and copies none.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use countersign_core::journal::record::Millis;
use rusqlite::{Connection, params, types::Value};

use super::{
    super::{Append, StoreError, index, no_past, seal::Place},
    SqliteStore,
    apply::Write,
    group::Op,
    rows,
    schema::key,
    sealing::Values,
    statement::run,
    unfinished,
    write::Writer,
};

/// The most entries and stored bytes of a piece, which always has one entry.
const PIECE: (usize, usize) = (512, 1024 * 1024);

/// Copied entries: the number they are under, their positions and their bodies.
#[derive(Debug)]
pub(super) struct Piece {
    session: i64,
    bodies: Vec<(u64, Value)>,
}

impl Piece {
    /// Roughly how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        self.bodies.iter().map(|(_, body)| rows::length(body)).sum()
    }

    #[cfg(test)]
    pub(super) fn of_one(session: i64) -> Piece {
        Piece { session, bodies: vec![(1, Value::Text("{}".to_owned()))] }
    }

    /// Writes it, while the copy is in progress.
    pub(super) fn apply(&self, conn: &Connection) -> Result<(), StoreError> {
        if !unfinished::is(conn, self.session)? {
            return Err(StoreError::Failed("the copy that this piece belongs to is not in progress".to_owned()));
        }
        for (pos, body) in &self.bodies {
            let values = params![key(self.session, *pos)?, body];
            run(conn, "INSERT INTO entries (key, body) VALUES (?1, ?2)", values)?;
        }
        Ok(())
    }
}

/// A copy in progress. Unless it is finished, dropping it discards the copied entries.
struct Copy<'w> {
    writer: &'w Writer,
    /// Set by the writer; 0 is no session's.
    number: Arc<AtomicI64>,
}

impl<'w> Copy<'w> {
    async fn begin(writer: &'w Writer, session_id: Arc<str>) -> Result<Copy<'w>, StoreError> {
        // Created first: if the caller stops waiting for the number, drop discards it too.
        let copy = Copy { writer, number: Arc::default() };
        writer.write(Op::Begin(copy.number.clone(), session_id)).await?;
        Ok(copy)
    }

    fn session(&self) -> i64 {
        self.number.load(Ordering::SeqCst)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        // The writer checks whether it was finished.
        self.writer.give_up(self.number.clone());
    }
}

impl SqliteStore {
    /// See [`super::super::Store::fork`].
    pub(super) async fn copy(&self, from: Arc<str>, append: Append) -> Result<(), StoreError> {
        index::check(&append)?;
        let lanes = self.lanes()?;
        let (until, born) = (append.expected(), append.after.created_at);
        let writer = lanes.writer()?;
        let asked = from.clone();
        let format = lanes.points.read(move |conn| rows::format(conn, &asked)).await?;
        let copy = Copy::begin(writer, append.session_id.clone()).await?;
        let mut after = 0;
        while after < until {
            let (asked, to, values) = (from.clone(), append.session_id.clone(), self.values.clone());
            let most = (PIECE.0.min(usize::try_from(until - after).unwrap_or(usize::MAX)), PIECE.1);
            // Opened and sealed there too: the fork's caller is on a thread shared by everyone.
            let read = move |conn: &mut Connection| bodies(conn, &values, (&asked, after, most), (&to, born));
            let bodies = lanes.points.read(read).await?;
            let Some((last, _)) = bodies.last() else { return Err(self.gone(from, until).await) };
            after = *last;
            writer.write(Op::Piece(Piece { session: copy.session(), bodies })).await?;
        }
        let write = Write::of(&append, &self.values)?.after_copy(copy.session(), format);
        writer.write(Op::Append(Box::new(write))).await.map(|_| ())
    }

    /// Why a past is missing.
    async fn gone(&self, from: Arc<str>, until: u64) -> StoreError {
        let asked = from.clone();
        let deleted = match self.lanes() {
            Ok(lanes) => lanes.points.read(move |conn| rows::check_not_deleted(conn, &asked)).await,
            Err(e) => Err(e),
        };
        deleted.err().unwrap_or_else(|| no_past(&from, until))
    }
}

/// The next bodies of a session's entries after a position, as they are stored in another session.
fn bodies(
    conn: &mut Connection,
    values: &Values,
    (from, after, most): (&str, u64, (usize, usize)),
    (to, born): (&str, Millis),
) -> Result<Vec<(u64, Value)>, StoreError> {
    let move_one = |(pos, was, body)| {
        let of = Place::Entry { session: from, born: was, pos };
        Ok((pos, moved(values, of, Place::Entry { session: to, born, pos }, body)?))
    };
    rows::entries(conn, from, after, most, values)?.into_iter().map(move_one).collect()
}

/// A body, resealed for another place.
fn moved(values: &Values, of: Place<'_>, to: Place<'_>, body: Value) -> Result<Value, StoreError> {
    if values.are_plain() { Ok(body) } else { values.text(to, values.read_text(of, body)?) }
}
