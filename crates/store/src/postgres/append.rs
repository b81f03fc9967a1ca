//! The effect of one append or deletion on the tables.
//!
//! An append is one statement of several parts (`statement`), and so a transaction of its own: that saves the round
//! trips of BEGIN and COMMIT. Additional steps, such as checking a rule that its verdict depends on, surround the same
//! statement in a transaction.

mod shared;
mod statement;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
    sync::Arc,
};

use countersign_core::{
    audit,
    journal::{record::Millis, request_id::RequestId},
};
use futures::future::{BoxFuture, FutureExt as _};
use tokio_postgres::{Row, types::Type};

#[cfg(feature = "sqlite")]
pub(super) use self::statement::made;
use self::{
    shared::SMALL,
    statement::{changed, lease_of, whole},
};
use super::{
    super::{
        Append, Guards, StoreError, Summary,
        index::{self, Change, Claim, Purpose},
        no_past,
        nodes::Epoch,
        sql::json,
    },
    chain,
    flight::{Flight, Joined, Value},
    history::History,
    nodes::epoch_of,
    rows::{sent_by, tenant},
    rules,
    transaction::{self, Transaction, Undone},
};
use crate::sql::int;

/// An append with its texts serialised.
#[derive(Debug)]
pub(super) struct Write {
    session_id: Arc<str>,
    expected: u64,
    bodies: Vec<Vec<u8>>,
    summary: Summary,
    snapshot: Option<Vec<u8>>,
    claims: Vec<Claim>,
    changes: Vec<Change>,
    /// The bodies of the audit records.
    told: Vec<String>,
    /// Whether a role was ever asked in it, so that the role's list has it too.
    reviewed: bool,
    /// The session whose past it continues, if it is a fork.
    from: Option<Arc<str>>,
    guards: Guards,
    is_at_work: bool,
    /// The node that stores it.
    node: i64,
    /// The format of its records, and the one that the node knows.
    format: u32,
    knows: u32,
}

const IS_FENCED: &str = "SELECT FROM sessions WHERE id = $1 AND (node IS DISTINCT FROM $2::bigint OR epoch <> $3)";
pub(super) const CLAIMED: &str = "SELECT id, sent_by, purpose, fingerprint FROM request_ids
 WHERE session = (SELECT number FROM sessions WHERE id = $1) AND id = ANY($2) AND sent_by = ANY($3)";
/// Whether a session with this id existed and was deleted.
const IS_DELETED: &str =
    "SELECT FROM session_ids i WHERE i.id = $1 AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = i.id)";
/// Locked, so that it is not deleted before the fork is made; others append to it meanwhile.
const PAST: &str = "SELECT number, pos, format FROM sessions WHERE id = $1 FOR KEY SHARE";
const COPY: &str = "WITH copied AS (
   INSERT INTO entries (session, pos, body)
   SELECT $1, pos, body FROM entries WHERE session = $2 AND pos > $3 AND pos <= $4 RETURNING 1
 ) SELECT count(*) FROM copied";
/// How long before its deadline, in milliseconds, an append may wait for others.
const AMPLE: Millis = 10_000;
/// How many entries of a past are copied by one statement.
const PIECE: u64 = 512;

impl Write {
    /// Serialises an append.
    pub(super) fn of(append: &Append, from: Option<Arc<str>>, (node, knows): (i64, u32)) -> Result<Write, StoreError> {
        index::check(append)?;
        let Append { session_id, before, entries, after, snapshot, durability: _, guards } = append;
        let bytes = |text: String| text.into_bytes();
        Ok(Write {
            session_id: session_id.clone(),
            expected: append.expected(),
            bodies: entries.iter().map(|entry| json(entry).map(bytes)).collect::<Result<_, _>>()?,
            summary: Summary::of(after),
            snapshot: snapshot.then(|| json(after).map(bytes)).transpose()?,
            claims: index::claims(entries),
            changes: index::changes(after, entries),
            told: audit::events(before, entries).iter().map(audit::Event::body).collect(),
            reviewed: !after.reviewers.is_empty(),
            from,
            guards: guards.clone(),
            is_at_work: after.is_at_work(),
            node,
            format: entries.iter().map(|entry| entry.format()).max().unwrap_or_default().min(knows),
            knows,
        })
    }

    /// The same for a past that a fork copied: its requests, interruptions and rules are the original's.
    #[cfg(feature = "sqlite")]
    pub(super) fn of_past(mut self) -> Write {
        self.claims.clear();
        self.changes.clear();
        self
    }

    /// Whether it may be stored together with others: it is one statement, small, and not so near its deadline that waiting for
    /// others could make it late.
    pub(super) fn is_small_statement(&self) -> bool {
        let texts = self.bodies.iter().chain(&self.snapshot).map(Vec::len);
        let bytes = texts.chain(self.told.iter().map(String::len)).sum::<usize>();
        let left = self.guards.not_after.map(|end| end.saturating_sub(self.summary.updated_at));
        bytes <= SMALL && left.is_none_or(|left| left > AMPLE) && self.is_one_statement()
    }

    /// Whether its statement does all of it, and nothing has to be checked afterwards.
    fn is_one_statement(&self) -> bool {
        let is_bound = !self.guards.rules.is_empty() || (self.is_new() && self.is_timed());
        self.from.is_none() && !is_bound && self.by_turns().1.is_empty() && self.admit(&[]).is_ok()
    }

    /// The steps that the statement did not do, except for rules.
    pub(super) fn rest(&self, flight: &mut Flight, session: i64) {
        for change in self.by_turns().1.into_iter().filter(|change| !change.is_of_rule()) {
            let row = vec![session.into(), self.id()];
            let mut statement = Joined::new(false);
            statement.given("s", &[("number", Type::INT8), ("id", Type::BYTEA)], vec![row]);
            changed(&mut statement, &[(self, change)]);
            flight.push(statement);
        }
    }

    async fn steps(&self, on: &Transaction) -> Result<(Flight, Option<Epoch>), Undone> {
        let (session, lease, clock) = self.take_place(on).await?;
        self.guards.check_time(clock)?;
        if let Some(from) = &self.from {
            self.copy(on, session, from).await?;
        }
        let mut flight = Flight::default();
        self.rest(&mut flight, session);
        if self.changes.iter().any(Change::is_of_rule) {
            // A rule may replace those of other sessions, so one append at a time changes rules.
            flight.add(chain::END, Vec::new());
            on.send(std::mem::take(&mut flight)).await?;
        }
        rules::hold(on, &self.guards.rules, clock, self.knows).await?;
        for change in &self.changes {
            rules::apply(on, (session, &self.session_id), change, self.knows).await?;
        }
        Ok((flight, lease))
    }

    fn is_new(&self) -> bool {
        self.expected == 0 || self.from.is_some()
    }

    /// The session's number, the lease on it, and the time, if it is at the expected position and the request ids are new: its
    /// row is locked from then on.
    async fn take_place(&self, on: &Transaction) -> Result<(i64, Option<Epoch>, Millis), Undone> {
        let mut flight = Flight::default();
        if !self.is_new() && !self.claims.is_empty() {
            // If another append carries them after this, the session is not at its position any more.
            let [ids, senders] = self.claimed();
            flight.add(CLAIMED, vec![self.id(), ids, senders]);
        }
        flight.push(whole(&[self], false));
        let mut answers = on.send(flight).await?;
        let (taken, known) = (answers.pop(), answers.pop());
        let Some(session) = taken.and_then(|mut rows| rows.pop()) else { return Err(self.why_not(on).await?.into()) };
        self.admit(&known.unwrap_or_default())?;
        Ok((session.try_get(0)?, lease_of(&session)?, session.try_get(3)?))
    }

    /// Why the session was not at the expected position.
    async fn why_not(&self, on: &Transaction) -> Result<StoreError, Undone> {
        if !on.ask(IS_DELETED, vec![self.id()]).await?.is_empty() {
            return Ok(StoreError::Deleted(self.session_id.clone()));
        }
        if let Some(lease) = self.guards.lease {
            let fenced = on.ask(IS_FENCED, vec![self.id(), self.node.into(), epoch_of(lease).into()]).await?;
            if !fenced.is_empty() {
                return Ok(StoreError::Fenced);
            }
        }
        Ok(StoreError::Conflict)
    }

    fn id(&self) -> Value {
        (&*self.session_id).into()
    }

    /// The request ids, and their senders. The query may pair the id of one with the sender of another, so the rows
    /// found are checked.
    fn claimed(&self) -> [Value; 2] {
        let ids = || self.claims.iter().map(|claim| &claim.request_id);
        [Value::many(ids().map(RequestId::id)), Value::many(ids().map(sent_by))]
    }

    /// Whether the request ids are new; `known` has rows of those that are not.
    fn admit(&self, known: &[Row]) -> Result<(), Undone> {
        let mut by_id: BTreeMap<(&[u8], &[u8]), Purpose> = BTreeMap::new();
        for row in known {
            by_id.insert((row.try_get(0)?, row.try_get(1)?), Purpose::stored(row.try_get(2)?, row.try_get(3)?));
        }
        Ok(index::admit(&self.claims, |id| Ok(by_id.get(&(id.id().as_bytes(), sent_by(id).as_bytes())).cloned()))?)
    }

    /// Copies the past of another session.
    async fn copy(&self, on: &Transaction, session: i64, from: &Arc<str>) -> Result<(), Undone> {
        let past = on.ask(PAST, vec![(&**from).into()]).await?.pop();
        let Some(past) = past else {
            let is_deleted = !on.ask(IS_DELETED, vec![(&**from).into()]).await?.is_empty();
            let missing = || no_past(from, self.expected);
            return Err(if is_deleted { StoreError::Deleted(from.clone()) } else { missing() }.into());
        };
        let (source, end, format): (i64, i64, i64) = (past.try_get(0)?, past.try_get(1)?, past.try_get(2)?);
        if format > i64::from(self.format) {
            on.ask("UPDATE sessions SET format = $2 WHERE number = $1", vec![session.into(), format.into()]).await?;
        }
        if end < int(self.expected) {
            return Err(no_past(from, self.expected).into());
        }
        let mut after = 0;
        while after < self.expected {
            let until = self.expected.min(after + PIECE);
            let values = vec![session.into(), source.into(), int(after).into(), int(until).into()];
            let copied = on.ask(COPY, values).await?.pop().map_or(Ok(0), |row| row.try_get::<_, i64>(0))?;
            if copied != int(until - after) {
                return Err(StoreError::Corrupt(format!("session {from}: entries before {until} are missing")).into());
            }
            after = until;
        }
        Ok(())
    }

    /// The changes that its statement makes, and those that follow it: a statement can change a row only once, and few
    /// distinct statements are wanted, since each connection keeps those it has prepared.
    fn by_turns(&self) -> (Vec<&Change>, Vec<&Change>) {
        let (mut kinds, mut interruptions) = (Vec::new(), BTreeSet::new());
        self.changes.iter().partition(|change| {
            let n = match change {
                Change::Asked(row) => row.n,
                Change::Reminded { n, .. } | Change::Reassigned { n, .. } | Change::Resolved { n, .. } => *n,
                Change::RuleMade(_) | Change::RuleRevoked { .. } => return false,
            };
            let kind = discriminant(*change);
            let is_first = interruptions.insert(n) && !kinds.contains(&kind);
            kinds.push(kind);
            is_first
        })
    }

    /// Whether it has to be stored within a time.
    fn is_timed(&self) -> bool {
        self.guards.not_before.or(self.guards.not_after).is_some()
    }

    /// Whether it has audit records.
    pub(super) fn tells(&self) -> bool {
        !self.told.is_empty()
    }

    fn last(&self) -> i64 {
        int(self.expected.saturating_add(self.bodies.len() as u64))
    }
}

impl transaction::Change for Write {
    type Done = Option<Epoch>;

    fn check(&self, history: &History) -> Result<(), StoreError> {
        let is_same = self.guards.generation.is_none_or(|read| read == history.generation());
        if is_same { Ok(()) } else { Err(StoreError::Conflict) }
    }

    /// It finds nothing if the session is not at the expected position, or an id is known; a transaction then finds the
    /// reason.
    fn alone(&self) -> Option<Joined> {
        self.is_one_statement().then(|| whole(&[self], true))
    }

    fn done_alone(&self, rows: &[Row]) -> Result<Option<Option<Epoch>>, Undone> {
        rows.first().map(lease_of).transpose()
    }

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, Option<Epoch>), Undone>> {
        self.steps(on).boxed()
    }
}

/// Deletes a session with everything except its id, if it ends at the position, where one is given. It returns whether
/// the session existed.
pub(super) struct Delete {
    session_id: Arc<str>,
    at: Option<u64>,
    /// The tenant and the body of its audit record.
    told: Option<(Value, Value)>,
}

impl Delete {
    pub(super) fn of(session_id: Arc<str>, at: Option<u64>, told: Option<&audit::Event>) -> Delete {
        let told = told.map(|event| (tenant(event.tenant()).into(), event.body().as_str().into()));
        Delete { session_id, at, told }
    }
}

impl transaction::Change for Delete {
    type Done = bool;

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, bool), Undone>> {
        delete(on, self).boxed()
    }
}

async fn delete(on: &Transaction, of: &Delete) -> Result<(Flight, bool), Undone> {
    let sql = "DELETE FROM sessions WHERE id = $1 AND ($2::bigint IS NULL OR pos = $2) RETURNING number";
    let gone = on.ask(sql, vec![(&*of.session_id).into(), Value::Int(of.at.map(int))]).await?.pop();
    let Some(gone) = gone else { return Ok((Flight::default(), false)) };
    let session: i64 = gone.try_get(0)?;
    let mut flight = Flight::default();
    for sql in [
        "DELETE FROM entries WHERE session = $1",
        "DELETE FROM past_snapshots WHERE session = $1",
        "DELETE FROM interruptions WHERE session = $1",
        "DELETE FROM rules WHERE session = $1",
        "DELETE FROM snapshots WHERE session = $1",
        "DELETE FROM request_ids WHERE session = $1",
        "DELETE FROM reviewers WHERE session = $1",
    ] {
        flight.add(sql, vec![session.into()]);
    }
    if let Some((tenant, body)) = &of.told {
        flight.add("INSERT INTO audit_queue (body, tenant) VALUES ($1, $2)", vec![body.clone(), tenant.clone()]);
    }
    Ok((flight, true))
}
