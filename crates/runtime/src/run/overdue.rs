//! Deadlines that cannot be stored because of their sessions: they hold up neither the others nor the log.
//!
//! The store gives the earliest deadlines first, and one that fails stays among them. So those that have failed are asked for in
//! addition to the others, and are tried again after a pause. An outage of the store is nobody's in particular: all are tried
//! again at once when it is over.

use std::{collections::HashMap, time::Duration};

use countersign_core::refusal::{Code, Refusal};
use tokio::time::Instant;

use crate::store::Due;

/// Deadlines handled in one look.
const AT_ONCE: usize = 256;
/// How many that failed are remembered. Further ones are tried each time.
const REMEMBERED: usize = 4096;
/// The first pause after a failure, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What of the deadlines is due, and has failed.
#[derive(Default)]
pub(super) struct Overdue {
    failed: HashMap<Due, Failed>,
    /// The store could not be reached when it was last tried.
    away: bool,
}

struct Failed {
    again: Instant,
    pause: Duration,
}

impl Overdue {
    /// How many to ask the store for, so that the ones to be handled are among them.
    pub(super) fn limit(&self) -> usize {
        AT_ONCE + self.failed.len()
    }

    /// Which of those that are due to handle now.
    pub(super) fn ready(&mut self, mut due: Vec<Due>) -> Vec<Due> {
        let now = Instant::now();
        // What is not due any more, or another node's, is forgotten.
        self.failed.retain(|_, failed| now < failed.again + LONGEST_PAUSE);
        due.retain(|due| self.failed.get(due).is_none_or(|failed| failed.again <= now));
        due.truncate(AT_ONCE);
        due
    }

    /// One could not be stored.
    pub(super) fn failed(&mut self, due: Due, error: &Refusal) {
        if Overdue::is_outage(error) {
            return self.away(error);
        }
        let now = Instant::now();
        if let Some(failed) = self.failed.get_mut(&due) {
            failed.pause = LONGEST_PAUSE.min(failed.pause * 2);
            failed.again = now + failed.pause;
        } else if self.failed.len() < REMEMBERED {
            if !error.is_gone() || error.is_unreadable() {
                let (session, n) = &due;
                tracing::error!(session = &**session, n, %error, "a time-out could not be stored; it is tried again and again");
            }
            self.failed.insert(due, Failed { again: now + PAUSE, pause: PAUSE });
        }
    }

    /// Whether it failed because of the store, and not of its session.
    pub(super) fn is_outage(error: &Refusal) -> bool {
        matches!(error.code, Code::StoreUnavailable | Code::StoreClosed) && !error.is_gone() && !error.is_overtaken()
    }

    /// The store cannot be reached.
    pub(super) fn away(&mut self, error: &Refusal) {
        if !std::mem::replace(&mut self.away, true) && error.code != Code::StoreClosed {
            tracing::error!(%error, "deadlines cannot be read or stored; trying until they can");
        }
    }

    /// Everything that was tried in this look has reached the store.
    pub(super) fn reached(&mut self) {
        if std::mem::take(&mut self.away) {
            tracing::info!("deadlines can be read and stored again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(n: u32) -> Due {
        ("s".into(), n)
    }

    fn refusal(code: Code) -> Refusal {
        Refusal::new(code, "no")
    }

    #[tokio::test(start_paused = true)]
    async fn w7_what_fails_is_tried_again_more_and_more_rarely() {
        let mut overdue = Overdue::default();
        let begun = Instant::now();
        let mut tried = Vec::new();
        while begun.elapsed() < Duration::from_secs(200) {
            for due in overdue.ready(vec![due(1)]) {
                tried.push(begun.elapsed().as_secs());
                overdue.failed(due, &refusal(Code::StoreUnavailable).unreadable());
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }

    #[tokio::test(start_paused = true)]
    async fn w7_an_outage_puts_nothing_off() {
        let mut overdue = Overdue::default();
        overdue.failed(due(1), &refusal(Code::StoreUnavailable));
        assert_eq!(overdue.ready(vec![due(1)]), [due(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn w7_what_is_remembered_is_bounded_and_forgotten() {
        let mut overdue = Overdue::default();
        (0..10_000).for_each(|n| overdue.failed(due(n), &refusal(Code::Internal)));
        assert_eq!(overdue.limit(), AT_ONCE + REMEMBERED);
        tokio::time::advance(PAUSE + LONGEST_PAUSE).await;
        assert_eq!(overdue.ready(Vec::new()), []);
        assert_eq!(overdue.limit(), AT_ONCE);
    }
}
