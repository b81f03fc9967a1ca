//! The loops of an endpoint: what is new, and what failed before.

use std::{sync::Arc, time::Duration};

use countersign_core::{audit::AuditRecord, journal::record::Millis};
use countersign_store::{StoreError, letters::Letter};
use futures::{StreamExt as _, stream};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use super::{Post, Webhooks, notice::Notice, now, send, send::Outcome};
use crate::metrics::{Delivery, Metrics};

/// The pauses between tries, as Standard Webhooks recommends them, in seconds. Each is longer by up to a tenth.
pub(super) const PAUSES: [u64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/// Records read at a time.
const RECORDS: usize = 16;
/// Messages of a loop that are sent at the same time.
const AT_ONCE: usize = 8;
/// How long a loop that has nothing to do waits before it looks again.
const LOOK: Duration = Duration::from_secs(1);
/// The same, after the store has failed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How a step of a loop ended.
enum Step {
    /// There may be more.
    More,
    /// There is nothing to do now.
    Rest,
}

impl Webhooks {
    /// Sends what is to be sent, until it is told to stop; what is under way then is sent again after the next start.
    pub(crate) async fn run(self, counts: Arc<Metrics>, stopping: watch::Receiver<bool>) {
        let mut loops = JoinSet::new();
        for post in self.posts.iter() {
            for is_again in [false, true] {
                let at_work = AtWork { all: self.clone(), post: post.clone(), counts: counts.clone() };
                loops.spawn(at_work.repeat(is_again, stopping.clone()));
            }
        }
        while loops.join_next().await.is_some() {}
    }
}

/// An endpoint in a loop.
struct AtWork {
    all: Webhooks,
    post: Arc<Post>,
    counts: Arc<Metrics>,
}

impl AtWork {
    async fn repeat(self, is_again: bool, mut stopping: watch::Receiver<bool>) {
        let mut was_told = false;
        while !self.post.is_gone() {
            let step = async { if is_again { self.again().await } else { self.fresh().await } };
            let step = tokio::select! { biased;
                _ = stopping.wait_for(|stopping| *stopping) => return,
                step = step => step,
            };
            let pause = match step {
                Ok(Step::More) => continue,
                Ok(Step::Rest) => LOOK,
                Err(error) => {
                    if !std::mem::replace(&mut was_told, true) {
                        let name = &self.post.endpoint.name;
                        tracing::error!("webhook {name}: the store fails, so nothing is sent for now: {error}");
                    }
                    LOOK_AGAIN
                }
            };
            was_told &= pause == LOOK_AGAIN;
            // A sender that is gone never stops it.
            if timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_ok_and(|stop| stop.is_ok()) {
                return;
            }
        }
    }

    /// Sends the messages of new records, and moves the cursor past them.
    async fn fresh(&self) -> Result<Step, StoreError> {
        let (store, name) = (&self.all.store, &self.post.endpoint.name);
        // Another node sends for it.
        let Some(from) = store.letters().attend(name).await? else { return Ok(Step::Rest) };
        let records = store.audit(from, RECORDS).await?;
        let Some(last) = records.last() else { return Ok(Step::Rest) };
        let to = last.n;
        // Nothing leaves that a power cut could still take back.
        store.sync().await?;
        let mut notices = Vec::new();
        for record in &records {
            notices.extend(self.notice(record).await?.map(|notice| (record.n, notice)));
        }
        let sent = stream::iter(notices).map(|(n, notice)| async move { self.try_once(n, 0, &notice).await });
        let failed: Vec<Letter> = sent.buffered(AT_ONCE).filter_map(async |letter| letter).collect().await;
        store.letters().advance(name, from, to, failed).await?;
        Ok(Step::More)
    }

    /// Tries again what failed and is due.
    async fn again(&self) -> Result<Step, StoreError> {
        let (store, name) = (&self.all.store, &self.post.endpoint.name);
        if store.letters().attend(name).await?.is_none() {
            return Ok(Step::Rest);
        }
        let due = store.letters().waiting(name, now(), AT_ONCE).await?;
        if due.is_empty() {
            return Ok(Step::Rest);
        }
        let tries = due.into_iter().map(|letter| async move {
            let Letter { n, attempts, .. } = letter;
            let record = store.audit(n.saturating_sub(1), 1).await?.into_iter().find(|record| record.n == n);
            let notice = match &record {
                Some(record) => self.notice(record).await?,
                None => None,
            };
            let again = match notice {
                Some(notice) => self.try_once(n, attempts, &notice).await,
                // The endpoint does not get it any more.
                None => None,
            };
            store.letters().settle(name, n, attempts, again).await
        });
        let settled: Vec<Result<bool, StoreError>> = futures::future::join_all(tries).await;
        settled.into_iter().collect::<Result<Vec<bool>, StoreError>>()?;
        Ok(Step::More)
    }

    async fn notice(&self, record: &AuditRecord) -> Result<Option<Notice>, StoreError> {
        Notice::of(record, &*self.all.store, &self.all.console, &self.post.endpoint).await
    }

    /// The letter that is left, if the message does not arrive. One to a receiver that is gone is kept as it is, for after the
    /// next start.
    async fn try_once(&self, n: u64, before: u32, notice: &Notice) -> Option<Letter> {
        let (name, most) = (&self.post.endpoint.name, self.post.endpoint.attempts);
        if self.post.is_gone() {
            return Some(Letter { n, attempts: before, next_at: Some(now()), tried_at: now(), why: GONE.to_owned() });
        }
        let outcome = send::once(&self.post, notice, self.all.locale).await;
        let (tried_at, attempts) = (now(), before.saturating_add(1));
        match outcome {
            Outcome::Delivered => {
                self.counts.delivery(Delivery::Sent);
                None
            }
            Outcome::Gone { why } => {
                self.counts.delivery(Delivery::Failed);
                self.post.gone.store(true, std::sync::atomic::Ordering::Relaxed);
                tracing::warn!("webhook {name}: the receiver answered {why}: nothing is sent until the next start");
                Some(Letter { n, attempts: before, next_at: Some(tried_at), tried_at, why })
            }
            Outcome::Failed { why, not_before } => {
                let pause = PAUSES.get(attempts as usize - 1).filter(|_| attempts < most);
                let next_at = pause.map(|pause| tried_at.saturating_add(later(*pause, &notice.id, attempts)));
                let next_at = next_at.map(|at| at.max(not_before.unwrap_or(at)));
                self.counts.delivery(if next_at.is_some() { Delivery::Failed } else { Delivery::Dead });
                if next_at.is_none() {
                    tracing::warn!(
                        "webhook {name}: record {n} was tried {attempts} times and is not tried again: {why}"
                    );
                } else if before == 0 {
                    tracing::info!("webhook {name}: record {n} did not arrive, and is tried again: {why}");
                }
                Some(Letter { n, attempts, next_at, tried_at, why })
            }
        }
    }
}

const GONE: &str = "the receiver wants no messages until the next start";

/// The pause in milliseconds, longer by up to a tenth: messages that failed together are not all tried at the same moment.
pub(super) fn later(seconds: u64, id: &str, attempts: u32) -> Millis {
    let mixed = id.bytes().fold(u64::from(attempts), |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let tenth = seconds * 100;
    Millis::try_from(seconds * 1000 + mixed % tenth.max(1)).unwrap_or(Millis::MAX)
}
