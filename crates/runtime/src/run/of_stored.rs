//! What has come of an input that is stored.

use std::time::Duration;

use countersign_core::refusal::{Code, Refusal};
use tokio::time::sleep;

use super::{inner::Runtime, live::uses::LiveRef};

/// Delay before a store that failed is read again, and how often that is done.
const AGAIN: Duration = Duration::from_secs(1);
const TIMES: u32 = 5;

/// Reads what has come of an input that is stored. Waits for a store that fails for a moment, and never refuses as if
/// nothing had happened: whoever believed that would send the input again as a new one.
///
/// # Errors
/// Those of `read`, but `outcome_unknown` in place of those that say that nothing happened.
pub async fn of_stored<T, R>(read: impl Fn() -> R) -> Result<T, Refusal>
where
    R: Future<Output = Result<T, Refusal>>,
{
    let mut tried = 0;
    loop {
        match read().await {
            Err(refusal) if refusal.code.is_temporary() && tried < TIMES => sleep(AGAIN).await,
            found => return found.map_err(stored_all_the_same),
        }
        tried += 1;
    }
}

impl Runtime {
    /// The same, before anything else happens in the session, which then goes on.
    pub(super) async fn of_stored_and_go_on<T, R>(&self, live: LiveRef, read: impl Fn() -> R) -> Result<T, Refusal>
    where
        R: Future<Output = Result<T, Refusal>>,
    {
        let found = read().await;
        // It goes on even if it cannot be read now.
        self.inner.spawn_driver(live);
        match found {
            Err(_) => of_stored(read).await,
            found => found,
        }
    }
}

fn stored_all_the_same(refusal: Refusal) -> Refusal {
    of_half(refusal, |_| {
        "it is stored, but what has come of it cannot be read now: read it later, or send it again with the same request_id"
            .to_owned()
    })
}

/// A refusal where something was stored before it: one that says that nothing was becomes `outcome_unknown`, with this
/// message in place of its own.
pub(super) fn of_half(refusal: Refusal, message: impl FnOnce(&str) -> String) -> Refusal {
    match refusal.code {
        Code::StoreUnavailable | Code::OutcomeUnknown | Code::NewerVersionRequired => {
            Refusal::new(Code::OutcomeUnknown, message(&refusal.message))
        }
        _ => refusal,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn w8_a_read_after_an_input_is_tried_again_and_never_says_that_nothing_was_stored() {
        let fails = async |code, times| {
            let reads = Cell::new(0);
            let read = of_stored(|| {
                reads.set(reads.get() + 1);
                let fails = reads.get() <= times;
                async move { if fails { Err(Refusal::new(code, "nothing was stored")) } else { Ok("read") } }
            });
            (read.await.map_err(|refusal| refusal.code), reads.get())
        };
        assert_eq!(fails(Code::StoreUnavailable, 3).await, (Ok("read"), 4));
        assert_eq!(fails(Code::StoreUnavailable, u32::MAX).await, (Err(Code::OutcomeUnknown), TIMES + 1));
        assert_eq!(fails(Code::NewerVersionRequired, 1).await, (Err(Code::OutcomeUnknown), 1));
        assert_eq!(fails(Code::SessionDeleted, 1).await, (Err(Code::SessionDeleted), 1), "that is no failure");
    }
}
