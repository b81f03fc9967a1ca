//! The writer: one thread that owns the writing connection and commits in groups.
//!
//! Everything that waits when a commit ends goes into the next one together, so many sessions share the
//! wait for the disk. Each member of a group that fails alone is taken back alone.

use std::{
    sync::{Arc, OnceLock, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{
    super::{Durability, StoreError},
    apply::{self, Write},
    log,
    schema::error,
    sealing::Values,
    statement::run,
};

/// Most members of one group.
const GROUP: usize = 256;
/// Bytes that may wait for the writer. A larger append goes alone.
const WAITING_BYTES: usize = 32 * 1024 * 1024;
/// What an append counts for beside its texts, so that their number is bounded too.
const OVERHEAD_BYTES: usize = 4 * 1024;

/// After how many groups the size of the database is looked at.
const LOOK_AT_SIZE: u32 = 256;

/// Something to write.
pub(super) enum Op {
    Append(Box<Write>),
    Delete(Box<str>),
    Check,
    #[cfg(test)]
    Panic,
}

struct Job {
    op: Op,
    answer: oneshot::Sender<Result<bool, StoreError>>,
    /// Its place among what waits; given back when it is answered.
    _place: OwnedSemaphorePermit,
}

/// Why the store is closed, once a write or sync has failed. What the disk holds is not known then: Linux takes the
/// pages of a failed sync for written, so a later one that succeeds would acknowledge what the next power cut takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken(Arc<OnceLock<String>>);

impl Broken {
    /// # Errors
    /// [`StoreError::Closed`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.get().map_or(Ok(()), |why| Err(StoreError::Closed(why.clone())))
    }

    /// Closes the store for good.
    fn close(&self, conn: &Connection, why: String) {
        log::leave(conn);
        let place = conn.path().unwrap_or_default();
        tracing::error!("the store {place} is closed until it is opened again, and acknowledges nothing: {why}");
        // The first reason is the one that counts.
        let _ = self.0.set(why);
    }
}

/// The way to the writer.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    places: Arc<Semaphore>,
    broken: Broken,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        conn: Connection,
        values: Values,
        broken: &Broken,
    ) -> Result<(Writer, JoinHandle<()>), StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let (broken, closes) = (broken.clone(), broken.clone());
        let thread = std::thread::Builder::new()
            .name("countersign-sqlite-writer".to_owned())
            .spawn(move || write(conn, &values, &waiting, &closes))
            .map_err(|e| StoreError::Failed(format!("cannot start the writer: {e}")))?;
        Ok((Writer { jobs, places: Arc::new(Semaphore::new(WAITING_BYTES)), broken }, thread))
    }

    /// Has something written, and waits until it is as safe as it asks for.
    pub(super) async fn write(&self, op: Op) -> Result<bool, StoreError> {
        self.broken.check()?;
        let size = if let Op::Append(write) = &op { write.size() } else { 0 };
        let size = size.saturating_add(OVERHEAD_BYTES).min(WAITING_BYTES);
        let place = self.places.clone().acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await;
        let place = place.map_err(|_| stopped())?;
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job { op, answer, _place: place }).map_err(|_| stopped())?;
        answered.await.map_err(|_| StoreError::Unknown)?
    }
}

pub(super) fn stopped() -> StoreError {
    StoreError::Failed("the store has stopped".to_owned())
}

/// How long the writer looks for more before it sleeps. A session's next append comes soon after its last one
/// was answered, and waking a thread costs about as much as all else that is done for it.
const LOOKS: Duration = Duration::from_micros(150);

/// The next job; `None` when there will be none any more.
fn next(waiting: &mpsc::Receiver<Job>) -> Option<Job> {
    let since = Instant::now();
    loop {
        match waiting.try_recv() {
            Ok(job) => return Some(job),
            Err(mpsc::TryRecvError::Disconnected) => return None,
            Err(mpsc::TryRecvError::Empty) if since.elapsed() < LOOKS => std::hint::spin_loop(),
            Err(mpsc::TryRecvError::Empty) => return waiting.recv().ok(),
        }
    }
}

fn write(conn: Connection, values: &Values, waiting: &mpsc::Receiver<Job>, broken: &Broken) {
    let mut synced = true;
    let mut group = Vec::new();
    let (mut groups, mut most) = (0_u32, 0);
    while let Some(first) = next(waiting) {
        group.push(first);
        group.extend(waiting.try_iter().take(GROUP - 1));
        let answers = match broken.check() {
            Err(e) => group.iter().map(|_| Err(e.clone())).collect(),
            Ok(()) => match commit(&conn, values, &group, &mut synced) {
                Ok(answers) => answers,
                Err(Fatal(why)) => {
                    broken.close(&conn, why.clone());
                    group.iter().map(|_| Err(StoreError::Closed(why.clone()))).collect()
                }
            },
        };
        for (job, answer) in group.drain(..).zip(answers) {
            // Who does not wait any more does not need the answer.
            let _ = job.answer.send(answer);
        }
        if broken.check().is_ok() {
            let looks = if groups % LOOK_AT_SIZE == 0 { log::bound(&conn).map(|bound| most = bound) } else { Ok(()) };
            match looks.and_then(|()| log::write_back(&conn, most)) {
                Ok(()) => {}
                Err(StoreError::Closed(why)) => {
                    broken.close(&conn, format!("the log could not be written back: {why}"))
                }
                Err(e) => tracing::warn!("the SQLite log could not be written back: {e}"),
            }
        }
        groups = groups.wrapping_add(1);
    }
    // Leaves one file: the log is empty and goes away.
    if broken.check().is_ok()
        && let Err(e) = conn.pragma_update(None, "wal_checkpoint", "TRUNCATE")
    {
        tracing::warn!("the SQLite log could not be emptied: {e}");
        log::leave(&conn);
    }
    if let Err((_, e)) = conn.close() {
        tracing::warn!("the SQLite store could not be closed: {e}");
    }
}

/// Why nothing may be acknowledged any more.
struct Fatal(String);

type Answers = Vec<Result<bool, StoreError>>;

/// Commits a group. Its answers, in order.
fn commit(conn: &Connection, values: &Values, group: &[Job], synced: &mut bool) -> Result<Answers, Fatal> {
    let (committing, e) = match transaction(conn, values, group, synced) {
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
        answers.extend(commit(conn, values, std::slice::from_ref(job), synced)?);
    }
    Ok(answers)
}

/// Why a transaction is not there.
struct Undone {
    committing: bool,
    error: StoreError,
}

/// What a commit that failed is. One for which there is no room has written nothing that counts, and is rolled back; of any
/// other it is not known what the disk holds.
fn uncommitted(e: &rusqlite::Error) -> StoreError {
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => error(e),
        _ => StoreError::Closed(e.to_string()),
    }
}

fn transaction(conn: &Connection, values: &Values, group: &[Job], synced: &mut bool) -> Result<Answers, Undone> {
    let before = |error| Undone { committing: false, error };
    let sync = group.iter().any(|job| !matches!(&job.op, Op::Append(w) if w.durability == Durability::Buffered));
    if sync != *synced {
        // NORMAL writes to the log without waiting for the disk; the next FULL commit syncs the whole log.
        let set = conn.pragma_update(None, "synchronous", if sync { "FULL" } else { "NORMAL" });
        set.map_err(|e| before(error(&e)))?;
        *synced = sync;
    }
    run(conn, "BEGIN IMMEDIATE", []).map_err(before)?;
    let mut answers = Vec::with_capacity(group.len());
    for job in group {
        answers.push(member(conn, values, &job.op).map_err(before)?);
    }
    if answers.iter().all(Result::is_err) {
        run(conn, "ROLLBACK", []).map_err(before)?;
    } else {
        let committed = conn.prepare_cached("COMMIT").and_then(|mut statement| statement.execute([]));
        committed.map_err(|e| Undone { committing: true, error: uncommitted(&e) })?;
    }
    Ok(answers)
}

/// One member of a group: its own answer, or the error that ends the whole transaction.
fn member(conn: &Connection, values: &Values, op: &Op) -> Result<Result<bool, StoreError>, StoreError> {
    run(conn, "SAVEPOINT member", [])?;
    let answer = match op {
        Op::Append(write) => write.apply(conn, values).map(|()| true),
        Op::Delete(session_id) => apply::delete(conn, session_id),
        Op::Check => apply::probe(conn).map(|()| true),
        #[cfg(test)]
        #[expect(clippy::panic, reason = "what happens then is tested")]
        Op::Panic => panic!("the writer panics"),
    };
    if let Err(e) = &answer {
        if conn.is_autocommit() || matches!(e, StoreError::Closed(_)) {
            // SQLite has rolled the whole transaction back by itself, or none will be committed any more.
            return Err(e.clone());
        }
        run(conn, "ROLLBACK TO member", [])?;
    }
    run(conn, "RELEASE member", [])?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r9_a_panic_of_the_writer_leaves_no_one_waiting() {
        let (writer, thread) =
            Writer::start(Connection::open_in_memory().expect("open"), Values::plain(), &Broken::default())
                .expect("start");
        assert!(matches!(writer.write(Op::Panic).await, Err(StoreError::Unknown)));
        assert!(thread.join().is_err());
        assert!(matches!(writer.write(Op::Check).await, Err(StoreError::Failed(_))));
    }
}
