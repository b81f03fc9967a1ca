//! How long an answer is waited for: for its next part, for its next event, and in all.
//!
//! A comment or an empty line says that the connection lives, not that the provider still works on the answer. Gateways
//! send them while a model thinks, for minutes; some send them forever.

use std::time::Duration;

use tokio::time::{Instant, timeout};

/// How many times longer the wait for an event is than that for any part.
const EVENTS: u32 = 8;

/// The longest wait for all parts of one answer. A server of keep-alive events, or of one letter at a time, would never
/// end otherwise. A slow model on a small machine may take hours.
const LONGEST_ANSWER: Duration = Duration::from_secs(6 * 3600);

/// The wait for one answer. Time in which nobody asks for the next part does not count.
pub(super) struct AnswerDeadline {
    idle: Duration,
    /// Waited since the last event.
    unheard: Duration,
    /// Waited in all.
    waited: Duration,
}

impl AnswerDeadline {
    /// `idle`: the longest wait for the next part; for the next event it is [`EVENTS`] times as long.
    pub(super) fn new(idle: Duration) -> AnswerDeadline {
        AnswerDeadline { idle, unheard: Duration::ZERO, waited: Duration::ZERO }
    }

    /// The next part, which may or may not be an event.
    ///
    /// # Errors
    /// The wait is over: why, as a statement about the server.
    pub(super) async fn wait<T>(&mut self, part: impl Future<Output = T>) -> Result<T, String> {
        let (for_events, in_all) = (self.idle * EVENTS, LONGEST_ANSWER);
        let left = for_events.saturating_sub(self.unheard).min(in_all.saturating_sub(self.waited));
        let since = Instant::now();
        // A part that is already there does not save a wait that is over.
        let part = if left.is_zero() { None } else { timeout(left.min(self.idle), part).await.ok() };
        self.unheard += since.elapsed();
        self.waited += since.elapsed();
        part.ok_or_else(|| {
            if self.waited >= in_all {
                format!("did not complete its answer within {in_all:?}")
            } else if self.unheard >= for_events {
                format!("kept its connection alive and sent nothing of an answer for {for_events:?}")
            } else {
                silent(self.idle)
            }
        })
    }

    /// An event has come.
    pub(super) fn heard(&mut self) {
        self.unheard = Duration::ZERO;
    }
}

/// The statement about a server that was silent for this long.
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
    async fn s23_what_keeps_a_connection_alive_is_waited_for_longer_but_not_for_ever() {
        let mut deadline = AnswerDeadline::new(IDLE);
        for _ in 0..10 {
            deadline.wait(sleep(Duration::from_secs(100))).await.expect("in time");
            deadline.heard();
            // The answer's reader takes long: that time is not the server's.
            sleep(IDLE).await;
        }
        let since = Instant::now();
        let over = deadline.wait(pending::<()>()).await.expect_err("silence");
        assert_eq!((over.as_str(), since.elapsed()), ("sent nothing of an answer for 120s", IDLE));
        deadline.heard();
        let since = Instant::now();
        let over = loop {
            if let Err(over) = deadline.wait(sleep(Duration::from_secs(100))).await {
                break over;
            }
        };
        let told = "kept its connection alive and sent nothing of an answer for 960s";
        assert_eq!((over.as_str(), since.elapsed().as_secs()), (told, 960));
        assert!(deadline.wait(ready(())).await.is_err(), "it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn s23_r9_a_server_that_never_ends_is_given_up_though_it_sends_events() {
        let (mut deadline, since) = (AnswerDeadline::new(IDLE), Instant::now());
        let over = loop {
            match deadline.wait(sleep(Duration::from_secs(15))).await {
                Ok(()) => deadline.heard(),
                Err(over) => break over,
            }
        };
        assert_eq!((over.as_str(), since.elapsed()), ("did not complete its answer within 21600s", LONGEST_ANSWER));
        assert!(deadline.wait(pending::<()>()).await.is_err());
    }
}
