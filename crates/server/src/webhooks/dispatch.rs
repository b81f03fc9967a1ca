//! The loops of an endpoint: for new messages, and for failed ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_core::{audit::AuditRecord, journal::record::Millis, limits};
use countersign_store::{AuditRange, StoreError, deliveries::FailedDelivery};
use futures::future::{BoxFuture, join_all};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Active, Webhooks, notice::Notice, send, send::Outcome};
use crate::metrics::{Attempt, Metrics};

/// The pauses between attempts, as Standard Webhooks recommends them, in seconds. Each is longer by up to a tenth.
pub(super) const PAUSES: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/// Messages of a batch, which are all sent at the same time.
const BATCH: usize = 16;
/// Records that are read at a time, once a batch's worth of them had no message to send.
const RECORDS: usize = 256;
/// Pages of records that are read before the cursor moves.
const PAGES: usize = 64;
/// How long an idle loop waits before it checks again.
const LOOK: Duration = Duration::from_secs(1);
/// The same, after the store has failed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The longest pause before storing an outcome is retried.
const KEEP_AGAIN: Duration = Duration::from_secs(60);

/// How a step of a loop ended.
enum Step {
    /// There may be more.
    More,
    /// There is no more work now.
    Rest,
}

/// Messages to be sent, with the numbers of their records, and the number of the last record that was read.
struct Batch {
    to: u64,
    notices: Vec<(u64, Made)>,
}

/// A message, or why it cannot be made: it is tried again like one that did not arrive, and delays no other.
type Made = Result<Notice, String>;

impl Webhooks {
    /// Sends messages until it is signalled to stop; those under way then are sent again after the next start.
    pub(crate) async fn run(self, counts: Arc<Metrics>, stopping: watch::Receiver<bool>) {
        let mut loops = JoinSet::new();
        for active in self.endpoints.iter() {
            for is_again in [false, true] {
                let was_told = AtomicBool::new(false);
                let at_work = AtWork { all: self.clone(), active: active.clone(), counts: counts.clone(), was_told };
                loops.spawn(at_work.repeat(is_again, stopping.clone()));
            }
        }
        while loops.join_next().await.is_some() {}
    }
}

/// An endpoint in a loop.
struct AtWork {
    all: Webhooks,
    active: Arc<Active>,
    counts: Arc<Metrics>,
    /// Whether the log has reported already that the store fails.
    was_told: AtomicBool,
}

impl AtWork {
    async fn repeat(self, is_again: bool, mut stopping: watch::Receiver<bool>) {
        loop {
            let step = async {
                let step = if is_again { self.again().await } else { self.fresh().await };
                self.keep_gone().await;
                step
            };
            let step = tokio::select! { biased;
                _ = stopping.wait_for(|stopping| *stopping) => return,
                step = step => step,
            };
            let pause = match step {
                Ok(step) => {
                    self.was_told.store(false, Ordering::Relaxed);
                    match step {
                        Step::More => continue,
                        Step::Rest => LOOK,
                    }
                }
                Err(error) => {
                    self.tell(&error);
                    LOOK_AGAIN
                }
            };
            // A sender that is gone never stops it.
            if timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_ok_and(|stop| stop.is_ok()) {
                return;
            }
        }
    }

    /// Logs once that the store fails.
    fn tell(&self, error: &StoreError) {
        if !self.was_told.swap(true, Ordering::Relaxed) {
            let name = &self.active.endpoint.name;
            tracing::error!("webhook {name}: the store fails, so nothing is sent for now: {error}");
        }
    }

    /// Sends the messages of new records, and moves the cursor past them.
    async fn fresh(&self) -> Result<Step, StoreError> {
        let (store, name) = (&self.all.store, &self.active.endpoint.name);
        // Another node sends to it, or no node does.
        let Some(from) = store.deliveries().claim(name).await? else { return Ok(Step::Rest) };
        let Batch { to, notices } = self.batch(from).await?;
        if to == from {
            return Ok(Step::Rest);
        }
        if !notices.is_empty() {
            // No message is sent whose record a power cut could still undo.
            store.sync().await?;
        }
        let attempts = notices.iter().map(|(n, notice)| self.attempt(*n, 0, notice));
        let failed: Vec<FailedDelivery> = join_all(attempts).await.into_iter().flatten().collect();
        let has_moved = self.keep(|| store.deliveries().advance(name, from, to, failed.clone())).await;
        Ok(if has_moved { Step::More } else { Step::Rest })
    }

    /// The messages of the first records after this one, if there are any.
    async fn batch(&self, from: u64) -> Result<Batch, StoreError> {
        let mut batch = Batch { to: from, notices: Vec::new() };
        for page in 0..PAGES {
            let limit = if page == 0 { BATCH } else { RECORDS };
            let from = AuditRange::After(batch.to);
            let records = self.all.store.audit_within(None, from, limit, limits::PAGE_BYTES).await?;
            for record in &records {
                if batch.notices.len() == BATCH {
                    break;
                }
                batch.notices.extend(self.notice(record).await?.map(|notice| (record.n, notice)));
                batch.to = record.n;
            }
            // A page can be short without being the last one.
            if !batch.notices.is_empty() || records.is_empty() {
                break;
            }
        }
        Ok(batch)
    }

    /// Retries failed deliveries that are due.
    async fn again(&self) -> Result<Step, StoreError> {
        let (store, name) = (&self.all.store, &self.active.endpoint.name);
        if store.deliveries().claim(name).await?.is_none() {
            return Ok(Step::Rest);
        }
        let due = store.deliveries().due_again(name, store.now(), BATCH).await?;
        if due.is_empty() {
            return Ok(Step::Rest);
        }
        let finished = join_all(due.into_iter().map(|delivery| self.attempt_again(delivery))).await;
        finished.into_iter().collect::<Result<(), StoreError>>()?;
        Ok(Step::More)
    }

    async fn attempt_again(&self, delivery: FailedDelivery) -> Result<(), StoreError> {
        let FailedDelivery { n, attempts, .. } = delivery;
        let (store, name) = (&self.all.store, &self.active.endpoint.name);
        let page = store.audit(None, AuditRange::After(n.saturating_sub(1)), 1).await?;
        let record = page.into_iter().find(|record| record.n == n);
        let notice = match &record {
            Some(record) => self.notice(record).await?,
            None => None,
        };
        let again = match notice {
            Some(notice) => self.attempt(n, attempts, &notice).await,
            // The endpoint no longer gets it.
            None => None,
        };
        // If it has changed meanwhile, another process has handled it.
        self.keep(|| store.deliveries().finish(name, n, attempts, again.clone())).await;
        Ok(())
    }

    /// Stores the outcomes of messages, however long that takes: sending them again instead would repeat them for as
    /// long as the store can be read but not written. `false`: this process is no longer the sender.
    async fn keep<'a>(&self, write: impl Fn() -> BoxFuture<'a, Result<bool, StoreError>>) -> bool {
        let mut pause = LOOK;
        loop {
            match write().await {
                Ok(is_kept) => return is_kept,
                Err(error) => self.tell(&error),
            }
            sleep(pause).await;
            pause = (pause * 2).min(KEEP_AGAIN);
        }
    }

    /// Stores that the endpoint is gone, if the receiver said so, for the other nodes.
    async fn keep_gone(&self) {
        if self.active.is_gone.load(Ordering::Relaxed) {
            let (store, name) = (&self.all.store, &self.active.endpoint.name);
            self.keep(|| store.deliveries().set_gone(name, true)).await;
            self.active.is_gone.store(false, Ordering::Relaxed);
        }
    }

    async fn notice(&self, record: &AuditRecord) -> Result<Option<Made>, StoreError> {
        Notice::of(record, &*self.all.store, &self.all.console, &self.active.endpoint).await
    }

    /// The failed delivery that remains, if the message does not arrive. For a receiver that is gone it is kept
    /// unchanged, until the receiver returns.
    async fn attempt(&self, n: u64, before: u32, notice: &Made) -> Option<FailedDelivery> {
        let (name, most) = (&self.active.endpoint.name, self.active.endpoint.max_attempts);
        if self.active.is_gone.load(Ordering::Relaxed) {
            let tried_at = self.all.store.now();
            return Some(FailedDelivery {
                n,
                attempts: before,
                next_at: Some(tried_at),
                tried_at,
                why: GONE.to_owned(),
            });
        }
        let unread = n.to_string();
        let (outcome, id) = match notice {
            Ok(notice) => (send::once(&self.active, notice, self.all.locale).await, notice.id.as_str()),
            Err(why) => (Outcome::Failed { why: why.clone(), pause: None }, &*unread),
        };
        let (tried_at, attempts) = (self.all.store.now(), before.saturating_add(1));
        match outcome {
            Outcome::Delivered => {
                self.counts.attempted(Attempt::Sent);
                None
            }
            Outcome::Partly { why } => {
                self.counts.attempted(Attempt::Dead);
                tracing::warn!("webhook {name}: record {n} did not arrive for everybody: {why}");
                Some(FailedDelivery { n, attempts, next_at: None, tried_at, why })
            }
            Outcome::Gone { why } => {
                self.counts.attempted(Attempt::Failed);
                if !self.active.is_gone.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "webhook {name}: the receiver answered {why}: nothing is sent until a server starts"
                    );
                }
                Some(FailedDelivery { n, attempts: before, next_at: Some(tried_at), tried_at, why })
            }
            Outcome::Failed { why, pause: asked } => {
                let asked = asked.and_then(|asked| Millis::try_from(asked.as_millis()).ok()).unwrap_or_default();
                let pause = PAUSES.get(attempts as usize - 1).filter(|_| attempts < most);
                let pause = pause.map(|pause| later(*pause, id, attempts).max(asked));
                let next_at = pause.map(|pause| tried_at.saturating_add(pause));
                self.counts.attempted(if next_at.is_some() { Attempt::Failed } else { Attempt::Dead });
                if next_at.is_none() {
                    tracing::warn!(
                        "webhook {name}: record {n} was attempted {attempts} times and is not any more: {why}"
                    );
                } else if before == 0 {
                    tracing::info!("webhook {name}: record {n} did not arrive, and is attempted again: {why}");
                }
                Some(FailedDelivery { n, attempts, next_at, tried_at, why })
            }
        }
    }
}

const GONE: &str = "the receiver wants no messages until a server starts";

/// The pause in milliseconds, longer by up to a tenth: messages that failed together are not all attempted at the same moment.
pub(super) fn later(seconds: u64, id: &str, attempts: u32) -> Millis {
    let mixed = id.bytes().fold(u64::from(attempts), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let tenth = seconds * 100;
    Millis::try_from(seconds * 1000 + mixed % tenth.max(1)).unwrap_or(Millis::MAX)
}
