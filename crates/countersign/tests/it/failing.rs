//! A store that fails on demand, or is slow, and counts how much is read from it at once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering},
    },
};

use countersign::store::{Store, StoreError};
use countersign_core::{
    audit::{AuditRecord, Event},
    journal::{
        record::{Entry, Millis, Record, records},
        request_id::RequestId,
    },
    number::InterruptionNo,
};
use countersign_store::{
    Append, AuditRange, Due, Durability, Head, InterruptionFilter, InterruptionRow, Page, Paged, RuleFilter, RuleOwner,
    RuleRow, SessionFilter, Summary, Waypoint,
    deliveries::Deliveries,
    index::Purpose,
    nodes::{Epoch, Nodes, Position},
};
use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use tokio::task::yield_now;

/// A store of which the next accesses of a kind fail.
pub(crate) struct Failing {
    inner: Arc<dyn Store>,
    /// The nodes that it reports in place of the inner store's, and the callback of each append.
    nodes: Option<Arc<dyn Nodes>>,
    stored: Option<Stored>,
    faults: Faults,
}

/// How it fails, and what has happened to it.
#[derive(Default)]
pub(crate) struct Faults {
    /// Appends, reads of a session's head, of its first record alone, and of lists of rules, that are still to fail.
    pub(crate) appends: AtomicU32,
    pub(crate) heads: AtomicU32,
    pub(crate) firsts: AtomicU32,
    pub(crate) rules: AtomicU32,
    /// Deletions that are still to fail.
    pub(crate) deletes: AtomicU32,
    /// How many have failed.
    pub(crate) failed: AtomicU32,
    /// The bytes of the largest page of entries that was read, and of all of them.
    pub(crate) largest: AtomicUsize,
    pub(crate) read: AtomicUsize,
    /// The bytes of the largest page of the audit log that was read.
    pub(crate) audited: Arc<AtomicUsize>,
    /// Whether it keeps and finds no waypoints, as if they were lost.
    pub(crate) forgets: AtomicBool,
    /// Lookups of waypoints that are still to fail, and whether keeping one never ends.
    pub(crate) waypoints: AtomicU32,
    pub(crate) hangs: AtomicBool,
    /// Pages of entries that are still to fail.
    pub(crate) pages: AtomicU32,
    /// Whether pages of entries are empty.
    pub(crate) gap: AtomicBool,
    /// Whether no row of its lists can be read.
    pub(crate) unread: AtomicBool,
    /// Sessions whose ids begin so cannot be read, nor deleted.
    pub(crate) broken: Mutex<Option<&'static str>>,
    /// Whether it yields before and after each append, so that other tasks can run in between, and reads few entries at a
    /// time.
    slow: AtomicBool,
    /// The last position of each session: as it is written, and as it would be after a power cut.
    written: Mutex<HashMap<Arc<str>, u64>>,
    on_disk: Mutex<HashMap<Arc<str>, u64>>,
    /// How often what was read may not survive, and how often that was when a caller last waited.
    pub(crate) doubts: AtomicU32,
    pub(crate) confirmed: AtomicU32,
    /// How often a caller has waited for the disk.
    pub(crate) syncs: AtomicU32,
    /// Whether the first answer to each append is lost: every second one is stored all the same. And the lost ones.
    pub(crate) loses_answers: AtomicBool,
    lost: Mutex<HashSet<(Arc<str>, u64)>>,
    /// How many appends fail after each answer that is lost. Then only answers to outcomes are lost: the sender of an
    /// input would have to look it up, and a person would be asked about an effect that began.
    pub(crate) away: AtomicU32,
    /// How many callers that wait for the disk wait in vain.
    pub(crate) unsynced: AtomicU32,
    /// How far its clock is ahead of the machine's.
    pub(crate) ahead: AtomicI64,
    /// What happens once, before an append with such a record reaches the store.
    meanwhile: Mutex<Option<Meanwhile>>,
    /// What is waited for once, after an append with such a record is stored and before its sender is told.
    afterwards: Mutex<Option<Meanwhile>>,
}

impl std::ops::Deref for Failing {
    type Target = Faults;
    fn deref(&self) -> &Faults {
        &self.faults
    }
}

/// What a broken connection has not transmitted.
#[derive(PartialEq, Eq)]
enum Lost {
    Request,
    Answer,
}

type Meanwhile = (fn(&Record) -> bool, BoxFuture<'static, ()>);

/// Gets the entries of each append.
type Stored = Box<dyn Fn(&[Arc<Entry>]) + Send + Sync>;

impl Failing {
    pub(crate) fn over(inner: Arc<dyn Store>) -> Arc<Failing> {
        Failing::among(inner, None, None)
    }

    /// One that fails in nothing, and is slow.
    pub(crate) fn slow(inner: Arc<dyn Store>) -> Arc<Failing> {
        let store = Failing::over(inner);
        store.slow.store(true, Ordering::SeqCst);
        store
    }

    async fn others_run(&self) {
        if self.slow.load(Ordering::SeqCst) {
            yield_now().await;
        }
    }

    /// One of several nodes, whose others are in `nodes`.
    pub(crate) fn among(inner: Arc<dyn Store>, nodes: Option<Arc<dyn Nodes>>, stored: Option<Stored>) -> Arc<Failing> {
        Arc::new(Failing { inner, nodes, stored, faults: Faults::default() })
    }

    /// Does something once between the judgement of the next such record and its append, as if the process was paused.
    pub(crate) fn meanwhile(&self, before: fn(&Record) -> bool, happens: impl Future<Output = ()> + Send + 'static) {
        *self.meanwhile.lock().expect("meanwhile") = Some((before, happens.boxed()));
    }

    /// The answer to the next append with such a record comes after this.
    pub(crate) fn afterwards(&self, after: fn(&Record) -> bool, happens: impl Future<Output = ()> + Send + 'static) {
        *self.afterwards.lock().expect("afterwards") = Some((after, happens.boxed()));
    }

    fn happens_before(&self, append: &Append) -> Option<BoxFuture<'static, ()>> {
        let mut meanwhile = self.meanwhile.lock().expect("meanwhile");
        let is_before = |(before, _): &mut Meanwhile| records(&append.entries).any(before);
        meanwhile.take_if(is_before).map(|(_, happens)| happens)
    }

    /// A page of a list, whose rows may be damaged.
    fn listed<'a, T: Send + 'a>(
        &self,
        page: BoxFuture<'a, Result<Paged<T>, StoreError>>,
        session: fn(&T) -> Arc<str>,
    ) -> BoxFuture<'a, Result<Paged<T>, StoreError>> {
        if !self.unread.load(Ordering::SeqCst) {
            return page;
        }
        let damaged = move |Paged { rows, next, .. }: Paged<T>| {
            let unread = rows.iter().map(|row| (session(row), StoreError::Corrupt("its row".to_owned()))).collect();
            Paged { rows: Vec::new(), unread, next }
        };
        page.map_ok(damaged).boxed()
    }

    fn loses_the_answer(&self, append: &Append) -> Option<Lost> {
        if !self.loses_answers.load(Ordering::SeqCst) {
            return None;
        }
        let away = self.away.load(Ordering::SeqCst);
        let begins = |record: &Record| matches!(record, Record::CallStarted { .. } | Record::StepStarted { .. });
        if away > 0 && (append.guards.lease.is_none() || records(&append.entries).any(begins)) {
            return None;
        }
        let mut lost = self.lost.lock().expect("lost");
        let is_first = lost.insert((append.session_id.clone(), append.expected()));
        if is_first {
            self.appends.store(away, Ordering::SeqCst);
        }
        is_first.then_some(if lost.len().is_multiple_of(2) { Lost::Request } else { Lost::Answer })
    }

    /// How many answers were lost.
    pub(crate) fn lost(&self) -> usize {
        self.lost.lock().expect("lost").len()
    }

    /// How many positions of a session a power cut would leave.
    pub(crate) fn survives(&self, session_id: &str) -> u64 {
        self.on_disk.lock().expect("disk").get(session_id).copied().unwrap_or_default()
    }

    /// The disk has everything that was written.
    fn reaches_the_disk(&self) {
        let written = self.written.lock().expect("written").clone();
        let mut on_disk = self.on_disk.lock().expect("disk");
        if *on_disk != written {
            *on_disk = written;
            self.syncs.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn count(&self, page: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        let bytes = page.iter().map(|entry| serde_json::to_vec(entry).expect("JSON").len()).sum();
        self.largest.fetch_max(bytes, Ordering::SeqCst);
        self.read.fetch_add(bytes, Ordering::SeqCst);
        page
    }

    fn check_broken(&self, session_id: &str) -> Result<(), StoreError> {
        match *self.broken.lock().expect("broken") {
            Some(broken) if session_id.starts_with(broken) => Err(StoreError::Corrupt(session_id.to_owned())),
            _ => Ok(()),
        }
    }

    fn check(&self, left: &AtomicU32) -> Result<(), StoreError> {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err() {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
        Err(StoreError::Failed("the disk is away".to_owned()))
    }
}

impl Store for Failing {
    fn deliveries(&self) -> &dyn Deliveries {
        self.inner.deliveries()
    }
    fn renew_history_id(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.renew_history_id()
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        match self.check(&self.appends) {
            Ok(()) => {
                let (session_id, durability) = (append.session_id.clone(), append.durability);
                let last = append.entries.last().map_or(0, |entry| entry.pos);
                let entries = append.entries.clone();
                let happens = self.happens_before(&append);
                let is_after = |(after, _): &mut Meanwhile| records(&append.entries).any(after);
                let afterwards = self.afterwards.lock().expect("afterwards").take_if(is_after);
                let lost = self.loses_the_answer(&append);
                async move {
                    self.others_run().await;
                    if let Some(happens) = happens {
                        happens.await;
                    }
                    if lost == Some(Lost::Request) {
                        return Err(StoreError::Unknown);
                    }
                    let lease = self.inner.append(append).await?;
                    self.stored.iter().for_each(|stored| stored(&entries));
                    self.written.lock().expect("written").insert(session_id, last);
                    if durability == Durability::Synced {
                        self.reaches_the_disk();
                    }
                    self.others_run().await;
                    if let Some((_, happens)) = afterwards {
                        happens.await;
                    }
                    if lost.is_some() { Err(StoreError::Unknown) } else { Ok(lease) }
                }
                .boxed()
            }
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn now(&self) -> Millis {
        self.inner.now() + self.ahead.load(Ordering::SeqCst)
    }
    fn nodes(&self) -> Option<&dyn Nodes> {
        self.nodes.as_deref().or_else(|| self.inner.nodes())
    }
    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        if let Err(error) = self.check(&self.unsynced) {
            return async { Err(error) }.boxed();
        }
        self.reaches_the_disk();
        self.confirmed.store(self.doubts.load(Ordering::SeqCst), Ordering::SeqCst);
        self.inner.sync()
    }
    fn mark_unsynced(&self) {
        self.doubts.fetch_add(1, Ordering::SeqCst);
        self.inner.mark_unsynced();
    }
    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        match self.check(&self.appends) {
            Ok(()) => {
                let (happens, from) = (self.happens_before(&append), from.to_owned());
                async move {
                    self.others_run().await;
                    if let Some(happens) = happens {
                        happens.await;
                    }
                    let lease = self.inner.fork(&from, append).await;
                    self.others_run().await;
                    lease
                }
                .boxed()
            }
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn waypoint(
        &self,
        session_id: &str,
        until: u64,
        version: u32,
    ) -> BoxFuture<'_, Result<Option<Waypoint>, StoreError>> {
        if let Err(error) = self.check(&self.waypoints) {
            return async { Err(error) }.boxed();
        }
        if self.forgets.load(Ordering::SeqCst) {
            return async { Ok(None) }.boxed();
        }
        // Not at once, as from a disk: other requests come meanwhile.
        let found = self.inner.waypoint(session_id, until, version);
        yield_now().then(|()| found).boxed()
    }
    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.forgets.load(Ordering::SeqCst) {
            return async { Ok(()) }.boxed();
        }
        if self.hangs.load(Ordering::SeqCst) {
            return std::future::pending().boxed();
        }
        self.inner.keep_waypoint(session_id, waypoint)
    }
    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        match self.check_broken(session_id).and_then(|()| self.check(&self.heads)) {
            Ok(()) => self.inner.head(session_id),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        // `Store::read` reads no pages.
        let is_page = bytes < usize::MAX;
        if is_page && let Err(error) = self.check(&self.pages) {
            return async { Err(error) }.boxed();
        }
        if is_page && self.gap.load(Ordering::SeqCst) {
            return async { Ok(Vec::new()) }.boxed();
        }
        let limit = if is_page && self.slow.load(Ordering::SeqCst) { limit.min(8) } else { limit };
        match if (after, limit) == (0, 1) { self.check(&self.firsts) } else { Ok(()) } {
            Ok(()) => self.inner.read_within(session_id, after, limit, bytes).map_ok(|page| self.count(page)).boxed(),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn request(&self, session_id: &str, request_id: &RequestId) -> BoxFuture<'_, Result<Option<Purpose>, StoreError>> {
        self.inner.request(session_id, request_id)
    }
    fn interruption(
        &self,
        session_id: &str,
        n: InterruptionNo,
    ) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        self.inner.interruption(session_id, n)
    }
    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        self.listed(self.inner.interruptions(filter, page), |row| row.session_id.clone())
    }
    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        self.listed(self.inner.sessions(filter, page), |row| row.session_id.clone())
    }
    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        self.inner.due(now, limit)
    }
    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        self.inner.running()
    }
    fn audit_within(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        let audited = self.audited.clone();
        let page = self.inner.audit_within(of, range, limit, bytes);
        page.inspect_ok(move |page| {
            let bytes = page.iter().map(|record| record.body.get().len()).sum();
            audited.fetch_max(bytes, Ordering::SeqCst);
        })
        .boxed()
    }
    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        self.inner.standing(of, agent, tool)
    }
    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        match self.check(&self.rules) {
            Ok(()) => self.listed(self.inner.rules(filter, page), |row| row.session_id.clone()),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn delete(
        &self,
        session_id: &str,
        at: Option<u64>,
        told: Option<&Event>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        match self.check_broken(session_id).and_then(|()| self.check(&self.deletes)) {
            Ok(()) => self.inner.delete(session_id, at, told),
            Err(error) => async { Err(error) }.boxed(),
        }
    }
    fn rested(&self, before: Millis, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Position>, StoreError>> {
        self.inner.rested(before, now, limit)
    }
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.check()
    }
}
