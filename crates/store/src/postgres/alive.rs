//! Which nodes are alive. Each judges the others by its own clock, so that setting the database's takes no session from a
//! live node, and leaves none with a dead one.
//!
//! A node writes into its row until when its term lasts, by the database's clock. Whoever sees a new time there notes
//! by its own clock when that will be. When it comes and the row is still the same, the node is marked as dead, unless
//! it renews its term at that moment. Only the mark counts for leases.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use countersign_core::journal::record::Millis;

use crate::sql::int;

/// The longest lease that is believed: the longest that can be configured.
const LONGEST: Duration = Duration::from_secs(3600);

/// The terms of the other nodes, as this one has seen them.
pub(super) struct Others {
    lease: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    terms: HashMap<i64, Term>,
    /// How far the database's clock was ahead of [`super::member::boot_time`] when they were seen last.
    ahead: Option<Millis>,
}

#[derive(Clone, Copy)]
struct Term {
    /// What its row says.
    until: i64,
    /// When that is, by [`super::member::boot_time`].
    ends: Millis,
}

impl Others {
    pub(super) fn new(lease: Duration) -> Others {
        Others { lease, seen: Mutex::default() }
    }

    /// Those whose terms have ended, of all nodes with what their rows say.
    pub(super) fn ended(&self, terms: &[(i64, i64)], clock: Millis, now: Millis) -> Vec<(i64, i64)> {
        // Nothing panics while holding the lock.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *seen);
        let ahead = clock - now;
        // Who has renewed its term since the last look is alive, whatever the clock says. If it was set since, the term
        // is by the clock as it was or as it is.
        let (lease, longest) = (int(self.lease.as_millis()), int(LONGEST.as_millis()));
        let least = before.ahead.map_or(0, |_| lease);
        for &(id, until) in terms {
            let left = until / 1000 - now - ahead.max(before.ahead.unwrap_or(ahead));
            let fresh = Term { until, ends: now + left.clamp(least, longest) };
            let known = before.terms.get(&id).filter(|known| known.until == until);
            seen.terms.insert(id, known.copied().unwrap_or(fresh));
        }
        seen.ahead = (!terms.is_empty()).then_some(ahead);
        let ended = seen.terms.iter().filter(|(_, term)| term.ends <= now);
        ended.map(|(id, term)| (*id, term.until)).collect()
    }
}
