//! The ordinary torture: a few minutes, hundreds of kills. `countersign-torture --minutes N` runs for longer.

#![allow(unreachable_pub, reason = "a test binary's modules share freely")]

mod crash;
mod nodes;
mod points;
mod questions;
mod races;
mod switches;
mod wire;

use std::{
    path::PathBuf,
    sync::{Condvar, Mutex, PoisonError},
    thread::available_parallelism,
};

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

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// Two for each processor run at once, however many threads tests have: each has servers and clients of its own, and
/// other tests on this machine, such as a browser's, would wait for minutes.
struct Place;

/// Waits until there is a place for a test that needs the processors.
fn place() -> Place {
    let places = 2 * available_parallelism().map_or(1, usize::from);
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut running = ENDED.wait_while(running, |running| *running >= places).unwrap_or_else(PoisonError::into_inner);
    *running += 1;
    Place
}

impl Drop for Place {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
