//! Deadlines that cannot be stored because of their sessions: they delay no others and do not flood the log.
//!
//! The store returns the earliest deadlines first, and one that fails stays among them. So failed ones are requested in
//! addition to the others, and retried after a pause. An outage of the store is no session's fault: all are retried at
//! once when it ends.
//!
//! One whose session is in use for long is handled by a task that goes on meanwhile.

use std::{collections::HashMap, time::Duration};

use countersign_core::refusal::{Code, Refusal};
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};

use crate::store::Due;

/// Deadlines requested at a time, in addition to failed ones.
const AT_ONCE: usize = 256;
/// How many failed deadlines are remembered, and how many are handled meanwhile. Further ones are retried at each poll.
const REMEMBERED: usize = 4096;
/// The first pause after a failure, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Due deadlines that have failed.
#[derive(Default)]
pub(super) struct Overdue {
    failed: HashMap<Due, Failed>,
    /// Those that are handled meanwhile.
    busy: HashMap<Due, JoinHandle<Handled>>,
    /// The store could not be reached when it was last tried.
    away: bool,
}

/// Whether it was stored.
type Handled = Result<bool, Refusal>;

struct Failed {
    again: Instant,
    pause: Duration,
}

impl Overdue {
    /// How many to request from the store, so that those to handle are among them.
    pub(super) fn limit(&self) -> usize {
        AT_ONCE + self.failed.len() + self.busy.len()
    }

    /// Which of the due ones to handle now: all, unless far too many hang, since the store offers them to no other node
    /// for a while.
    pub(super) fn ready(&mut self, mut due: Vec<Due>) -> Vec<Due> {
        let now = Instant::now();
        // Those no longer due, or another node's, are forgotten.
        self.failed.retain(|_, failed| now < failed.again + LONGEST_PAUSE);
        due.retain(|due| !self.busy.contains_key(due) && self.failed.get(due).is_none_or(|failed| failed.again <= now));
        due.truncate((AT_ONCE + REMEMBERED).saturating_sub(self.busy.len()));
        due
    }

    /// One is handled meanwhile: others do not wait for it.
    pub(super) fn busy(&mut self, due: Due, handled: JoinHandle<Handled>) {
        let (session, n) = &due;
        tracing::warn!(session = &**session, n = n.get(), "a time-out waits for its session, which is in use");
        self.busy.insert(due, handled);
    }

    /// Those that were handled meanwhile.
    pub(super) async fn ended(&mut self) -> Vec<(Due, Result<Handled, JoinError>)> {
        let mut ended = Vec::new();
        for (due, handled) in self.busy.extract_if(|_, handled| handled.is_finished()) {
            ended.push((due, handled.await));
        }
        ended
    }

    /// Takes the result of a poll: the deadlines that could not be stored, and whether any other could. A store may
    /// report one session's fault like an outage, so it is an outage only if nothing has reached the store.
    pub(super) fn looked(&mut self, failed: Vec<(Due, Refusal)>, stored: bool) {
        let reached = stored || failed.iter().any(|(_, error)| !is_outage(error));
        let mut away = None;
        for (due, error) in failed {
            let own = reached && error.code != Code::StoreClosed || self.failed.contains_key(&due);
            if own || !is_outage(&error) { self.failed(due, &error) } else { away = Some(error) }
        }
        match away {
            Some(error) => self.away(&error),
            None => self.reached(),
        }
    }

    /// One could not be stored because of its session.
    fn failed(&mut self, due: Due, error: &Refusal) {
        let now = Instant::now();
        if let Some(failed) = self.failed.get_mut(&due) {
            failed.pause = LONGEST_PAUSE.min(failed.pause * 2);
            failed.again = now + failed.pause;
        } else if self.failed.len() < REMEMBERED {
            if !error.is_gone() || error.is_unreadable() {
                let (session, n) = &due;
                tracing::error!(session = &**session, n = n.get(), %error, "a time-out could not be stored; it is retried until it is");
            }
            self.failed.insert(due, Failed { again: now + PAUSE, pause: PAUSE });
        }
    }

    /// The store cannot be reached.
    pub(super) fn away(&mut self, error: &Refusal) {
        if !std::mem::replace(&mut self.away, true) && error.code != Code::StoreClosed {
            tracing::error!(%error, "deadlines cannot be read or stored; retrying until they can be");
        }
    }

    /// Everything that was tried in this poll has reached the store.
    fn reached(&mut self) {
        if std::mem::take(&mut self.away) {
            tracing::info!("deadlines can be read and stored again");
        }
    }
}

/// Whether it may have failed because of the store, and not because of its session.
fn is_outage(error: &Refusal) -> bool {
    (error.code.is_temporary() || error.code == Code::StoreClosed) && !error.is_gone() && !error.is_overtaken()
}

#[cfg(test)]
mod tests {
    use countersign_core::number::InterruptionNo;

    use super::*;

    fn due(n: u32) -> Due {
        ("s".into(), InterruptionNo::new(n))
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
                overdue.looked(vec![(due, refusal(Code::NewerVersionRequired).unreadable())], false);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }

    #[tokio::test(start_paused = true)]
    async fn w7_an_outage_puts_nothing_off() {
        let mut overdue = Overdue::default();
        overdue.looked([1, 2].map(|n| (due(n), refusal(Code::StoreUnavailable))).into(), false);
        assert_eq!(overdue.ready(vec![due(1), due(2)]), [due(1), due(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn w7_a_session_that_fails_while_others_are_stored_is_put_off_as_its_own() {
        let mut overdue = Overdue::default();
        overdue.looked(vec![(due(1), refusal(Code::StoreUnavailable))], true);
        assert_eq!(overdue.ready(vec![due(1), due(2)]), [due(2)]);
        tokio::time::advance(PAUSE).await;
        assert_eq!(overdue.ready(vec![due(1)]), [due(1)]);
        // If it is the only one, it still is.
        overdue.looked(vec![(due(1), refusal(Code::StoreUnavailable))], false);
        tokio::time::advance(PAUSE).await;
        assert_eq!((overdue.ready(vec![due(1)]), overdue.away), (vec![], false));
    }

    #[tokio::test(start_paused = true)]
    async fn w7_all_that_the_store_gives_is_handled_or_was_put_off() {
        let mut overdue = Overdue::default();
        overdue.looked((0..100).map(|n| (due(n), refusal(Code::Internal))).collect(), true);
        tokio::time::advance(PAUSE).await;
        let given: Vec<Due> = (0..u32::try_from(overdue.limit()).expect("few")).map(due).collect();
        assert_eq!(overdue.ready(given.clone()), given);
    }

    #[tokio::test(start_paused = true)]
    async fn w7_what_is_remembered_is_bounded_and_forgotten() {
        let mut overdue = Overdue::default();
        overdue.looked((0..10_000).map(|n| (due(n), refusal(Code::Internal))).collect(), true);
        assert_eq!(overdue.limit(), AT_ONCE + REMEMBERED);
        tokio::time::advance(PAUSE + LONGEST_PAUSE).await;
        assert_eq!(overdue.ready(Vec::new()), []);
        assert_eq!(overdue.limit(), AT_ONCE);
    }
}
