//! The readers: threads with a read-only connection each, so that no read waits for the writer's disk.

use std::{sync::Arc, sync::mpsc, thread::JoinHandle};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{super::StoreError, write::stopped};

/// Queries that may wait for one reader.
const WAITING: usize = 1024;

type Query = Box<dyn FnOnce(&mut Connection) + Send>;

/// The way to a reader.
#[derive(Debug)]
pub(super) struct Reader {
    queries: mpsc::Sender<(Query, OwnedSemaphorePermit)>,
    places: Arc<Semaphore>,
}

impl Reader {
    /// Starts the thread.
    pub(super) fn start(mut conn: Connection, name: &str) -> Result<(Reader, JoinHandle<()>), StoreError> {
        let (queries, waiting) = mpsc::channel::<(Query, OwnedSemaphorePermit)>();
        let thread = std::thread::Builder::new()
            .name(format!("countersign-sqlite-{name}"))
            .spawn(move || {
                while let Ok((query, _place)) = waiting.recv() {
                    query(&mut conn);
                }
            })
            .map_err(|e| StoreError::Failed(format!("cannot start a reader: {e}")))?;
        Ok((Reader { queries, places: Arc::new(Semaphore::new(WAITING)) }, thread))
    }

    /// Asks.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self.places.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (answer, answered) = oneshot::channel();
        let query = move |conn: &mut Connection| {
            if !answer.is_closed() {
                // Who does not wait any more does not need the answer.
                let _ = answer.send(query(conn));
            }
        };
        self.queries.send((Box::new(query), place)).map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}
