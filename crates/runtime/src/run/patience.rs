//! Waiting for the store: required reads and writes are retried until they succeed. An outcome is never dropped because
//! a disk is full for a while.
//!
//! People's inputs are not among them: they are refused, and only retried where another node was faster
//! ([`contested`](super::nodes::contested)).

use std::time::Duration;

use countersign_core::refusal::{Code, Refusal};

use super::inner::Inner;

/// The longest time between two tries.
const LONGEST: Duration = Duration::from_secs(2);

/// The tries of one operation: see [`until_it_works`].
#[derive(Default)]
pub(super) struct Patience {
    tries: u32,
    was_told: bool,
}

impl Patience {
    /// Waits a little longer each time.
    pub(super) async fn wait(&mut self, error: &Refusal) {
        if error.is_overtaken() && self.tries == 0 {
            // Another node has stored an input, so the session has moved on. If that happens again, the next try waits.
            self.tries = 1;
            return tokio::task::yield_now().await;
        }
        if !std::mem::replace(&mut self.was_told, true) && error.code != Code::StoreClosed {
            tracing::error!(%error, "a record could not be read or stored; retrying until it can be");
        }
        let delay = Duration::from_millis(20) * 2_u32.saturating_pow(self.tries.min(7));
        self.tries += 1;
        tokio::time::sleep(delay.min(LONGEST)).await;
    }
}

/// Whether a read that failed like this never succeeds, however often it is tried: only outages are waited for.
pub(super) fn never_works(error: &Refusal) -> bool {
    error.code == Code::Internal || error.is_gone()
}

/// Retries this future, created again each time, until it succeeds: for reads without which nothing can continue. It
/// takes its own locks, so that nothing is locked between two tries.
///
/// Not a function: the compiler cannot prove that a borrowing future made by a closure is `Send`.
macro_rules! until_it_works {
    ($future:expr) => {{
        let mut patience = $crate::run::patience::Patience::default();
        loop {
            let tried: Result<_, countersign_core::refusal::Refusal> = $future.await;
            match tried {
                Ok(done) => break done,
                Err(error) => patience.wait(&error).await,
            }
        }
    }};
}
pub(super) use until_it_works;

/// The same for an effect's outcome and for transitions that lead to effects. `None` if it is no longer needed.
macro_rules! until_stored {
    ($inner:expr, $future:expr) => {
        $crate::run::patience::until_it_works!(async {
            match $future.await {
                Ok(done) => Ok(Some(done)),
                Err(error) if $inner.is_unwanted(&error) => Ok(None),
                Err(error) => Err(error),
            }
        })
    };
}
pub(super) use until_stored;

impl Inner {
    /// Whether an operation that failed like this is not retried: the session was deleted or is another node's, or the
    /// runtime closes.
    pub(super) fn is_unwanted(&self, error: &Refusal) -> bool {
        error.is_gone() || *self.closing.borrow()
    }
}
