//! Options of a node.

use std::time::Duration;

/// Options of a node: retries and a time limit.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    pub(crate) retry: Option<Retry>,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) parallel: Option<usize>,
}

impl NodeOptions {
    /// One attempt, without a time limit.
    #[must_use]
    pub fn new() -> NodeOptions {
        NodeOptions::default()
    }

    /// Retries the node when it fails. Completed steps are not repeated, and answers stay.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> NodeOptions {
        self.retry = Some(retry);
        self
    }

    /// Fails the node after this running time. Time spent waiting for people does not count.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> NodeOptions {
        self.time_limit = Some(limit);
        self
    }
}

/// How often a node is tried, and the delays between tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Tries in total, at least 1.
    pub attempts: u32,
    /// Delay before the second try.
    pub initial_delay: Duration,
    /// Growth factor of the delay.
    pub factor: f64,
    /// Longest delay.
    pub max_delay: Duration,
}

impl Default for Retry {
    /// Three tries, with delays of half a second and one second.
    fn default() -> Retry {
        Retry {
            attempts: 3,
            initial_delay: Duration::from_millis(500),
            factor: 2.0,
            max_delay: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// This many tries in total, with the default delays.
    #[must_use]
    pub fn new(attempts: u32) -> Retry {
        Retry { attempts: attempts.max(1), ..Retry::default() }
    }

    /// Delay before the second try; the following ones grow.
    #[must_use]
    pub fn initial_delay(mut self, delay: Duration) -> Retry {
        self.initial_delay = delay;
        self
    }

    /// The delay after `failed` tries; `None` if that was the last.
    pub(crate) fn delay(&self, failed: u32) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let factor = self.factor.max(1.0).powi(i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = (self.initial_delay.as_secs_f64() * factor).min(self.max_delay.as_secs_f64());
        Duration::try_from_secs_f64(seconds).ok()
    }
}
