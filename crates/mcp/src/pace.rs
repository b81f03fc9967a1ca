//! Limits how often a server can make us open streams, list its tools and log warnings.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Time between two warnings of one kind about one server.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// How often something may happen: a few times at once, then once per interval.
#[derive(Debug)]
pub(crate) struct Pace {
    every: Duration,
    at_once: u32,
    /// When it last happened, or will.
    last: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new(every: Duration, at_once: u32) -> Pace {
        let now = Instant::now();
        let last = now.checked_sub(every * at_once).unwrap_or(now);
        Pace { every, at_once, last: Mutex::new(last) }
    }

    /// When it may happen once more, which counts.
    pub(crate) fn next(&self) -> Instant {
        // Nothing panics while it is held.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let at_once = now.checked_sub(self.every * self.at_once).unwrap_or(now);
        *last = (*last).max(at_once) + self.every;
        *last
    }
}

/// Warnings of one kind about one server, which can cause any number: one a minute is logged, with the number left out
/// before it.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    pub(crate) server: Arc<str>,
    said: Mutex<(Option<Instant>, u64)>,
}

impl Warnings {
    pub(crate) fn about(server: &Arc<str>) -> Warnings {
        Warnings { server: server.clone(), said: Mutex::default() }
    }

    /// How many were left out before this one; `None`: this one is left out too.
    pub(crate) fn due(&self) -> Option<u64> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *said;
        if last.is_some_and(|last| last.elapsed() < WARN_EVERY) {
            *left_out += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn r9_one_warning_a_minute_is_logged_with_the_number_of_the_others() {
        let warnings = Warnings::default();
        assert_eq!([(); 3].map(|()| warnings.due()), [Some(0), None, None]);
        tokio::time::advance(WARN_EVERY).await;
        assert_eq!([(); 2].map(|()| warnings.due()), [Some(2), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn r9_what_is_paced_happens_a_few_times_at_once_and_then_once_per_interval() {
        let pace = Pace::new(Duration::from_secs(1), 2);
        let from_now = || pace.next().saturating_duration_since(Instant::now()).as_secs();
        assert_eq!([(); 4].map(|()| from_now()), [0, 0, 1, 2]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!([(); 3].map(|()| from_now()), [0, 0, 1], "what was not used is not saved");
    }
}
