//! Work on files, away from the threads that must not block, given up when the call is.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::super::super::ToolError;

/// Whether a call goes on: once it was given up, nothing is written any more.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Going(Arc<AtomicBool>);

impl Going {
    /// # Errors
    /// The call was given up.
    pub(in super::super) fn check(&self) -> Result<(), ToolError> {
        if self.0.load(Ordering::SeqCst) { Err(ToolError::new("the call was cancelled")) } else { Ok(()) }
    }
}

struct GiveUp(Going);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// Does work that blocks. Dropping the future leaves the work to find out that it was given up.
pub(in super::super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Going) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let going = Going::default();
    let _give_up = GiveUp(going.clone());
    tokio::task::spawn_blocking(move || work(&going))
        .await
        .unwrap_or_else(|_| Err(ToolError::new("the work on the file broke off; it may have done a part")))
}
