//! What is delivered to others, such as webhooks: how far each endpoint is, and what did not arrive (spec U4).
//!
//! The audit log is the outbox: it is written in the transaction of each append, so nothing that happened is missing from it
//! and nothing else is in it. Of an **endpoint** the store keeps a **cursor**, the number of the last audit record that is
//! dealt with, and a **failed delivery** for each record before it that did not arrive; one that is not attempted any more is
//! a **dead letter**. A cursor moves in one transaction with the failed deliveries that it leaves behind.
//!
//! Of several processes that share a store one sends for an endpoint at a time. In PostgreSQL the claim lasts as long as the
//! node lives, by the database's clock, like the leases of sessions ([`super::nodes`]); a store of one process has none.
//! A process that lost a claim can still be sending, but moves nothing any more: receivers may see a message twice, never none.

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
    /// When the next one is; `None`: never, unless somebody says so ([`Deliveries::retry`]).
    pub next_at: Option<Millis>,
    /// When the last one was.
    pub tried_at: Millis,
    /// Why it failed then, without anything that the other side wrote.
    pub why: String,
}

impl FailedDelivery {
    /// The same with a reason that fits.
    #[must_use]
    pub(crate) fn bounded(mut self) -> FailedDelivery {
        self.why.truncate(self.why.floor_char_boundary(WHY_BYTES));
        self
    }
}

/// How an endpoint is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last audit record that is dealt with.
    pub cursor: u64,
    /// It said that it is gone, so nobody sends for it ([`Deliveries::set_gone`]).
    pub gone: bool,
    /// Failed deliveries that are attempted again.
    pub waiting: u64,
    /// Those that are not: dead letters.
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

/// Where deliveries stand. Every method is atomic.
pub trait Deliveries: Send + Sync {
    /// Makes this process the one that sends for an endpoint, unless another that is alive does, or the endpoint is gone. The
    /// result is the endpoint's cursor; one that was never seen begins at the end of the log. While another process sends, or
    /// this one does already, nothing is written.
    fn claim(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    /// Moves the cursor, and keeps the failed deliveries of the records that it passes. `false`: the cursor is not at `from`,
    /// or this process does not send for the endpoint, and nothing changed.
    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// At most `limit` failed deliveries that are due at `now`, those that waited longest first. One that was attempted after
    /// `now` is due too: the clock was set back since, and its time says nothing.
    fn due_again(
        &self,
        endpoint: &str,
        now: Millis,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>>;
    /// The outcome of the next attempt of the failed delivery of record `n`, which has had `attempts` before: it failed again,
    /// or arrived. `false`: it is not that any more, or this process does not send for the endpoint, and nothing changed.
    fn finish(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Says whether an endpoint is gone: then no process sends for it. `false`: it was never claimed.
    fn set_gone(&self, endpoint: &str, gone: bool) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// How an endpoint is doing; `None` if it was never claimed.
    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>>;
    /// Failed deliveries, in the order of their records.
    fn failed(&self, endpoint: &str, page: FailedPage) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>>;
    /// Makes a failed delivery due at `now`, with all its attempts before it; or all dead letters of an endpoint. How many
    /// there were.
    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>>;
    /// Forgets an endpoint, with all its failed deliveries: claimed again, it begins at the end of the log. How many they were;
    /// `None` if it was never claimed.
    fn forget(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    /// The names of at most `limit` endpoints that were claimed and not forgotten, in order.
    fn endpoints(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;
}
