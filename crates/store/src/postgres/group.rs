//! Appends of several sessions that are committed together.
//!
//! While few are under way an append is sent at once, alone. Later ones wait until one of these has ended, and are then sent
//! together, in one transaction of at most two statements: they share its round trips, the start of a statement, its commit
//! and the wait for the disk. A statement finds nothing of an append whose session is not at the expected position, and that
//! does not affect the others. An append that is not stored this way is stored alone, or refused with the reason, as if it had
//! not waited.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::{
    super::{StoreError, nodes::Epoch},
    append::{self, Write},
    connect::{Held, Pool},
    transaction::{together, transact},
};

/// How many transactions of appends are under way before others wait: one is executed while the other waits for the
/// disk. With more, each has fewer appends.
const AT_ONCE: usize = 2;
/// The most appends of one transaction, and the most bytes of one that shares it: together a MiB.
const TOGETHER: usize = 32;
pub(super) const SMALL: usize = 32 * 1024;
/// How long others wait for a transaction under way: longer than a shared one waits for one lock. One that takes
/// longer, because it waits for several locks, for one by itself or for a connection, delays no others.
const PATIENCE: Duration = Duration::from_millis(100);

type Stored = Result<Option<Epoch>, StoreError>;

/// An append, and the channel for its outcome.
struct Waiting {
    write: Write,
    tell: oneshot::Sender<Stored>,
}

impl Waiting {
    async fn store(self, pool: &Pool) {
        let stored = transact(pool, &self.write).await;
        self.tell(stored);
    }

    fn tell(self, stored: Stored) {
        // The caller may have stopped waiting.
        let _ = self.tell.send(stored);
    }
}

#[derive(Default)]
struct Queue {
    under_way: usize,
    waiting: VecDeque<Waiting>,
}

/// The appends of a node that are one statement each.
pub(super) struct Group {
    pool: Pool,
    /// The threads on which the store was opened, even for callers on others: its connections are there too.
    threads: Handle,
    queue: Mutex<Queue>,
}

/// One of the workers that store queued appends. Its place is released with the queue locked, so that no append is
/// queued unnoticed: by [`Worker::next`], or here if its threads end before.
struct Worker {
    group: Arc<Group>,
    works: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.works {
            let mut queue = self.group.queue();
            queue.under_way -= 1;
            // No worker may be left to store them.
            queue.waiting.clear();
        }
    }
}

impl Group {
    /// On the threads of its caller.
    pub(super) fn new(pool: Pool) -> Arc<Group> {
        Arc::new(Group { pool, threads: Handle::current(), queue: Mutex::default() })
    }

    /// Stores one, even if the caller stops waiting.
    pub(super) async fn append(self: &Arc<Group>, write: Write) -> Stored {
        let (tell, told) = oneshot::channel();
        if self.wait(Waiting { write, tell }) {
            self.threads.spawn(go(Worker { group: self.clone(), works: true }));
        }
        told.await.unwrap_or_else(|_| Err(self.pool.history.unknown()))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is never left half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an append. Returns whether a worker may start for it.
    fn wait(&self, one: Waiting) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(one);
        let is_free = queue.under_way < AT_ONCE;
        queue.under_way += usize::from(is_free);
        is_free
    }
}

impl Worker {
    /// The appends that have waited longest, at most one of each session, or `None` if none is queued.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut queue = self.group.queue();
        let (mut sessions, mut next, mut left) = (HashSet::new(), Vec::new(), VecDeque::new());
        while next.len() < TOGETHER
            && let Some(one) = queue.waiting.pop_front()
        {
            if sessions.insert(one.write.session_id().clone()) { next.push(one) } else { left.push_back(one) }
        }
        while let Some(one) = left.pop_back() {
            queue.waiting.push_front(one);
        }
        if next.is_empty() {
            queue.under_way -= 1;
            self.works = false;
            return None;
        }
        Some(next)
    }
}

/// Stores queued appends, one transaction after the other.
async fn go(mut worker: Worker) {
    while let Some(next) = worker.next() {
        let stored = tokio::spawn(store(worker.group.pool.clone(), next));
        // It continues in its own task.
        let _ = timeout(PATIENCE, stored).await;
    }
}

/// Stores one alone, or several together, and then, alone, each that was not stored.
async fn store(pool: Pool, mut appends: Vec<Waiting>) {
    if appends.len() == 1
        && let Some(one) = appends.pop()
    {
        return one.store(&pool).await;
    }
    // So that all nodes lock sessions in one order.
    appends.sort_unstable_by(|a, b| a.write.session_id().cmp(b.write.session_id()));
    let held = match Held::of(&pool).await {
        Ok(held) => held,
        // Tried one by one they would only wait for a connection again.
        Err(error) => return appends.into_iter().for_each(|one| one.tell(Err(error.clone()))),
    };
    let writes: Vec<&Write> = appends.iter().map(|one| &one.write).collect();
    let history = held.history.clone();
    let rows = together(held, append::statements_of(&writes)).await;
    let stored = match &rows {
        // It is committed, so an unreadable result is no reason to repeat it.
        Ok(rows) => append::stored(rows).map_err(|_| history.unknown()),
        Err(error) => Err(error.clone()),
    };
    for one in appends {
        let lease = stored.as_ref().map(|stored| stored.get(one.write.session_id().as_bytes()).copied());
        match lease {
            Ok(Some(lease)) => one.tell(Ok(lease)),
            Err(StoreError::Unknown) => one.tell(Err(StoreError::Unknown)),
            _ => {
                let pool = pool.clone();
                tokio::spawn(async move { one.store(&pool).await });
            }
        }
    }
}
