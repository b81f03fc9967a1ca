//! Transactions of a cycle on SQLite, counted in the file's own log.

use std::{path::Path, sync::Arc};

use crate::{
    Result, Verdict,
    cycle::{cycle, runtime, sqlite},
};

/// So few that their frames fit into the log before it wraps around.
const CYCLES: usize = 15;
/// Bytes before the first frame, and before the page of each.
const HEADER: usize = 32;
const FRAME: usize = 24;

/// The contents of a log: its salts, its frames, and how many of them end a transaction.
#[derive(PartialEq)]
struct Log {
    salts: [u8; 8],
    frames: usize,
    commits: usize,
}

/// Reads a write-ahead log, as <https://www.sqlite.org/fileformat2.html#walformat> describes it.
fn log(path: &Path) -> Result<Log> {
    let bytes = std::fs::read(path)?;
    let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let page = word(8).ok_or("the log has no header")? as usize;
    let salts = bytes.get(16..24).and_then(|salts| salts.try_into().ok()).ok_or("the log has no salts")?;
    let mut log = Log { salts, frames: 0, commits: 0 };
    for at in (HEADER..bytes.len()).step_by(FRAME + page) {
        // The rest is from an earlier log.
        if bytes.get(at + 8..at + 16) != Some(&salts[..]) {
            break;
        }
        log.frames += 1;
        log.commits += usize::from(word(at + 4).is_some_and(|pages| pages > 0));
    }
    Ok(log)
}

/// (a) Transactions of one cycle of a stream: at most 5.
pub(crate) fn transactions() -> Result<Verdict> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("ours.db");
    let runtime = runtime(sqlite(&path)?, "Ordered.")?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text: Arc<str> = Arc::from("Buy 100 VNM");
    let run = |name: &str| executor.block_on(cycle(&runtime, name, &text, 1));
    run("warm")?;
    let wal = dir.path().join("ours.db-wal");
    let before = log(&wal)?;
    for i in 0..CYCLES {
        run(&format!("s{i}"))?;
    }
    let after = log(&wal)?;
    if after.salts != before.salts {
        return Err("the log began anew meanwhile".into());
    }
    let each = |count: usize| count as f64 / CYCLES as f64;
    Ok(Verdict {
        name: "cycle: transactions, SQLite",
        ratio: each(after.commits - before.commits),
        at_least: None,
        at_most: Some(5.0),
        detail: format!("{:.1} pages written to the log", each(after.frames - before.frames)),
    })
}
