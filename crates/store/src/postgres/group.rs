//! Appends of several sessions that are committed together.
//!
//! While few are under way an append goes at once, by itself. What comes meanwhile waits until one of these has ended, and goes
//! together then, in one transaction: its round trips, its commit and the wait for the disk are shared. Each append stays its one
//! statement, which finds nothing if the session is not where it should be, and hinders no other then. What is not stored so is
//! stored by itself, or told why it cannot be, as if it had not waited.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::{
    super::{StoreError, nodes::Epoch},
    append::Write,
    connect::{Held, Pool},
    transaction::{together, transact},
};

/// How many transactions of appends are under way before others wait: one is carried out while the other waits for the disk. More
/// leave fewer appends for each.
const AT_ONCE: usize = 2;
/// The most appends of one transaction, and the most bytes of one that shares it: together a MiB.
const TOGETHER: usize = 32;
pub(super) const SMALL: usize = 32 * 1024;
/// How long a transaction that is under way has others wait: longer than a shared one waits for one lock. What takes longer, since
/// it waits for several locks, for one by itself or for a connection, holds up no others.
const PATIENCE: Duration = Duration::from_millis(100);

type Stored = Result<Option<Epoch>, StoreError>;

/// An append, and where to tell what came of it.
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
        // Nobody may wait for it any more.
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
    /// The threads on which the store was opened, whoever appends: its connections are there too.
    threads: Handle,
    queue: Mutex<Queue>,
}

/// One of those that store what waits. Its place is given back with the queue locked, so that nothing comes to wait unseen: by
/// [`Worker::next`], or here if its threads end before.
struct Worker {
    group: Arc<Group>,
    works: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.works {
            let mut queue = self.group.queue();
            queue.under_way -= 1;
            // Nobody may be left to store them.
            queue.waiting.clear();
        }
    }
}

impl Group {
    /// On the threads of whoever calls it.
    pub(super) fn new(pool: Pool) -> Arc<Group> {
        Arc::new(Group { pool, threads: Handle::current(), queue: Mutex::default() })
    }

    /// Stores one, also if the caller stops waiting.
    pub(super) async fn append(self: &Arc<Group>, write: Write) -> Stored {
        let (tell, told) = oneshot::channel();
        if self.wait(Waiting { write, tell }) {
            self.threads.spawn(go(Worker { group: self.clone(), works: true }));
        }
        told.await.unwrap_or(Err(StoreError::Unknown))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is never left half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has one wait. Whether it may go at once.
    fn wait(&self, one: Waiting) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(one);
        let is_free = queue.under_way < AT_ONCE;
        queue.under_way += usize::from(is_free);
        is_free
    }
}

impl Worker {
    /// What has waited longest, at most one of each session, or `None` if nothing waits.
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

/// Stores what waits, one transaction after the other.
async fn go(mut worker: Worker) {
    while let Some(next) = worker.next() {
        let stored = tokio::spawn(store(worker.group.pool.clone(), next));
        // It goes on by itself.
        let _ = timeout(PATIENCE, stored).await;
    }
}

/// Stores one by itself, or several together and by itself what does not come of that.
async fn store(pool: Pool, mut appends: Vec<Waiting>) {
    if appends.len() == 1
        && let Some(one) = appends.pop()
    {
        return one.store(&pool).await;
    }
    // All nodes lock sessions in one order.
    appends.sort_unstable_by(|a, b| a.write.session_id().cmp(b.write.session_id()));
    let held = match Held::of(&pool).await {
        Ok(held) => held,
        // By themselves they would wait for a connection once more.
        Err(error) => return appends.into_iter().for_each(|one| one.tell(Err(error.clone()))),
    };
    let writes: Vec<&Write> = appends.iter().map(|one| &one.write).collect();
    let mut stored = together(held, &writes).await.map(Vec::into_iter);
    for one in appends {
        match stored.as_mut().map(Iterator::next) {
            Ok(Some(Some(lease))) => one.tell(Ok(lease)),
            Err(StoreError::Unknown) => one.tell(Err(StoreError::Unknown)),
            _ => {
                let pool = pool.clone();
                tokio::spawn(async move { one.store(&pool).await });
            }
        }
    }
}
