//! Deliveries in memory.

use std::collections::BTreeMap;

use countersign_core::journal::record::Millis;
use futures::future::BoxFuture;

use super::{MemoryStore, lock, ready};
use crate::{
    StoreError,
    deliveries::{Deliveries, FailedDelivery, FailedPage, Progress},
};

/// An endpoint: its cursor, and its failed deliveries by their records.
#[derive(Default)]
pub(super) struct Endpoint {
    cursor: u64,
    is_gone: bool,
    failed: BTreeMap<u64, FailedDelivery>,
}

impl MemoryStore {
    fn with<T: Default>(&self, endpoint: &str, change: impl FnOnce(&mut Endpoint) -> T) -> T {
        lock(&self.endpoints).get_mut(endpoint).map(change).unwrap_or_default()
    }
}

impl Deliveries for MemoryStore {
    fn claim(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        let end = lock(&self.audit).len() as u64;
        let mut endpoints = lock(&self.endpoints);
        let made =
            endpoints.entry(endpoint.to_owned()).or_insert_with(|| Endpoint { cursor: end, ..Endpoint::default() });
        ready(Ok((!made.is_gone).then_some(made.cursor)))
    }

    fn advance(
        &self,
        endpoint: &str,
        from: u64,
        to: u64,
        failed: Vec<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let is_there = endpoint.cursor == from;
            if is_there {
                endpoint.cursor = to;
                endpoint.failed.extend(failed.into_iter().map(|delivery| (delivery.n, delivery.bounded())));
            }
            is_there
        })))
    }

    fn due_again(
        &self,
        endpoint: &str,
        now: Millis,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        let mut due: Vec<FailedDelivery> = self.with(endpoint, |endpoint| {
            let is_due =
                |delivery: &&FailedDelivery| delivery.next_at.is_some_and(|at| at <= now || delivery.tried_at > now);
            endpoint.failed.values().filter(is_due).cloned().collect()
        });
        due.sort_unstable_by_key(|delivery| (delivery.next_at, delivery.n));
        due.truncate(limit);
        ready(Ok(due))
    }

    fn finish(
        &self,
        endpoint: &str,
        n: u64,
        attempts: u32,
        again: Option<FailedDelivery>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let is_there = endpoint.failed.get(&n).is_some_and(|delivery| delivery.attempts == attempts);
            if is_there {
                endpoint.failed.remove(&n);
                endpoint.failed.extend(again.map(|delivery| (n, delivery.bounded())));
            }
            is_there
        })))
    }

    fn set_gone(&self, endpoint: &str, gone: bool) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            endpoint.is_gone = gone;
            true
        })))
    }

    fn progress(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<Progress>, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let dead = endpoint.failed.values().filter(|delivery| delivery.next_at.is_none()).count();
            Some(Progress {
                cursor: endpoint.cursor,
                gone: endpoint.is_gone,
                waiting: (endpoint.failed.len() - dead) as u64,
                dead: dead as u64,
                last: endpoint.failed.values().max_by_key(|delivery| (delivery.tried_at, delivery.n)).cloned(),
            })
        })))
    }

    fn failed(&self, endpoint: &str, page: FailedPage) -> BoxFuture<'_, Result<Vec<FailedDelivery>, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let after = endpoint.failed.range((std::ops::Bound::Excluded(page.after), std::ops::Bound::Unbounded));
            after.take(page.limit).map(|(_, delivery)| delivery.clone()).collect()
        })))
    }

    fn retry(&self, endpoint: &str, n: Option<u64>, now: Millis) -> BoxFuture<'_, Result<u64, StoreError>> {
        ready(Ok(self.with(endpoint, |endpoint| {
            let mut made = 0;
            for delivery in endpoint.failed.values_mut() {
                if n.map_or_else(|| delivery.next_at.is_none(), |n| delivery.n == n) {
                    (delivery.attempts, delivery.next_at) = (0, Some(now));
                    made += 1;
                }
            }
            made
        })))
    }

    fn forget(&self, endpoint: &str) -> BoxFuture<'_, Result<Option<u64>, StoreError>> {
        ready(Ok(lock(&self.endpoints).remove(endpoint).map(|endpoint| endpoint.failed.len() as u64)))
    }

    fn endpoints(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        ready(Ok(lock(&self.endpoints).keys().take(limit).cloned().collect()))
    }
}
