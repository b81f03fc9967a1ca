//! Connections: how each is set up, the bounded pool of them, and the meaning of their errors.

use std::{
    future::poll_fn,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, PoolError, QueueMode, RecyclingMethod, Runtime, TimeoutType,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::timeout,
};
use tokio_postgres::{
    AsyncMessage, Client, Connection, Error, NoTls, Row,
    error::{DbError, Severity, SqlState},
    types::FromSqlOwned,
};

use super::{
    super::StoreError,
    address::PostgresUrl,
    clock::boot_time,
    flight::{Value, alone, typed},
    history::{History, timeline},
    tls::Tls,
};

/// The bounds of each statement and transaction, for a session (`SET`) or a transaction (`SET LOCAL`).
macro_rules! bounds {
    ($set:literal) => {
        concat!(
            $set,
            " statement_timeout = '60s'; ",
            $set,
            " lock_timeout = '20s'; ",
            $set,
            " idle_in_transaction_session_timeout = '5s'; "
        )
    };
}

/// A commit is on the disk when it is acknowledged, whatever the database's default is; `local` to a transaction or not.
macro_rules! durable {
    ($local:literal) => {
        concat!(
            "SELECT set_config('synchronous_commit', 'on', ",
            $local,
            ") WHERE current_setting('synchronous_commit') = 'off'"
        )
    };
}

/// How statements are planned, where the database has a setting for it; `local` to a transaction or not.
macro_rules! planned {
    ($mode:literal, $others:literal, $local:literal) => {
        concat!(
            planned!("SELECT ", "plan_cache_mode", $mode, $local),
            planned!(", ", "enable_seqscan", $others, $local),
            planned!(", ", "enable_bitmapscan", $others, $local),
            planned!(", ", "enable_hashjoin", $others, $local),
            planned!(", ", "enable_mergejoin", $others, $local),
            " WHERE current_setting('plan_cache_mode', true) IS NOT NULL"
        )
    };
    ($before:literal, $name:literal, $value:literal, $local:literal) => {
        concat!($before, "set_config('", $name, "', '", $value, "', ", $local, ")")
    };
}

/// From now on the schema of the tables, as this connection sees it, is searched first, `local` to a transaction or
/// not: a schema that somebody makes later, such as one named after the user, may come before it in the `search_path`.
macro_rules! pinned {
    ($local:literal) => {
        concat!(
            "SELECT set_config('search_path', quote_ident(s) || ', ' || current_setting('search_path'), ",
            $local,
            ") FROM (SELECT s FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (s, place)
 WHERE to_regclass(quote_ident(s) || '.countersign') IS NOT NULL ORDER BY place LIMIT 1) AS first"
        )
    };
}

/// A statement takes a bounded time, even when it waits for locks, and so does an idle transaction: this bounds how
/// long a process that was stopped in the middle of one blocks others. Idle connections are kept; the server too
/// notices one whose other end has disappeared. Whatever the database's defaults are, a single statement sees what was
/// committed before it, and may write, even if the default later changes to read-only: the driver takes no connection
/// that is.
///
/// A prepared statement is planned once in a while ([`PLANNED`]). By default the database plans most of them for each execution,
/// which takes half as long as an append: it compares costs, and expects other numbers of rows than there are.
/// Prepared statements find the rows of one session, or of some, by indexes, even while the tables are so small that reading all of
/// them would be cheaper: they grow. None runs long enough for compiling it to pay. A statement that searches many
/// sessions is planned for its values ([`ask_once`](super::flight::ask_once)).
const SETTINGS: &str = concat!(
    bounds!("SET"),
    "SELECT set_config(name, CASE name WHEN 'jit' THEN 'off' ELSE '0' END, false)
 FROM pg_settings WHERE name IN ('idle_session_timeout', 'jit');
 SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
 SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; ",
    durable!("false"),
    "; ",
    planned!("force_generic_plan", "off", "false")
);
/// Begins a transaction whose statement is planned for its values: a list, whose filters decide which index fits.
pub(super) const BEGIN_PLANNED: &str =
    concat!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ", planned!("auto", "on", "true"));
macro_rules! begin {
    () => {
        concat!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ", bounds!("SET LOCAL"), durable!("true"))
    };
}
/// Begins a transaction with the settings it needs: a pooler gives the session to others after it.
pub(super) const BEGIN: &str = concat!(begin!(), "; ", pinned!("true"));
/// The same where the database reports its timeline, which is the last row.
const BEGIN_TOLD: &str = concat!(begin!(), "; ", pinned!("true"), "; ", timeline!());
/// The same before it is known where the tables are.
const BEGIN_ANYWHERE: &str = begin!();
const PIN: &str = pinned!("false");
/// The backend that answers: two connections have the same one only through a pooler.
const SESSION: &str = "SELECT pg_backend_pid()";
/// The schema of the tables, as a connection sees it.
const PLACE: &str = "SELECT concat_ws(' of ', current_schema(), current_database(), pg_postmaster_start_time())";
/// How long a prepared statement keeps its plan.
const PLANNED: Duration = Duration::from_secs(30);
/// How long a caller waits for a connection of the pool.
const WAIT: Duration = Duration::from_secs(30);
/// How long the end of a connection is waited for after the database has announced it.
const ENDING: Duration = Duration::from_millis(20);
/// How long making a connection may take: something in between may accept it and never answer.
pub(super) const MAKE: Duration = Duration::from_secs(30);

/// Sets a new connection up.
async fn set_up(client: &Client) -> Result<(), Error> {
    client.batch_execute(SETTINGS).await?;
    client.batch_execute(PIN).await
}

/// The database's notifications to a connection. They end with the connection.
pub(super) type Heard = mpsc::Receiver<String>;

/// The most notifications that are queued; more are dropped.
const HEARD: usize = 1024;

/// A connection outside our pool: directly to the database, past a pooler, if that is possible.
pub(super) struct Own {
    client: Client,
    pooled: bool,
}

impl Own {
    /// Whether it has a database session to itself, and so receives notifications.
    pub(super) fn has_session(&self) -> bool {
        !self.pooled
    }

    /// The connection itself, for statements without values.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Runs one statement, in a separate transaction.
    pub(super) async fn ask(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
        alone(&self.client, self.pooled, sql, values).await
    }

    /// Begins a transaction whose statements are planned for their values.
    #[cfg(feature = "sqlite")]
    pub(super) async fn begin_planned(&self) -> Result<(), Error> {
        self.client.batch_execute(if self.pooled { BEGIN } else { BEGIN_PLANNED }).await
    }

    /// Begins a transaction that finds out where the tables are.
    pub(super) async fn begin(&self) -> Result<(), Error> {
        self.client.batch_execute(BEGIN_ANYWHERE).await
    }

    /// The tables are there, and stay.
    pub(super) async fn pin(&self) -> Result<(), Error> {
        if self.pooled { Ok(()) } else { self.client.batch_execute(PIN).await }
    }

    /// Runs one statement of the open transaction.
    pub(super) async fn within(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
        typed(&self.client, sql, values).await
    }

    /// Runs statements without values or answers: of the open transaction, or of the session if it has one.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    /// Ends the transaction. If one of its statements has failed, no part of it is stored either way.
    pub(super) async fn end(&self, stored: bool) -> Result<(), Error> {
        self.client.batch_execute(if stored { "COMMIT" } else { "ROLLBACK" }).await
    }
}

/// A separate connection, when a store is opened: fails if there is a pooler that the URL does not declare.
pub(super) async fn first(url: &PostgresUrl) -> Result<(Own, Heard), StoreError> {
    let Some(direct) = url.past_pooler() else {
        return if url.is_pooled() { made(url, true).await } else { first_direct(url, SAY_SO).await };
    };
    let (own, heard) = first_direct(direct, "`direct_url` in [store] must name the database itself").await?;
    let (pooled, _) = made(url, true).await?;
    let [past, through] = [one::<String>(&own, PLACE).await?, one::<String>(&pooled, PLACE).await?];
    if past == through {
        return Ok((own, heard));
    }
    Err(StoreError::Failed(format!(
        "`url` and `direct_url` in [store] lead to different places: through the pooler to {through}, past it to {past}"
    )))
}

/// One to the database itself. Two such connections never share a session; through a pooler they do unless several are
/// free, so this finds the usual mistake, not every one. Until it has checked, it sets nothing that a pooler's session
/// would keep.
async fn first_direct(url: &PostgresUrl, remedy: &str) -> Result<(Own, Heard), StoreError> {
    let ((mut own, heard), (other, _)) = (made(url, true).await?, made(url, true).await?);
    if one::<i32>(&own, SESSION).await? == one::<i32>(&other, SESSION).await? {
        return Err(StoreError::Failed(format!(
            "a transaction pooler is at {url}, which gives two connections the same session of the database: {remedy}"
        )));
    }
    own.pooled = false;
    let set_up = own.client.batch_execute(SETTINGS).await;
    set_up.map_err(|e| StoreError::Failed(format!("cannot use {url}: {}", told(&e))))?;
    Ok((own, heard))
}

/// The only value of a query's only row.
async fn one<T: FromSqlOwned>(own: &Own, sql: &str) -> Result<T, StoreError> {
    let row = own.ask(sql, &[]).await.map_err(|e| error(&e))?.pop();
    let row = row.ok_or_else(|| StoreError::Failed("the database gave no row".to_owned()))?;
    row.try_get(0).map_err(|e| error(&e))
}

/// The remedy where a pooler was not expected.
const SAY_SO: &str =
    "set `pooled = true` in [store] of a configuration file (PostgresUrl::through_pooler), or name the database itself";

/// A separate connection.
pub(super) async fn connect(url: &PostgresUrl) -> Result<(Own, Heard), StoreError> {
    let own = url.of_own();
    made(own, own.is_pooled()).await
}

async fn made(url: &PostgresUrl, pooled: bool) -> Result<(Own, Heard), StoreError> {
    let made = timeout(MAKE, make(url, pooled)).await;
    made.unwrap_or_else(|_| {
        Err(StoreError::Failed(format!("cannot connect to {url}: no answer within {} s", MAKE.as_secs())))
    })
}

async fn make(url: &PostgresUrl, pooled: bool) -> Result<(Own, Heard), StoreError> {
    let unreachable = |e: &Error| StoreError::Failed(format!("cannot connect to {url}: {}", told(e)));
    let (hears, heard) = mpsc::channel(HEARD);
    let client = if url.wants_tls() {
        let (client, connection) = url.config().connect(tls(url)?).await.map_err(|e| unreachable(&e))?;
        tokio::spawn(attend(connection, hears));
        client
    } else {
        let (client, connection) = url.config().connect(NoTls).await.map_err(|e| unreachable(&e))?;
        tokio::spawn(attend(connection, hears));
        client
    };
    if !pooled {
        set_up(&client).await.map_err(|e| unreachable(&e))?;
    }
    Ok((Own { client, pooled }, heard))
}

async fn attend<S, T>(mut connection: Connection<S, T>, hears: mpsc::Sender<String>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(said) = message {
            let _ = hears.try_send(said.payload().to_owned());
        }
    }
}

pub(super) fn tls(url: &PostgresUrl) -> Result<Tls, StoreError> {
    Tls::new().map_err(|e| StoreError::Failed(format!("cannot connect to {url}: no certificates can be checked: {e}")))
}

/// The connections of a store, and whether a pooler is in front of the database.
#[derive(Clone)]
pub(super) struct Pool {
    connections: deadpool_postgres::Pool,
    pub(super) pooled: bool,
    plans: Arc<Plans>,
    /// When a connection of it last answered, by [`boot_time`]. The chaining of the log asks each second.
    answered: Arc<AtomicU64>,
    pub(super) history: Arc<History>,
}

/// When the prepared statements were last planned.
struct Plans {
    since: Instant,
    seconds: AtomicU64,
}

impl Pool {
    /// For how long none of its connections has answered.
    pub(super) fn silent_for(&self) -> Duration {
        Duration::from_millis(boot_time().saturating_sub(self.answered.load(Ordering::Relaxed)))
    }

    /// Has statements planned again now and then: a plan is for the tables as they were then, and while they grow fast
    /// the database itself is late to notice.
    fn renew_plans(&self) {
        let now = self.plans.since.elapsed().as_secs();
        let last = self.plans.seconds.load(Ordering::Relaxed);
        let is_old = now >= last.saturating_add(PLANNED.as_secs());
        if is_old && self.plans.seconds.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.connections.manager().statement_caches.clear();
        }
    }
}

/// A pool of at most this many connections, at least two, which are made when needed. Each is to the database of this
/// history.
pub(super) fn pool(url: &PostgresUrl, connections: usize, history: Arc<History>) -> Result<Pool, StoreError> {
    // A connection with unfinished work is never returned to the pool: see `Held`.
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = if url.wants_tls() {
        Manager::from_config(url.config().clone(), tls(url)?, manager)
    } else {
        Manager::from_config(url.config().clone(), NoTls, manager)
    };
    let mut pool = deadpool_postgres::Pool::builder(manager)
        .max_size(connections.max(2))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(MAKE))
        // The one that was used last has its statements prepared and its server's memory warm.
        .queue_mode(QueueMode::Lifo);
    let (met, pooled) = (history.clone(), url.is_pooled());
    pool = pool.post_create(Hook::async_fn(move |client, _| {
        let history = met.clone();
        Box::pin(async move {
            if !pooled {
                set_up(client).await.map_err(HookError::Backend)?;
                let met = timeout(MAKE, history.meet(client)).await;
                let met = met.map_err(|_| HookError::message("the database does not answer"))?;
                met.map_err(|e| HookError::message(e.to_string()))?;
            }
            history.doubt();
            Ok(())
        })
    }));
    let connections = pool.build().map_err(|e| StoreError::Failed(e.to_string()))?;
    let plans = Arc::new(Plans { since: Instant::now(), seconds: AtomicU64::new(0) });
    Ok(Pool { connections, pooled: url.is_pooled(), plans, answered: Arc::new(AtomicU64::new(boot_time())), history })
}

/// A connection, and whether it is one to a pooler.
pub(super) struct Link {
    object: Object,
    pub(super) pooled: bool,
    answered: Arc<AtomicU64>,
    pub(super) history: Arc<History>,
}

impl Link {
    /// Begins a transaction through a pooler. Returns whether the database has failed over since, and lost nothing.
    pub(super) async fn begin_pooled(&self) -> Result<Result<bool, StoreError>, Error> {
        if self.history.timeline() == 0 {
            self.batch_execute(BEGIN).await?;
            return Ok(Ok(false));
        }
        let said = self.simple_query(BEGIN_TOLD).await?;
        let has_failed_over = self.history.follow(self, &said).await;
        if !matches!(has_failed_over, Ok(false)) {
            // Stores what was noted about it.
            self.batch_execute("COMMIT").await?;
        }
        Ok(has_failed_over)
    }
}

impl Deref for Link {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

/// A connection of the pool. Unless it is returned, it is closed, and its open transaction is rolled back.
pub(super) struct Held(Option<Link>);

impl Held {
    pub(super) async fn of(pool: &Pool) -> Result<Held, StoreError> {
        let failed = |e: PoolError| {
            if let Err(closed) = pool.history.check() {
                return closed;
            }
            StoreError::Failed(match e {
                PoolError::Timeout(TimeoutType::Wait) => {
                    format!("no connection to the database was free for {} s", WAIT.as_secs())
                }
                PoolError::Timeout(TimeoutType::Create) => {
                    format!("no connection to the database was made within {} s", MAKE.as_secs())
                }
                PoolError::Backend(e) | PoolError::PostCreateHook(HookError::Backend(e)) => told(&e),
                e => e.to_string(),
            })
        };
        pool.history.check()?;
        pool.renew_plans();
        let object = pool.connections.get().await.map_err(failed)?;
        let (answered, history) = (pool.answered.clone(), pool.history.clone());
        Ok(Held(Some(Link { object, pooled: pool.pooled, answered, history })))
    }

    /// Whether the connection has ended, after a failure on it. It ends shortly after the database announces that.
    pub(super) async fn has_ended(&self) -> bool {
        if !self.is_closed() {
            tokio::time::sleep(ENDING).await;
        }
        self.is_closed()
    }

    /// Returns it to the pool, outside of any transaction and with nothing in progress.
    pub(super) fn give_back(mut self) {
        if let Some(link) = self.0.take()
            && !link.is_closed()
        {
            link.answered.store(boot_time(), Ordering::Relaxed);
        }
    }
}

/// Runs a query on a connection of the pool. (A closure's future is not `Send` for every lifetime: hence a macro.)
macro_rules! on {
    ($pool:expr, |$on:ident| $query:expr) => {{
        let held = $crate::postgres::connect::Held::of($pool).await?;
        let $on = &*held;
        let done = $query.await;
        held.give_back();
        done
    }};
}
pub(super) use on;

/// Reads on a connection of the pool, and once more on another if the first has ended: when a database restarts, all of
/// them end, which shows only when they are used.
macro_rules! read {
    ($pool:expr, |$on:ident| $read:expr) => {{
        let held = $crate::postgres::connect::Held::of($pool).await?;
        let $on = &*held;
        let done = $read.await;
        if done.is_ok() || !held.has_ended().await {
            held.give_back();
            done
        } else {
            drop(held);
            $crate::postgres::connect::on!($pool, |$on| $read)
        }
    }};
}
pub(super) use read;

impl Deref for Held {
    type Target = Link;
    fn deref(&self) -> &Link {
        match &self.0 {
            Some(link) => link,
            None => unreachable!("only giving it back takes it"),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            drop(Object::take(link.object));
        }
    }
}

/// The text of an error: the database's own, or why it could not be reached.
pub(super) fn told(e: &Error) -> String {
    if let Some(said) = e.as_db_error() {
        let told = format!("{} (SQLSTATE {})", said.message(), said.code().code());
        return if is_of_pooler(said) {
            format!("{told}: this is how a transaction pooler fails; {SAY_SO}")
        } else {
            told
        };
    }
    let mut told = e.to_string();
    let mut source = std::error::Error::source(e);
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
}

/// Whether an undeclared pooler explains it: statements that were prepared in other sessions, and PgBouncer's errors
/// about parameters that it does not keep.
fn is_of_pooler(said: &DbError) -> bool {
    let of_statements = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
    of_statements.contains(said.code()) || said.message().starts_with("unsupported startup parameter")
}

/// An error of a statement in a transaction that was not committed.
pub(super) fn error(e: &Error) -> StoreError {
    match e.code() {
        Some(&(SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED)) => StoreError::Corrupt(told(e)),
        _ => StoreError::Failed(told(e)),
    }
}

/// Whether the database has aborted a transaction in favour of others, and it may be retried.
pub(super) fn is_transient(e: &Error) -> bool {
    matches!(e.code(), Some(&(SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)))
}

/// Whether the database has refused a statement and is still reachable, so that its transaction is not committed. A
/// distributed database may answer COMMIT with an error that means "unknown".
pub(super) fn is_refusal(e: &Error) -> bool {
    let is_unknown = matches!(
        e.code(),
        Some(&(SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN | SqlState::TRANSACTION_RESOLUTION_UNKNOWN))
    );
    !is_unknown && e.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error))
}

#[cfg(test)]
mod tests {
    use countersign_test_postgres::Database;

    use super::{
        super::flight::{ask, ask_once},
        *,
    };

    /// A list is planned for its filters, everything else once.
    #[tokio::test]
    async fn r10_a_prepared_statement_is_planned_once_and_a_list_for_its_values() {
        let database = Database::new();
        let pool = pool(&database.url().parse().expect("a URL"), 2, Arc::default()).expect("a pool");
        let held = Held::of(&pool).await.expect("a connection");
        let one = "SELECT count(*) FROM unnest($1::bigint[]) AS n WHERE n > $2";
        for n in 0..9_i64 {
            ask(&held, one, vec![Value::ints([n]), n.into()]).await.expect("answered");
        }
        let how = "SELECT current_setting('plan_cache_mode')";
        let mode = |rows: Vec<Row>| rows[0].get::<_, String>(0);
        assert_eq!(mode(ask_once(&held, how, &[]).await.expect("answered")), "auto");
        assert_eq!(mode(ask(&held, how, vec![]).await.expect("answered")), "force_generic_plan");
        let planned = "SELECT sum(custom_plans)::bigint, sum(generic_plans)::bigint FROM pg_prepared_statements";
        let rows = ask_once(&held, planned, &[]).await.expect("answered");
        assert_eq!((rows[0].get::<_, i64>(0), rows[0].get::<_, i64>(1) > 9), (0, true));
    }

    #[tokio::test]
    async fn r10_plans_are_renewed_once_they_are_old() {
        let database = Database::new();
        let mut pool = pool(&database.url().parse().expect("a URL"), 2, Arc::default()).expect("a pool");
        let held = Held::of(&pool).await.expect("a connection");
        ask(&held, "SELECT 1", Vec::new()).await.expect("answered");
        pool.renew_plans();
        assert_eq!(held.statement_cache.size(), 1, "it is new");
        let since = Instant::now().checked_sub(PLANNED).expect("the machine runs for longer");
        pool.plans = Arc::new(Plans { since, seconds: AtomicU64::new(0) });
        pool.renew_plans();
        assert_eq!(held.statement_cache.size(), 0, "it is planned again when it is used");
    }

    #[tokio::test]
    async fn c_a_statement_that_another_session_has_is_told_as_a_poolers_doing() {
        let database = Database::new();
        let (own, _) = connect(&database.url().parse().expect("a URL")).await.expect("a connection");
        own.run("PREPARE known AS SELECT 1").await.expect("prepared");
        for (sql, code) in [("EXECUTE unknown", "26000"), ("PREPARE known AS SELECT 1", "42P05")] {
            let told = told(&own.run(sql).await.expect_err(sql));
            assert!(told.contains(code) && told.contains("`pooled = true`"), "{told}");
        }
        let other = told(&own.run("SELECT nothing").await.expect_err("no such column"));
        assert!(!other.contains("pooler"), "{other}");
    }
}
