//! Commands that are carried out even if their caller goes away: by a timeout, in a `select!`, or with its connection.
//!
//! What a command stores and what follows from it belong together. A session that is stored as running needs a driver,
//! and the driver of one that is cancelled has to stop what runs. So a command is a task of its own, and its caller only
//! waits for that; also one that nothing follows from, such as a new title, so that callers need not know which ones do.
//! The exceptions drive the session themselves, such as [`Runtime::run`](super::inner::Runtime::run): a dropped one stops
//! the turn, as a crash would.

use countersign_core::refusal::{Code, Refusal};
use tracing::Instrument as _;

/// Carries out a command, whatever happens to the caller.
///
/// # Errors
/// The command's; `outcome_unknown`: it was interrupted.
pub(super) async fn to_the_end<T: Send + 'static>(
    command: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::spawn(command.in_current_span()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a command was interrupted");
        Err(Refusal::new(Code::OutcomeUnknown, "the command was interrupted; check whether it was carried out"))
    })
}
