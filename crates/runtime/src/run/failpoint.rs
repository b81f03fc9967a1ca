//! Hooks for crash tests: a process is killed at a named point ([`hit`]), or drops its in-memory state.
//!
//! Only with the feature `failpoints`; otherwise they do nothing.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_core::journal::record::Record;

use crate::store::Due;
pub use crate::store::failpoint::hit;

/// Whether sessions are suspected of ending the process. Crash tests kill it from outside all the time, and declare
/// that with `COUNTERSIGN_KILLED_FROM_OUTSIDE`.
#[must_use]
pub fn blames_sessions() -> bool {
    cfg!(not(feature = "failpoints")) || std::env::var_os("COUNTERSIGN_KILLED_FROM_OUTSIDE").is_none()
}

/// The variable with which crash tests make each session leave memory as soon as it is idle, even if it has followers.
pub const EVICTS: &str = "COUNTERSIGN_EVICTS";
/// The log line of a session that left memory; crash tests count them.
pub const EVICTED: &str = "the session left memory";

/// Whether sessions leave memory in this way.
#[must_use]
pub fn evicts() -> bool {
    asks_for(EVICTS)
}

/// The variable with which crash tests make a process leave the deadlines and reminders of its own requests to other
/// processes, so that none can depend on something in its memory.
pub const LEAVES_DEADLINES: &str = "COUNTERSIGN_LEAVES_DEADLINES";
/// The log line of a deadline that fires; crash tests count them.
pub const FIRED: &str = "a deadline of what another process has asked was fired";

/// The requests that this process has made, if it leaves their deadlines to others.
static ASKED: Mutex<BTreeSet<Due>> = Mutex::new(BTreeSet::new());

/// Whether this process leaves the deadlines of its requests to others.
#[must_use]
pub fn leaves_deadlines() -> bool {
    asks_for(LEAVES_DEADLINES)
}

/// Notes the requests among records that this process has stored.
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

/// The variable with which tests make a process know no records of a format above this one, like an older build.
pub const KNOWS: &str = "COUNTERSIGN_KNOWS";

/// That format, if one is named.
#[must_use]
pub fn knows() -> Option<u32> {
    let named = asks_for(KNOWS).then(|| std::env::var(KNOWS).ok()).flatten();
    named.and_then(|format| format.parse().ok())
}

/// The points that any server passes, roughly in order. A test checks that these and [`NODE_POINTS`] are all of them.
pub const POINTS: [&str; 21] = [
    "message.before_commit",
    "message.after_commit",
    "compress.before_commit",
    "compress.after_commit",
    "model.mid_stream",
    "model.before_commit",
    "model.after_commit",
    "decide.before_commit",
    "decide.after_commit",
    "time_out.before_commit",
    "time_out.after_commit",
    "start.before_commit",
    "call.before_effect",
    "call.after_effect",
    "finish.before_commit",
    "finish.after_commit",
    "fork.before_commit",
    "fork.after_commit",
    // For a server that continues another's sessions.
    "resume.before_load",
    "recover.before_commit",
    "recover.after_commit",
];

/// Those that only one of several nodes passes: renewing and handing over leases, and ordering the audit log.
pub const NODE_POINTS: [&str; 6] = [
    "lease.before_renew",
    "lease.after_renew",
    "chain.before_commit",
    "chain.after_commit",
    "hand_over.before_commit",
    "hand_over.after_commit",
];
