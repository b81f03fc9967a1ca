//! A store in one PostgreSQL database, or one schema of it, for one server process.
//!
//! An append is one transaction. Of all appends at one position the database lets one update the session's row
//! ([`append`]); statements that do not need each other's answers are sent together ([`flight`]). Every commit is
//! synchronous: an append that was acknowledged is on the database's disk.

mod address;
mod append;
mod connect;
mod flight;
mod list;
mod owner;
mod past;
mod rows;
mod rules;
mod schema;
mod tls;
mod transaction;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use countersign_core::{
    audit::AuditRecord,
    journal::record::{Entry, Millis},
};
use deadpool_postgres::Pool;
use futures::future::{self, BoxFuture, FutureExt as _};
use tokio::sync::{Semaphore, SemaphorePermit};

pub use self::{
    address::{BadPostgresUrl, PostgresUrl},
    past::Past,
};
use self::{
    append::{Delete, Write},
    connect::{Held, error, pool},
    owner::{Closed, Ownership},
    transaction::transact,
};
use super::{
    Append, Due, Head, InterruptionFilter, InterruptionRow, Page, Paged, RuleFilter, RuleOwner, RuleRow, SessionFilter,
    Store, StoreError, Summary, Waypoint,
};

/// A larger append, such as a restored state, is serialised off the shared threads.
const MANY: usize = 64;

/// How a [`PostgresStore`] is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The most connections, beside the one that holds the store's lock. Lists use at most half of them.
    pub connections: usize,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions { connections: 16 }
    }
}

/// Keeps journals in a PostgreSQL database. It needs a runtime of `tokio`.
pub struct PostgresStore {
    url: PostgresUrl,
    pool: Pool,
    lists: Semaphore,
    closed: Closed,
    /// Whether any rule may apply to more than its session: if not, lookups are skipped.
    standing_rules: AtomicBool,
    _ownership: Ownership,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("url", &self.url).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the store in a database, in the schema that is the first of its `search_path`, and makes it if there is none.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another process has it open; [`StoreError::Corrupt`] if the tables there are not ours or of
    /// another version; [`StoreError::Failed`].
    pub async fn open(url: &PostgresUrl, options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
        let closed = Closed::default();
        let ownership = Ownership::take(url, &closed).await?;
        schema::make(ownership.client(), url).await?;
        let rules = ownership.client().query(rules::ANY, &[]).await.map_err(|e| error(&e))?;
        Ok(PostgresStore {
            url: url.clone(),
            pool: pool(url, options.connections)?,
            lists: Semaphore::new((options.connections / 2).max(1)),
            closed,
            standing_rules: AtomicBool::new(!rules.is_empty()),
            _ownership: ownership,
        })
    }

    /// A connection to read from.
    async fn held(&self) -> Result<Held, StoreError> {
        self.closed.check()?;
        Held::of(&self.pool).await
    }

    /// The same for lists, of which some may take long.
    async fn held_for_list(&self) -> Result<(Held, SemaphorePermit<'_>), StoreError> {
        let place = self.lists.acquire().await.map_err(|e| StoreError::Failed(e.to_string()))?;
        Ok((self.held().await?, place))
    }

    /// What was read, with its connection given back.
    fn read<T>(&self, held: Held, read: Result<T, StoreError>) -> Result<T, StoreError> {
        held.give_back();
        self.closed.check()?;
        read
    }

    async fn write_of(append: Append, from: Option<Arc<str>>) -> Result<Write, StoreError> {
        if append.entries.len() <= MANY {
            return Write::of(&append, from);
        }
        let write = tokio::task::spawn_blocking(move || Write::of(&append, from)).await;
        write.map_err(|e| StoreError::Failed(format!("an append was not serialised: {e}")))?
    }

    /// Writes in a task of its own, which goes on if the caller stops waiting.
    async fn store(&self, write: Write) -> Result<(), StoreError> {
        if write.makes_standing_rule() {
            self.standing_rules.store(true, Ordering::SeqCst);
        }
        self.closed.check()?;
        let pool = self.pool.clone();
        let stored = tokio::spawn(async move { transact(&pool, &write).await }).await;
        stored.unwrap_or(Err(StoreError::Unknown))
    }
}

impl Store for PostgresStore {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { self.store(PostgresStore::write_of(append, None).await?).await }.boxed()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // Every commit is.
        future::ready(self.closed.check()).boxed()
    }

    /// The past is copied within the database and the transaction of the append. If the caller stops waiting, it is rolled
    /// back.
    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        let from: Arc<str> = from.into();
        async move {
            let write = PostgresStore::write_of(append, Some(from)).await?;
            self.closed.check()?;
            transact(&self.pool, &write).await
        }
        .boxed()
    }

    fn waypoint(
        &self,
        session_id: &str,
        until: u64,
        version: u32,
    ) -> BoxFuture<'_, Result<Option<Waypoint>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let read = rows::waypoint(held.client()?, &id, until, version).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let kept = rows::keep_waypoint(held.client()?, &id, &waypoint).await;
            self.read(held, kept)
        }
        .boxed()
    }

    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let read = rows::head(held.client()?, &id).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn read(&self, session_id: &str, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let read = rows::entries(held.client()?, &id, after, limit, None).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let read = rows::entries(held.client()?, &id, after, limit, Some(bytes)).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn has_request(&self, session_id: &str, request_id: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (session_id, request_id) = (session_id.to_owned(), request_id.to_owned());
        async move {
            let held = self.held().await?;
            let read = rows::has_request(held.client()?, &session_id, &request_id).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn interruption(&self, session_id: &str, n: u32) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        let id = session_id.to_owned();
        async move {
            let held = self.held().await?;
            let read = list::interruption(held.client()?, &id, n).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = list::interruptions(held.client()?, &filter, &page).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = list::sessions(held.client()?, &filter, &page).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        async move {
            let held = self.held().await?;
            let read = rows::due(held.client()?, now, limit).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = rows::running(held.client()?).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn audit(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = rows::audit(held.client()?, None, after, limit).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn audit_of(
        &self,
        tenant: Option<&str>,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        let tenant = tenant.map(str::to_owned);
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = rows::audit(held.client()?, Some(tenant.as_deref()), after, limit).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        if !self.standing_rules.load(Ordering::SeqCst) {
            return future::ready(self.closed.check().map(|()| Vec::new())).boxed();
        }
        let (agent, tool) = (agent.to_owned(), tool.to_owned());
        async move {
            let held = self.held().await?;
            let read = rules::standing(held.client()?, &of, &agent, &tool).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        async move {
            let (held, _place) = self.held_for_list().await?;
            let read = rules::list(held.client()?, &filter, &page).await;
            self.read(held, read)
        }
        .boxed()
    }

    fn delete(&self, session_id: &str) -> BoxFuture<'_, Result<bool, StoreError>> {
        let id: Arc<str> = session_id.into();
        async move {
            self.closed.check()?;
            let pool = self.pool.clone();
            let deleted = tokio::spawn(async move { transact(&pool, &Delete(id)).await }).await;
            deleted.unwrap_or(Err(StoreError::Unknown))
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let held = self.held().await?;
            let written = rows::probe(held.client()?).await;
            self.read(held, written)
        }
        .boxed()
    }
}
