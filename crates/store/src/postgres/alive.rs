//! Which nodes are alive. Each judges the others by its own clock, so that setting the database's clock takes no
//! session from a live node, and leaves none with a dead one.
//!
//! A node writes the end of its term, by the database's clock, into its row. A node that sees a new time there notes
//! when that will be by its own clock. If the row is still the same by then, the node is marked as dead, unless it
//! renews its term at that moment. Only the mark counts for leases.
//!
//! A row that is the same at two looks proves nothing if nobody could reach the database in between: after such a gap
//! the others get time to renew their terms. A first look proves nothing at all, so it marks nobody.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use countersign_core::journal::record::Millis;

use crate::sql::int;

/// The longest lease that is believed: the longest that can be configured.
const LONGEST: Duration = Duration::from_secs(3600);
/// How late a renewal may be, beyond the time between two.
const LATE: Millis = 1000;
/// How often a caller that waits for one session looks.
const OFTEN: Millis = 1000;
/// After a longer time without a look the database may have been out of reach, for the others too.
const AWAY: Millis = 2 * OFTEN;
/// How often a term that is not renewed is extended after such gaps. More of them mean that this node looks rarely.
const EXTENDED: u32 = 3;

/// The terms of the other nodes, as this one has seen them.
pub(super) struct Others {
    lease: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    terms: HashMap<i64, Term>,
    /// How far the database's clock was ahead of [`super::clock::boot_time`] when they were seen last.
    ahead: Option<Millis>,
    /// When that was, and when the last look that had to be due began.
    looked: Option<Millis>,
    began: Option<Millis>,
}

#[derive(Clone, Copy)]
struct Term {
    /// The end that its row says.
    until: i64,
    /// When that is, by [`super::clock::boot_time`].
    ends: Millis,
    /// How often it was extended.
    extended: u32,
}

impl Others {
    pub(super) fn new(lease: Duration) -> Others {
        Others { lease, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while holding the lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a caller that waits for one session should look now: nobody has for a while.
    pub(super) fn is_look_due(&self, now: Millis) -> bool {
        let mut seen = self.seen();
        let is_due = seen.looked.max(seen.began).is_none_or(|last| now - last >= OFTEN);
        if is_due {
            seen.began = Some(now);
        }
        is_due
    }

    /// Of these nodes, each with the time in its row, those whose terms have ended.
    pub(super) fn ended(&self, terms: &[(i64, i64)], clock: Millis, now: Millis) -> Vec<(i64, i64)> {
        let mut seen = self.seen();
        let before = std::mem::take(&mut *seen);
        let ahead = clock - now;
        let lease = int(self.lease.as_millis());
        let was_away = before.looked.is_some_and(|looked| now - looked > AWAY.max(lease / 2));
        let (least, most) = match before.looked {
            // A live node renews within this time, and a dead one's row may be by a clock that was ahead.
            None => (lease / 4 + LATE, 4 * lease),
            // A node that has renewed its term since the last look is alive, whatever the clock says.
            Some(_) => (lease, int(LONGEST.as_millis())),
        };
        for &(id, until) in terms {
            let known = before.terms.get(&id).filter(|known| known.until == until).copied();
            let mut term = known.unwrap_or_else(|| {
                // If the clock was set since the last look, the term is by the clock as it was or as it is.
                let left = until / 1000 - now - ahead.max(before.ahead.unwrap_or(ahead));
                Term { until, ends: now + left.clamp(least, most), extended: 0 }
            });
            if was_away && term.extended < EXTENDED && term.ends < now + lease / 2 {
                (term.ends, term.extended) = (now + lease / 2, term.extended + 1);
            }
            seen.terms.insert(id, term);
        }
        seen.ahead = (!terms.is_empty()).then_some(ahead);
        (seen.looked, seen.began) = (Some(now), before.began);
        let ended = seen.terms.iter().filter(|(_, term)| term.ends <= now);
        ended.map(|(id, term)| (*id, term.until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others() -> Others {
        Others::new(Duration::from_secs(10))
    }

    /// Whether a look at this time finds the only other node, whose row says this, dead; in milliseconds.
    fn is_dead(others: &Others, now: Millis, until: Millis) -> bool {
        !others.ended(&[(1, until * 1000)], now, now).is_empty()
    }

    /// When it is found dead, by a look each second within this range; in seconds.
    fn dies(others: &Others, mut looks: std::ops::Range<i64>, until: Millis) -> Option<i64> {
        looks.find(|now| is_dead(others, now * 1000, until))
    }

    #[test]
    fn r5_a_node_that_looks_sees_within_fifteen_seconds_that_another_is_dead() {
        let others = others();
        assert_eq!(dies(&others, 0..5, 10_000), None);
        // It last renewed its term at 4.9 seconds.
        assert!(dies(&others, 5..99, 14_900).is_some_and(|at| at <= 4 + 15));
    }

    #[test]
    fn r5_a_node_that_was_cut_off_leaves_the_others_time_to_renew_their_terms() {
        for renews in [false, true] {
            let others = others();
            assert_eq!(dies(&others, 0..3, 12_000), None);
            // Neither has reached the database meanwhile.
            assert_eq!(dies(&others, 20..25, 12_000), None, "it may renew at any moment");
            let row = if renews { 34_500 } else { 12_000 };
            assert_eq!(dies(&others, 25..35, row), (!renews).then_some(25));
        }
    }

    #[test]
    fn r5_a_first_look_marks_nobody_and_believes_no_row_for_long() {
        for (row, dead_at) in [(-100_000, 3500), (2000, 3500), (9000, 9000), (3_000_000, 40_000)] {
            let others = others();
            assert!(!is_dead(&others, 0, row), "whatever the clock is");
            let looks = (1000..dead_at).step_by(1000).any(|now| is_dead(&others, now, row));
            assert!(!looks && is_dead(&others, dead_at, row), "{row}");
        }
        let others = others();
        assert!(!is_dead(&others, 0, -100_000) && !is_dead(&others, 3500, -97_000), "it has renewed its term");
    }

    #[test]
    fn r5_who_looks_rarely_sees_too_that_another_is_dead() {
        let others = others();
        let mut looks = (0..9).map(|n| is_dead(&others, n * 60_000, 10_000));
        assert_eq!(looks.position(|dead| dead), Some(4));
    }

    #[test]
    fn r5_who_waits_for_one_session_looks_once_a_second() {
        let others = others();
        let due = |now| others.is_look_due(now);
        assert_eq!([0, 999, 1000, 1999].map(due), [true, false, true, false]);
        assert!(!is_dead(&others, 2500, 10_000));
        assert_eq!([3000, 3500].map(due), [false, true]);
    }
}
