//! When a failed model call is retried (spec S23). Pure: the runner does the sleeping.

use std::time::Duration;

use super::ModelError;

/// How often, and after how long, a model call is retried.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Calls in all, including the first; 1 (or 0) means no retry.
    pub attempts: u32,
    /// The wait after the first failure; each further one doubles it.
    pub initial_delay: Duration,
    /// The longest wait that doubling reaches.
    pub max_delay: Duration,
    /// The longest wait that a provider may request by `Retry-After`; a longer one is cut to this.
    pub retry_after_max: Duration,
    /// The random part of a wait, from 0 to 1, so that sessions do not retry all at once.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    /// Four calls, waits of about 0.5, 1 and 2 seconds, a provider's own request up to one minute.
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 4,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(20),
            retry_after_max: Duration::from_secs(60),
            jitter: 0.25,
        }
    }
}

impl RetryPolicy {
    /// A policy that never retries.
    #[must_use]
    pub fn none() -> RetryPolicy {
        RetryPolicy { attempts: 1, ..RetryPolicy::default() }
    }

    /// How long to wait before the next call, or `None` to give up.
    ///
    /// `attempt` is the number of calls that have failed, from 1; `random` is uniform in `0.0..1.0`. The wait is never
    /// shorter than the provider requested, up to [`RetryPolicy::retry_after_max`].
    #[must_use]
    pub fn delay(&self, attempt: u32, error: &ModelError, random: f64) -> Option<Duration> {
        if !error.transient || attempt >= self.attempts {
            return None;
        }
        let doubled = self.initial_delay.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        let part = |number: f64| if number.is_nan() { 0.0 } else { number.clamp(0.0, 1.0) };
        let chance = part(self.jitter) * part(random);
        // A part of the maximal duration may be rounded up beyond it.
        let of = |time: Duration, part: f64| Duration::try_from_secs_f64(time.as_secs_f64() * part).unwrap_or(time);
        let backoff = of(doubled.min(self.max_delay), 1.0 - chance);
        let asked = error
            .retry_after
            .map(|asked| asked.min(self.retry_after_max).saturating_add(of(self.initial_delay, chance)));
        Some(asked.map_or(backoff, |asked| asked.max(backoff)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn s23_waits_double_up_to_the_maximum_and_end_with_the_attempts() {
        let policy = RetryPolicy { attempts: 8, ..RetryPolicy::default() };
        let error = ModelError::transient("503");
        let waits: Vec<_> = (1..=8).map(|attempt| policy.delay(attempt, &error, 0.0)).collect();
        assert_eq!(waits, [ms(500), ms(1000), ms(2000), ms(4000), ms(8000), ms(16_000), ms(20_000), None]);
        assert_eq!(RetryPolicy::none().delay(1, &error, 0.0), None);
    }

    #[test]
    fn s23_permanent_errors_are_not_retried() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, &ModelError::permanent("401"), 0.0), None);
    }

    #[test]
    fn s23_the_providers_retry_after_is_kept_up_to_a_cap() {
        let policy = RetryPolicy::default();
        let mut error = ModelError::transient("429");
        error.retry_after = Some(Duration::from_secs(7));
        assert_eq!(policy.delay(1, &error, 0.0), ms(7000));
        assert_eq!(policy.delay(1, &error, 1.0), ms(7125), "jitter only ever makes it longer");
        error.retry_after = Some(Duration::from_secs(3600));
        assert_eq!(policy.delay(1, &error, 0.0), ms(60_000));
        error.retry_after = Some(Duration::ZERO);
        assert_eq!(policy.delay(2, &error, 0.0), ms(1000), "never shorter than our own back-off");
    }

    #[test]
    fn s23_jitter_shortens_a_wait_by_its_share_at_most_and_bad_numbers_do_no_harm() {
        let policy = RetryPolicy { jitter: 0.5, ..RetryPolicy::default() };
        let error = ModelError::transient("500");
        assert_eq!(policy.delay(1, &error, 1.0), ms(250));
        assert_eq!(policy.delay(1, &error, f64::NAN), ms(500));
        assert_eq!(policy.delay(1, &error, -3.0), ms(500));
        let huge = RetryPolicy { attempts: u32::MAX, jitter: f64::INFINITY, ..RetryPolicy::default() };
        assert_eq!(huge.delay(u32::MAX - 1, &error, 0.0), ms(20_000));
        let none = RetryPolicy {
            jitter: f64::NAN,
            initial_delay: Duration::MAX,
            max_delay: Duration::MAX,
            ..RetryPolicy::default()
        };
        let asked = ModelError { retry_after: Some(Duration::from_secs(1)), ..ModelError::transient("429") };
        assert_eq!(none.delay(1, &asked, 0.5), Some(Duration::MAX));
    }
}
