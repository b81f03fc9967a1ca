//! Callers whose appends or reads are done together.
//!
//! While few are in progress, a request is carried out at once, alone. Later ones wait until one of these has ended, and
//! are then carried out as a batch: they share round trips, the start of a statement, its commit and the wait for the
//! disk. What a batch does not settle is carried out alone, as if it had not waited.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::{super::StoreError, connect::Pool};

/// The most requests of a batch.
const BATCH: usize = 32;

/// A request that can be carried out together with others of its kind.
pub(super) trait Shared: Send + Sync + Sized + 'static {
    /// Its result.
    type Done: Send + 'static;

    /// How many batches of this kind are in progress before other requests wait. With more, each does less.
    const AT_ONCE: usize;
    /// How long others wait for a batch in progress. One that takes longer delays no others.
    const PATIENCE: Duration;

    /// The session, of which it must be the only one in a batch.
    fn only_of(&self) -> Option<&Arc<str>> {
        None
    }

    /// Carries out one.
    fn alone(&self, pool: &Pool) -> impl Future<Output = Result<Self::Done, StoreError>> + Send;

    /// Carries out several, and returns their results in their order. `None` for one that is still to be carried out
    /// alone: an error of one is no error of the others.
    ///
    /// # Errors
    /// Of all of them: tried one by one they would only wait for a connection again.
    fn together(pool: &Pool, batch: &[&Self]) -> impl Future<Output = Result<Vec<Settled<Self>>, StoreError>> + Send;

    /// The outcome of one whose caller gets none: the threads that carried it out have ended.
    fn lost(pool: &Pool) -> StoreError;
}

/// See [`Shared::together`].
pub(super) type Settled<S> = Option<Result<<S as Shared>::Done, StoreError>>;

/// A request that waits, and the channel for its result.
struct Waiting<S: Shared> {
    request: S,
    tell: oneshot::Sender<Result<S::Done, StoreError>>,
}

impl<S: Shared> Waiting<S> {
    fn tell(self, done: Result<S::Done, StoreError>) {
        // The caller may have stopped waiting.
        let _ = self.tell.send(done);
    }

    async fn alone(self, pool: Pool) {
        let done = self.request.alone(&pool).await;
        self.tell(done);
    }
}

struct Queue<S: Shared> {
    under_way: usize,
    waiting: VecDeque<Waiting<S>>,
}

/// The requests of one kind of a node's callers.
pub(super) struct Group<S: Shared> {
    pool: Pool,
    /// The threads on which the store was opened, even for callers on others: its connections are there too.
    threads: Handle,
    queue: Mutex<Queue<S>>,
}

/// Carries out what is queued. Its place is released with the queue locked, so that nothing is queued unnoticed: by
/// [`Worker::next_batch`], or here if its threads end before.
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

    /// Carries out a request, even if the caller stops waiting.
    pub(super) async fn add(self: &Arc<Group<S>>, request: S) -> Result<S::Done, StoreError> {
        let (tell, told) = oneshot::channel();
        if self.wait(Waiting { request, tell }) {
            self.threads.spawn(work(Worker { group: self.clone(), works: true }));
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
    fn next_batch(&mut self) -> Option<Vec<Waiting<S>>> {
        let mut queue = self.group.queue();
        let (mut sessions, mut batch, mut left) = (HashSet::new(), Vec::new(), VecDeque::new());
        while batch.len() < BATCH
            && let Some(one) = queue.waiting.pop_front()
        {
            let is_other = one.request.only_of().is_none_or(|session| sessions.insert(session.clone()));
            if is_other { batch.push(one) } else { left.push_back(one) }
        }
        while let Some(one) = left.pop_back() {
            queue.waiting.push_front(one);
        }
        if batch.is_empty() {
            queue.under_way -= 1;
            self.works = false;
            return None;
        }
        Some(batch)
    }
}

/// Carries out what is queued, one batch after the other.
async fn work<S: Shared>(mut worker: Worker<S>) {
    while let Some(batch) = worker.next_batch() {
        let done = tokio::spawn(carry_out(worker.group.pool.clone(), batch));
        // It continues in its own task.
        let _ = timeout(S::PATIENCE, done).await;
    }
}

async fn carry_out<S: Shared>(pool: Pool, mut batch: Vec<Waiting<S>>) {
    if batch.len() == 1
        && let Some(one) = batch.pop()
    {
        return one.alone(pool).await;
    }
    let requests: Vec<&S> = batch.iter().map(|one| &one.request).collect();
    match S::together(&pool, &requests).await {
        Ok(settled) => {
            for (one, settled) in batch.into_iter().zip(settled) {
                match settled {
                    Some(done) => one.tell(done),
                    None => drop(tokio::spawn(one.alone(pool.clone()))),
                }
            }
        }
        Err(error) => batch.into_iter().for_each(|one| one.tell(Err(error.clone()))),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::connect::pool, *};

    /// It notes with how many others it is carried out. One that is slow takes an hour, and one that fails is left over
    /// by its batch.
    struct Noted {
        batches: Arc<Mutex<Vec<usize>>>,
        is_slow: bool,
        fails: bool,
    }

    impl Shared for Noted {
        type Done = ();
        const AT_ONCE: usize = 1;
        const PATIENCE: Duration = Duration::from_millis(20);

        async fn alone(&self, _: &Pool) -> Result<(), StoreError> {
            self.batches.lock().expect("unlocked").push(1);
            tokio::time::sleep(if self.is_slow { Duration::from_secs(3600) } else { Duration::ZERO }).await;
            if self.fails { Err(StoreError::Conflict) } else { Ok(()) }
        }

        async fn together(_: &Pool, batch: &[&Noted]) -> Result<Vec<Settled<Noted>>, StoreError> {
            let batches = &batch.first().expect("one").batches;
            batches.lock().expect("unlocked").push(batch.len());
            Ok(batch.iter().map(|one| (!one.fails).then_some(Ok(()))).collect())
        }

        fn lost(_: &Pool) -> StoreError {
            StoreError::Unknown
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r9_what_waits_is_done_together_and_what_is_slow_or_fails_harms_no_others() {
        let url = "postgresql://localhost/none".parse().expect("a URL");
        let group = Group::new(pool(&url, 2, Arc::default()).expect("a pool"));
        let batches = Arc::new(Mutex::new(Vec::new()));
        let add = |is_slow, fails| group.add(Noted { batches: batches.clone(), is_slow, fails });
        let begun = tokio::time::Instant::now();
        let slow = async {
            add(true, false).await.expect("done");
            begun.elapsed()
        };
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let done = futures::future::join_all((0..70).map(|n| add(false, n == 69))).await;
            assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 69);
            assert!(matches!(done.last(), Some(Err(StoreError::Conflict))), "its own error");
            begun.elapsed()
        };
        let (slow, others) = tokio::join!(slow, others);
        assert!(slow >= Duration::from_secs(3600) && others < Duration::from_secs(1), "{slow:?} {others:?}");
        assert_eq!(*batches.lock().expect("unlocked"), [1, 32, 32, 6, 1]);
    }
}
