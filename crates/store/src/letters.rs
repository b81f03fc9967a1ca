//! What is delivered to others, such as webhooks: how far each endpoint is, and what did not arrive (spec U4).
//!
//! The audit log is the outbox: it is written in the transaction of each append, so nothing that happened is missing from it
//! and nothing else is in it. Of an **endpoint** the store keeps a **cursor**, the number of the last audit record that is
//! dealt with, and a **letter** for each record before it whose delivery failed. A record's delivery is always one or the
//! other: a cursor moves in one transaction with the letters that it leaves behind.
//!
//! Of several processes that share a store one sends for an endpoint at a time. In PostgreSQL the claim lasts as long as the
//! node lives, by the database's clock, like the leases of sessions ([`super::nodes`]); a store of one process has none.
//! Whoever lost a claim can still be sending, but moves nothing any more: receivers may see a message twice, never none.

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;

use super::StoreError;

/// The longest reason that is kept, in bytes; the rest is cut off.
pub const WHY_BYTES: usize = 300;

/// A record whose delivery failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The number of the audit record.
    pub n: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next; `None`: never, unless somebody says so ([`Letters::retry`]).
    pub next_at: Option<Millis>,
    /// When it was tried last.
    pub tried_at: Millis,
    /// Why it failed then, without anything that the other side wrote.
    pub why: String,
}

impl Letter {
    /// The same with a reason that fits.
    #[must_use]
    pub(crate) fn bounded(mut self) -> Letter {
        self.why.truncate(self.why.floor_char_boundary(WHY_BYTES));
        self
    }
}

/// How an endpoint is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of the last audit record that is dealt with.
    pub cursor: u64,
    /// Letters that are tried again.
    pub waiting: u64,
    /// Letters that are not.
    pub dead: u64,
    /// The letter that was tried last.
    pub last: Option<Letter>,
}

/// Which letters to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetterPage {
    /// Those of records after this number.
    pub after: u64,
    /// At most this many.
    pub limit: usize,
}

/// Where deliveries stand. Every method is atomic.
pub trait Letters: Send + Sync {
    /// Makes this process the one that sends for an endpoint, unless another that is alive does. The result is the endpoint's
    /// cursor; one that was never seen begins at the end of the log.
    fn attend(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>>;
    /// Moves the cursor, and keeps the letters of the records that it passes. `false`: the cursor is not at `from`, or this
    /// process does not send for the endpoint, and nothing changed.
    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// At most `limit` letters that are due at `now`, those that waited longest first.
    fn waiting(&self, endpoint: &str, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>>;
    /// What came of the next try of the letter of record `n`, which has had `attempts` before: it failed again, or arrived.
    /// `false`: the letter is not that any more, or this process does not send for the endpoint, and nothing changed.
    fn settle(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// How an endpoint is doing; `None` if it was never claimed.
    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>>;
    /// Letters, in the order of their records.
    fn failed(&self, endpoint: &str, page: LetterPage) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>>;
    /// Makes a letter due at `now`, with all its tries before it; or all of an endpoint that are dead. How many there were.
    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>>;
}
