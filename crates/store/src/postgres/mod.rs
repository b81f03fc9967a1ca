//! A store in one PostgreSQL database, or one schema of it, for as many processes as share it.
//!
//! Of all appends at one position the database lets one update the session's row (`append`); statements that do not
//! need each other's answers are sent together (`flight`), and appends and reads of several sessions that wait are carried out
//! by one statement (`group`). Every commit is synchronous: an append that was acknowledged is on the database's disk. Each
//! process is a node (`member`), and the row of a session says which of them carries out its effects (`nodes`).

mod address;
mod alive;
mod append;
mod chain;
mod clock;
mod confirm;
mod connect;
mod deliveries;
mod flight;
mod group;
mod history;
mod list;
mod member;
mod nodes;
mod opening;
mod past;
mod reads;
mod rows;
mod rules;
mod schema;
mod tail;
#[cfg(feature = "sqlite")]
mod target;
mod tls;
mod transaction;
mod words;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_core::{
    audit::{self, AuditRecord},
    journal::{
        record::{Entry, FORMAT, Millis},
        request_id::RequestId,
    },
    number::InterruptionNo,
};
use futures::future::{BoxFuture, FutureExt as _};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

pub use self::{
    address::{BadPoolerUrl, BadPostgresUrl, PostgresUrl},
    past::Past,
};
use self::{
    append::{Delete, Write},
    chain::{Chainer, chain},
    confirm::Confirmer,
    connect::{Heard, MAKE, Own, Pool, first, on, pool, read},
    group::Group,
    history::History,
    member::Member,
    opening::unacknowledged,
    rules::StandingFor,
    tail::TailOf,
    transaction::{ANSWER, Change, transact, try_out},
};
#[cfg(feature = "sqlite")]
pub(crate) use self::{
    schema::Found,
    target::{Part, Target},
};
use super::{
    Append, AuditRange, Due, Head, InterruptionFilter, InterruptionRow, Page, Paged, PendingCount, RuleFilter,
    RuleOwner, RuleRow, SessionFilter, Store, StoreError, Summary, Tail, Waypoint,
    deliveries::Deliveries,
    index::Purpose,
    nodes::{Epoch, Nodes, Position},
    restored::{self, Holding},
};

/// Reads a list, which may take long: some connections stay free for other reads.
macro_rules! list {
    ($store:expr, |$on:ident| $read:expr) => {{
        let _place = $store.place().await?;
        read!(&$store.pool, |$on| $read)
    }};
}

/// A larger append, such as a restored state, is serialised off the shared threads.
const MANY: usize = 64;
/// How often it tries to hold turns while another process holds them.
const HOLDS: u32 = 5;
/// The pause between two tries.
const HOLD_AGAIN: Duration = Duration::from_secs(1);

/// How a [`PostgresStore`] is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The most connections, at least two, besides the node's own. Lists use at most half of them.
    pub connections: usize,
    /// How long the leases of a node outlive it: other nodes take over its sessions when it has been dead, stopped or
    /// cut off for so long.
    pub lease: Duration,
    /// The format of records that this node knows. Tests set a lower one, like that of an older build.
    #[doc(hidden)]
    pub knows: u32,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions { connections: 16, lease: Duration::from_secs(10), knows: FORMAT }
    }
}

/// Keeps journals in a PostgreSQL database. It needs a `tokio` runtime.
pub struct PostgresStore {
    url: PostgresUrl,
    pool: Pool,
    lists: Semaphore,
    knows: u32,
    member: Member,
    chainer: Chainer,
    confirmer: Confirmer,
    appends: Arc<Group<Write>>,
    tails: Arc<Group<TailOf>>,
    standing: Arc<Group<StandingFor>>,
    /// Whether the last append could not be written.
    has_failed: AtomicBool,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("url", &self.url).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the store in a database, in the first schema of its `search_path`, and creates it if there is none. Others
    /// may have it open too. If the database went back to an earlier state, it first holds all turns
    /// ([`restored::hold`]).
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the tables there are not ours or of another version; [`StoreError::Failed`].
    pub async fn open(url: &PostgresUrl, options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connected = first(url).await?;
        schema::make(&connected.0, url).await?;
        PostgresStore::hold_and_join(url, connected, options).await
    }

    /// The same for a store that must exist.
    ///
    /// # Errors
    /// As [`PostgresStore::open`]; [`StoreError::Failed`] too if there are no tables.
    pub async fn open_existing(url: &PostgresUrl, options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connected = first(url).await?;
        schema::find(&connected.0, url).await?;
        PostgresStore::hold_and_join(url, connected, options).await
    }

    /// The same for a store whose turns the caller holds itself ([`restored::hold`]), whether it shows that it went back or not.
    ///
    /// # Errors
    /// As [`PostgresStore::open_existing`].
    pub async fn open_restored(url: &PostgresUrl, options: &PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connected = first(url).await?;
        schema::find(&connected.0, url).await?;
        PostgresStore::join(url, connected, options).await.map(|(store, _)| store)
    }

    /// Joins, and first holds all turns if the database went back to an earlier state.
    async fn hold_and_join(
        url: &PostgresUrl,
        connected: (Own, Heard),
        options: &PostgresOptions,
    ) -> Result<PostgresStore, StoreError> {
        let mut joined = PostgresStore::join(url, connected, options).await?;
        let mut tries = HOLDS;
        loop {
            let (store, went_back) = joined;
            if !went_back {
                return Ok(store);
            }
            if tries == 0 {
                return Err(StoreError::Failed(format!(
                    "{url} went back to an earlier state, and its turns could not be held: another process holds them, or works there"
                )));
            }
            tries -= 1;
            tracing::warn!(
                "{url} was restored, or has failed over to a standby for which commits had not waited: it may have lost what was \
                 acknowledged, so all turns are held"
            );
            let held = restored::hold(&store).await;
            // It has a new key for messages between nodes.
            store.member.leave().await;
            drop(store);
            match held {
                Ok(Holding { sessions, unreadable, .. }) => {
                    tracing::warn!(
                        sessions = sessions.len(),
                        "turns begin nothing until somebody continues or cancels them"
                    );
                    for (session, error) in unreadable {
                        tracing::error!(
                            session = &*session,
                            error,
                            "the session cannot be read, so nothing begins there"
                        );
                    }
                }
                // Another process holds them at this moment, or has just done so.
                Err(StoreError::Conflict) => tokio::time::sleep(HOLD_AGAIN).await,
                Err(error) => return Err(error),
            }
            joined = PostgresStore::join(url, first(url).await?, options).await?;
        }
    }

    /// Returns also whether the database went back since it was used last.
    async fn join(
        url: &PostgresUrl,
        connected: (Own, Heard),
        options: &PostgresOptions,
    ) -> Result<(PostgresStore, bool), StoreError> {
        let (history, went_back) = History::of(connected.0.client()).await?;
        let url = &url.clone().within(options.lease.min(MAKE));
        let pool = pool(url, options.connections, history)?;
        let member = Member::join(url, connected, &pool, options.lease).await?;
        let store = PostgresStore {
            url: url.clone(),
            lists: Semaphore::new((options.connections / 2).max(1)),
            knows: options.knows,
            member,
            chainer: Chainer::start(pool.clone()),
            confirmer: Confirmer::start(pool.clone()),
            appends: Group::new(pool.clone()),
            tails: Group::new(pool.clone()),
            standing: Group::new(pool.clone()),
            has_failed: AtomicBool::new(false),
            pool,
        };
        Ok((store, went_back))
    }

    /// Whether another process has the store open.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    pub async fn is_shared(&self) -> Result<bool, StoreError> {
        read!(&self.pool, |on| nodes::others(on, self.member.id))
    }

    /// Learns the database's time.
    async fn hear_clock(&self) {
        let heard = async { on!(&self.pool, |on| self.member.hear_clock(on)) };
        if let Err(error) = heard.await {
            tracing::info!(%error, "the database's time could not be read");
        }
    }

    /// The number of this node, and the format that it knows.
    fn node(&self) -> (i64, u32) {
        (self.member.id, self.knows)
    }

    /// A permit to run a list query, which may take long.
    async fn place(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.lists.acquire().await.map_err(|e| StoreError::Failed(e.to_string()))
    }

    async fn write_of(&self, append: Append, from: Option<Arc<str>>) -> Result<Write, StoreError> {
        let node = self.node();
        if append.entries.len() <= MANY {
            return Write::of(&append, from, node);
        }
        let write = tokio::task::spawn_blocking(move || Write::of(&append, from, node)).await;
        write.map_err(|e| StoreError::Failed(format!("an append was not serialised: {e}")))?
    }

    async fn change<C: Change<Done: 'static> + Send + 'static>(&self, change: C) -> Result<C::Done, StoreError> {
        let pool = self.pool.clone();
        apart(&self.pool, async move { transact(&pool, &change).await }).await
    }
}

/// Writes in a separate task, which continues if the caller stops waiting: its connection is given back then.
async fn apart<T: Send + 'static>(
    pool: &Pool,
    writes: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let written = tokio::spawn(writes);
    answered(&pool.history, async { written.await.unwrap_or_else(|_| Err(pool.history.unknown())) }).await
}

/// The outcome of a change that continues in a separate task.
async fn answered<T>(history: &History, changed: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(ANSWER, changed).await.unwrap_or_else(|_| Err(history.unknown()))
}

impl Store for PostgresStore {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        let session_id = append.session_id.clone();
        async move {
            let write = self.write_of(append, None).await?;
            let tells = write.tells();
            let stored = if write.is_small_statement() {
                answered(&self.pool.history, self.appends.add(write)).await
            } else {
                self.change(write).await
            };
            match &stored {
                Ok(_) => {
                    self.has_failed.store(false, Ordering::Relaxed);
                    if tells {
                        self.chainer.more();
                    }
                    self.member.tell(&session_id);
                }
                // So that it is judged again by the clock that refused it.
                Err(StoreError::Outdated) => self.hear_clock().await,
                Err(StoreError::Failed(_)) => self.has_failed.store(true, Ordering::Relaxed),
                Err(_) => {}
            }
            stored
        }
        .boxed()
    }

    fn deliveries(&self) -> &dyn Deliveries {
        self
    }

    fn nodes(&self) -> Option<&dyn Nodes> {
        Some(self)
    }

    fn history_id(&self) -> BoxFuture<'_, Result<Option<Arc<str>>, StoreError>> {
        async move { read!(&self.pool, |on| rows::history_id(on)) }.boxed()
    }

    fn renew_history_id(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let pool = self.pool.clone();
            let renewed = apart(&self.pool, async move {
                let history = &pool.history;
                let key = on!(&pool, |on| rows::renew_history_id(on, history.key(), history.timeline()))?;
                history.set_key(key);
                Ok(())
            });
            match renewed.await {
                Err(StoreError::Unknown) => Err(unacknowledged(&self.url)),
                done => done,
            }
        }
        .boxed()
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // Every commit that was waited for is synced already.
        self.confirmer.confirm().boxed()
    }

    fn mark_unsynced(&self) {
        self.pool.history.doubt();
    }

    /// The past is copied within the database and the transaction of the append. If the caller stops waiting before its
    /// commit is sent, it is rolled back.
    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        let from: Arc<str> = from.into();
        async move {
            let write = self.write_of(append, Some(from)).await?;
            answered(&self.pool.history, transact(&self.pool, &write)).await
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
        async move { read!(&self.pool, |on| rows::waypoint(on, &id, until, version)) }.boxed()
    }

    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        let id = session_id.to_owned();
        let pool = self.pool.clone();
        apart(&self.pool, async move { on!(&pool, |on| rows::keep_waypoint(on, &id, &waypoint)) }).boxed()
    }

    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        let id = session_id.to_owned();
        async move { read!(&self.pool, |on| tail::head(on, &id, self.knows)) }.boxed()
    }

    fn tail(&self, session_id: &str, limit: usize, bytes: usize) -> BoxFuture<'_, Result<Option<Tail>, StoreError>> {
        self.tails.add(TailOf { session_id: session_id.into(), limit, bytes, knows: self.knows }).boxed()
    }

    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let (id, bytes) = (session_id.to_owned(), Some(bytes).filter(|bytes| *bytes < usize::MAX));
        async move { read!(&self.pool, |on| rows::entries(on, &id, after, limit, bytes, self.knows)) }.boxed()
    }

    fn request(&self, session_id: &str, request_id: &RequestId) -> BoxFuture<'_, Result<Option<Purpose>, StoreError>> {
        let (session_id, request_id) = (session_id.to_owned(), request_id.clone());
        async move {
            let known = read!(&self.pool, |on| rows::request(on, &session_id, &request_id))?;
            if known.is_some() {
                self.mark_unsynced();
            }
            Ok(known)
        }
        .boxed()
    }

    fn interruption(
        &self,
        session_id: &str,
        n: InterruptionNo,
    ) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        let id = session_id.to_owned();
        async move { read!(&self.pool, |on| list::interruption(on, &id, n)) }.boxed()
    }

    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        async move { list!(self, |on| list::interruptions(on, &filter, &page)) }.boxed()
    }

    fn pending(&self) -> BoxFuture<'_, Result<Option<PendingCount>, StoreError>> {
        async move { list!(self, |on| list::pending(on)).map(Some) }.boxed()
    }

    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        async move { list!(self, |on| list::sessions(on, &filter, &page)) }.boxed()
    }

    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        async move { read!(&self.pool, |on| rows::due(on, now, limit, self.knows)) }.boxed()
    }

    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        async move { list!(self, |on| rows::running(on)) }.boxed()
    }

    fn audit_within(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        let of = of.map(|tenant| tenant.map(str::to_owned));
        async move {
            let _place = self.place().await?;
            chain(&self.pool).await?;
            read!(&self.pool, |on| rows::audit(on, of.as_ref().map(Option::as_deref), range, (limit, bytes)))
        }
        .boxed()
    }

    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        self.standing.add(StandingFor { of, agent: agent.into(), tool: tool.into(), knows: self.knows }).boxed()
    }

    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        async move { list!(self, |on| rules::list(on, &filter, &page, self.knows)) }.boxed()
    }

    fn delete(
        &self,
        session_id: &str,
        at: Option<u64>,
        told: Option<&audit::Event>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let session_id: Arc<str> = session_id.into();
        let delete = Delete::of(session_id.clone(), at, told);
        async move {
            let deleted = self.change(delete).await?;
            self.chainer.more();
            self.member.tell(&session_id);
            Ok(deleted)
        }
        .boxed()
    }

    fn rested(&self, before: Millis, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        async move { list!(self, |on| list::rested(on, before, now, limit, self.knows)) }.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            on!(&self.pool, |on| rows::probe(on))?;
            if self.has_failed.load(Ordering::Relaxed) {
                try_out(&self.pool, &rows::PROBES).await?;
                self.has_failed.store(false, Ordering::Relaxed);
            }
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As while a commit waits for a standby that is away: no statement's time limit covers that.
    #[tokio::test(start_paused = true)]
    async fn r3_who_waits_for_a_commit_without_end_is_told_that_its_outcome_is_unknown() {
        let history = History::default();
        let never = answered(&history, std::future::pending::<Result<(), StoreError>>()).await;
        assert!(matches!(never, Err(StoreError::Unknown)), "{never:?}");
        assert_eq!(history.doubts(), 1, "and nothing is acknowledged by what the database shows of it");
    }
}
