//! Whether the store could be written to, for `/readyz`.

use std::time::{Duration, Instant};

use countersign::{
    core::refusal::{Code, Refusal},
    run::Runtime,
};
use tokio::{sync::Mutex, time::timeout};

/// How long an answer of the store is good for `/readyz`: anybody may ask, and each look is a commit.
const FRESH: Duration = Duration::from_secs(5);
/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the store could be written to when it was last looked at.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), Refusal>)>>);

impl Readiness {
    /// Whether the store can be written to, now or up to [`FRESH`] ago. All who ask meanwhile share one look.
    pub(crate) async fn look(&self, runtime: &Runtime) -> Result<(), Refusal> {
        runtime.store_is_open()?;
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
