//! Reading a store that another process may have open.

use std::sync::Arc;

use countersign_core::{
    approval::rule::RuleId,
    audit::AuditRecord,
    journal::record::{Entry, FORMAT},
    limits,
};

use super::{
    super::{AuditRange, RuleRow, StoreError},
    address::PostgresUrl,
    chain::chain,
    connect::{Pool, first, on, pool},
    rows, rules, schema,
};

/// The journals and the audit log of a store that others may be writing.
pub struct Past {
    pool: Pool,
}

impl Past {
    /// Opens the store for reading.
    ///
    /// # Errors
    /// As [`super::PostgresStore::open`]; a database without a store is
    /// [`StoreError::Failed`].
    pub async fn open(url: &PostgresUrl) -> Result<Past, StoreError> {
        let (own, _) = first(url).await?;
        schema::find(&own, url).await?;
        Ok(Past { pool: pool(url, 1, Arc::default())? })
    }

    /// The ids of at most `limit` sessions after `after`, in the order of ids.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub async fn sessions(&self, after: &str, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
        on!(&self.pool, |on| rows::sessions(on, after, limit))
    }

    /// A session's entries at positions after `after`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub async fn entries(&self, session: &str, after: u64, limit: usize) -> Result<Vec<Arc<Entry>>, StoreError> {
        on!(&self.pool, |on| rows::entries(on, session, after, limit, None, FORMAT))
    }

    /// A standing rule, even if revoked or expired; `None` once its session is deleted.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub async fn rule(&self, session: &str, id: RuleId) -> Result<Option<RuleRow>, StoreError> {
        on!(&self.pool, |on| rules::rule(on, session, id, FORMAT))
    }

    /// Records of the audit log with numbers after `after`, in order, at most `limit`; fewer if they are long. Records that
    /// are not chained yet are chained first, if this user of the database may write.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], [`StoreError::Failed`].
    pub async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, StoreError> {
        // A user without write access sees the records that the nodes have chained.
        if let Err(e) = chain(&self.pool).await {
            tracing::warn!("the audit log's newest records may not be chained yet: {e}");
        }
        on!(&self.pool, |on| rows::audit(on, None, AuditRange::After(after), (limit, limits::PAGE_BYTES)))
    }
}
