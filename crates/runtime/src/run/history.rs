//! Pages of a session's history, forward and backward (spec H6).
//!
//! A page is folded from the entries around it, never from the whole journal: its cost depends on the page, not on the
//! session.

use std::{ops::Range, sync::Arc};

use countersign_core::{
    approval::principal::Principal,
    journal::record::Entry,
    limits,
    refusal::{Code, Refusal},
    wire::{
        fold::{Fold, Place, begins_anew},
        history::HistoryMessage,
    },
};

use super::{
    inner::{Inner, READ_BYTES, READ_PAGE, Runtime},
    refusals::store_refusal,
};
use crate::store::{StoreError, page::Room};

/// Entries per message, roughly: a first guess at how much to read.
const ENTRIES_PER_MESSAGE: usize = 4;
/// Entries read at once to see how a page continues.
const LOOK_AHEAD: usize = 64;

/// The order of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first message to the newest.
    #[default]
    Forward,
    /// From the newest message to the first.
    Backward,
}

/// Which page of the history to read.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// The order of pages.
    pub direction: Direction,
    /// Where the previous page ended, in either direction; from the first message, or from the newest, if absent.
    pub cursor: Option<String>,
    /// At most this many messages, from 1; fewer if they are long.
    pub limit: usize,
}

/// A page of the history.
#[derive(Clone, Debug)]
pub struct HistoryPage {
    /// The messages, oldest first in either direction.
    pub messages: Vec<HistoryMessage>,
    /// Where the next page in this direction begins, if there is more.
    pub next_cursor: Option<String>,
}

impl Runtime {
    /// A page of the session's history.
    ///
    /// # Errors
    /// `session_not_found`, `invalid_message` (bad cursor), `store_unavailable`.
    pub async fn history(&self, by: &Principal, session_id: &str, query: HistoryQuery) -> Result<HistoryPage, Refusal> {
        let state = self.read_state(by, session_id).await?;
        let cursor = query.cursor.as_deref().map(|text| read_cursor(text, state.pos)).transpose()?;
        let pages = Pages { inner: &self.inner, session_id: &state.session_id, end: state.pos };
        let limit = query.limit.max(1);
        match query.direction {
            Direction::Forward => pages.forward(cursor.unwrap_or(Place(1, 0)), limit).await,
            Direction::Backward => pages.backward(cursor.unwrap_or(Place(state.pos + 1, 0)), limit).await,
        }
    }

    /// The whole history of the session, oldest first.
    ///
    /// # Errors
    /// As [`Runtime::history`].
    pub async fn whole_history(&self, by: &Principal, session_id: &str) -> Result<Vec<HistoryMessage>, Refusal> {
        let mut messages = Vec::new();
        let mut cursor = None;
        loop {
            let query = HistoryQuery { direction: Direction::Forward, cursor, limit: READ_PAGE };
            let page = self.history(by, session_id, query).await?;
            messages.extend(page.messages);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(messages),
            }
        }
    }
}

/// A cursor is a place between two messages: the later one's.
fn write_cursor(place: Place) -> String {
    format!("{}.{}", place.0, place.1)
}

fn read_cursor(text: &str, end: u64) -> Result<Place, Refusal> {
    let number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    let place =
        text.split_once('.').and_then(|(pos, event)| Some(Place(number(pos)?, u32::try_from(number(event)?).ok()?)));
    place
        .filter(|place| (1..=end).contains(&place.0))
        .ok_or_else(|| Refusal::new(Code::InvalidMessage, "cursor: is not one that a page of this session returned"))
}

struct Pages<'a> {
    inner: &'a Inner,
    session_id: &'a Arc<str>,
    /// The position of the last entry.
    end: u64,
}

/// A fold, and how far it has progressed.
struct Window {
    fold: Fold,
    pos: u64,
}

impl Pages<'_> {
    async fn forward(&self, from: Place, limit: usize) -> Result<HistoryPage, Refusal> {
        let mut window = self.open(from.0, chunk(limit)).await?;
        loop {
            let first = window.fold.find(from);
            let last = first.saturating_add(limit).min(window.fold.len());
            let fits = within(first..last, |message| window.fold.bytes(message));
            let full = fits < last.saturating_sub(first) || window.fold.len() > first.saturating_add(limit);
            if full || window.pos >= self.end {
                let range = first..first + fits;
                let next = window.fold.place(range.end);
                return self.page(window, range, next).await;
            }
            self.read_on(&mut window, chunk(limit)).await?;
        }
    }

    async fn backward(&self, until: Place, limit: usize) -> Result<HistoryPage, Refusal> {
        let mut back = chunk(limit) as u64;
        loop {
            let begin = until.0.saturating_sub(back);
            let window = if begin <= 1 {
                Some(self.open(1, chunk(limit)).await?)
            } else {
                self.open_anew(begin, until.0).await?
            };
            if let Some(mut window) = window {
                while window.pos < until.0.min(self.end) {
                    self.read_on(&mut window, chunk(limit)).await?;
                }
                let last = window.fold.find(until);
                let first = last.saturating_sub(limit);
                let fits = within((first..last).rev(), |message| window.fold.bytes(message));
                // One more than the page, to know whether there is a page before it.
                if last > limit || fits < last - first || begin <= 1 {
                    let range = last - fits..last;
                    let next = if range.start > 0 { window.fold.place(range.start) } else { None };
                    return self.page(window, range, next).await;
                }
            }
            back = back.saturating_mul(4);
        }
    }

    /// A window that begins with the entry at `pos`.
    async fn open(&self, pos: u64, entries: usize) -> Result<Window, Refusal> {
        let read = self.read(pos.saturating_sub(1), entries).await?;
        Ok(self.fold(&read))
    }

    /// A window that begins with the first entry from `pos` on that continues no message; `None` if there is none
    /// before `until`.
    async fn open_anew(&self, pos: u64, until: u64) -> Result<Option<Window>, Refusal> {
        let mut after = pos - 1;
        while after + 1 < until {
            let entries = usize::try_from(until - after - 1).unwrap_or(READ_PAGE);
            let read = self.read(after, entries).await?;
            if let Some(first) = read.iter().position(|entry| begins_anew(self.session_id, entry)) {
                return Ok(Some(self.fold(&read[first..])));
            }
            after = read.last().map_or(until, |last| last.pos);
        }
        Ok(None)
    }

    fn fold(&self, entries: &[Arc<Entry>]) -> Window {
        let begins = entries.first().map(|first| first.cursor.clone()).unwrap_or_default();
        let mut window = Window { fold: Fold::new(self.session_id, &begins), pos: 0 };
        self.take(&mut window, entries);
        window
    }

    fn take(&self, window: &mut Window, entries: &[Arc<Entry>]) {
        // Later entries are for the next page.
        for entry in entries.iter().filter(|entry| entry.pos <= self.end) {
            window.fold.entry(entry);
            window.pos = entry.pos;
        }
    }

    async fn read_on(&self, window: &mut Window, entries: usize) -> Result<(), Refusal> {
        let read = self.read(window.pos, entries).await?;
        self.take(window, &read);
        Ok(())
    }

    /// Entries after `after`, which is not the last one, so there are some.
    async fn read(&self, after: u64, entries: usize) -> Result<Vec<Arc<Entry>>, Refusal> {
        let limit = entries.min(READ_PAGE);
        let read = self.inner.store.read_within(self.session_id, after, limit, READ_BYTES).await;
        let read = read.map_err(store_refusal)?;
        if read.is_empty() { Err(self.inner.no_entries(self.session_id).await) } else { Ok(read) }
    }

    /// The messages, once everything they show is resolved.
    async fn page(&self, mut window: Window, range: Range<usize>, next: Option<Place>) -> Result<HistoryPage, Refusal> {
        window.fold.look_ahead(range.end);
        while window.pos < self.end && !window.fold.is_settled(&range) {
            self.read_on(&mut window, LOOK_AHEAD).await?;
        }
        // Requests on this page may have been answered much later.
        for n in window.fold.waiting(&range) {
            let row = match self.inner.store.interruption(self.session_id, n).await {
                // The journal says it as well.
                Err(StoreError::Corrupt(_)) => None,
                row => row.map_err(store_refusal)?,
            };
            if row.is_none() {
                // A fork's copied past has no index.
                while window.pos < self.end && window.fold.waiting(&range).contains(&n) {
                    self.read_on(&mut window, LOOK_AHEAD).await?;
                }
            }
            if let Some(pos) = row.and_then(|row| row.resolved_pos).filter(|pos| *pos <= self.end)
                && let Some(entry) = self.inner.entry(self.session_id, pos).await?
            {
                window.fold.resolutions(&entry);
            }
        }
        Ok(HistoryPage { messages: window.fold.messages(range), next_cursor: next.map(write_cursor) })
    }
}

/// How many of these messages fit on a page.
fn within(messages: impl Iterator<Item = usize>, bytes: impl Fn(usize) -> usize) -> usize {
    let mut room = Room::new(limits::PAGE_BYTES);
    messages.take_while(|message| room.takes(bytes(*message))).count()
}

fn chunk(limit: usize) -> usize {
    limit.saturating_mul(ENTRIES_PER_MESSAGE).clamp(LOOK_AHEAD, READ_PAGE)
}
