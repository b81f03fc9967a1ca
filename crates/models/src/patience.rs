//! How long an answer is waited for: for its next event, and in all.
//!
//! Only events count. A comment or an empty line says that the connection lives, not that the provider still works on
//! the answer; some send them for ever.

use std::time::Duration;

use tokio::time::{Instant, timeout};

/// The longest wait for all parts of one answer. A server of keep-alive events, or of one letter at a time, would never
/// end otherwise. A slow model on a small machine may take hours.
const LONGEST_ANSWER: Duration = Duration::from_secs(6 * 3600);

/// The wait for one answer. Time in which nobody asks for the next part does not count.
pub(super) struct Patience {
    idle: Duration,
    /// Waited since the last event.
    silent: Duration,
    /// Waited in all.
    waited: Duration,
}

impl Patience {
    /// `idle`: the longest wait for the next event.
    pub(super) fn new(idle: Duration) -> Patience {
        Patience { idle, silent: Duration::ZERO, waited: Duration::ZERO }
    }

    /// The next part, which may or may not be an event.
    ///
    /// # Errors
    /// The wait is over: why, said of the server.
    pub(super) async fn wait<T>(&mut self, part: impl Future<Output = T>) -> Result<T, String> {
        let left = self.idle.saturating_sub(self.silent).min(LONGEST_ANSWER.saturating_sub(self.waited));
        let since = Instant::now();
        // A part that is there already ends no wait that is over.
        let part = if left.is_zero() { None } else { timeout(left, part).await.ok() };
        self.silent += since.elapsed();
        self.waited += since.elapsed();
        part.ok_or_else(|| match self.silent < self.idle {
            true => format!("did not complete its answer within {LONGEST_ANSWER:?}"),
            false => silent(self.idle),
        })
    }

    /// An event has come.
    pub(super) fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }
}

/// What is said of a server that was silent for so long.
pub(super) fn silent(idle: Duration) -> String {
    format!("sent nothing of an answer for {idle:?}")
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    const IDLE: Duration = Duration::from_secs(120);

    #[tokio::test(start_paused = true)]
    async fn s23_only_events_begin_the_wait_anew() {
        let mut patience = Patience::new(IDLE);
        for _ in 0..10 {
            patience.wait(sleep(Duration::from_secs(100))).await.expect("in time");
            patience.heard();
            // Whoever reads the answer takes long: that is not the server's time.
            sleep(IDLE).await;
        }
        patience.wait(sleep(Duration::from_secs(100))).await.expect("in time");
        let since = Instant::now();
        let over = patience.wait(sleep(Duration::from_secs(100))).await.expect_err("no event");
        assert_eq!((over.as_str(), since.elapsed().as_secs()), ("sent nothing of an answer for 120s", 20));
        assert!(patience.wait(ready(())).await.is_err(), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn s23_r9_a_server_that_never_ends_is_given_up_though_it_sends_events() {
        let (mut patience, since) = (Patience::new(IDLE), Instant::now());
        let over = loop {
            match patience.wait(sleep(Duration::from_secs(15))).await {
                Ok(()) => patience.heard(),
                Err(over) => break over,
            }
        };
        assert_eq!((over.as_str(), since.elapsed()), ("did not complete its answer within 21600s", LONGEST_ANSWER));
        assert!(patience.wait(pending::<()>()).await.is_err());
    }
}
