//! Deliveries to outside endpoints, such as webhooks: the progress of each endpoint, and its failed deliveries (spec
//! U4).
//!
//! The audit log is the outbox: it is written in the transaction of each append, so it has every event and nothing
//! else. For each **endpoint** the store keeps a **cursor**, the number of the last audit record that was handled, and
//! a **failed delivery** for each record before it that did not arrive; one that is no longer attempted is a **dead
//! letter**. A cursor moves in one transaction with the failed deliveries that it leaves behind.
//!
//! Of several processes that share a store, one at a time sends to an endpoint. In PostgreSQL the claim lasts as long
//! as the node lives, by the database's clock, like the leases of sessions ([`super::nodes`]); a store of one process
//! has none. A process that lost a claim may still be sending, but can no longer move the cursor: receivers may see a
//! message twice, but never miss one.

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;

use super::StoreError;

/// The longest reason that is kept, in bytes; the rest is cut off.
pub const WHY_BYTES: usize = 300;

/// A record that did not arrive at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedDelivery {
    /// The number of the audit record.
    pub n: u64,
    /// How many attempts there were.
    pub attempts: u32,
    /// When the next attempt is due; `None`: never, unless [`Deliveries::retry`] is called.
    pub next_at: Option<Millis>,
    /// When the last attempt was.
    pub tried_at: Millis,
    /// Why that attempt failed: without any text of an HTTP receiver, with the answer of a mail server.
    pub why: String,
}

impl FailedDelivery {
    /// The same with its reason cut to [`WHY_BYTES`].
    #[must_use]
    pub(crate) fn bounded(mut self) -> FailedDelivery {
        self.why.truncate(self.why.floor_char_boundary(WHY_BYTES));
        self
    }
}

/// The progress of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last audit record that was handled.
    pub cursor: u64,
    /// It answered that it is gone, so nothing is sent to it ([`Deliveries::set_gone`]).
    pub gone: bool,
    /// Failed deliveries that are attempted again.
    pub waiting: u64,
    /// Failed deliveries that are no longer attempted: dead letters.
    pub dead: u64,
    /// The failed delivery whose last attempt was the latest.
    pub last: Option<FailedDelivery>,
}

/// Which failed deliveries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedPage {
    /// Those of records after this number.
    pub after: u64,
    /// At most this many.
    pub limit: usize,
}

/// The progress of deliveries. Every method is atomic.
pub trait Deliveries: Send + Sync {
    /// Makes this process the sender for an endpoint, unless another live process is, or the endpoint is gone. The
    /// result is the endpoint's cursor; a new endpoint begins at the end of the log. While another process sends, or
    /// this one does already, nothing is written.
    fn claim(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    /// Moves the cursor, and keeps the failed deliveries of the records that it passes. `false`: the cursor is not at `from`,
    /// or this process is not the endpoint's sender, and nothing changed.
    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// At most `limit` failed deliveries that are due at `now`, the longest overdue first. One that was attempted after
    /// `now` is due too: the clock was set back since, so its time means nothing.
    fn due_again(
        &self,
        endpoint: &str,
        now: Millis,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>>;
    /// The outcome of the next attempt of the failed delivery of record `n`, which has had `attempts` before: it failed
    /// again, or arrived. `false`: the failed delivery has changed, or this process is not the endpoint's sender, and
    /// nothing changed.
    fn finish(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Sets whether an endpoint is gone: then no process sends to it. `false`: it was never claimed.
    fn set_gone(&self, endpoint: &str, gone: bool) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// The progress of an endpoint; `None` if it was never claimed.
    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>>;
    /// Failed deliveries, in the order of their records.
    fn failed(&self, endpoint: &str, page: FailedPage) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>>;
    /// Makes a failed delivery, or all dead letters of an endpoint, due at `now`, and counts their attempts from zero.
    /// Returns their number.
    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>>;
    /// Forgets an endpoint, with all its failed deliveries: claimed again, it begins at the end of the log. Returns
    /// their number; `None` if it was never claimed.
    fn forget(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    /// The names of at most `limit` endpoints that were claimed and not forgotten, in order.
    fn endpoints(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;
}
