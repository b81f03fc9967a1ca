//! How a node is run.

use std::time::Duration;

/// How a node is run: tried again, limited in time.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    pub(crate) retry: Option<Retry>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) parallel: Option<usize>,
}

impl NodeOptions {
    /// Once, for as long as it takes.
    #[must_use]
    pub fn new() -> NodeOptions {
        NodeOptions::default()
    }

    /// Tried again when it fails. Its steps that are done are not done again, and its answers stay.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> NodeOptions {
        self.retry = Some(retry);
        self
    }

    /// Fails when it has run for so long. The time it waits for a person does not count.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> NodeOptions {
        self.time_limit = Some(limit);
        self
    }
}

/// How often a failed node is tried, and how long is waited before each try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Tries in all, at least 1.
    pub attempts: u32,
    /// Before the second try.
    pub first: Duration,
    /// How many times longer before each further one.
    pub factor: f64,
    /// Never longer than this.
    pub most: Duration,
}

impl Default for Retry {
    /// Three tries: after half a second, after a second.
    fn default() -> Retry {
        Retry { attempts: 3, first: Duration::from_millis(500), factor: 2.0, most: Duration::from_secs(60) }
    }
}

impl Retry {
    /// So many tries in all, with the default times between.
    #[must_use]
    pub fn attempts(attempts: u32) -> Retry {
        Retry { attempts: attempts.max(1), ..Retry::default() }
    }

    /// Waits so long before the second try, and longer before each further one.
    #[must_use]
    pub fn first(mut self, first: Duration) -> Retry {
        self.first = first;
        self
    }

    /// The wait after `failed` tries; `None` if that was the last.
    pub(crate) fn delay(&self, failed: u32) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let factor = self.factor.max(1.0).powi(i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = (self.first.as_secs_f64() * factor).min(self.most.as_secs_f64());
        Duration::try_from_secs_f64(seconds).ok()
    }
}
