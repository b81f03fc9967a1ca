//! The ordinary torture: a few minutes, hundreds of kills. `countersign-torture --minutes N` runs for longer.

#![allow(unreachable_pub, reason = "a test binary's modules share freely")]

mod crash;
mod nodes;
mod points;
mod questions;
mod races;
mod switches;
mod wire;

use std::path::PathBuf;

use countersign_torture::world::{Base, Switch};

/// What the worlds have in common: no switch is set.
fn base() -> Base {
    different(&[])
}

/// The same with these switches.
fn different(switches: &[Switch]) -> Base {
    Base { tool: PathBuf::from(env!("CARGO_BIN_EXE_countersign-torture")), switches: switches.to_vec() }
}

/// The seed of this run: always the same, unless `TORTURE_SEED` overrides it.
fn seed() -> u64 {
    std::env::var("TORTURE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}
