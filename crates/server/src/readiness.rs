//! Whether the server takes work, for `/readyz`.

use std::time::{Duration, Instant};

use countersign_core::refusal::{Code, Refusal};
use countersign_runtime::run::Runtime;
use tokio::{sync::Mutex, time::timeout};

/// How long a check is reused for `/readyz`: anyone may ask, and each check is a commit.
const FRESH: Duration = Duration::from_secs(5);
/// Time limit of a check.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last check of whether the store is writable.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), Refusal>)>>);

impl Readiness {
    /// Whether the runtime was started and is not shutting down, and the store is writable, now or up to [`FRESH`] ago.
    /// Concurrent requests share one check.
    pub(crate) async fn look(&self, runtime: &Runtime) -> Result<(), Refusal> {
        runtime.store_is_open()?;
        if !runtime.is_started() {
            let what = "the runtime has not been started (Runtime::start), so no deadline would expire";
            return Err(Refusal::new(Code::StoreUnavailable, what));
        }
        if runtime.is_draining() {
            return Err(Refusal::new(Code::ShuttingDown, "the server is shutting down, and begins nothing new"));
        }
        let mut last = self.0.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < FRESH
        {
            return known.clone();
        }
        let late = |_| Err(Refusal::new(Code::StoreUnavailable, "the store does not answer"));
        let found = timeout(PATIENCE, runtime.ready()).await.unwrap_or_else(late);
        *last = Some((Instant::now(), found.clone()));
        found
    }
}
