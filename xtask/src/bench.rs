//! `cargo xtask bench`: the benchmarks, as `bench/README.md` describes them.

use crate::{Outcome, Places, process};

/// Runs the named benchmarks, or all.
pub(crate) fn run(places: &Places, names: &[String]) -> Outcome {
    let mut cargo = process::cargo(&places.root);
    process::run(cargo.args(["run", "--release", "--package", "countersign-bench", "--"]).args(names))
}
