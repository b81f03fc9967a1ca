//! Callers whose appends or reads are done together.
//!
//! While few are in progress, one is done at once, alone. Later ones wait until one of these has ended, and are then
//! done together: they share round trips, the start of a statement, its commit and the wait for the disk.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::{super::StoreError, connect::Pool};

/// The most that is done by one transaction.
const TOGETHER: usize = 32;

/// What can be done together with others of its kind.
pub(super) trait Shared: Send + Sync + Sized + 'static {
    /// Its result.
    type Done: Send + 'static;

    /// How many transactions of this kind are in progress before others wait. With more, each does less.
    const AT_ONCE: usize;
    /// How long others wait for a transaction in progress. One that takes longer delays no others.
    const PATIENCE: Duration;

    /// The session, of which it must be the only one of those done together.
    fn only_of(&self) -> Option<&Arc<str>> {
        None
    }

    /// Does one alone, or several together, and notifies each caller.
    fn carry_out(pool: Pool, waiting: Vec<Waiting<Self>>) -> impl Future<Output = ()> + Send;

    /// The outcome of one whose caller gets none: the threads that did it have ended.
    fn lost(pool: &Pool) -> StoreError;
}

/// One that waits, and the channel for its outcome.
pub(super) struct Waiting<S: Shared> {
    pub(super) wanted: S,
    tell: oneshot::Sender<Result<S::Done, StoreError>>,
}

impl<S: Shared> Waiting<S> {
    pub(super) fn tell(self, done: Result<S::Done, StoreError>) {
        // The caller may have stopped waiting.
        let _ = self.tell.send(done);
    }
}

struct Queue<S: Shared> {
    under_way: usize,
    waiting: VecDeque<Waiting<S>>,
}

/// What the callers of a node want of one kind.
pub(super) struct Group<S: Shared> {
    pool: Pool,
    /// The threads on which the store was opened, even for callers on others: its connections are there too.
    threads: Handle,
    queue: Mutex<Queue<S>>,
}

/// One that does what is queued. Its place is released with the queue locked, so that nothing is queued unnoticed: by
/// [`Worker::next`], or here if its threads end before.
struct Worker<S: Shared> {
    group: Arc<Group<S>>,
    works: bool,
}

impl<S: Shared> Drop for Worker<S> {
    fn drop(&mut self) {
        if self.works {
            let mut queue = self.group.queue();
            queue.under_way -= 1;
            // No worker may be left for them.
            queue.waiting.clear();
        }
    }
}

impl<S: Shared> Group<S> {
    /// On the threads of its caller.
    pub(super) fn new(pool: Pool) -> Arc<Group<S>> {
        let queue = Queue { under_way: 0, waiting: VecDeque::new() };
        Arc::new(Group { pool, threads: Handle::current(), queue: Mutex::new(queue) })
    }

    /// Does one, even if the caller stops waiting.
    pub(super) async fn add(self: &Arc<Group<S>>, wanted: S) -> Result<S::Done, StoreError> {
        let (tell, told) = oneshot::channel();
        if self.wait(Waiting { wanted, tell }) {
            self.threads.spawn(go(Worker { group: self.clone(), works: true }));
        }
        told.await.unwrap_or_else(|_| Err(S::lost(&self.pool)))
    }

    fn queue(&self) -> MutexGuard<'_, Queue<S>> {
        // The queue is never left half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one. Returns whether a worker may start for it.
    fn wait(&self, one: Waiting<S>) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(one);
        let is_free = queue.under_way < S::AT_ONCE;
        queue.under_way += usize::from(is_free);
        is_free
    }
}

impl<S: Shared> Worker<S> {
    /// Those that have waited longest, or `None` if none is queued.
    fn next(&mut self) -> Option<Vec<Waiting<S>>> {
        let mut queue = self.group.queue();
        let (mut sessions, mut next, mut left) = (HashSet::new(), Vec::new(), VecDeque::new());
        while next.len() < TOGETHER
            && let Some(one) = queue.waiting.pop_front()
        {
            let is_other = one.wanted.only_of().is_none_or(|session| sessions.insert(session.clone()));
            if is_other { next.push(one) } else { left.push_back(one) }
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

/// Does what is queued, one transaction after the other.
async fn go<S: Shared>(mut worker: Worker<S>) {
    while let Some(next) = worker.next() {
        let done = tokio::spawn(S::carry_out(worker.group.pool.clone(), next));
        // It continues in its own task.
        let _ = timeout(S::PATIENCE, done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::connect::pool, *};

    /// It notes with how many others it is done. One that is slow takes an hour.
    struct Noted {
        groups: Arc<Mutex<Vec<usize>>>,
        is_slow: bool,
    }

    impl Shared for Noted {
        type Done = ();
        const AT_ONCE: usize = 1;
        const PATIENCE: Duration = Duration::from_millis(20);

        async fn carry_out(_: Pool, waiting: Vec<Waiting<Noted>>) {
            let groups = waiting.first().expect("one").wanted.groups.clone();
            groups.lock().expect("unlocked").push(waiting.len());
            let is_slow = waiting.iter().any(|one| one.wanted.is_slow);
            tokio::time::sleep(if is_slow { Duration::from_secs(3600) } else { Duration::ZERO }).await;
            waiting.into_iter().for_each(|one| one.tell(Ok(())));
        }

        fn lost(_: &Pool) -> StoreError {
            StoreError::Unknown
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r9_what_waits_is_done_together_and_what_is_slow_delays_no_others() {
        let url = "postgresql://localhost/none".parse().expect("a URL");
        let group = Group::new(pool(&url, 2, Arc::default()).expect("a pool"));
        let groups = Arc::new(Mutex::new(Vec::new()));
        let add = |is_slow| group.add(Noted { groups: groups.clone(), is_slow });
        let begun = tokio::time::Instant::now();
        let slow = async {
            add(true).await.expect("done");
            begun.elapsed()
        };
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            for done in futures::future::join_all((0..70).map(|_| add(false))).await {
                done.expect("done");
            }
            begun.elapsed()
        };
        let (slow, others) = tokio::join!(slow, others);
        assert!(slow >= Duration::from_secs(3600) && others < Duration::from_secs(1), "{slow:?} {others:?}");
        assert_eq!(*groups.lock().expect("unlocked"), [1, 32, 32, 6]);
    }
}
