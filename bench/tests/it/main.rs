//! What must not become slower unseen.

use std::process::{Command, Stdio};

/// Instructions are the same however busy the machine is. Where Valgrind is not installed, none are counted, and a line says so;
/// `cargo xtask test` fails without it.
#[test]
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), ignore = "the bounds are those of Linux on x86-64")]
fn a_cycle_a_node_and_a_turn_take_no_more_instructions_than_they_may() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_countersign-bench"));
    // What it could not do is shown even where the test succeeds.
    let counted = bench.arg("counted").stderr(Stdio::inherit()).output().expect("the benchmarks start");
    let told = String::from_utf8_lossy(&counted.stdout);
    println!("{told}");
    assert!(counted.status.success(), "{told}");
}
