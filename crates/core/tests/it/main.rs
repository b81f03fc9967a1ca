//! The core's integration tests: laws that hold for every session, whatever happens to it.

#![allow(unreachable_pub, reason = "a test binary's modules share freely")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod audit;
mod clock;
mod compression;
mod decisions;
mod digests;
mod doubt;
mod drawing;
mod failure;
mod failure_words;
mod forks;
mod handed_on;
mod images;
mod inputs;
mod kept;
mod laws;
mod legal;
mod nested;
mod people;
mod restored;
mod schema;
mod screenshots;
mod speakers;
mod vectors;
mod world;
