//! A runtime's metrics for operators: how long people take, how late deadlines fire, how long commits take. Numbers
//! only, counted since the runtime was built.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    journal::{
        record::{Entry, Kind, Millis, Record},
        state::State,
    },
    number::InterruptionNo,
    wire::event::Resolution,
};

/// Upper bounds of how long a request was pending, in seconds: from one second to a week.
const WAITED: &[f64] = &[1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0];
/// Upper bounds of how late a deadline fired, in seconds: they are checked five times a second.
const LATE: &[f64] = &[0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0];
/// Upper bounds of how long a commit took, in seconds.
const COMMITTED: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A histogram of durations.
#[derive(Debug)]
pub struct Durations {
    bounds: &'static [f64],
    /// One for each bound, and one for longer durations.
    counts: Vec<AtomicU64>,
    micros: AtomicU64,
}

impl Durations {
    fn new(bounds: &'static [f64]) -> Durations {
        Durations { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), micros: AtomicU64::new(0) }
    }

    fn add(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let place = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The histogram's buckets: the upper bound of each in seconds, and the number of durations in that bucket alone.
    /// The last bound is infinite.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect()
    }

    /// The sum of all durations, in seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}

/// See [`super::Runtime::activity`].
#[derive(Debug)]
pub struct Activity {
    /// How long requests had been pending when they were decided or answered.
    pub waited: Durations,
    /// How late timeouts were stored, counted from their deadlines.
    pub late: Durations,
    /// How long the store took for each append.
    pub committed: Durations,
    resolved: [AtomicU64; 3],
    in_doubt: AtomicU64,
    taken_over: AtomicU64,
    /// By kind: those of decisions, `answer` and `resume`.
    decided: Mutex<BTreeMap<&'static str, u64>>,
    /// By code: all codes are this program's own, so there are few.
    failed: Mutex<BTreeMap<String, u64>>,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity {
            waited: Durations::new(WAITED),
            late: Durations::new(LATE),
            committed: Durations::new(COMMITTED),
            resolved: Default::default(),
            in_doubt: AtomicU64::new(0),
            taken_over: AtomicU64::new(0),
            decided: Mutex::default(),
            failed: Mutex::default(),
        }
    }
}

fn place(resolution: Resolution) -> usize {
    match resolution {
        Resolution::Decided => 0,
        Resolution::Timeout => 1,
        Resolution::Cancelled => 2,
    }
}

impl Activity {
    /// How many requests this process has resolved this way.
    #[must_use]
    pub fn resolved(&self, resolution: Resolution) -> u64 {
        self.resolved[place(resolution)].load(Ordering::Relaxed)
    }

    /// How often this process had to ask a person for the outcome of a call or a step.
    #[must_use]
    pub fn in_doubt(&self) -> u64 {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// How many sessions of other nodes this process has taken over.
    #[must_use]
    pub fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// How many decisions this process has stored, by kind: one for each action, also of a vote, and `answer` or `resume`
    /// for an answer.
    #[must_use]
    pub fn decided(&self) -> BTreeMap<&'static str, u64> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many turns have failed here, by the code of their failure.
    #[must_use]
    pub fn failed(&self) -> BTreeMap<String, u64> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn took_over(&self, sessions: usize) {
        self.taken_over.fetch_add(sessions as u64, Ordering::Relaxed);
    }

    pub(super) fn committed(&self, took: Duration) {
        self.committed.add(took);
    }

    /// Counts entries that were stored after a state.
    pub(super) fn stored(&self, before: &State, entries: &[Arc<Entry>]) {
        for entry in entries {
            for record in &entry.records {
                match record {
                    Record::Interrupted(asked) if asked.kind == Kind::InDoubt => {
                        self.in_doubt.fetch_add(1, Ordering::Relaxed);
                    }
                    Record::Decided(decided) => {
                        self.said(decided.decisions.iter().map(|decision| decision.kind().name()));
                        if decided.last {
                            self.ended(before, decided.n, Resolution::Decided, entry.at);
                        }
                    }
                    Record::Answered(answered) => {
                        self.said(["answer"]);
                        self.ended(before, answered.n, Resolution::Decided, entry.at);
                    }
                    Record::Resumed(resumed) => {
                        self.said(["resume"]);
                        self.ended(before, resumed.n, Resolution::Decided, entry.at);
                    }
                    Record::TimedOut { n, .. } => self.ended(before, *n, Resolution::Timeout, entry.at),
                    Record::Withdrawn { n, .. } => self.ended(before, *n, Resolution::Cancelled, entry.at),
                    Record::TurnFailed(failed) => {
                        let mut counts = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                        *counts.entry(failed.failure.code().to_owned()).or_insert(0) += 1;
                    }
                    _ => {}
                }
            }
        }
    }

    fn said(&self, kinds: impl IntoIterator<Item = &'static str>) {
        let mut counts = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            *counts.entry(kind).or_insert(0) += 1;
        }
    }

    fn ended(&self, before: &State, n: InterruptionNo, resolution: Resolution, at: Millis) {
        self.resolved[place(resolution)].fetch_add(1, Ordering::Relaxed);
        let Some(open) = before.waiting(n) else { return };
        let since = |then: Millis| Duration::from_millis(u64::try_from(at.saturating_sub(then)).unwrap_or_default());
        match (resolution, open.asked.expires_at) {
            (Resolution::Decided, _) => self.waited.add(since(open.asked_at)),
            (Resolution::Timeout, Some(deadline)) => self.late.add(since(deadline)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_each_duration_is_counted_once_up_to_its_bound() {
        let durations = Durations::new(&[0.5, 1.0]);
        for millis in [0, 500, 501, 1000, 1001, 60_000] {
            durations.add(Duration::from_millis(millis));
        }
        let counts: Vec<u64> = durations.buckets().iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 2, 2]);
        assert!((durations.sum() - 63.002).abs() < 1e-9, "{}", durations.sum());
    }
}
