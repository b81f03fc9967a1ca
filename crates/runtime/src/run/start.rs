//! Where a subscription begins: at a `seq`, or at the end of a session, with the start of a turn.
//!
//! Between turns nothing is open: no message, no group, no pending request. So a client that begins there has
//! everything that later events refer to; the earlier events are the rest of the same stream.

use std::sync::Arc;

use countersign_core::{
    approval::principal::Principal,
    journal::{cursor::Cursor, record::Entry},
    limits,
    refusal::{Code, Refusal},
};

use super::{
    inner::{Inner, READ_BYTES, Runtime},
    refusals::store_refusal,
};

/// Entries read at once to find the start of a turn.
const LOOK_BACK: u64 = 64;

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From now on.
    Now,
    /// After the event with this `seq`; 0 is from the start.
    After(u64),
    /// At the start of the newest turn with at least this many messages from there on.
    Last(u32),
}

impl Start {
    /// From a client's request: one of the two, or neither.
    ///
    /// # Errors
    /// `invalid_message` if both are given, or `last` is out of its bounds.
    pub fn new(after: Option<u64>, last: Option<u32>) -> Result<Start, Refusal> {
        match (after, last) {
            (None, None) => Ok(Start::Now),
            (Some(after), None) => Ok(Start::After(after)),
            (None, Some(last)) if (1..=limits::LAST_MESSAGES).contains(&last) => Ok(Start::Last(last)),
            (None, Some(_)) => {
                let most = limits::LAST_MESSAGES;
                Err(Refusal::new(Code::InvalidMessage, format!("last: must be from 1 to {most}")))
            }
            (Some(_), Some(_)) => Err(Refusal::new(Code::InvalidMessage, "last: is given in place of after")),
        }
    }
}

impl Runtime {
    /// The `seq` after which a subscription begins; it ends before the event `before`, if that is given.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (`before` is beyond the next event), `store_unavailable`.
    pub async fn start_of(
        &self,
        by: &Principal,
        session_id: &str,
        start: Start,
        before: Option<u64>,
    ) -> Result<u64, Refusal> {
        let now = self.read_state(by, session_id).await?;
        let last = now.cursor.seq;
        if before.is_some_and(|before| before == 0 || before > last + 1) {
            let message = format!("before: must be from 1 to {}, the next event's seq", last + 1);
            return Err(Refusal::new(Code::InvalidMessage, message));
        }
        let journal = Journal { inner: &self.inner, session_id: &now.session_id };
        match (start, before) {
            (Start::Now, _) => Ok(last),
            (Start::After(after), _) => Ok(after),
            (Start::Last(messages), None) => journal.turn(now.pos, now.cursor.messages, messages).await,
            (Start::Last(messages), Some(before)) => {
                let end = journal.last_with(now.pos, |cursor| cursor.seq < before).await?;
                let begun = journal.entry(end).await?.map_or(0, |entry| entry.cursor.messages);
                journal.turn(end, begun, messages).await
            }
        }
    }
}

struct Journal<'a> {
    inner: &'a Inner,
    session_id: &'a Arc<str>,
}

impl Journal<'_> {
    /// The `seq` before the newest turn up to `end` with at least `least` of the `messages` so far from its start on; 0
    /// if that is the first turn.
    async fn turn(&self, end: u64, messages: u32, least: u32) -> Result<u64, Refusal> {
        let most = messages.saturating_sub(least);
        let mut until = self.last_with(end, |cursor| cursor.messages <= most).await?;
        while until > 1 {
            let from = until.saturating_sub(LOOK_BACK);
            if let Some(seq) = self.last_rest(from, until).await? {
                return Ok(seq);
            }
            until = from;
        }
        Ok(0)
    }

    /// The last position between turns that lies before one of the entries after `from` up to `until`.
    async fn last_rest(&self, mut from: u64, until: u64) -> Result<Option<u64>, Refusal> {
        let mut found = None;
        while from < until {
            let limit = usize::try_from(until - from).unwrap_or(usize::MAX);
            let page = self.inner.store.read_within(self.session_id, from, limit, READ_BYTES).await;
            let page = page.map_err(store_refusal)?;
            let Some(last) = page.last() else { return Err(self.inner.no_entries(self.session_id).await) };
            from = last.pos;
            found = page.iter().rfind(|entry| rests(&entry.cursor)).map(|entry| entry.cursor.seq).or(found);
        }
        Ok(found)
    }

    /// The position of the last entry up to `end` whose cursor satisfies `is_so`, by bisection: the first one's does,
    /// and none does after one that does not.
    async fn last_with(&self, end: u64, is_so: impl Fn(&Cursor) -> bool) -> Result<u64, Refusal> {
        let (mut low, mut high) = (1, end.max(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.entry(middle).await?.is_some_and(|entry| is_so(&entry.cursor)) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    async fn entry(&self, pos: u64) -> Result<Option<Arc<Entry>>, Refusal> {
        self.inner.entry(self.session_id, pos).await
    }
}

/// Whether no turn is open. One that has failed is open: it can be retried.
fn rests(cursor: &Cursor) -> bool {
    cursor.open == 0 && cursor.failed == 0 && cursor.began == 0
}
