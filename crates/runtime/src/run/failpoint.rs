//! Named points at which a crash test kills the process for real.
//!
//! `COUNTERSIGN_FAILPOINT=NAME` or `NAME:N` sends SIGKILL to this process when the point is reached for
//! the N-th time. Only with the feature `failpoints`; otherwise no point does anything.

/// Dies here if the environment asks for it.
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

/// Whether sessions are suspected of ending the process. Crash tests kill it from outside all the time, and say so
/// with `COUNTERSIGN_KILLED_FROM_OUTSIDE`.
#[must_use]
pub fn blames_sessions() -> bool {
    cfg!(not(feature = "failpoints")) || std::env::var_os("COUNTERSIGN_KILLED_FROM_OUTSIDE").is_none()
}

/// Whether a session leaves memory as soon as it rests, whoever follows it. Crash tests ask for that with
/// `COUNTERSIGN_EVICTS`.
#[must_use]
pub fn evicts() -> bool {
    cfg!(feature = "failpoints") && std::env::var_os("COUNTERSIGN_EVICTS").is_some()
}

/// The log line of a session that [`evicts`] has removed from memory; crash tests count them.
pub const EVICTED: &str = "the session left memory";

/// The points, in the order a cycle passes them.
pub const POINTS: [&str; 12] = [
    "message.before_commit",
    "message.after_commit",
    "model.mid_stream",
    "model.before_commit",
    "model.after_commit",
    "decide.before_commit",
    "decide.after_commit",
    "start.before_commit",
    "call.before_effect",
    "call.after_effect",
    "finish.before_commit",
    "finish.after_commit",
];
