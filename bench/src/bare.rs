//! The floor: a hand-written rusqlite loop that makes only the same commits.

use std::{path::Path, time::Instant};

use rusqlite::{Connection, params};

use crate::Result;

/// Bytes of one row: about what an approval cycle appends in one commit.
const ROW: usize = 400;

/// Cycles per second of a single thread that inserts a row and updates another in each of `commits` transactions per
/// cycle, with WAL and `synchronous=FULL`; in memory without a path.
pub(crate) fn rate(path: Option<&Path>, commits: usize, cycles: usize) -> Result<f64> {
    let db = match path {
        Some(path) => Connection::open(path)?,
        None => Connection::open_in_memory()?,
    };
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.execute_batch(
        "create table entries(session integer, pos integer, body text, primary key(session, pos)) without rowid;
         create table sessions(id integer primary key, pos integer, head text);
         insert into sessions values (1, 0, '');",
    )?;
    let body = "x".repeat(ROW);
    let begin = Instant::now();
    let mut pos = 0_i64;
    for _ in 0..cycles {
        for _ in 0..commits {
            pos += 1;
            db.execute_batch("begin immediate")?;
            db.prepare_cached("insert into entries values (1, ?1, ?2)")?.execute(params![pos, body])?;
            db.prepare_cached("update sessions set pos = ?1, head = ?2 where id = 1")?.execute(params![pos, body])?;
            db.execute_batch("commit")?;
        }
    }
    Ok(cycles as f64 / begin.elapsed().as_secs_f64())
}
