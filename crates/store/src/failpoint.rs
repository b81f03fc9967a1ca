//! Named points at which a crash test kills the process for real.
//!
//! `COUNTERSIGN_FAILPOINT=NAME` or `NAME:N` sends SIGKILL to this process when the point is reached for
//! the N-th time. Only with the feature `failpoints`; otherwise no point does anything. They are here because stores
//! have points too; `countersign_runtime::run::failpoint` lists them all.

/// Kills the process here if the environment asks for it.
#[cfg(feature = "failpoints")]
pub fn hit(name: &str) {
    use std::sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    };
    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static HITS: AtomicU64 = AtomicU64::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("COUNTERSIGN_FAILPOINT").ok()?;
        Some(match text.split_once(':') {
            Some((name, n)) => (name.to_owned(), n.parse().unwrap_or(1)),
            None => (text, 1),
        })
    });
    if let Some((wanted, n)) = wanted
        && wanted == name
        && HITS.fetch_add(1, Ordering::SeqCst) + 1 == *n
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal ends the process before this loop does anything.
        loop {
            std::thread::park();
        }
    }
}

/// Does nothing.
#[cfg(not(feature = "failpoints"))]
pub fn hit(_name: &str) {}
