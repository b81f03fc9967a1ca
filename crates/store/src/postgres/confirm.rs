//! Whether data that was read has reached the standbys for which commits wait.
//!
//! Nobody sees a commit that waits for a standby. But when its database session is ended, or the database restarts,
//! everybody sees it, and the standby may never get it. So after such an end ([`History::doubt`]) nothing is
//! acknowledged on the basis of a read until one more commit has been waited for: a standby that has it has everything
//! before it too.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt as _};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{
    super::StoreError,
    connect::Pool,
    flight::Flight,
    history::History,
    transaction::{Change, Transaction, Undone, transact},
};

/// How long a caller waits for that commit. It continues, for the next one.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause before it is tried again, and the longest.
const AGAIN: Duration = Duration::from_millis(250);
const LONGEST_AGAIN: Duration = Duration::from_secs(5);

/// It locks no row, and is in the database's log: a commit that writes nothing there is not waited for.
const SAY: &str = "SELECT pg_logical_emit_message(true, 'countersign', '')";

struct Confirmation;

impl Change for Confirmation {
    type Done = ();

    fn apply<'a>(&'a self, _: &'a Transaction) -> BoxFuture<'a, Result<(Flight, ()), Undone>> {
        async { Ok((Flight::default().with(SAY, Vec::new()), ())) }.boxed()
    }
}

/// Makes those commits, one at a time, until it is dropped or the store is closed.
pub(super) struct Confirmer {
    history: Arc<History>,
    asked: Arc<Notify>,
    confirmed: watch::Receiver<u64>,
    /// Its end is noticed when it is dropped.
    _alive: watch::Sender<()>,
}

impl Confirmer {
    /// Starts; in a `tokio` runtime.
    pub(super) fn start(pool: Pool) -> Confirmer {
        let (history, asked) = (pool.history.clone(), Arc::new(Notify::new()));
        let (confirms, confirmed) = watch::channel(0);
        let (alive, mut until) = watch::channel(());
        let work = keep(pool, asked.clone(), confirms);
        tokio::spawn(async move {
            tokio::select! {
                _ = until.changed() => {}
                () = work => {}
            }
        });
        Confirmer { history, asked, confirmed, _alive: alive }
    }

    /// Waits until a fail-over cannot lose anything that could be read before.
    ///
    /// # Errors
    /// [`StoreError::Unknown`]: no standby answers, or the database has failed over since. [`StoreError::Closed`].
    pub(super) async fn confirm(&self) -> Result<(), StoreError> {
        self.history.check()?;
        let (doubts, mut confirmed) = (self.history.doubts(), self.confirmed.clone());
        if *confirmed.borrow_and_update() >= doubts || !self.history.is_synchronous() {
            return Ok(());
        }
        let timeline = self.history.timeline();
        self.asked.notify_one();
        match timeout(PATIENCE, confirmed.wait_for(|confirmed| *confirmed >= doubts)).await {
            Ok(Ok(_)) if self.history.timeline() == timeline => Ok(()),
            _ => self.history.check().and(Err(StoreError::Unknown)),
        }
    }
}

async fn keep(pool: Pool, asked: Arc<Notify>, confirms: watch::Sender<u64>) {
    let mut pause = AGAIN;
    loop {
        asked.notified().await;
        let doubts = pool.history.doubts();
        match transact(&pool, &Confirmation).await {
            Ok(()) => {
                confirms.send_replace(doubts);
                pause = AGAIN;
            }
            // Nothing that was read is acknowledged any more.
            Err(StoreError::Closed(_)) => return,
            Err(error) => {
                if pause == AGAIN {
                    tracing::info!(%error, "what was read is not confirmed yet; it is tried until it is");
                }
                sleep(pause).await;
                pause = LONGEST_AGAIN.min(pause * 2);
                asked.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::connect::pool, *};

    #[tokio::test(start_paused = true)]
    async fn r5_nothing_is_confirmed_of_a_closed_store_and_nobody_tries_to() {
        let history = Arc::new(History::default());
        let pool = pool(&"postgresql://localhost/none".parse().expect("a URL"), 2, history.clone()).expect("a pool");
        let confirmer = Confirmer::start(pool.clone());
        history.close("it went back".to_owned());
        assert!(matches!(confirmer.confirm().await, Err(StoreError::Closed(_))));
        let asked = Arc::new(Notify::new());
        asked.notify_one();
        timeout(PATIENCE, keep(pool, asked, watch::channel(0).0)).await.expect("it ends");
    }
}
