//! Deleting sessions that have been idle for long enough, where that is configured. Never one that is running or
//! pending, or whose standing rules apply to other sessions.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use countersign_core::{audit::Deleted, journal::record::Millis, refusal::Refusal};

use super::{
    inner::Inner,
    live::{LiveState, uses::LiveRef},
};
use crate::store::machine_time;

/// How often such sessions are searched for.
const LOOK: Duration = Duration::from_secs(3600);
/// How many sessions are deleted before the next search.
const AT_ONCE: usize = 100;
/// The number of undeletable sessions at which the search stops.
const STAY: usize = 10_000;
/// How far two clocks may differ for sessions to be deleted by one of them.
const CLOCKS: Millis = 3_600_000;
/// A pause between two deletions, so that others can write.
const PAUSE: Duration = Duration::from_millis(5);

/// The machine's clock, and one that nobody sets.
#[derive(Clone, Copy)]
struct Clocks {
    machine: Millis,
    steady: Instant,
}

impl Clocks {
    fn read() -> Clocks {
        Clocks { machine: machine_time(), steady: Instant::now() }
    }

    /// By how much more the machine's clock went on since `before` than time passed: it was set, or the machine slept.
    fn set_since(self, before: Clocks) -> Millis {
        let passed = self.steady.saturating_duration_since(before.steady).as_millis();
        let passed = Millis::try_from(passed).unwrap_or(Millis::MAX);
        self.machine.saturating_sub(before.machine).saturating_sub(passed)
    }
}

/// Whether the machine's clock was not set since the `last` look. A store in a file has no other clock, and a moment in
/// which that is wrong must not be enough to delete everything. Where it was set forward, whatever was used before seems
/// older than it is, by as much: `forward` sums that up, less what it was set back.
fn may_delete(last: &mut Option<Clocks>, forward: &mut Millis, now: Clocks) -> bool {
    let set = last.replace(now).map_or(0, |before| now.set_since(before));
    *forward = forward.saturating_add(set).max(0);
    if set.saturating_abs() > CLOCKS {
        tracing::warn!(
            seconds = set / 1000,
            "this machine's clock was set since the last look, or it slept: no session is deleted before the next one, in \
             an hour"
        );
        return false;
    }
    true
}

impl Inner {
    /// Deletes sessions that have been idle for longer than `keep`, from time to time, until the runtime closes.
    pub(super) async fn watch_retention(self: Arc<Self>, keep: Duration) {
        let (mut closing, mut last, mut forward) = (self.closing.subscribe(), None, 0);
        while !*closing.borrow() {
            let keep = Millis::try_from(keep.as_millis()).unwrap_or(Millis::MAX);
            if may_delete(&mut last, &mut forward, Clocks::read()) {
                match self.delete_past(keep.saturating_add(forward)).await {
                    Ok(0) => {}
                    Ok(sessions) => tracing::info!(sessions, "sessions past their retention were deleted"),
                    Err(error) => tracing::warn!(%error, "sessions past their retention could not be deleted"),
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = closing.changed() => {}
            }
        }
    }

    /// Deletes nothing while the two clocks disagree: either may be set wrong, even for a moment, and a deletion cannot
    /// be undone.
    async fn delete_past(self: &Arc<Self>, keep: Millis) -> Result<u64, Refusal> {
        let now = self.now();
        let ahead = now.saturating_sub(machine_time());
        if ahead.saturating_abs() > CLOCKS {
            tracing::error!(
                seconds = ahead / 1000,
                "the store's clock is ahead of this machine's by so much: no session is deleted by it; set the wrong one"
            );
            return Ok(0);
        }
        self.delete_rested(now.saturating_sub(keep)).await
    }

    async fn delete_rested(self: &Arc<Self>, before: Millis) -> Result<u64, Refusal> {
        let mut deleted = 0;
        // Undeletable ones are found again, before all others.
        let mut stay: HashSet<Arc<str>> = HashSet::new();
        loop {
            let limit = AT_ONCE + stay.len();
            let rested = self.store.rested(before, self.now(), limit).await.map_err(|error| self.refused(error))?;
            let is_last = rested.len() < limit || stay.len() >= STAY;
            for (session_id, pos) in rested {
                if *self.closing.borrow() {
                    return Ok(deleted);
                }
                if stay.contains(&session_id) {
                    continue;
                }
                let live = self.live(&session_id);
                let mut guard = live.lock().await;
                match self.delete_at(&live, &mut guard, pos).await {
                    Ok(true) => {
                        self.is_deleted(&live, &mut guard);
                        deleted += 1;
                    }
                    // An input that was stored meanwhile keeps it.
                    Ok(false) => drop(stay.insert(session_id.clone())),
                    // The fault is this session's alone.
                    Err(error) if error.is_unreadable() || error.is_illegal() => {
                        tracing::warn!(session = &*session_id, %error, "a session cannot be read or ended, and is not deleted");
                        stay.insert(session_id.clone());
                    }
                    // Another node has appended to it, or deleted it.
                    Err(error) if error.is_overtaken() || error.is_gone() => drop(stay.insert(session_id.clone())),
                    Err(error) => return Err(error),
                }
                drop(guard);
                tokio::time::sleep(PAUSE).await;
            }
            if is_last {
                return Ok(deleted);
            }
        }
    }

    /// Deletes a session that ends at this position. A turn that had failed, and that nobody has retried, is cancelled
    /// first. `false`: it ends elsewhere.
    async fn delete_at(&self, live: &LiveRef, guard: &mut LiveState, pos: u64) -> Result<bool, Refusal> {
        let state = self.load(live, guard).await?;
        if state.pos != pos {
            return Ok(false);
        }
        self.ended_for_good(live, guard, &state, None).await?;
        let state = self.known(live, guard).await?;
        self.delete_as(&state, Deleted::Expired, None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_retention_waits_after_the_machines_clock_was_set() {
        const HOUR: Millis = 3_600_000;
        let (begun, mut last, mut forward) = (Clocks { machine: 1_000 * HOUR, steady: Instant::now() }, None, 0);
        let mut look = |hours: u64, machine: Millis| {
            let steady = begun.steady + Duration::from_secs(hours * 3600);
            may_delete(&mut last, &mut forward, Clocks { machine: begun.machine + machine * HOUR, steady })
        };
        assert!(look(0, 0) && look(1, 1), "it goes right");
        assert!(!look(2, 800), "it is set forward by a month");
        assert!(!look(3, 3), "and back");
        assert!(look(4, 4) && !look(5, 900));
        assert!(look(6, 901), "it stays as it was set");
        assert_eq!(forward, 895 * HOUR, "what was used before it was set is kept for longer, by as much");
    }
}
