//! Copying a whole SQLite store into an empty PostgreSQL database.
//!
//! Journals are read and stored a piece at a time, and their indexes are derived again, by the code that every append
//! uses. Four things are copied unchanged, because they do not follow from the journals: the ids of deleted sessions,
//! the audit log with its chain, the progress of its deliveries, and the ends of standing rules, which may have been
//! recorded in a session that is deleted by now.
//!
//! Neither store can be served during the copy, or by mistake afterwards: the SQLite store is locked, and the database
//! is marked as begun until all its contents are on disk, and then as full. Only then are both compared, the SQLite
//! store is marked as moved, and the database may be opened. If the process or the database ends in between, a second
//! copy into a full database compares them again and finishes; a partial copy cannot be continued. Each copy has a
//! random id that both stores keep, so a second attempt recognises a finished copy, and no other database is mistaken
//! for it.
//!
//! A call that was started and has no outcome has an unknown outcome in the new store, as after a crash: the lease of
//! its session belongs to a node that does not exist.

use std::{path::Path, sync::Arc};

use countersign_core::{
    audit::{Anchor, AuditRecord, Verifier},
    journal::record::{Entry, Millis, Record},
    session::Session,
};

pub use super::contents::Counts;
use super::{
    Append, Durability, Guards, StoreError,
    contents::Endpoint,
    postgres::{Found, Part, PostgresUrl, Target},
    seal::Keys,
    sqlite::{Moved, Source},
};

/// The most entries and stored bytes of a part of a session, which always has one entry.
const PART: (usize, usize) = (512, 1024 * 1024);
/// Sessions, and ids of deleted ones, that are read at a time.
const IDS: i64 = 1000;
/// Records of the audit log that are copied at a time: each has the arguments of at most one request.
const TOLD: usize = 100;

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// This many of the sessions are copied.
    Copied(u64, u64),
    /// This many of the sessions are compared.
    Compared(u64, u64),
}

/// The contents that were copied, and found to be the same in both stores.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// The number of rows of each kind.
    pub counts: Counts,
    /// The end of the audit log, whose chain was verified in both.
    pub anchor: Anchor,
}

/// Copies the SQLite store at `from` into the database at `to`, which must have no tables, and compares them. Unless `keep`,
/// the SQLite store is marked as moved, at the time `now`, and is not served again. Reading blocks the thread.
///
/// # Errors
/// [`StoreError::InUse`] if a process has the store open; [`StoreError::NotServed`] if it was moved before or the database is
/// not empty; [`StoreError::Corrupt`] if a part of the store cannot be read, such as an audit log that was changed, or
/// if the stores are not the same at the end; [`StoreError::Sealed`], [`StoreError::Failed`].
pub async fn copy(
    (from, keys): (&Path, Option<&Keys>),
    to: &PostgresUrl,
    keep: bool,
    now: Millis,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Copied, StoreError> {
    let mut source = Source::open(from, keys)?;
    let place = to.to_string();
    let path = source.path().display().to_string();
    let target = Target::open(to).await?;
    let copy = match checked((&path, source.moved.as_ref()), &place, &target).await? {
        Some(copy) => copy,
        None => {
            tracing::info!("copying {path} to {place}");
            let copy = target.begin().await?;
            fill(&mut source, &target, progress).await?;
            target.filled().await?;
            copy
        }
    };
    let copied = compare(&source, &target, progress).await.map_err(|e| match e {
        StoreError::Corrupt(what) if source.moved.is_none() => StoreError::Corrupt(format!(
            "{what}. If {path} was used after it was copied, drop the schema of {place}, make it again, and copy again"
        )),
        e => e,
    })?;
    if !keep && source.moved.is_none() {
        source.mark_moved(&Moved { place, copy }, now)?;
    }
    target.finish().await?;
    Ok(copied)
}

/// The full copy that has to be finished; `None`: the database is empty.
async fn checked(
    (path, moved): (&str, Option<&Moved>),
    place: &str,
    target: &Target,
) -> Result<Option<String>, StoreError> {
    let why = match (moved, target.look().await?) {
        (None, Found::Nothing) => return Ok(None),
        (None, Found::Full(copy)) => return Ok(Some(copy)),
        (Some(moved), Found::Full(copy)) if moved.copy == copy => return Ok(Some(copy)),
        (None, Found::Begun) => return Err(target.begun()),
        (None, Found::Store(_)) => {
            format!(
                "{place} has a store already; a copy needs a database, or a schema of its search_path, without tables"
            )
        }
        (Some(moved), Found::Store(Some(copy))) if moved.copy == copy => {
            format!("{path} was copied to {place}, and that is finished already: serve {place}")
        }
        (Some(Moved { place: before, .. }), Found::Nothing) if before == place => {
            format!(
                "{path} was moved to {place} already, which is empty now; a store that was moved is not copied again"
            )
        }
        (Some(Moved { place: before, .. }), _) => {
            format!("{path} was moved to {before} already; that store has changed since, and {place} is another")
        }
    };
    Err(StoreError::NotServed(why))
}

async fn fill(
    source: &mut Source,
    target: &Target,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), StoreError> {
    let all = source.counts()?.sessions;
    let (mut after, mut done): (Arc<str>, u64) = (Arc::default(), 0);
    loop {
        let sessions = source.sessions(&after, IDS)?;
        let Some((last, _)) = sessions.last() else { break };
        after = last.clone();
        for (id, end) in sessions {
            session(source, target, &id, end).await?;
            done += 1;
            progress(Progress::Copied(done, all));
        }
    }
    let mut after: Arc<str> = Arc::default();
    loop {
        let deleted = source.deleted(&after, IDS)?;
        let Some(last) = deleted.last() else { break };
        after = last.clone();
        target.delete(deleted).await?;
    }
    let mut verifier = Verifier::new(None);
    let mut after = 0;
    loop {
        let told = source.audit(after, TOLD)?;
        let Some(last) = told.last() else { break };
        after = last.record.n;
        told.iter().try_for_each(|told| verified(&mut verifier, &told.record))?;
        target.tell(told).await?;
    }
    deliveries(source, target).await
}

/// Copies the progress of webhooks, and their failed deliveries.
async fn deliveries(source: &Source, target: &Target) -> Result<(), StoreError> {
    let mut after: Arc<str> = Arc::default();
    loop {
        let endpoints = source.endpoints(&after, IDS)?;
        let Some(last) = endpoints.last() else { return Ok(()) };
        after = last.name.clone();
        target.attend(endpoints.clone()).await?;
        for Endpoint { name, .. } in endpoints {
            let mut after = 0;
            loop {
                let failed = source.failed_deliveries(&name, after, TOLD)?;
                let Some(last) = failed.last() else { break };
                after = last.n;
                target.keep(&name, failed).await?;
            }
        }
    }
}

/// The name of the first webhook whose progress or failed deliveries differ.
async fn other_deliveries(source: &Source, target: &Target) -> Result<Option<Arc<str>>, StoreError> {
    let mut after: Arc<str> = Arc::default();
    loop {
        let endpoints = source.endpoints(&after, IDS)?;
        let copied = target.endpoints(&after, IDS).await?;
        let differs = endpoints.iter().zip(&copied).find(|(a, b)| a != b);
        if let Some((endpoint, _)) = differs {
            return Ok(Some(endpoint.name.clone()));
        }
        let Some(last) = endpoints.last() else { return Ok(None) };
        after = last.name.clone();
        for Endpoint { name, .. } in &endpoints {
            let mut after = 0;
            loop {
                let failed = source.failed_deliveries(name, after, TOLD)?;
                if failed != target.failed_deliveries(name, after, TOLD).await? {
                    return Ok(Some(name.clone()));
                }
                let Some(last) = failed.last() else { break };
                after = last.n;
            }
        }
    }
}

fn verified(verifier: &mut Verifier, record: &AuditRecord) -> Result<(), StoreError> {
    verifier.take(record).map_err(|fault| StoreError::Corrupt(format!("the audit log was changed: {}", fault.what)))
}

/// Copies one session.
async fn session(source: &mut Source, target: &Target, id: &Arc<str>, end: u64) -> Result<(), StoreError> {
    let forked = forked(source, id)?;
    let mut after = Session::new(id.clone());
    while after.pos < end {
        let (before, expected) = (after.state.clone(), after.pos);
        let mut entries = source.entries(id, expected, PART)?;
        if expected < forked {
            // The fork's own entries begin a new part, so that each part is either copied past or the fork's own.
            entries.retain(|entry| entry.pos < forked);
            if entries.is_empty() {
                entries = source.entries(id, expected, PART)?;
            }
        }
        for entry in &entries {
            super::apply(&mut after, id, entry)?;
        }
        if after.pos == expected {
            return Err(StoreError::Corrupt(format!("session {id} ends before position {end}")));
        }
        let is_last = after.pos == end;
        let is_past = after.pos < forked;
        let append = Append {
            session_id: id.clone(),
            before,
            entries,
            after: after.clone(),
            snapshot: is_last,
            durability: Durability::Buffered,
            guards: Guards::default(),
        };
        let rules = if is_last { source.rules(id)? } else { Vec::new() };
        target.put(Part::of(&append, is_past, rules)?).await?;
    }
    Ok(())
}

/// The position of the append that made a session a fork: the entries before it are another session's past; 0 if it is
/// no fork.
fn forked(source: &mut Source, id: &str) -> Result<u64, StoreError> {
    let (mut at, mut after) = (0, 0);
    loop {
        let entries = source.entries(id, after, PART)?;
        let Some(last) = entries.last() else { return Ok(at) };
        after = last.pos;
        let is_fork = |entry: &&Arc<Entry>| entry.records.iter().any(|record| matches!(record, Record::Forked(_)));
        at = entries.iter().rfind(is_fork).map_or(at, |entry| entry.pos);
    }
}

/// Compares both stores: the numbers of rows, each session's last position and pending interruptions, and the audit
/// log.
async fn compare(
    source: &Source,
    target: &Target,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Copied, StoreError> {
    let differs = |what: String| StoreError::Corrupt(format!("the copy is not the same as the store: {what}"));
    let (counts, copied) = (source.counts()?, target.counts().await?);
    let differences = counts.differences(&copied);
    if !differences.is_empty() {
        return Err(differs(differences.join(", ")));
    }
    let (mut after, mut done): (Arc<str>, u64) = (Arc::default(), 0);
    loop {
        let sessions = source.sessions(&after, IDS)?;
        let Some((last, _)) = sessions.last() else { break };
        after = last.clone();
        for (id, end) in sessions {
            let (pos, entries, pending) = target.session(&id).await?;
            if (pos, entries) != (end, end) {
                return Err(differs(format!("session {id} ends at {end}, and there at {pos} with {entries} appends")));
            }
            if source.pending(&id)? != pending {
                return Err(differs(format!("what is pending in session {id}")));
            }
            done += 1;
            progress(Progress::Compared(done, counts.sessions));
        }
    }
    if let Some(name) = other_deliveries(source, target).await? {
        return Err(differs(format!("where the webhook {name} stands")));
    }
    let anchor =
        chain(async |after| Ok(source.audit(after, TOLD)?.into_iter().map(|told| told.record).collect())).await?;
    let copied = chain(async |after| target.audit(after, TOLD).await).await?;
    if anchor != copied {
        return Err(differs(format!("the audit log ends with {anchor}, and there with {copied}")));
    }
    Ok(Copied { counts, anchor })
}

/// The end of an audit log, whose chain is verified.
async fn chain(read: impl AsyncFn(u64) -> Result<Vec<AuditRecord>, StoreError>) -> Result<Anchor, StoreError> {
    let (mut verifier, mut after) = (Verifier::new(None), 0);
    loop {
        let records = read(after).await?;
        let Some(last) = records.last() else { break };
        after = last.n;
        records.iter().try_for_each(|record| verified(&mut verifier, record))?;
    }
    verifier.end().map_err(|fault| StoreError::Corrupt(format!("the audit log was changed: {}", fault.what)))
}
