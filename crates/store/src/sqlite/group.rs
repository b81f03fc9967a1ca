//! A group of writes, committed together.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    super::{Durability, StoreError},
    apply::{self, Delete, Write},
    copy::Piece,
    deliveries, log,
    schema::error,
    sealing::Values,
    statement::{run, uncommitted},
    unfinished,
    waypoints::Kept,
};

/// Something to write.
pub(super) enum Op {
    Append(Box<Write>),
    /// Reserves a number for a copy that is to become this session, and reports it.
    Begin(Arc<AtomicI64>, Arc<str>),
    Piece(Piece),
    /// A copy has ended, or was given up: remove its leftovers.
    GiveUp(Arc<AtomicI64>),
    Keep(Kept),
    /// Changes the progress of an endpoint.
    Deliveries(String, deliveries::Change),
    /// Deletes a session, if it ends at the position, where one is given, and reports its number: its entries stay under
    /// it until they are removed, in pieces.
    Delete(Box<Delete>, AtomicI64),
    /// Gives its history a new id.
    RenewHistory,
    /// Syncs everything written before.
    Sync,
    Check,
    #[cfg(test)]
    Panic,
}

impl Op {
    /// Roughly how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        match self {
            Op::Append(write) => write.size(),
            Op::Piece(piece) => piece.size(),
            Op::Keep(kept) => kept.size(),
            _ => 0,
        }
    }

    /// Whether it is answered before it is synced. Copied entries belong to no session before the append that ends the
    /// copy.
    pub(super) fn is_buffered(&self) -> bool {
        match self {
            Op::Append(write) => write.durability == Durability::Buffered,
            Op::Begin(..) | Op::Piece(_) | Op::GiveUp(_) | Op::Keep(..) | Op::Deliveries(..) => true,
            _ => false,
        }
    }
}

pub(super) struct Job {
    pub(super) op: Op,
    pub(super) answer: oneshot::Sender<Result<bool, StoreError>>,
    /// Its share of the queue's budget, if it needs one; released when it is answered.
    pub(super) _place: Option<OwnedSemaphorePermit>,
}

/// Why nothing may be acknowledged any more.
pub(super) struct Fatal(pub(super) String);

pub(super) type Answers = Vec<Result<bool, StoreError>>;

/// Commits a group. Returns its answers, in order; `waited` says whether the last commit that wrote anything was
/// synced.
pub(super) fn commit(
    conn: &Connection,
    values: &Values,
    group: &[Job],
    waits: &mut bool,
    waited: &mut Option<bool>,
) -> Result<Answers, Fatal> {
    let (committing, e) = match transaction(conn, values, group, waits, waited) {
        Ok(answers) => return Ok(answers),
        Err(Undone { error: StoreError::Closed(why), .. }) => return Err(Fatal(why)),
        Err(Undone { committing, error }) => (committing, error),
    };
    if !conn.is_autocommit()
        && let Err(e) = run(conn, "ROLLBACK", [])
    {
        return Err(Fatal(format!("a commit that had failed could not be rolled back: {e}")));
    }
    if committing || group.len() == 1 {
        return Ok(group.iter().map(|_| Err(e.clone())).collect());
    }
    // One that does not fit must not keep out those that do.
    let mut answers = Answers::with_capacity(group.len());
    for job in group {
        answers.extend(commit(conn, values, std::slice::from_ref(job), waits, waited)?);
    }
    Ok(answers)
}

/// Why a transaction was not committed.
struct Undone {
    committing: bool,
    error: StoreError,
}

/// Whether commits are synced from now on.
pub(super) fn wait_for_disk(conn: &Connection, waits: &mut bool, wait: bool) -> Result<(), StoreError> {
    if wait != *waits {
        // NORMAL writes to the log without waiting for the disk; the next FULL commit syncs the whole log.
        conn.pragma_update(None, "synchronous", if wait { "FULL" } else { "NORMAL" }).map_err(|e| error(&e))?;
        *waits = wait;
    }
    Ok(())
}

fn transaction(
    conn: &Connection,
    values: &Values,
    group: &[Job],
    waits: &mut bool,
    waited: &mut Option<bool>,
) -> Result<Answers, Undone> {
    let before = |error| Undone { committing: false, error };
    wait_for_disk(conn, waits, group.iter().any(|job| !job.op.is_buffered())).map_err(before)?;
    run(conn, "BEGIN IMMEDIATE", []).map_err(before)?;
    let answers = match together(conn, values, group).map_err(before)? {
        Some(answers) => answers,
        None => {
            run(conn, "ROLLBACK", []).map_err(before)?;
            run(conn, "BEGIN IMMEDIATE", []).map_err(before)?;
            let apart = group.iter().map(|job| member(conn, values, &job.op));
            apart.collect::<Result<Answers, _>>().map_err(before)?
        }
    };
    if answers.iter().all(Result::is_err) {
        run(conn, "ROLLBACK", []).map_err(before)?;
    } else {
        // Removing leftovers acknowledges nothing.
        let _ = log::has_written();
        let committed = conn.prepare_cached("COMMIT").and_then(|mut statement| statement.execute([]));
        committed.map_err(|e| Undone { committing: true, error: uncommitted(&e) })?;
        if log::has_written() {
            *waited = Some(*waits);
        }
    }
    Ok(answers)
}

/// All members of a group without savepoints, for which SQLite copies pages; failures are rare. `None` if one of
/// several fails: then all must be rolled back, and done one by one.
fn together(conn: &Connection, values: &Values, group: &[Job]) -> Result<Option<Answers>, StoreError> {
    let mut answers = Answers::with_capacity(group.len());
    for job in group {
        let answer = alone(conn, values, &job.op)?;
        if answer.is_err() && group.len() > 1 {
            return Ok(None);
        }
        answers.push(answer);
    }
    Ok(Some(answers))
}

/// One member of a group: its own answer, or the error that ends the whole transaction.
fn member(conn: &Connection, values: &Values, op: &Op) -> Result<Result<bool, StoreError>, StoreError> {
    run(conn, "SAVEPOINT member", [])?;
    let answer = alone(conn, values, op)?;
    if answer.is_err() {
        run(conn, "ROLLBACK TO member", [])?;
    }
    run(conn, "RELEASE member", [])?;
    Ok(answer)
}

/// Runs one operation: its answer (after an error it may be half done, and must be rolled back), or the error that ends
/// the whole transaction.
fn alone(conn: &Connection, values: &Values, op: &Op) -> Result<Result<bool, StoreError>, StoreError> {
    let answer = match op {
        Op::Append(write) => write.apply(conn, values).map(|()| true),
        Op::Begin(number, session_id) => {
            // Checked again when the copy ends; checked now so that nothing is copied in vain.
            let begun = apply::check_free(conn, session_id).and_then(|()| unfinished::begin(conn));
            begun.map(|begun| number.store(begun, Ordering::SeqCst)).map(|()| true)
        }
        Op::Piece(piece) => piece.apply(conn).map(|()| true),
        // Removed when there is time.
        Op::GiveUp(number) => unfinished::is(conn, number.load(Ordering::SeqCst)),
        Op::Keep(kept) => kept.apply(conn),
        Op::Deliveries(endpoint, change) => change.apply(conn, endpoint),
        Op::Delete(delete, number) => delete.apply(conn, values).map(|deleted| {
            number.store(deleted.unwrap_or_default(), Ordering::SeqCst);
            deleted.is_some()
        }),
        Op::RenewHistory => run(conn, "UPDATE event_history SET id = lower(hex(randomblob(16)))", []).map(|_| true),
        Op::Check => apply::probe(conn).map(|()| true),
        // It is when the transaction commits.
        Op::Sync => Ok(true),
        #[cfg(test)]
        #[expect(clippy::panic, reason = "what happens then is tested")]
        Op::Panic => panic!("the writer panics"),
    };
    if let Err(e) = &answer
        && (conn.is_autocommit() || matches!(e, StoreError::Closed(_)))
    {
        // SQLite itself has rolled the whole transaction back, or none will be committed any more.
        return Err(e.clone());
    }
    Ok(answer)
}
