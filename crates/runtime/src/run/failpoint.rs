//! Named points at which a crash test kills the process for real.
//!
//! `COUNTERSIGN_FAILPOINT=NAME` or `NAME:N` sends SIGKILL to this process when the point is reached for
//! the N-th time. Only with the feature `failpoints`; otherwise no point does anything.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_core::journal::record::Record;

use crate::store::Due;

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

/// The variable with which crash tests have each session leave memory as soon as it rests, whoever follows it.
pub const EVICTS: &str = "COUNTERSIGN_EVICTS";
/// The log line of a session that has; crash tests count them.
pub const EVICTED: &str = "the session left memory";

/// Whether each session does.
#[must_use]
pub fn evicts() -> bool {
    asks_for(EVICTS)
}

/// The variable with which crash tests have a process leave the deadlines and reminders of what it has asked itself to others: then
/// nothing that a process keeps in memory can be what fires one.
pub const LEAVES_DEADLINES: &str = "COUNTERSIGN_LEAVES_DEADLINES";
/// The log line of one that is fired; crash tests count them.
pub const FIRED: &str = "a deadline of what another process has asked was fired";

/// What this process has asked, if it leaves the deadlines of that to others.
static ASKED: Mutex<BTreeSet<Due>> = Mutex::new(BTreeSet::new());

/// Whether this process leaves the deadlines of what it asks to others.
#[must_use]
pub fn leaves_deadlines() -> bool {
    asks_for(LEAVES_DEADLINES)
}

/// It has stored these records.
pub(super) fn stored<'a>(session_id: &Arc<str>, records: impl Iterator<Item = &'a Record>) {
    if leaves_deadlines() {
        let asked = records.filter_map(|record| match record {
            Record::Interrupted(asked) => Some((session_id.clone(), asked.n)),
            _ => None,
        });
        ASKED.lock().unwrap_or_else(PoisonError::into_inner).extend(asked);
    }
}

/// Whether this deadline is left to others.
pub(super) fn leaves(due: &Due) -> bool {
    leaves_deadlines() && ASKED.lock().unwrap_or_else(PoisonError::into_inner).contains(due)
}

fn asks_for(variable: &str) -> bool {
    cfg!(feature = "failpoints") && std::env::var_os(variable).is_some()
}

/// The variable with which tests have a process know no records of a higher format than this, as an older build does.
pub const KNOWS: &str = "COUNTERSIGN_KNOWS";

/// That format, where one is named.
#[must_use]
pub fn knows() -> Option<u32> {
    let named = asks_for(KNOWS).then(|| std::env::var(KNOWS).ok()).flatten();
    named.and_then(|format| format.parse().ok())
}

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
