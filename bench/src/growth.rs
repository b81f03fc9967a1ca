//! (c) One long session: the 400th cycle costs at most 1.2 times the 10th, and 400 keep at most 1.2 MB.

use std::{sync::Arc, time::Instant};

use crate::{
    Result, Verdict,
    cycle::{cycle, runtime, sqlite},
};

const CYCLES: usize = 400;
/// Neighbouring cycles whose median is measured: single commits on a shared disk vary a lot.
const AROUND: usize = 10;
/// Sessions measured side by side, a cycle of each in turn, so that a slow moment hits early and late alike.
const SESSIONS: usize = 3;

pub(crate) fn one_long_session() -> Result<Vec<Verdict>> {
    let kilobyte: Arc<str> = "Buy a hundred VNM and tell me why it is a good idea. ".repeat(19).into();
    let dir = tempfile::tempdir()?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let path = dir.path().join("one.db");
    let mut early = Vec::new();
    let mut late = Vec::new();
    for session in 0..SESSIONS {
        let path = if session == 0 { path.clone() } else { dir.path().join(format!("{session}.db")) };
        let runtime = runtime(sqlite(&path)?, "Ordered.")?;
        for n in 1..=CYCLES {
            let begin = Instant::now();
            executor.block_on(cycle(&runtime, "long", &kilobyte, n))?;
            let took = begin.elapsed().as_secs_f64();
            if n > 10 - AROUND / 2 && n <= 10 + AROUND {
                early.push(took);
            }
            if n > CYCLES - AROUND - AROUND / 2 {
                late.push(took);
            }
        }
        executor.block_on(async { runtime.shutdown(std::time::Duration::from_secs(1)).await });
    }
    // All files that a folder listing shows: the database and SQLite's files beside it.
    let bytes: u64 = ["one.db", "one.db-wal", "one.db-shm"]
        .iter()
        .filter_map(|name| std::fs::metadata(dir.path().join(name)).ok())
        .map(|file| file.len())
        .sum();
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2] * 1e3
    };
    let (early, late) = (middle(&mut early), middle(&mut late));
    Ok(vec![
        Verdict {
            name: "growth: 400th cycle / 10th",
            ratio: late / early,
            at_least: None,
            at_most: Some(1.2),
            detail: format!("{late:.3} ms against {early:.3} ms"),
        },
        Verdict {
            name: "growth: MB for 400 cycles of 1 kB",
            ratio: bytes as f64 / 1e6,
            at_least: None,
            at_most: Some(1.2),
            detail: format!("{bytes} bytes"),
        },
    ])
}
