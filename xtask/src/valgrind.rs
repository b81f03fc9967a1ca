//! What counts the instructions of the benchmarks' rounds: Valgrind, installed if that is possible.

use crate::{
    Outcome, Places, apt,
    process::{output, program, say},
};

/// Has it there, if that is possible. Without it nothing is counted, and nothing fails.
pub(crate) fn ensure(places: &Places) -> Outcome {
    let found = || output(program("valgrind", &places.root).arg("--version"));
    // What is counted is that of x86-64.
    if !cfg!(target_arch = "x86_64") || found().is_ok() {
        return Ok(());
    }
    let remedy = "install Valgrind (on Debian `apt-get install valgrind`)";
    if let Err(why) = apt::install(&places.root, "valgrind", remedy).and_then(|()| found().map(drop)) {
        say(&format!("no instructions are counted: {why}"));
    }
    Ok(())
}
