//! This process among those that share the database: it renews the term of its leases, and notifies others of its
//! changes.
//!
//! Both share one separate connection, so that no slow statement delays them. Through a pooler there are no
//! notifications, since a database session belongs to one transaction only. Hints only save waiting, since every node
//! also polls, and messages about an open block only show its text earlier. A term that was not renewed in time ends;
//! the node continues under the same number, and keeps each lease that no other node took meanwhile.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign_core::journal::record::Millis;
use tokio::{
    sync::{Notify, broadcast, watch},
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_postgres::Error;

use super::{
    super::{
        StoreError,
        nodes::{Hint, Said},
    },
    address::PostgresUrl,
    alive::Others,
    clock::{boot_time, clock},
    connect::{Heard, Link, Own, Pool, connect, error, told},
    flight::{Value, ask},
    history::{History, NOTE, synchronous, until},
    opening::acknowledged,
    rows::get,
    words::Words,
};
use crate::{failpoint, sql::int};

/// How long hints are collected before they are sent.
const COLLECT: Duration = Duration::from_millis(5);
/// The most bytes of a notification: PostgreSQL allows fewer than 8,000.
const PAYLOAD: usize = 7_900;
/// Room in it for the sender's id.
const FROM: usize = 32;
/// The most hints that are queued for sending, and for a slow reader. Further ones are lost.
const HINTS: usize = 10_000;
/// How long leaving may take.
pub(super) const LEAVING: Duration = Duration::from_secs(5);
/// How long it waits before it reconnects.
const AGAIN: Duration = Duration::from_millis(250);
/// How often it logs that it still cannot, and why.
const TELL_AGAIN: Duration = Duration::from_secs(60);

const JOIN: &str = concat!(
    "INSERT INTO nodes (until) VALUES (clock_timestamp() + $1::bigint * interval '1 millisecond')
 RETURNING id, ",
    clock!()
);
/// The row of a node that was cut off for long may have been swept.
const RENEW: &str = concat!(
    "INSERT INTO nodes (id, until) OVERRIDING SYSTEM VALUE
 VALUES ($1, clock_timestamp() + $2::bigint * interval '1 millisecond')
 ON CONFLICT (id) DO UPDATE SET until = excluded.until
 RETURNING EXISTS (SELECT FROM nodes o WHERE o.id <> $1 AND o.until > '-infinity'), ",
    clock!(),
    ", ",
    synchronous!(),
    ", ",
    until!()
);
/// The key that seals texts.
const KEY: &str = "SELECT notification_key FROM countersign";
const NOW: &str = concat!("SELECT ", clock!());
const LEAVE: &str = "UPDATE nodes SET until = '-infinity' WHERE id = $1";
/// Nodes that have left or are marked as dead, and have no session: whatever the clock is, none that is alive. The last
/// thousand stay: one that is only cut off takes a missing row for a loss ([`History::follow`]).
const SWEEP: &str = "DELETE FROM nodes n WHERE n.until = '-infinity' AND n.id <= (SELECT max(id) FROM nodes) - 1000
 AND NOT EXISTS (SELECT FROM sessions s WHERE s.node = n.id)";
/// The format of its messages: the sender's id, `:`, and lines, each `j` (it has joined, so there is a node to notify),
/// `l` (it has left, or hands sessions over), `c` and the id of a session that it has changed, or one of [`Words`].
const CHANNEL: &str = "SELECT 'countersign_' || oid FROM pg_namespace WHERE nspname = current_schema()";
/// A stopped node reads no notifications, so they queue up for it in the database. Where many do, new ones are dropped
/// before the database would refuse them.
const NOTIFY: &str = "SELECT pg_notify($1, $2) WHERE pg_notification_queue_usage() < 0.5";

/// This process as a node. Dropped, it leaves.
pub(super) struct Member {
    /// Its number, which no other ever has.
    pub(super) id: i64,
    /// The others.
    pub(super) others: Arc<Others>,
    shared: Arc<Shared>,
    leaving: watch::Sender<bool>,
}

struct Shared {
    id: i64,
    channel: String,
    lease: Duration,
    /// When the term of its leases ends, by [`boot_time`].
    until: AtomicU64,
    /// The number of the term: how often it was renewed too late.
    term: AtomicU64,
    /// How far the database's clock is ahead of [`boot_time`].
    ahead: AtomicI64,
    /// Whether there are other nodes.
    others: AtomicBool,
    /// Whether notifications are sent and received: not through a pooler.
    hears: bool,
    /// If the node's own connection leads past the pooler: those through it, over which everything is stored.
    other_way: Option<Pool>,
    /// Whether the term is not renewed, since nothing is answered there.
    is_mute: AtomicBool,
    changed: Mutex<BTreeSet<Arc<str>>>,
    /// Whether there are sessions to take over of which the others were not notified yet.
    given: AtomicBool,
    more: Notify,
    heard: broadcast::Sender<Hint>,
    words: Words,
    /// Whether the last notification was refused.
    is_unheard: AtomicBool,
    history: Arc<History>,
}

async fn left(leaving: &mut watch::Receiver<bool>) {
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

impl Member {
    /// Joins the nodes of the store.
    pub(super) async fn join(
        url: &PostgresUrl,
        (own, heard): (Own, Heard),
        pool: &Pool,
        lease: Duration,
    ) -> Result<Member, StoreError> {
        let asked = async |sql, values: &[Value]| own.ask(sql, values).await.map_err(|e| error(&e));
        let one = async |sql, values: &[Value]| {
            let missing = || StoreError::Failed("a node's own statement had no answer".to_owned());
            asked(sql, values).await?.pop().ok_or_else(missing)
        };
        let joined = async {
            asked(SWEEP, &[]).await?;
            let channel: String = get(&one(CHANNEL, &[]).await?, 0)?;
            if own.has_session() {
                // Before anybody knows of the node, so that it misses nothing from the others.
                own.run(&format!("LISTEN {channel}")).await.map_err(|e| error(&e))?;
            }
            let words = Words::new(get(&one(KEY, &[]).await?, 0)?);
            let began = boot_time();
            Ok((channel, words, began, one(JOIN, &[int(lease.as_millis()).into()]).await?))
        };
        let (channel, words, began, row) = acknowledged(&own, url, joined).await?;
        let (id, now): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let shared = Arc::new(Shared {
            id,
            channel,
            lease,
            until: AtomicU64::new(began + lease.as_millis() as u64),
            term: AtomicU64::new(0),
            ahead: AtomicI64::new(now - (began.midpoint(boot_time())).cast_signed()),
            others: AtomicBool::new(true),
            hears: own.has_session(),
            other_way: url.past_pooler().map(|_| pool.clone()),
            is_mute: AtomicBool::new(false),
            changed: Mutex::default(),
            given: AtomicBool::new(false),
            more: Notify::new(),
            heard: broadcast::Sender::new(HINTS),
            words,
            is_unheard: AtomicBool::new(false),
            history: pool.history.clone(),
        });
        let (leaving, left) = watch::channel(false);
        tokio::spawn(shared.clone().keep(url.clone(), (own, heard), left));
        Ok(Member { id, others: Arc::new(Others::new(lease)), shared, leaving })
    }

    pub(super) fn term(&self) -> Option<u64> {
        // Read first: when a term is renewed too late, its number changes before it is valid again.
        let term = self.shared.term.load(Ordering::SeqCst);
        let lasts = boot_time() < self.shared.until.load(Ordering::SeqCst) && !*self.leaving.borrow();
        lasts.then_some(term)
    }

    /// Whether a caller that waits for one session should check now which other nodes are dead.
    pub(super) fn is_look_due(&self) -> bool {
        self.term().is_some() && self.others.is_look_due(boot_time().cast_signed())
    }

    /// The time by the database's clock.
    pub(super) fn now(&self) -> Millis {
        boot_time().cast_signed() + self.shared.ahead.load(Ordering::Relaxed)
    }

    /// Asks the database for its time.
    pub(super) async fn hear_clock(&self, on: &Link) -> Result<(), StoreError> {
        let began = boot_time();
        let row = ask(on, NOW, Vec::new()).await.map_err(|e| error(&e))?.pop();
        if let Some(row) = row {
            self.shared.learn((began, boot_time()), get(&row, 0)?);
        }
        Ok(())
    }

    /// Whether there was no other node a moment ago.
    pub(super) fn is_alone(&self) -> bool {
        !self.shared.others.load(Ordering::Relaxed)
    }

    pub(super) fn hints(&self) -> broadcast::Receiver<Hint> {
        self.shared.heard.subscribe()
    }

    /// Notifies other nodes, soon, that a session has changed.
    pub(super) fn tell(&self, session_id: &Arc<str>) {
        if self.shared.hears && !self.is_alone() {
            let mut changed = self.shared.changed();
            if changed.len() < HINTS {
                changed.insert(session_id.clone());
            }
            drop(changed);
            self.shared.more.notify_one();
        }
    }

    pub(super) fn said(&self) -> broadcast::Receiver<Said> {
        self.shared.words.said()
    }

    /// Sends a message to other nodes, soon, unless there are none, there are no notifications, or too many are queued.
    pub(super) fn say(&self, said: &Said) -> bool {
        let waits = self.shared.hears && !self.is_alone() && self.shared.words.wait(said, PAYLOAD - FROM);
        if waits {
            self.shared.more.notify_one();
        }
        waits
    }

    /// Notifies other nodes, soon, that there are sessions to take over.
    pub(super) fn tell_given(&self) {
        self.shared.given.store(true, Ordering::SeqCst);
        self.shared.more.notify_one();
    }

    /// Leaves, and waits until that is stored, or takes too long: then the leases expire on their own.
    pub(super) async fn leave(&self) {
        self.leaving.send_replace(true);
        let _ = timeout(LEAVING, self.leaving.closed()).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leaving.send_replace(true);
    }
}

impl Shared {
    fn changed(&self) -> std::sync::MutexGuard<'_, BTreeSet<Arc<str>>> {
        // The set is never left half changed.
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the node alive until it leaves.
    async fn keep(self: Arc<Self>, url: PostgresUrl, first: (Own, Heard), mut leaving: watch::Receiver<bool>) {
        let mut connected = Some(first);
        let mut logged: Option<Instant> = None;
        while !*leaving.borrow() {
            let made = match connected.take() {
                Some(made) => Ok(made),
                None => tokio::select! { biased;
                    () = left(&mut leaving) => return,
                    made = timeout(self.lease, self.connect(&url)) => {
                        made.unwrap_or_else(|_| Err(StoreError::Failed(format!("no answer within {} s", self.lease.as_secs()))))
                    }
                },
            };
            let ended = match made {
                Ok((own, heard)) => match self.attend(&own, heard, &mut leaving).await {
                    Ok(()) => return,
                    Err((why, renewed)) => {
                        logged = logged.filter(|_| !renewed);
                        why
                    }
                },
                // The store is closed, and has said so.
                Err(StoreError::Closed(_)) => return,
                Err(e) => e.to_string(),
            };
            if logged.is_none_or(|logged| logged.elapsed() > TELL_AGAIN) {
                logged = Some(Instant::now());
                let own = url.of_own();
                tracing::warn!("the node's own connection to {own} ended; it connects again: {ended}");
            }
            let _ = timeout(AGAIN, left(&mut leaving)).await;
        }
    }

    async fn connect(&self, url: &PostgresUrl) -> Result<(Own, Heard), StoreError> {
        let made = connect(url).await?;
        self.history.meet(made.0.client()).await?;
        self.history.doubt();
        Ok(made)
    }

    /// Renews the term, notifies and is notified over one connection. Its error says whether the term was renewed over
    /// it.
    async fn attend(
        &self,
        own: &Own,
        mut heard: Heard,
        leaving: &mut watch::Receiver<bool>,
    ) -> Result<(), (String, bool)> {
        // First of all, so that the leases last however long hints take.
        self.renew(own).await.map_err(|e| (e, false))?;
        let often = (self.lease / 4).max(Duration::from_millis(1));
        let mut renew = interval_at(Instant::now() + often, often);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Hints sent before are lost; their users also poll.
        if self.hears {
            self.bounded(own.run(&format!("LISTEN {}", self.channel))).await.map_err(|e| (e, true))?;
        }
        self.say(own, "j").await.map_err(|e| (e, true))?;
        loop {
            let done = tokio::select! { biased;
                () = left(leaving) => {
                    let _ = self.bounded(own.ask(LEAVE, &[self.id.into()])).await;
                    let _ = self.say(own, "l").await;
                    return Ok(());
                }
                _ = renew.tick() => self.renew(own).await,
                said = heard.recv() => match said {
                    Some(said) => { self.hear(&said); Ok(()) }
                    None => Err("it was closed".to_owned()),
                },
                () = self.more.notified() => {
                    sleep(COLLECT).await;
                    timeout(often, self.tell_all(own)).await.unwrap_or_else(|_| Err("no answer".to_owned()))
                }
            };
            done.map_err(|e| (e, true))?;
        }
    }

    /// An answer that takes longer than the lease is an error.
    async fn bounded<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
        match timeout(self.lease, asked).await {
            Ok(done) => done.map_err(|e| told(&e)),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    /// Whether this node can store anything: if not, others had better do its work.
    fn can_store(&self) -> bool {
        let silent = self.other_way.as_ref().map_or(Duration::ZERO, Pool::silent_for);
        let can = silent < self.lease;
        if self.is_mute.swap(!can, Ordering::Relaxed) == can {
            if can {
                tracing::info!("the pooler answers again: this node's term is renewed");
            } else {
                tracing::warn!(
                    "the pooler answers nothing, so this node's term is not renewed, and others take its sessions over"
                );
            }
        }
        can
    }

    async fn renew(&self, own: &Own) -> Result<(), String> {
        if !self.can_store() {
            return Ok(());
        }
        if !own.has_session() {
            // A pooler may lead to another server by now, whose confirmation of this term would prove nothing.
            let met = timeout(self.lease, self.history.meet(own.client())).await;
            met.map_err(|_| "no answer".to_owned())?.map_err(|e| e.to_string())?;
        }
        // Taken before the question: the database counts from a later time.
        let began = boot_time();
        let values = [self.id.into(), int(self.lease.as_millis()).into()];
        failpoint::hit("lease.before_renew");
        let row = self.bounded(own.ask(RENEW, &values)).await?.pop().ok_or("no row")?;
        failpoint::hit("lease.after_renew");
        let (others, told_at): (bool, i64) =
            (row.try_get(0).map_err(|e| told(&e))?, row.try_get(1).map_err(|e| told(&e))?);
        let (ended, now) = (self.until.load(Ordering::SeqCst), boot_time());
        self.learn((began, now), told_at);
        let (synchronous, until): (bool, i64) =
            (row.try_get(2).map_err(|e| told(&e))?, row.try_get(3).map_err(|e| told(&e))?);
        self.history.set_term(self.id, until);
        if self.history.is_synchronous() != synchronous {
            // It must not be true here before it is stored.
            self.history.set_synchronous(false);
            self.bounded(own.ask(NOTE, &[synchronous.into(), self.history.timeline().into()])).await?;
            self.history.set_synchronous(synchronous);
        }
        if ended < now {
            self.term.fetch_add(1, Ordering::SeqCst);
            let late = now - ended;
            tracing::warn!("this node's term had ended for {late} ms; others may have taken its sessions over");
        }
        self.until.store(began + self.lease.as_millis() as u64, Ordering::SeqCst);
        self.others.store(others, Ordering::Relaxed);
        Ok(())
    }

    /// The database read its clock between these two times of this machine: an offset within those bounds is no worse
    /// than the known one.
    fn learn(&self, (began, ended): (u64, u64), said: Millis) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let ahead = ahead.clamp(said - ended.cast_signed(), said - began.cast_signed());
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    async fn tell_all(&self, own: &Own) -> Result<(), String> {
        let changed = std::mem::take(&mut *self.changed());
        let mut said = String::new();
        if self.given.swap(false, Ordering::SeqCst) {
            said.push_str("l\n");
        }
        let (words, is_more) = self.words.next();
        for line in changed.into_iter().map(|id| format!("c{id}\n")).chain(words) {
            if said.len() + line.len() > PAYLOAD - FROM {
                self.say(own, &std::mem::take(&mut said)).await?;
            }
            said.push_str(&line);
        }
        if is_more {
            // After the term is renewed, if it is time.
            self.more.notify_one();
        }
        if said.is_empty() { Ok(()) } else { self.say(own, &said).await }
    }

    async fn say(&self, own: &Own, said: &str) -> Result<(), String> {
        if !self.hears {
            return Ok(());
        }
        let values = [Value::text(&*self.channel), Value::text(format!("{}:{said}", self.id))];
        let done = match timeout(self.lease, own.ask(NOTIFY, &values)).await {
            Ok(done) => done,
            Err(_) => return Err("no answer".to_owned()),
        };
        match done {
            // Any role of the database can fill its queue of notifications, and they are only hints, so the leases
            // continue. If the connection has ended too, the next statement on it fails.
            Err(e) if e.as_db_error().is_some() => {
                if !self.is_unheard.swap(true, Ordering::Relaxed) {
                    tracing::warn!("other nodes cannot be notified, and find out by looking: {}", told(&e));
                }
            }
            done => {
                done.map_err(|e| told(&e))?;
                self.is_unheard.store(false, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn hear(&self, said: &str) {
        let Some((from, said)) = said.split_once(':') else { return };
        if from.parse() == Ok(self.id) {
            return;
        }
        self.others.store(true, Ordering::Relaxed);
        for line in said.lines() {
            // Having no receiver is fine.
            let _ = match line.split_at_checked(1) {
                Some(("c", id)) => self.heard.send(Hint::Changed(id.into())),
                Some(("l", _)) => self.heard.send(Hint::Left),
                _ => {
                    self.words.hear(line);
                    continue;
                }
            };
        }
    }
}
