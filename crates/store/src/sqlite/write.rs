//! The writer: one thread that owns the writing connection and commits in groups.
//!
//! Everything queued when a commit ends goes into the next one together, so many sessions share one sync. A member of a
//! group that fails alone is rolled back alone.
//!
//! A failed write or sync closes the store: Linux marks the pages of a failed sync clean, so a later sync that succeeds
//! proves nothing about them. A leftover log is rewritten before it is used.

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::{
    super::StoreError,
    group::{Answers, Fatal, Job, Op, commit, wait_for_disk},
    log, running,
    sealing::Values,
    unfinished,
};

/// The log line for a store whose disk can no longer be relied on. Tests wait for it, and count it.
pub const CLOSED: &str = "is closed until it is opened again, and acknowledges nothing";

/// Most members of one group.
const GROUP: usize = 256;
/// Bytes that may be queued for the writer. A larger append is queued alone.
const WAITING_BYTES: usize = 32 * 1024 * 1024;
/// The size an append counts for besides its texts, so that their number is bounded too.
const OVERHEAD_BYTES: usize = 4 * 1024;

/// After how many groups some leftovers of copies and deleted sessions are removed, even under a load that never ends.
const REMOVE_AFTER: u32 = 16;

/// After how many groups the size of the database is checked.
const LOOK_AT_SIZE: u32 = 256;

/// Why the store is closed, once a write or sync has failed. The disk's contents are unknown then: Linux marks the
/// pages of a failed sync clean, so a later one that succeeds would acknowledge data that the next power cut takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Broken(Arc<OnceLock<String>>);

impl Broken {
    /// # Errors
    /// [`StoreError::Closed`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.0.get().map_or(Ok(()), |why| Err(StoreError::Closed(why.clone())))
    }

    /// Closes the store for good. The first reason counts, and is logged once.
    fn close(&self, conn: &Connection, why: String) {
        log::leave(conn);
        let place = conn.path().unwrap_or_default();
        if self.0.set(why).is_ok()
            && let Some(why) = self.0.get()
        {
            tracing::error!("the store {place} {CLOSED}: {why}");
        }
    }
}

/// How many groups were written, and how many of them are known to be on the disk.
#[derive(Debug, Default)]
struct Written {
    count: AtomicU64,
    on_disk: AtomicU64,
}

/// A handle to the writer.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    places: Arc<Semaphore>,
    broken: Broken,
    written: Arc<Written>,
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
        let written = Arc::<Written>::default();
        let counts = written.clone();
        let thread = std::thread::Builder::new()
            .name("countersign-sqlite-writer".to_owned())
            .spawn(move || write(conn, &values, &waiting, &closes, &counts))
            .map_err(|e| StoreError::Failed(format!("cannot start the writer: {e}")))?;
        Ok((Writer { jobs, places: Arc::new(Semaphore::new(WAITING_BYTES)), broken, written }, thread))
    }

    /// Writes, and waits until it is as durable as requested.
    pub(super) async fn write(&self, op: Op) -> Result<bool, StoreError> {
        self.broken.check()?;
        let size = op.size().saturating_add(OVERHEAD_BYTES).min(WAITING_BYTES);
        let place = self.places.clone().acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await;
        let place = place.map_err(|_| stopped())?;
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job { op, answer, _place: Some(place) }).map_err(|_| stopped())?;
        answered.await.map_err(|_| StoreError::Unknown)?
    }

    /// Waits until everything written before is on the disk.
    pub(super) async fn sync(&self) -> Result<(), StoreError> {
        self.broken.check()?;
        let count = self.written.count.load(Ordering::SeqCst);
        if self.written.on_disk.load(Ordering::SeqCst) >= count {
            return Ok(());
        }
        self.write(Op::Sync).await.map(drop)
    }

    /// Schedules removal of the leftovers of a copy, after everything queued before.
    pub(super) fn give_up(&self, number: Arc<AtomicI64>) {
        let (answer, _) = oneshot::channel();
        // A stopped store removes it when it is opened again.
        let _ = self.jobs.send(Job { op: Op::GiveUp(number), answer, _place: None });
    }
}

pub(super) fn stopped() -> StoreError {
    StoreError::Failed("the store has stopped".to_owned())
}

/// How long the writer polls for more before it sleeps. A session's next append comes soon after its last one was
/// answered, and waking a thread costs about as much as the rest of the work.
const LOOKS: Duration = Duration::from_micros(150);

/// How long a write may stay unsynced.
const UNSYNCED: Duration = Duration::from_millis(10);
/// How long what deleted sessions have left is removed when the store closes.
const AT_THE_END: Duration = Duration::from_secs(3);

/// How long no write must be refused before the refusals count as over: a full disk still takes small writes now and
/// then.
const CALM: Duration = Duration::from_secs(5);

/// The writer's next step.
enum Next {
    Job(Job),
    /// A sync is due.
    Due,
    /// The queue has ended.
    End,
}

/// The next job, or that a sync is due. While there is no job it runs `meanwhile` as long as that has work.
fn next(waiting: &mpsc::Receiver<Job>, due: Option<Instant>, mut meanwhile: impl FnMut() -> bool) -> Next {
    let since = Instant::now();
    loop {
        if due.is_some_and(|due| due <= Instant::now()) {
            return Next::Due;
        }
        match waiting.try_recv() {
            Ok(job) => return Next::Job(job),
            Err(mpsc::TryRecvError::Disconnected) => return Next::End,
            Err(mpsc::TryRecvError::Empty) if meanwhile() => {}
            Err(mpsc::TryRecvError::Empty) if since.elapsed() < LOOKS => std::hint::spin_loop(),
            Err(mpsc::TryRecvError::Empty) => {
                let Some(due) = due else { return waiting.recv().map_or(Next::End, Next::Job) };
                return match waiting.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(job) => Next::Job(job),
                    Err(mpsc::RecvTimeoutError::Timeout) => Next::Due,
                    Err(mpsc::RecvTimeoutError::Disconnected) => Next::End,
                };
            }
        }
    }
}

/// The state of the writer's thread.
struct Thread<'w> {
    conn: Connection,
    values: &'w Values,
    broken: &'w Broken,
    /// Whether commits sync.
    waits_for_disk: bool,
    written: &'w Written,
    /// When the oldest unsynced group was written.
    unsynced: Option<Instant>,
    /// The log, to sync it without writing anything.
    log: Option<File>,
    /// How many transactions there were, and how long the log may get.
    groups: u32,
    most: i64,
    /// Whether the log says that it could not be written back.
    told: bool,
    /// The numbers of copies and deleted sessions with leftovers.
    left: Vec<i64>,
    /// How many groups there were since the last removal, and whether that failed: then it waits, as under load.
    since: u32,
    waits: bool,
    /// When it last refused something for want of room, until that is over.
    refused: Option<Instant>,
}

fn write(conn: Connection, values: &Values, waiting: &mpsc::Receiver<Job>, broken: &Broken, written: &Written) {
    let mut thread = Thread::new(conn, values, broken, written);
    match unfinished::left(&thread.conn) {
        Ok(left) => thread.left = left,
        Err(e) => {
            tracing::warn!("leftovers of deleted sessions and of unfinished copies could not be listed: {e}")
        }
    }
    // A process that writes little never writes the log back.
    match thread.forget() {
        Ok(()) => {}
        Err(StoreError::Closed(why)) => broken.close(&thread.conn, why),
        Err(e) => tracing::warn!("sessions that no longer run could not be forgotten: {e}"),
    }
    let mut group = Vec::new();
    loop {
        let due = thread.unsynced.map(|since| since + UNSYNCED);
        match next(waiting, due, || !thread.waits && thread.remove()) {
            Next::Job(first) => {
                group.push(first);
                group.extend(waiting.try_iter().take(GROUP - 1));
                thread.group(&mut group);
                thread.remove_now_and_then();
            }
            Next::Due => drop(thread.sync()),
            Next::End => break,
        }
    }
    thread.remove_at_the_end();
    thread.end();
}

impl<'w> Thread<'w> {
    fn new(conn: Connection, values: &'w Values, broken: &'w Broken, written: &'w Written) -> Thread<'w> {
        Thread {
            conn,
            values,
            broken,
            waits_for_disk: true,
            written,
            unsynced: None,
            log: None,
            groups: 0,
            most: 0,
            told: false,
            left: Vec::new(),
            since: 0,
            waits: false,
            refused: None,
        }
    }

    /// Syncs everything written.
    fn sync(&mut self) -> Result<(), StoreError> {
        if let Err(e) = self.broken.check() {
            // No sync will succeed any more, and nothing may wait for one.
            self.unsynced = None;
            return Err(e);
        }
        if self.unsynced.is_some() {
            let log =
                match self.log.take().map_or_else(|| log::open(Path::new(self.conn.path().unwrap_or_default())), Ok) {
                    Ok(log) => self.log.insert(log),
                    Err(e) => {
                        // There may be too many open files. Nothing is lost: it is tried again.
                        self.unsynced = Some(Instant::now());
                        return Err(StoreError::Failed(format!("the log could not be opened to be synced: {e}")));
                    }
                };
            if let Err(e) = log.sync_data() {
                let why = format!("the log could not be synced: {e}");
                self.broken.close(&self.conn, why.clone());
                self.unsynced = None;
                return Err(StoreError::Closed(why));
            }
        }
        self.all_on_disk();
        Ok(())
    }

    fn all_on_disk(&mut self) {
        self.unsynced = None;
        self.written.on_disk.store(self.written.count.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Commits a group, and answers.
    fn group(&mut self, group: &mut Vec<Job>) {
        let answers = match self.broken.check() {
            Err(e) => group.iter().map(|_| Err(e.clone())).collect(),
            Ok(()) if group.iter().all(|job| matches!(job.op, Op::Sync)) => {
                let synced = self.sync();
                group.iter().map(|_| synced.clone().map(|()| true)).collect()
            }
            Ok(()) => {
                let mut waited = None;
                // Counted before any reader can see it.
                self.written.count.fetch_add(1, Ordering::SeqCst);
                match commit(&self.conn, self.values, group, &mut self.waits_for_disk, &mut waited) {
                    Ok(answers) => self.committed(group, answers, waited),
                    Err(Fatal(why)) => {
                        self.broken.close(&self.conn, why.clone());
                        self.unsynced = None;
                        group.iter().map(|_| Err(StoreError::Closed(why.clone()))).collect()
                    }
                }
            }
        };
        self.tell(&answers);
        for (job, answer) in group.drain(..).zip(answers) {
            match &job.op {
                // The number was rolled back, and may be given to another soon.
                Op::Begin(number, _) if answer.is_err() => number.store(0, Ordering::SeqCst),
                // If the answer is unknown, removal checks the number again.
                Op::Delete(.., number) if matches!(answer, Ok(true)) => self.left.push(number.load(Ordering::SeqCst)),
                Op::GiveUp(number) if !matches!(answer, Ok(false)) => self.left.push(number.load(Ordering::SeqCst)),
                _ => {}
            }
            // The caller may have stopped waiting.
            let _ = job.answer.send(answer);
        }
        self.write_back();
    }

    /// Logs that something was refused, such as by a full disk, and that nothing is refused any more: once each.
    fn tell(&mut self, answers: &[Result<bool, StoreError>]) {
        let place = self.conn.path().unwrap_or_default();
        let failed = |answer: &&StoreError| matches!(answer, StoreError::Failed(_));
        if let Some(e) = answers.iter().filter_map(|answer| answer.as_ref().err()).find(failed) {
            if self.refused.replace(Instant::now()).is_none() {
                tracing::error!(
                    "{place} does not take what is to be stored, and nothing of that is acknowledged; each request tries it \
                     again: {e}"
                );
            }
        } else if self.refused.is_some_and(|last| last.elapsed() >= CALM) && answers.iter().any(Result::is_ok) {
            tracing::info!("{place} takes what is to be stored again");
            self.refused = None;
        }
    }

    /// Counts a group. `waited`: whether the last commit that wrote anything was synced, if there was one.
    fn committed(&mut self, group: &[Job], mut answers: Answers, waited: Option<bool>) -> Answers {
        if waited == Some(false) {
            self.unsynced.get_or_insert_with(Instant::now);
        }
        // A synced commit has synced everything written before it.
        if waited == Some(true) || self.unsynced.is_none() {
            self.all_on_disk();
        }
        if group.iter().any(|job| matches!(job.op, Op::Sync))
            && let Err(e) = self.sync()
        {
            answers.iter_mut().for_each(|answer| *answer = Err(e.clone()));
        }
        answers
    }

    fn write_back(&mut self) {
        if self.broken.check().is_ok() {
            let looks = if self.groups.is_multiple_of(LOOK_AT_SIZE) {
                log::bound(&self.conn).map(|bound| self.most = bound)
            } else {
                Ok(())
            };
            // On a full disk there is no room to forget in, and only writing back may make some.
            let forgotten = looks.and_then(|()| if log::is_long(self.most) { self.forget() } else { Ok(()) });
            let written_back = match forgotten {
                Err(closed @ StoreError::Closed(_)) => Err(closed),
                forgotten => log::write_back(&self.conn, self.most).and(forgotten),
            };
            match written_back {
                Ok(()) => self.told = false,
                Err(StoreError::Closed(why)) => {
                    self.broken.close(&self.conn, format!("the log could not be written back: {why}"))
                }
                Err(_) if self.told => {}
                Err(e) => {
                    self.told = true;
                    tracing::warn!("the SQLite log could not be written back: {e}");
                }
            }
        }
        self.groups = self.groups.wrapping_add(1);
    }

    /// Forgets which sessions were running. If a crash undoes it, it is only done again.
    fn forget(&mut self) -> Result<(), StoreError> {
        wait_for_disk(&self.conn, &mut self.waits_for_disk, false)?;
        running::forget(&self.conn)
    }

    /// Removes some leftovers if the last removal was long ago: under a load that never ends there is no idle time for
    /// it.
    fn remove_now_and_then(&mut self) {
        self.since += 1;
        if self.since >= REMOVE_AFTER {
            self.waits = false;
            self.remove();
        }
    }

    /// Removes some leftovers of copies and deleted sessions. `false` if there are none.
    fn remove(&mut self) -> bool {
        self.since = 0;
        let Some(number) = self.left.last() else { return false };
        if self.broken.check().is_err() {
            return false;
        }
        // If a crash undoes it, it is only done again.
        let removed = wait_for_disk(&self.conn, &mut self.waits_for_disk, false)
            .and_then(|()| unfinished::remove(&self.conn, *number));
        match removed {
            Ok(true) => {}
            Ok(false) => drop(self.left.pop()),
            Err(StoreError::Closed(why)) => self.broken.close(&self.conn, why),
            Err(e) => {
                tracing::warn!("leftovers of a deleted session or a copy could not be removed now: {e}");
                self.waits = true;
            }
        }
        self.write_back();
        true
    }

    /// Removes the leftovers of deleted sessions, so that nobody finds them in a file that no server has open; what takes
    /// too long is left to the next start.
    fn remove_at_the_end(&mut self) {
        let begun = Instant::now();
        self.waits = false;
        while !self.waits && begun.elapsed() < AT_THE_END && self.remove() {}
        if !self.left.is_empty() {
            let place = self.conn.path().unwrap_or_default();
            tracing::warn!(
                "{place} still has content of deleted sessions, until a server that opens it has removed it"
            );
        }
    }

    /// Leaves one file: the log is emptied and removed.
    fn end(self) {
        let Thread { conn, broken, .. } = self;
        if broken.check().is_ok() {
            let place = conn.path().unwrap_or_default();
            match log::empty(&conn) {
                Ok(true) => {}
                Ok(false) => tracing::warn!(
                    "somebody is reading the store {place}, so a part of it stays in {place}-wal: both files are the store, \
                     until a server opens it again"
                ),
                Err(e) => {
                    tracing::warn!("the log of the store {place} could not be emptied: {e}");
                    log::leave(&conn);
                }
            }
        }
        if let Err((_, e)) = conn.close() {
            tracing::warn!("the SQLite store could not be closed: {e}");
        }
    }
}

#[cfg(test)]
mod tests;
