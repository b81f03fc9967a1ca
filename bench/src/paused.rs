//! (d) 100,000 paused sessions: memory of the process that serves them, the size of each in the memory store and on the
//! disk, and the time to resume one.

use std::{sync::Arc, time::Instant};

use countersign_core::approval::{decision::Decision, principal::Principal};
use countersign_runtime::run::{NewDecision, NewMessage, Runtime};
use countersign_store::memory::MemoryStore;

use crate::{
    Result, Verdict,
    cycle::{runtime, sqlite},
};

const SESSIONS: usize = 100_000;
const AT_ONCE: usize = 128;
const RESUMED: usize = 200;

/// Resident memory of this process, in MB.
pub(crate) fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes / 1024.0)
}

/// Makes sessions that are pending, from number `first` on.
async fn pause(runtime: &Runtime, first: usize, sessions: usize) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..AT_ONCE {
        let runtime = runtime.clone();
        tasks.spawn(async move {
            let text: Arc<str> = Arc::from("Buy 100 VNM");
            for i in (first + worker..first + sessions).step_by(AT_ONCE) {
                runtime.run(&Principal::trusted(), NewMessage::text(format!("s{i}"), text.clone())).await?;
            }
            Ok::<(), countersign_core::refusal::Refusal>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// The argument that makes this program hold pending sessions in memory.
pub(crate) const IN_MEMORY: &str = "pause-in-memory";

/// Makes pending sessions in the memory store, and prints how many bytes of resident memory each takes. Earlier ones
/// have caused all one-time allocations.
pub(crate) fn in_memory() -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runtime = runtime(Arc::new(MemoryStore::new()), "Ordered.")?;
    executor.block_on(pause(&runtime, 0, SESSIONS / 10))?;
    let before = resident()?;
    executor.block_on(pause(&runtime, SESSIONS / 10, SESSIONS))?;
    println!("{}", (resident()? - before) * 1024.0 * 1024.0 / SESSIONS as f64);
    Ok(())
}

/// The figures that this program prints in a separate process.
fn figures(arguments: &[&str]) -> Result<Vec<f64>> {
    let told = std::process::Command::new(std::env::current_exe()?).args(arguments).output()?;
    let told = String::from_utf8(told.stdout)?;
    Ok(told.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?)
}

pub(crate) fn hundred_thousand() -> Result<Vec<Verdict>> {
    let dir = tempfile::tempdir()?;
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let path = dir.path().join("paused.db");
    let runtime = runtime(sqlite(&path)?, "Ordered.")?;
    let begin = Instant::now();
    executor.block_on(runtime.start())?;
    executor.block_on(pause(&runtime, 0, SESSIONS))?;
    let created = SESSIONS as f64 / begin.elapsed().as_secs_f64();
    let made_in = resident()?;
    executor.block_on(async { runtime.shutdown(std::time::Duration::from_secs(1)).await });
    drop(runtime);
    executor.shutdown_timeout(std::time::Duration::from_secs(5));
    let files = std::fs::read_dir(dir.path())?.map(|file| Ok(file?.metadata()?.len()));
    let stored: u64 = files.sum::<std::io::Result<u64>>()?;
    // Measured in a separate process, like a server started on them: the process that made them keeps its allocator's
    // memory.
    let [resident, half, most] = figures(&[SERVE, path.to_str().ok_or("a path that is not UTF-8")?])?[..] else {
        return Err("the sessions could not be served".into());
    };
    let [held] = figures(&[IN_MEMORY])?[..] else { return Err("the sessions could not be held in memory".into()) };
    Ok(vec![
        Verdict {
            name: "paused: kB each in the memory store",
            ratio: held / 1e3,
            at_least: None,
            at_most: Some(2.0),
            detail: format!("resident memory of {SESSIONS} more sessions"),
        },
        Verdict {
            name: "paused: kB each on the disk",
            ratio: stored as f64 / 1e3 / SESSIONS as f64,
            at_least: None,
            at_most: Some(3.0),
            detail: format!("{stored} bytes, the log beside the database included"),
        },
        Verdict {
            name: "paused: MB resident, 100,000 wait",
            ratio: resident,
            at_least: None,
            at_most: Some(200.0),
            detail: format!("{made_in:.0} MB in the process that made them, {created:.0} a second"),
        },
        Verdict {
            name: "paused: ms to resume one",
            ratio: half,
            at_least: None,
            at_most: Some(1.0),
            detail: format!("99 of 100 within {most:.2} ms, stored afresh to final answer"),
        },
    ])
}

/// The argument that makes this program serve the sessions of a store.
pub(crate) const SERVE: &str = "serve-paused";

/// Opens the store, resumes some of its sessions, and prints: MB resident, the median and the 99th percentile of the
/// milliseconds that one took.
pub(crate) fn serve(path: &str) -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let runtime = runtime(sqlite(std::path::Path::new(path))?, "Ordered.")?;
    executor.block_on(runtime.start())?;
    let mut times = Vec::with_capacity(RESUMED);
    for i in 0..RESUMED {
        let approval_key = format!("s{}_1", i * (SESSIONS / RESUMED));
        let decision = NewDecision::new(approval_key, vec![Decision::approve()]);
        let begin = Instant::now();
        let done = executor.block_on(runtime.decide_and_run(&Principal::trusted(), decision))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        if done.text.is_empty() {
            return Err("a resumed session did not end its turn".into());
        }
    }
    times.sort_by(f64::total_cmp);
    let (half, most) = (times[RESUMED / 2], times[RESUMED * 99 / 100]);
    println!("{} {half} {most}", resident()?);
    Ok(())
}
