//! What must not become slower unseen.

use std::process::Command;

/// Instructions are the same however busy the machine is. Where Valgrind is not installed, none are counted.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the bounds are those of x86-64")]
fn a_cycle_a_node_and_a_turn_take_no_more_instructions_than_they_may() {
    let counted = Command::new(env!("CARGO_BIN_EXE_countersign-bench")).arg("counted").output();
    let counted = counted.expect("the benchmarks start");
    let told = String::from_utf8_lossy(&counted.stdout).into_owned() + &String::from_utf8_lossy(&counted.stderr);
    println!("{told}");
    assert!(counted.status.success(), "{told}");
}
