//! Work that a request has begun.

use countersign_core::refusal::{Code, Refusal};

use crate::problem::Problem;

/// Runs to completion even if the client disconnects: a stored input must have its effects.
pub(super) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(work).await {
        Ok(result) => result.map_err(Problem::of),
        Err(error) => {
            tracing::error!(%error, "a request failed");
            Err(Problem::of(Refusal::new(Code::OutcomeUnknown, "the request failed; check whether it was accepted")))
        }
    }
}
