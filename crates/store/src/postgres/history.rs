//! Whether a database still has everything it has acknowledged. After a fail-over to a standby that had not received
//! everything, or a recovery to an earlier moment, it has not, and calls that it no longer knows would be started
//! again.
//!
//! Both begin another *timeline* of the database. Its number is stored, and each new connection is compared with the
//! one that this process knows (through a pooler each transaction that writes: it may lead to another server at any
//! time). A fail-over loses nothing if commits have waited for standbys (`synchronous_standby_names`), which each node
//! notes with its terms; a recovery to an earlier moment then shows in the term that a node last renewed. After any
//! other change of timeline the store closes, since this process may know what was lost, and the next process to open
//! it holds its turns, as after a restore.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

use tokio_postgres::{Client, Error, SimpleQueryMessage, error::SqlState};

use super::super::StoreError;

/// The database's timeline, in hexadecimal digits. Any role may ask.
macro_rules! timeline {
    () => {
        "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"
    };
}
pub(super) use timeline;

/// Whether a commit of this session waits for standbys.
macro_rules! synchronous {
    () => {
        "(coalesce(current_setting('synchronous_standby_names', true), '') <> ''
 AND current_setting('synchronous_commit', true) IN ('on', 'remote_apply', 'remote_write'))"
    };
}
pub(super) use synchronous;

/// The exact end of a term; null for a node that is marked as dead, even if another node marked it just now.
macro_rules! until {
    () => {
        "CASE WHEN until > '-infinity' THEN (extract(epoch FROM until) * 1000000)::bigint END"
    };
}
pub(super) use until;

const STORED: &str = "SELECT timeline, synchronous::int, encode(notification_key, 'hex') FROM countersign";
/// Notes whether commits wait for standbys: only on the stored timeline, since on another one the turns must still be
/// held.
pub(super) const NOTE: &str = "UPDATE countersign SET synchronous = $1 AND timeline = $2";

/// What a process knows of the history of its database.
#[derive(Default)]
pub(super) struct History {
    /// 0: it is not compared, or the database does not report it.
    timeline: AtomicI64,
    /// A different key is stored once another process has held the turns after the database went back.
    key: Mutex<String>,
    /// Whether commits waited for standbys when that was last noted.
    synchronous: AtomicBool,
    /// This node and, as its row says, the end of the term that it last renewed; 0: it has renewed none.
    term: [AtomicI64; 2],
    /// How often a commit may have become visible without waiting for a standby: see [`super::confirm`].
    doubts: AtomicU64,
    /// Why the store is closed.
    gone_back: OnceLock<String>,
}

/// The stored part of it.
struct Stored {
    timeline: i64,
    synchronous: bool,
    key: String,
}

impl History {
    /// The history of a store that is opened, and whether it went back since it was last used.
    pub(super) async fn of(client: &Client) -> Result<(Arc<History>, bool), StoreError> {
        let now = match client.simple_query(timeline!()).await {
            Ok(said) => number(&said)?,
            Err(e) if is_missing(&e) => {
                tracing::warn!(
                    "the database does not report its timeline, so nothing shows whether a fail-over has lost anything: {}",
                    error(&e)
                );
                0
            }
            Err(e) => return Err(error(&e)),
        };
        let Stored { timeline, synchronous, key } = stored(client).await?;
        let is_another = timeline > 0 && now > timeline;
        let went_back = is_another && !synchronous;
        if now > 0 && now != timeline && !went_back {
            // A lower number is that of another cluster, to which the database was moved.
            set(client, now).await?;
        }
        if is_another && !went_back {
            tracing::info!("the database has failed over to a standby for which commits had waited");
        }
        let (timeline, synchronous) = (AtomicI64::new(now), AtomicBool::new(synchronous));
        Ok((Arc::new(History { timeline, key: Mutex::new(key), synchronous, ..History::default() }), went_back))
    }

    /// The timeline.
    pub(super) fn timeline(&self) -> i64 {
        self.timeline.load(Ordering::SeqCst)
    }

    /// The same as a number of histories: see [`super::super::nodes::Nodes::generation`].
    pub(super) fn generation(&self) -> u64 {
        self.timeline().cast_unsigned()
    }

    /// The key that this process met, or has made.
    pub(super) fn key(&self) -> String {
        self.key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This process has made this key.
    pub(super) fn set_key(&self, key: String) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// # Errors
    /// [`StoreError::Closed`]: the database went back.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.gone_back.get().map_or(Ok(()), |why| Err(StoreError::Closed(why.clone())))
    }

    /// The database went back. Returns whether that is new.
    pub(super) fn close(&self, why: String) -> bool {
        self.gone_back.set(why).is_ok()
    }

    /// A change has an unknown outcome, or a connection is new: the database may show commits that no standby has.
    pub(super) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::SeqCst);
    }

    /// The error of a change with an unknown outcome: it may become visible at any time from now on, though no standby
    /// has it.
    pub(super) fn unknown(&self) -> StoreError {
        self.doubt();
        StoreError::Unknown
    }

    /// How often that happened.
    pub(super) fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::SeqCst)
    }

    /// Whether commits wait for standbys, as last noted.
    pub(super) fn is_synchronous(&self) -> bool {
        self.synchronous.load(Ordering::SeqCst)
    }

    /// See [`History::is_synchronous`].
    pub(super) fn set_synchronous(&self, synchronous: bool) {
        self.synchronous.store(synchronous, Ordering::SeqCst);
    }

    /// Notes that a node has renewed its term, which ends when its row says.
    pub(super) fn set_term(&self, node: i64, until: i64) {
        self.term[0].store(node, Ordering::SeqCst);
        self.term[1].store(until, Ordering::SeqCst);
    }

    /// Whether the database still has the term that was renewed last. Another node may have marked this one as dead, and
    /// even then its row stays for long.
    async fn has_term(&self, client: &Client) -> Result<bool, StoreError> {
        let [node, until] = [0, 1].map(|i: usize| self.term[i].load(Ordering::SeqCst));
        let said = format!(
            "SELECT count(*) FROM nodes WHERE id = {node} AND (until = '-infinity' OR {} >= {until})",
            until!()
        );
        let said = client.simple_query(&said).await.map_err(|e| error(&e))?;
        Ok(node == 0 || values(&said)(0)? == "1")
    }

    /// Compares a new connection.
    ///
    /// # Errors
    /// [`StoreError::Closed`]: the database went back. [`StoreError::Failed`]: it is not the current one, or does not answer.
    pub(super) async fn meet(&self, client: &Client) -> Result<(), StoreError> {
        self.check()?;
        if self.timeline() > 0 {
            let said = client.simple_query(timeline!()).await.map_err(|e| error(&e))?;
            if self.follow(client, &said).await? {
                return Ok(());
            }
        }
        let key = self.key();
        if key.is_empty() || stored(client).await?.key == key {
            return Ok(());
        }
        Err(StoreError::Failed(
            "another store is in the database now, or it was restored there: start again once it is the one that is meant".to_owned(),
        ))
    }

    /// The same for the last answer of a connection to [`timeline`]. Returns whether it is another timeline, on which
    /// nothing was lost.
    ///
    /// # Errors
    /// As [`History::meet`].
    pub(super) async fn follow(&self, client: &Client, said: &[SimpleQueryMessage]) -> Result<bool, StoreError> {
        let (now, known) = (number(said)?, self.timeline());
        if now == known {
            return Ok(false);
        }
        if now < known {
            return Err(StoreError::Failed(format!(
                "the database is on timeline {now}, and was on {known}: a former primary may have been started again"
            )));
        }
        let stored = stored(client).await?;
        let waited = self.is_synchronous() && (stored.timeline == now || stored.synchronous);
        if waited && stored.key == self.key() && self.has_term(client).await? {
            // Does not overwrite what another node has marked meanwhile.
            let Stored { timeline, synchronous, .. } = stored;
            let set = format!(
                "UPDATE countersign SET timeline = {now} WHERE timeline = {timeline} AND synchronous = {synchronous}"
            );
            at_once(client, &set).await?;
            self.timeline.store(now, Ordering::SeqCst);
            tracing::info!("the database has failed over to a standby for which commits had waited");
            return Ok(true);
        }
        let why = format!(
            "the database is on timeline {now}, and was on {known}: it was restored, or has failed over to a standby for which \
             commits had not waited, so it may have lost what was acknowledged"
        );
        // Before this process closes the store, so that the next process to open it holds its turns, even if another
        // node found nothing lost, unless the turns were held meanwhile.
        let lost = format!(
            "UPDATE countersign SET synchronous = false, timeline = least(timeline, {known}) WHERE encode(notification_key, 'hex') = '{}'",
            self.key()
        );
        at_once(client, &lost).await?;
        if self.close(why.clone()) {
            tracing::error!("{why}; start again: all turns are then held until somebody continues or cancels them");
        }
        Err(StoreError::Closed(why))
    }
}

/// Why it could not be compared.
fn error(e: &Error) -> StoreError {
    StoreError::Failed(e.as_db_error().map_or_else(|| e.to_string(), |said| said.message().to_owned()))
}

/// Whether the database has no such function, or none for this user.
fn is_missing(e: &Error) -> bool {
    let none = [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE, SqlState::FEATURE_NOT_SUPPORTED];
    e.code().is_some_and(|code| none.contains(code))
}

async fn set(client: &Client, timeline: i64) -> Result<(), StoreError> {
    at_once(client, &format!("UPDATE countersign SET timeline = {timeline} WHERE timeline <> {timeline}")).await
}

/// Runs a statement whose commit waits for no standby: after a fail-over there may be none yet, and connections are made all
/// the same. Through a pooler a transaction is open, which its caller commits next.
async fn at_once(client: &Client, sql: &str) -> Result<(), StoreError> {
    let sql = format!("SET LOCAL synchronous_commit = 'local'; {sql}");
    client.batch_execute(&sql).await.map_err(|e| error(&e))
}

fn unreadable() -> StoreError {
    StoreError::Failed("the database's timeline cannot be read".to_owned())
}

/// The values of the last row.
fn values(said: &[SimpleQueryMessage]) -> impl Fn(usize) -> Result<String, StoreError> {
    let row = said.iter().rev().find_map(|said| match said {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    move |column| row.and_then(|row| row.try_get(column).ok().flatten()).map(str::to_owned).ok_or_else(unreadable)
}

fn number(said: &[SimpleQueryMessage]) -> Result<i64, StoreError> {
    i64::from_str_radix(&values(said)(0)?, 16).map_err(|_| unreadable())
}

async fn stored(client: &Client) -> Result<Stored, StoreError> {
    let said = client.simple_query(STORED).await.map_err(|e: Error| error(&e))?;
    let value = values(&said);
    let timeline = value(0)?.parse().map_err(|_| unreadable())?;
    Ok(Stored { timeline, synchronous: value(1)? == "1", key: value(2)? })
}
