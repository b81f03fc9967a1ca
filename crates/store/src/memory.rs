//! A store that forgets everything when the process ends: for tests, demos and throw-away agents.

mod audit_log;
mod deliveries;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_core::{
    audit::{self, AuditRecord},
    journal::{
        record::{Entry, Millis},
        request_id::RequestId,
        state::{State, Status},
    },
    number::InterruptionNo,
    session::Session,
};
use futures::{FutureExt as _, future, future::BoxFuture};

use self::audit_log::AuditLog;
use super::{
    Append, AuditRange, Due, Head, InterruptionFilter, InterruptionRow, PENDING, Page, Paged, PendingCount, RuleFilter,
    RuleName, RuleOwner, RuleRow, SessionFilter, Store, StoreError, Summary, Visible, Waypoint,
    deliveries::Deliveries,
    index::{self, Change, Purpose},
    machine_time, no_past,
    nodes::Epoch,
    page::{self, Room, Row as _},
};

const SHARDS: usize = 64;

/// Keeps journals in memory, as they are: nothing is serialised. Every future is ready at once.
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    /// Pending interruptions with a timer. Locked after a shard, never before one.
    due: Mutex<BTreeSet<(Millis, Arc<str>, InterruptionNo)>>,
    /// Locked after a shard, never before one.
    audit: Mutex<AuditLog>,
    /// In the order in which they were made. Locked after a shard and before anything else.
    rules: Mutex<Vec<RuleRow>>,
    /// Who may see which sessions. Locked after a shard, never before one.
    people: Mutex<HashMap<Reason, BTreeSet<Arc<str>>>>,
    /// Locked alone.
    endpoints: Mutex<BTreeMap<String, deliveries::Endpoint>>,
}

/// Why a person of a tenant may see a session.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Reason {
    tenant: Option<String>,
    /// The session's owner, or a role that was asked in it.
    who: Who,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Who {
    Subject(String),
    Role(String),
}

impl Reason {
    /// The reasons for which a session in this state may be seen.
    fn of(state: &State) -> impl Iterator<Item = Reason> {
        let subject = state.subject.as_deref().map(|subject| Who::Subject(subject.to_owned()));
        let roles = state.reviewers.iter().map(|role| Who::Role(role.clone()));
        let tenant = state.tenant.as_deref().map(str::to_owned);
        subject.into_iter().chain(roles).map(move |who| Reason { tenant: tenant.clone(), who })
    }

    /// The reasons for which a person may see a session.
    fn of_person(who: &Visible) -> impl Iterator<Item = Reason> {
        let subject = who.subject.clone().map(Who::Subject);
        let roles = who.reviewing().cloned().map(Who::Role);
        subject.into_iter().chain(roles).map(|one| Reason { tenant: who.tenant.clone(), who: one })
    }
}

#[derive(Default)]
struct Shard {
    sessions: HashMap<Arc<str>, Kept>,
    /// The ids of deleted sessions, which are never used again.
    deleted: HashSet<Arc<str>>,
}

impl Shard {
    fn get(&self, session_id: &str) -> Option<&Kept> {
        self.sessions.get(session_id)
    }
}

struct Kept {
    entries: Vec<Arc<Entry>>,
    /// The session after the last entry: summary and snapshot at once.
    after: Session,
    /// In the order of their numbers.
    interruptions: Vec<Arc<InterruptionRow>>,
    requests: BTreeMap<Sent, Purpose>,
    waypoints: BTreeMap<u64, Waypoint>,
}

/// The part of a request id that is unique in its session: its [key](RequestId::key).
type Sent = (Box<str>, Option<Box<str>>);

fn sent(request_id: &RequestId) -> Sent {
    let (id, by) = request_id.key();
    (id.into(), by.map(Box::from))
}

impl Kept {
    fn place(&self, n: InterruptionNo) -> Result<usize, usize> {
        self.interruptions.binary_search_by_key(&n, |row| row.n)
    }

    fn interruption(&mut self, n: InterruptionNo) -> Option<&mut Arc<InterruptionRow>> {
        let at = self.place(n).ok()?;
        self.interruptions.get_mut(at)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

/// Nothing panics while it holds a lock, and every change is made after the last check.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    future::ready(value).boxed()
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            due: Mutex::default(),
            audit: Mutex::default(),
            rules: Mutex::default(),
            people: Mutex::default(),
            endpoints: Mutex::default(),
        }
    }

    fn shard(&self, session_id: &str) -> MutexGuard<'_, Shard> {
        // Cheap, since every access does it: sessions that share a shard only wait for each other.
        let sum = session_id.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        lock(&self.shards[sum % SHARDS])
    }

    /// Shares the entries of the past instead of copying them.
    fn fork_now(&self, from: &str, append: Append) -> Result<(), StoreError> {
        let past = {
            let shard = self.shard(from);
            if let Some(id) = shard.deleted.get(from) {
                return Err(StoreError::Deleted(id.clone()));
            }
            let entries = shard.get(from).map_or(&[][..], |session| &session.entries);
            let until = usize::try_from(append.expected()).ok();
            until.and_then(|until| entries.get(..until)).ok_or_else(|| no_past(from, append.expected()))?.to_vec()
        };
        self.append_after(past, append)
    }

    /// Appends; after a past that is not empty only to a new session.
    fn append_after(&self, past: Vec<Arc<Entry>>, append: Append) -> Result<(), StoreError> {
        index::check(&append)?;
        let expected = append.expected();
        let Append { session_id, before, entries, after, guards, .. } = append;
        let claims = index::claims(&entries);
        let changes = index::changes(&after, &entries);
        let mut shard = self.shard(&session_id);
        if shard.deleted.contains(&session_id) {
            return Err(StoreError::Deleted(session_id));
        }
        // Held until the append is stored, so that a rule that decides a call in it ends either before or after.
        let is_of_rules = !guards.rules.is_empty() || changes.iter().any(Change::is_of_rule);
        let mut rules = if is_of_rules { Some(lock(&self.rules)) } else { None };
        guards.check_time(machine_time())?;
        check_rules(rules.as_deref().map_or(&[], Vec::as_slice), &guards.rules)?;
        let (session, new) = match shard.sessions.entry(session_id) {
            hash_map::Entry::Vacant(vacant) => {
                if past.len() as u64 != expected {
                    return Err(StoreError::Conflict);
                }
                index::admit(&claims, |_| Ok(None))?;
                let session = Kept {
                    entries: past,
                    after: after.clone(),
                    interruptions: Vec::new(),
                    requests: BTreeMap::new(),
                    waypoints: BTreeMap::new(),
                };
                (vacant.insert(session), true)
            }
            hash_map::Entry::Occupied(occupied) => {
                let session = occupied.into_mut();
                if !past.is_empty() || session.entries.len() as u64 != expected {
                    return Err(StoreError::Conflict);
                }
                index::admit(&claims, |id| Ok(session.requests.get(&sent(id)).cloned()))?;
                (session, false)
            }
        };
        for claim in claims {
            session.requests.insert(sent(&claim.request_id), claim.purpose);
        }
        for change in changes {
            self.change(session, change, rules.as_deref_mut());
        }
        // Roles are only ever added, except those of a copied past, which are not indexed yet.
        if new || session.after.reviewers.len() != after.reviewers.len() {
            let mut people = lock(&self.people);
            for reason in Reason::of(&after) {
                people.entry(reason).or_default().insert(after.session_id.clone());
            }
        }
        let told = audit::events(&before, &entries);
        if !told.is_empty() {
            lock(&self.audit).extend(told);
        }
        session.entries.extend(entries);
        session.after = after;
        Ok(())
    }

    fn change(&self, session: &mut Kept, change: Change, rules: Option<&mut Vec<RuleRow>>) {
        match change {
            Change::Asked(row) => {
                if let Some(at) = row.due_at() {
                    lock(&self.due).insert((at, row.session_id.clone(), row.n));
                }
                match session.place(row.n) {
                    Ok(at) => session.interruptions[at] = Arc::new(row),
                    Err(at) => session.interruptions.insert(at, Arc::new(row)),
                }
            }
            Change::Resolved { n, resolution, at, pos } => {
                let Some(row) = session.interruption(n).filter(|row| row.resolution.is_none()) else {
                    return;
                };
                if let Some(at) = row.due_at() {
                    lock(&self.due).remove(&(at, row.session_id.clone(), n));
                }
                let row = Arc::make_mut(row);
                row.resolution = Some(resolution);
                row.resolved_at = Some(at);
                row.resolved_pos = Some(pos);
            }
            Change::Reminded { n, next } => {
                let Some(row) = session.interruption(n) else { return };
                let before = row.due_at();
                Arc::make_mut(row).remind_at = next;
                let (session_id, after) = (row.session_id.clone(), row.due_at().filter(|_| row.resolution.is_none()));
                let mut due = lock(&self.due);
                if let Some(at) = before {
                    due.remove(&(at, session_id.clone(), n));
                }
                if let Some(at) = after {
                    due.insert((at, session_id, n));
                }
            }
            Change::Reassigned { n, role } => {
                if let Some(row) = session.interruption(n) {
                    Arc::make_mut(row).role = role;
                }
            }
            Change::RuleMade(row) => {
                let Some(rules) = rules else { return };
                for older in rules.iter_mut().filter(|older| row.replaces(older)) {
                    older.revoked_at = Some(row.made_at);
                    older.revoked_by.clone_from(&row.rule.by);
                }
                rules.push(row);
            }
            Change::RuleRevoked { id, at, by } => {
                let Some(rules) = rules else { return };
                let found =
                    rules.iter_mut().find(|row| row.session_id == session.after.session_id && row.rule.id == id);
                if let Some(row) = found.filter(|row| row.revoked_at.is_none()) {
                    row.revoked_at = Some(at);
                    row.revoked_by = by;
                }
            }
        }
    }

    fn delete_now(&self, session_id: &str, at: Option<u64>, told: Option<&audit::Event>) -> bool {
        let mut shard = self.shard(session_id);
        if shard.get(session_id).is_some_and(|session| at.is_some_and(|at| at != session.entries.len() as u64)) {
            return false;
        }
        let Some((id, session)) = shard.sessions.remove_entry(session_id) else { return false };
        shard.deleted.insert(id);
        lock(&self.audit).extend(told.cloned());
        {
            let mut due = lock(&self.due);
            for row in &session.interruptions {
                if let (Some(at), None) = (row.due_at(), row.resolution) {
                    due.remove(&(at, row.session_id.clone(), row.n));
                }
            }
        }
        lock(&self.rules).retain(|row| *row.session_id != *session_id);
        let mut people = lock(&self.people);
        for reason in Reason::of(&session.after) {
            if let Some(sessions) = people.get_mut(&reason) {
                sessions.remove(session_id);
                if sessions.is_empty() {
                    people.remove(&reason);
                }
            }
        }
        true
    }

    /// Visits each session that a person may see, or every one.
    fn each_session(&self, who: Option<&Visible>, mut take: impl FnMut(&Kept)) {
        let Some(who) = who else {
            return self.shards.iter().for_each(|shard| lock(shard).sessions.values().for_each(&mut take));
        };
        let mut ids: BTreeSet<Arc<str>> = BTreeSet::new();
        {
            let people = lock(&self.people);
            ids.extend(Reason::of_person(who).filter_map(|reason| people.get(&reason)).flatten().cloned());
        }
        for id in ids {
            if let Some(session) = self.shard(&id).sessions.get(&id) {
                take(session);
            }
        }
    }

    fn list_interruptions(
        &self,
        filter: &InterruptionFilter,
        page: &Page,
    ) -> Result<Paged<InterruptionRow>, StoreError> {
        let start = page::start::<InterruptionRow>(page)?;
        let mut found: Vec<Arc<InterruptionRow>> = Vec::new();
        let take = |found: &mut Vec<_>, session: &Kept| {
            let matching = session.interruptions.iter().filter(|row| filter.matches(row));
            found.extend(matching.filter(|row| start.as_ref().is_none_or(|start| row.key() < *start)).cloned());
        };
        match &filter.session_id {
            Some(id) => self.shard(id).get(id).into_iter().for_each(|session| take(&mut found, session)),
            None => self.each_session(filter.visible_to.as_ref(), |session| take(&mut found, session)),
        }
        newest(&mut found, page::limit(page), |row| (row.place(), row.session_id.clone(), row.n));
        Ok(page::cut(found.iter().map(|row| InterruptionRow::clone(row)).collect(), page))
    }

    fn list_sessions(&self, filter: &SessionFilter, page: &Page) -> Result<Paged<Summary>, StoreError> {
        let start = page::start::<Summary>(page)?;
        let mut found: Vec<Arc<State>> = Vec::new();
        self.each_session(filter.visible_to.as_ref(), |session| {
            let state = &session.after.state;
            let place = (state.updated_at, &*state.session_id);
            if start.as_ref().is_none_or(|start| place < (start.at, &*start.session_id)) && filter.matches(state) {
                found.push(state.clone());
            }
        });
        newest(&mut found, page::limit(page), |state| (state.updated_at, state.session_id.clone()));
        Ok(page::cut(found.iter().map(|state| Summary::of(state)).collect(), page))
    }

    fn list_rules(&self, filter: &RuleFilter, page: &Page) -> Result<Paged<RuleRow>, StoreError> {
        let start = page::start::<RuleRow>(page)?;
        let rules = lock(&self.rules);
        let mut found: Vec<RuleRow> = rules
            .iter()
            .filter(|row| filter.matches(row) && start.as_ref().is_none_or(|start| row.key() < *start))
            .cloned()
            .collect();
        newest(&mut found, page::limit(page), RuleRow::key);
        Ok(page::cut(found, page))
    }
}

/// Whether these rules are in force.
fn check_rules(known: &[RuleRow], names: &[RuleName]) -> Result<(), StoreError> {
    let in_force = |(session_id, id): &RuleName| {
        let of_name = |row: &&RuleRow| row.session_id == *session_id && row.rule.id == *id;
        known.iter().find(of_name).is_some_and(|row| row.is_in_force(machine_time()))
    };
    if names.iter().all(in_force) { Ok(()) } else { Err(StoreError::Outdated) }
}

/// Keeps the `limit + 1` rows with the largest keys, largest first.
fn newest<T, K: Ord>(rows: &mut Vec<T>, limit: usize, key: impl Fn(&T) -> K) {
    if let Some(kept) = limit.checked_add(1)
        && kept < rows.len()
    {
        rows.select_nth_unstable_by(limit, |a, b| key(b).cmp(&key(a)));
        rows.truncate(kept);
    }
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(key(row)));
}

impl Store for MemoryStore {
    fn deliveries(&self) -> &dyn Deliveries {
        self
    }

    fn renew_history_id(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // Its history ends with the process, and so it has no id.
        ready(Ok(()))
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        ready(self.append_after(Vec::new(), append).map(|()| Some(Epoch::SOLE)))
    }

    fn fork(&self, from: &str, append: Append) -> BoxFuture<'_, Result<Option<Epoch>, StoreError>> {
        ready(self.fork_now(from, append).map(|()| Some(Epoch::SOLE)))
    }

    fn waypoint(
        &self,
        session_id: &str,
        until: u64,
        version: u32,
    ) -> BoxFuture<'_, Result<Option<Waypoint>, StoreError>> {
        let shard = self.shard(session_id);
        let kept = shard.get(session_id).into_iter().flat_map(|session| session.waypoints.range(..=until).rev());
        let found = kept.map(|(_, waypoint)| waypoint).find(|waypoint| waypoint.version == version).cloned();
        ready(Ok(found))
    }

    fn keep_waypoint(&self, session_id: &str, waypoint: Waypoint) -> BoxFuture<'_, Result<(), StoreError>> {
        if let Some(session) = self.shard(session_id).sessions.get_mut(session_id)
            && waypoint.pos <= session.entries.len() as u64
        {
            session.waypoints.retain(|_, kept| kept.version >= waypoint.version);
            session.waypoints.insert(waypoint.pos, waypoint);
        }
        ready(Ok(()))
    }

    fn head(&self, session_id: &str) -> BoxFuture<'_, Result<Option<Head>, StoreError>> {
        let shard = self.shard(session_id);
        if let Some(id) = shard.deleted.get(session_id) {
            return ready(Err(StoreError::Deleted(id.clone())));
        }
        let head = |session: &Kept| Head { pos: session.entries.len() as u64, snapshot: Some(session.after.clone()) };
        ready(Ok(shard.get(session_id).map(head)))
    }

    fn sync(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        // Nothing here survives power loss.
        ready(Ok(()))
    }

    /// Entries are shared, not copied, so their length does not matter.
    fn read_within(
        &self,
        session_id: &str,
        after: u64,
        limit: usize,
        _bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        let shard = self.shard(session_id);
        let entries = shard.get(session_id).map_or(&[][..], |session| &session.entries);
        let after = usize::try_from(after).unwrap_or(usize::MAX).min(entries.len());
        ready(Ok(entries[after..].iter().take(limit).cloned().collect()))
    }

    fn request(&self, session_id: &str, request_id: &RequestId) -> BoxFuture<'_, Result<Option<Purpose>, StoreError>> {
        let found = self.shard(session_id).get(session_id).and_then(|s| s.requests.get(&sent(request_id)).cloned());
        ready(Ok(found))
    }

    fn interruption(
        &self,
        session_id: &str,
        n: InterruptionNo,
    ) -> BoxFuture<'_, Result<Option<InterruptionRow>, StoreError>> {
        let row = self.shard(session_id).get(session_id).and_then(|s| s.interruptions.get(s.place(n).ok()?).cloned());
        ready(Ok(row.map(Arc::unwrap_or_clone)))
    }

    fn interruptions(
        &self,
        filter: InterruptionFilter,
        page: Page,
    ) -> BoxFuture<'_, Result<Paged<InterruptionRow>, StoreError>> {
        ready(self.list_interruptions(&filter, &page))
    }

    fn sessions(&self, filter: SessionFilter, page: Page) -> BoxFuture<'_, Result<Paged<Summary>, StoreError>> {
        ready(self.list_sessions(&filter, &page))
    }

    fn due(&self, now: Millis, limit: usize) -> BoxFuture<'_, Result<Vec<Due>, StoreError>> {
        let due = lock(&self.due);
        let rows = due.iter().take_while(|(at, ..)| *at <= now).take(limit);
        ready(Ok(rows.map(|(_, session_id, n)| (session_id.clone(), *n)).collect()))
    }

    fn pending(&self) -> BoxFuture<'_, Result<Option<PendingCount>, StoreError>> {
        let mut pending = PendingCount::default();
        for shard in &self.shards {
            for row in lock(shard).sessions.values().flat_map(|kept| &kept.interruptions) {
                if row.resolution.is_none() && pending.count < u64::from(PENDING) {
                    pending.count += 1;
                    pending.oldest = pending.oldest.into_iter().chain([row.asked_at]).min();
                }
            }
        }
        ready(Ok(Some(pending)))
    }

    fn running(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, StoreError>> {
        let mut running: Vec<Arc<str>> = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            running.extend(
                shard.sessions.iter().filter(|(_, s)| s.after.status == Status::Running).map(|(id, _)| id.clone()),
            );
        }
        running.sort_unstable();
        ready(Ok(running))
    }

    fn audit_within(
        &self,
        of: Option<Option<&str>>,
        range: AuditRange,
        limit: usize,
        bytes: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRecord>, StoreError>> {
        ready(lock(&self.audit).read(of, range, (limit, bytes)))
    }

    fn standing(&self, of: RuleOwner, agent: &str, tool: &str) -> BoxFuture<'_, Result<Vec<RuleRow>, StoreError>> {
        ready(Ok(lock(&self.rules).iter().filter(|row| row.applies_to(&of, agent, tool)).cloned().collect()))
    }

    fn rules(&self, filter: RuleFilter, page: Page) -> BoxFuture<'_, Result<Paged<RuleRow>, StoreError>> {
        ready(self.list_rules(&filter, &page))
    }

    fn delete(
        &self,
        session_id: &str,
        at: Option<u64>,
        told: Option<&audit::Event>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        ready(Ok(self.delete_now(session_id, at, told)))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(()))
    }
}
