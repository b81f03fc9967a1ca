//! Instruction counts, which do not depend on load: of a cycle in memory, of a graph's nodes, of a turn of the library.
//!
//! Valgrind counts them: the count of a run with few rounds is subtracted from that of a run with more, so that
//! one-time work does not count. It does not know the instructions for SHA-256, so a digest costs about twenty times
//! its real cost.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    thread::{self, ScopedJoinHandle},
};

use countersign_store::memory::MemoryStore;

use crate::{Result, Verdict, cycle, graphs, library};

/// The argument that makes this program run a number of rounds.
pub(crate) const ROUNDS: &str = "counted-rounds";

/// The counted work: its name, how many more rounds the longer of two runs has, how many units a round has, and how
/// many thousand instructions a unit may take. A bound is raised only in a commit that says what the instructions are
/// for; earlier counts are in `bench/README.md`.
#[cfg(not(debug_assertions))]
const COUNTED: [(&str, &str, u64, u64, f64); 3] = [
    ("cycle", "counted: a cycle in memory", 200, 1, 220.0),
    ("nodes", "counted: a node of a chain", 2, 1_000, 18.5),
    ("turn", "counted: a turn of three calls", 100, 1, 265.0),
];
/// The same for the unoptimised build of the tests; its bounds are some 3 % above its counts.
#[cfg(debug_assertions)]
const COUNTED: [(&str, &str, u64, u64, f64); 3] = [
    ("cycle", "counted: a cycle in memory", 20, 1, 1_395.0),
    ("nodes", "counted: a node of a chain", 1, 1_000, 161.5),
    ("turn", "counted: a turn of three calls", 10, 1, 1_700.0),
];
/// Rounds of the shorter run, which includes all one-time work.
const FEW: u64 = if cfg!(debug_assertions) { 2 } else { 20 };

pub(crate) fn all() -> Result<Vec<Verdict>> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("counted: left out, since valgrind is not there");
        return Ok(Vec::new());
    }
    // Concurrently: load does not change the counts.
    let counts = thread::scope(|scope| {
        let of = |what, rounds| scope.spawn(move || instructions(what, rounds));
        let runs = COUNTED.map(|(what, _, more, ..)| (of(what, FEW), of(what, FEW + more)));
        runs.map(|(few, more)| (joined(few), joined(more)))
    });
    let each = COUNTED.iter().zip(counts).map(|((_, name, more, parts, most), (few, many))| {
        let took = many?.saturating_sub(few?);
        let thousands = took as f64 / (more * parts) as f64 / 1e3;
        Ok(Verdict {
            name,
            ratio: thousands / most,
            at_least: None,
            at_most: Some(1.0),
            detail: format!("{thousands:.1} of {most} thousand instructions"),
        })
    });
    each.collect()
}

fn joined<T>(run: ScopedJoinHandle<'_, T>) -> T {
    run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How many instructions a separate process takes for these rounds.
fn instructions(what: &str, rounds: u64) -> Result<u64> {
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([ROUNDS, what, &rounds.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&counted.stderr);
    if !counted.status.success() {
        return Err(format!("valgrind: {said}").into());
    }
    let line = said.lines().find_map(|line| line.split_once("Collected :"));
    let (_, count) = line.ok_or_else(|| format!("valgrind counts nothing: {said}"))?;
    Ok(count.trim().parse()?)
}

/// Runs the counted work, on one thread.
pub(crate) fn rounds(what: &str, rounds: &str) -> Result<()> {
    let rounds: usize = rounds.parse()?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match what {
        "cycle" => {
            let runtime = cycle::runtime(Arc::new(MemoryStore::new()), "Ordered.")?;
            executor.block_on(cycle::stream(&runtime, "s", rounds)).map(drop)
        }
        "nodes" => executor.block_on(graphs::chains(rounds)),
        "turn" => executor.block_on(library::turns(rounds)),
        _ => Err(format!("nothing is called {what:?}").into()),
    }
}
