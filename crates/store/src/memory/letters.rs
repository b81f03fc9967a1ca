//! Deliveries in memory.

use std::collections::BTreeMap;

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;

use super::{MemoryStore, lock, ready};
use crate::{
    StoreError,
    letters::{Letter, LetterPage, Letters, Progress},
};

/// An endpoint: its cursor, and its letters by their records.
#[derive(Default)]
pub(super) struct Endpoint {
    cursor: u64,
    letters: BTreeMap<u64, Letter>,
}

impl MemoryStore {
    fn with<T: Default>(&self, endpoint: &str, change: impl FnOnce(&mut Endpoint) -> T) -> T {
        lock(&self.endpoints).get_mut(endpoint).map(change).unwrap_or_default()
    }
}

impl Letters for MemoryStore {
    fn attend(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let end = lock(&self.audit).events.len() as u64;
        let mut endpoints = lock(&self.endpoints);
        let made =
            endpoints.entry(endpoint.to_owned()).or_insert_with(|| Endpoint { cursor: end, ..Endpoint::default() });
        ready(Ok(Some(made.cursor)))
    }

    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let is_there = endpoint.cursor == from;
            if is_there {
                endpoint.cursor = to;
                endpoint.letters.extend(failed.into_iter().map(|letter| (letter.n, letter.bounded())));
            }
            is_there
        })))
    }

    fn waiting(&self, endpoint: &str, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>> {
        let mut due: Vec<Letter> = self.with(endpoint, |endpoint| {
            let is_due = |letter: &&Letter| letter.next_at.is_some_and(|at| at <= now);
            endpoint.letters.values().filter(is_due).cloned().collect()
        });
        due.sort_unstable_by_key(|letter| (letter.next_at, letter.n));
        due.truncate(limit);
        ready(Ok(due))
    }

    fn settle(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<Letter>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let is_there = endpoint.letters.get(&n).is_some_and(|letter| letter.attempts == attempts);
            if is_there {
                endpoint.letters.remove(&n);
                endpoint.letters.extend(again.map(|letter| (n, letter.bounded())));
            }
            is_there
        })))
    }

    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let dead = endpoint.letters.values().filter(|letter| letter.next_at.is_none()).count();
            Some(Progress {
                cursor: endpoint.cursor,
                waiting: (endpoint.letters.len() - dead) as u64,
                dead: dead as u64,
                last: endpoint.letters.values().max_by_key(|letter| (letter.tried_at, letter.n)).cloned(),
            })
        })))
    }

    fn failed(&self, endpoint: &str, page: LetterPage) -> BoxFuture<'_, Result<Vec<Letter>, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let after = endpoint.letters.range((std::ops::Bound::Excluded(page.after), std::ops::Bound::Unbounded));
            after.take(page.limit).map(|(_, letter)| letter.clone()).collect()
        })))
    }

    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let mut made = 0;
            for letter in endpoint.letters.values_mut() {
                if n.map_or_else(|| letter.next_at.is_none(), |n| letter.n == n) {
                    (letter.attempts, letter.next_at) = (0, Some(now));
                    made += 1;
                }
            }
            made
        })))
    }
}
