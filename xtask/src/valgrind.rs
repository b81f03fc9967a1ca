//! Valgrind, which counts the instructions of the benchmarks' rounds, installed if that is possible.

use crate::{
    Outcome, Places, apt,
    process::{output, program},
};

/// Ensures that it is there. Without it the benchmarks' own test would succeed and have counted nothing.
pub(crate) fn ensure(places: &Places) -> Outcome {
    let found = || output(program("valgrind", &places.root).arg("--version"));
    // Elsewhere that test is left out: its bounds are those of Linux on x86-64.
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) || found().is_ok() {
        return Ok(());
    }
    let remedy = "install Valgrind (on Debian `apt-get install valgrind`)";
    let there = apt::install(&places.root, "valgrind", remedy).and_then(|()| found().map(drop));
    there.map_err(|why| format!("no instructions are counted: {why}"))
}
