//! The readers: threads with a read-only connection each, so that no read waits for the writer's disk, or for a slow
//! list.

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::JoinHandle,
};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{
    super::StoreError,
    write::{Broken, stopped},
};

/// Queries that may be queued for the readers of a kind.
const WAITING: usize = 1024;

type Query = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handle to the readers of a kind: any free one takes the next query.
#[derive(Debug)]
pub(super) struct Reader {
    queries: mpsc::Sender<(Query, OwnedSemaphorePermit)>,
    places: Arc<Semaphore>,
    broken: Broken,
}

impl Reader {
    /// Starts a thread for each connection.
    pub(super) fn start(
        conns: Vec<Connection>,
        name: &str,
        broken: &Broken,
    ) -> Result<(Reader, Vec<JoinHandle<()>>), StoreError> {
        let (queries, waiting) = mpsc::channel::<(Query, OwnedSemaphorePermit)>();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = Vec::with_capacity(conns.len());
        for mut conn in conns {
            let waiting = waiting.clone();
            // One waits for the queue, the others for it: the lock is released before the query runs.
            let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let thread = std::thread::Builder::new().name(format!("countersign-sqlite-{name}")).spawn(move || {
                while let Ok((query, _place)) = next() {
                    query(&mut conn);
                }
            });
            threads.push(thread.map_err(|e| StoreError::Failed(format!("cannot start a reader: {e}")))?);
        }
        Ok((Reader { queries, places: Arc::new(Semaphore::new(WAITING)), broken: broken.clone() }, threads))
    }

    /// Runs a query.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.broken.check()?;
        let place = self.places.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (answer, answered) = oneshot::channel();
        let query = move |conn: &mut Connection| {
            if !answer.is_closed() {
                // The caller may have stopped waiting.
                let _ = answer.send(query(conn));
            }
        };
        self.queries.send((Box::new(query), place)).map_err(|_| stopped())?;
        let read = answered.await.map_err(|_| stopped())?;
        // It may have read data that was never synced.
        self.broken.check()?;
        // A failed read closes nothing: nothing is acknowledged on it.
        read.map_err(|e| if let StoreError::Closed(e) = e { StoreError::Failed(e) } else { e })
    }
}
