//! File work, off the threads that must not block, cancelled with its call.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use countersign_core::limits;
use tokio::sync::Semaphore;

use countersign_engine::tool::ToolError;

/// Slots for file work: more at a time would cost memory, and time of everything else, without being faster.
static PLACES: Semaphore = Semaphore::const_new(limits::FILE_WORK);

/// Whether a call was cancelled: then nothing more is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Going(Arc<AtomicBool>);

impl Going {
    /// # Errors
    /// The call was cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.0.load(Ordering::SeqCst) { Err(ToolError::new("the call was cancelled")) } else { Ok(()) }
    }
}

struct GiveUp(Going);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// Does blocking work once there is a [slot](PLACES) for it. Dropping the future cancels the work cooperatively.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Going) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let going = Going::default();
    let _give_up = GiveUp(going.clone());
    // It is never closed.
    let place = PLACES.acquire().await.ok();
    let work = move || {
        // Held until the work ends, even if its caller has stopped waiting.
        let _place = place;
        work(&going)
    };
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ToolError::new("the work on the file was aborted; it may be partly done")))
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, time::Duration};

    use super::*;

    /// Queued work takes no thread, and does not block the rest of the process.
    #[tokio::test]
    async fn r9_work_on_files_has_a_bounded_number_of_threads_and_holds_up_nothing_else() {
        let (now, most, go) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::default()));
        let jobs: Vec<_> = (0..5 * limits::FILE_WORK)
            .map(|_| {
                let (now, most, go) = (now.clone(), most.clone(), go.clone());
                tokio::spawn(blocking(move |_| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    while !go.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                }))
            })
            .collect();
        // All started work is blocked, and this one thread still serves others.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(now.load(Ordering::SeqCst) <= limits::FILE_WORK);
        }
        go.store(true, Ordering::SeqCst);
        for job in jobs {
            job.await.expect("job").expect("done");
        }
        assert!((1..=limits::FILE_WORK).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }
}
