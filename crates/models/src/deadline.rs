//! How long an answer is waited for: for its next part, for what adds to it, and in all; and how much is read for it.
//!
//! A comment, an empty line, or an event such as a ping says that the connection lives, not that the provider still works
//! on the answer. Gateways send them while a model thinks, for minutes; some send them forever.

use std::time::Duration;

use countersign_engine::model::ModelError;
use tokio::time::{Instant, timeout};

use super::reading::EVENT_BYTES;

/// How many times longer the wait for what adds to the answer is than that for any part.
const ADDITIONS: u32 = 8;

/// The longest wait for all parts of one answer. A server of one letter at a time would hardly end otherwise. A slow
/// model on a small machine may take hours.
const LONGEST_ANSWER: Duration = Duration::from_secs(6 * 3600);

/// The most that is read for one answer, in bytes. A server whose comments and pings come faster than they are read is
/// never waited for, and would never end otherwise. An event is many times as long as the text that it adds.
const LARGEST_STREAM: usize = 16 * EVENT_BYTES;

/// The wait for one answer. Time in which nobody asks for the next part does not count.
pub(super) struct AnswerDeadline {
    idle: Duration,
    /// Waited since something was added to the answer.
    unheard: Duration,
    /// Waited in all.
    waited: Duration,
    /// Read in all, in bytes.
    read: usize,
}

impl AnswerDeadline {
    /// `idle`: the longest wait for the next part; for what adds to the answer it is [`ADDITIONS`] times as long.
    pub(super) fn new(idle: Duration) -> AnswerDeadline {
        AnswerDeadline { idle, unheard: Duration::ZERO, waited: Duration::ZERO, read: 0 }
    }

    /// The next part, which may or may not add to the answer.
    ///
    /// # Errors
    /// The wait is over: why, as a statement about the server.
    pub(super) async fn wait<T>(&mut self, part: impl Future<Output = T>) -> Result<T, String> {
        let (for_more, in_all) = (self.idle * ADDITIONS, LONGEST_ANSWER);
        let left = for_more.saturating_sub(self.unheard).min(in_all.saturating_sub(self.waited));
        let since = Instant::now();
        // A part that is already there does not save a wait that is over.
        let part = if left.is_zero() { None } else { timeout(left.min(self.idle), part).await.ok() };
        self.unheard += since.elapsed();
        self.waited += since.elapsed();
        part.ok_or_else(|| {
            if self.waited >= in_all {
                format!("did not complete its answer within {in_all:?}")
            } else if self.unheard >= for_more {
                format!("kept its connection alive and sent nothing of an answer for {for_more:?}")
            } else {
                silent(self.idle)
            }
        })
    }

    /// Something was added to the answer.
    pub(super) fn heard(&mut self) {
        self.unheard = Duration::ZERO;
    }

    /// More was read.
    ///
    /// # Errors
    /// It is too much.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.read += bytes;
        if self.read > LARGEST_STREAM {
            let what = format!("the provider did not complete its answer within {LARGEST_STREAM} bytes of its stream");
            return Err(ModelError::permanent(what));
        }
        Ok(())
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

    #[test]
    fn s23_r9_no_more_is_read_for_one_answer_than_the_largest_could_take() {
        let mut deadline = AnswerDeadline::new(IDLE);
        assert!((0..16).all(|_| deadline.read(EVENT_BYTES).is_ok()));
        let error = deadline.read(1).expect_err("too much");
        let told = "the provider did not complete its answer within 268435456 bytes of its stream";
        assert_eq!((error.transient, &*error.message), (false, told));
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
