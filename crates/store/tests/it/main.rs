//! The stores' integration tests, one module a subject.
#![allow(unreachable_pub, reason = "a test binary's modules share freely")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod alive;
mod conformance;
mod cut;
mod deliveries;
mod differential;
mod failover;
mod forks;
mod formats;
mod giving_way;
mod grouped;
mod lists;
mod members;
mod newer;
mod nodes;
mod places;
mod plans;
mod pooled;
mod postgres;
mod reading;
mod restored;
mod rules;
mod sealed;
mod sqlite;
mod sqlite_opening;
mod store_support;
