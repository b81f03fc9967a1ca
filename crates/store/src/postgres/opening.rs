//! The writes when a store is opened: the wait for each is bounded.

use tokio::time::timeout;
use tokio_postgres::NoTls;

use super::{
    super::StoreError,
    address::PostgresUrl,
    connect::{MAKE, Own, error, tls},
    transaction::ANSWER,
};

/// Bounds the time of a write over a connection: a commit may wait for a standby without end.
///
/// # Errors
/// As `stores`; [`StoreError::Failed`]: it took too long.
pub(super) async fn acknowledged<T>(
    own: &Own,
    url: &PostgresUrl,
    stores: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    if let Ok(done) = timeout(ANSWER, stores).await {
        return done;
    }
    // Otherwise its database session would keep waiting, and each try would add one. Its commit then becomes visible
    // without a standby, but it created only tables or a node, and whatever builds on them waits for the standby
    // itself.
    let token = own.client().cancel_token();
    let cancelled = async {
        let cancelled = match url.of_own().wants_tls() {
            true => token.cancel_query(tls(url)?).await,
            false => token.cancel_query(NoTls).await,
        };
        cancelled.map_err(|e| error(&e))
    };
    if let Err(error) = timeout(MAKE, cancelled).await.unwrap_or(Err(StoreError::Unknown)) {
        tracing::info!(%error, "a session of the database that waits was not told to end");
    }
    Err(unacknowledged(url))
}

/// Why a store is not opened where nothing can be stored.
pub(super) fn unacknowledged(url: &PostgresUrl) -> StoreError {
    StoreError::Failed(format!(
        "{url} has not acknowledged within {} s what is stored when a store is opened; if its commits wait for a standby \
         (synchronous_standby_names), none answers: start again once one does",
        ANSWER.as_secs()
    ))
}
