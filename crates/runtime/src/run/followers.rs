//! The queues of a session's followers: each bounded in number and in bytes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use countersign_core::limits;
use tokio::sync::Notify;

use super::told::Told;

/// Events that were published together.
pub(super) type Batch = Arc<[Told]>;

/// Batches that may queue for a follower.
const BATCHES: usize = 256;

/// The followers of a session. Dropping them notifies each that nothing more comes from here.
#[derive(Default)]
pub(super) struct Followers {
    queues: Vec<Weak<Queue>>,
}

/// The queue of one follower.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<(Batch, usize)>,
    bytes: usize,
    /// It exceeded its limits: it gets what it missed from the journal.
    behind: bool,
    gone: bool,
}

/// Why a follower gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// It fell behind.
    Behind,
    /// The session is gone.
    Gone,
}

impl Followers {
    /// Adds a follower, which receives everything from now on.
    pub(super) fn add(&mut self) -> Arc<Queue> {
        self.queues.retain(|queue| queue.strong_count() > 0);
        let queue = Arc::new(Queue::default());
        self.queues.push(Arc::downgrade(&queue));
        queue
    }

    /// Makes each read the journal, which shows why it gets nothing more here.
    pub(super) fn fall_behind(&self) {
        for queue in self.queues.iter().filter_map(Weak::upgrade) {
            queue.falls_behind();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.strong_count() == 0)
    }

    pub(super) fn tell(&self, told: Vec<Told>) {
        // The size of one copy is enough: all followers share it.
        let bytes = told.iter().map(Told::bytes).sum();
        let batch: Batch = told.into();
        for queue in self.queues.iter().filter_map(Weak::upgrade) {
            queue.push(&batch, bytes);
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        for queue in self.queues.iter().filter_map(Weak::upgrade) {
            queue.waiting().gone = true;
            queue.more.notify_one();
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // The queue is never left half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, batch: &Batch, bytes: usize) {
        let mut waiting = self.waiting();
        if waiting.behind {
            return;
        }
        if waiting.batches.len() == BATCHES || waiting.bytes + bytes > limits::FOLLOWER_BYTES {
            drop(waiting);
            return self.falls_behind();
        }
        waiting.batches.push_back((batch.clone(), bytes));
        waiting.bytes += bytes;
        drop(waiting);
        self.more.notify_one();
    }

    /// The journal has all of it.
    fn falls_behind(&self) {
        let mut waiting = self.waiting();
        (waiting.batches, waiting.bytes, waiting.behind) = (VecDeque::new(), 0, true);
        drop(waiting);
        self.more.notify_one();
    }

    /// The next batch. There is a single consumer; dropping the future loses nothing.
    pub(super) async fn next(&self) -> Result<Batch, Missed> {
        loop {
            {
                let mut waiting = self.waiting();
                if std::mem::take(&mut waiting.behind) {
                    return Err(Missed::Behind);
                }
                if let Some((batch, bytes)) = waiting.batches.pop_front() {
                    waiting.bytes -= bytes;
                    return Ok(batch);
                }
                if waiting.gone {
                    return Err(Missed::Gone);
                }
            }
            self.more.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::number::RunNo;

    use super::{super::told::Written, *};

    fn told(bytes: usize) -> Vec<Told> {
        vec![Told::Written(RunNo::ROOT, Written::Text("x".repeat(bytes)))]
    }

    #[tokio::test]
    async fn r9_what_waits_for_a_follower_is_bounded_in_bytes_and_in_number() {
        for bytes in [0, 1, 10_000, limits::FOLLOWER_BYTES, limits::FOLLOWER_BYTES + 1] {
            let mut followers = Followers::default();
            let (stalled, reading) = (followers.add(), followers.add());
            let mut took = 0;
            for _ in 0..2 * BATCHES {
                followers.tell(told(bytes));
                took += usize::from(reading.next().await.is_ok());
                let waiting = stalled.waiting();
                assert!(waiting.batches.len() <= BATCHES && waiting.bytes <= limits::FOLLOWER_BYTES);
            }
            assert_eq!(stalled.next().await.err(), Some(Missed::Behind));
            // A batch larger than the whole queue comes from the journal; a follower that stalls affects no other.
            assert_eq!(took, if bytes > limits::FOLLOWER_BYTES { 0 } else { 2 * BATCHES }, "{bytes}");
            followers.tell(told(1));
            assert!(stalled.next().await.is_ok(), "it follows on");
        }
    }

    #[tokio::test]
    async fn r7_a_follower_of_a_session_that_goes_takes_what_was_told_before() {
        let mut followers = Followers::default();
        let queue = followers.add();
        followers.tell(told(1));
        drop(followers);
        assert!(queue.next().await.is_ok());
        assert_eq!(queue.next().await.err(), Some(Missed::Gone));
        let mut followers = Followers::default();
        drop(followers.add());
        assert!(followers.is_empty());
    }
}
