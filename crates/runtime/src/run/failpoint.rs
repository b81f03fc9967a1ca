//! What crash tests have a process do: die for real at a named point ([`hit`]), or do without what it has in memory.
//!
//! Only with the feature `failpoints`; otherwise nothing of it does anything.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use countersign_core::journal::record::Record;

use crate::store::Due;
pub use crate::store::failpoint::hit;

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

/// The points that any server passes, about in the order in which it does. A test holds that these and [`NODE_POINTS`] are all.
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
    // Of a server that goes on with what another has left.
    "resume.before_load",
    "recover.before_commit",
    "recover.after_commit",
];

/// Those that only one of several nodes passes: how its leases last and are handed over, and how the audit log gets its one order.
pub const NODE_POINTS: [&str; 6] = [
    "lease.before_renew",
    "lease.after_renew",
    "chain.before_commit",
    "chain.after_commit",
    "hand_over.before_commit",
    "hand_over.after_commit",
];
