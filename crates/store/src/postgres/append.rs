//! The effect of one append or deletion on the tables.
//!
//! An append is one statement of several parts, and so a transaction by itself: that saves the round trips of BEGIN and
//! COMMIT. Additional steps, such as checking a rule that its verdict depends on, surround the same statement in a
//! transaction.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
    sync::Arc,
};

use countersign_core::{
    audit,
    call::reviewer::Reviewer,
    journal::{checkpoint::FOLD_VERSION, record::Millis, request_id::RequestId},
};
use futures::future::{BoxFuture, FutureExt as _};
use tokio_postgres::Row;

use super::{
    super::{
        Append, Guards, InterruptionRow, StoreError, Summary,
        index::{self, Change, Claim, Purpose},
        no_past,
        nodes::Epoch,
        sql::{json, resolution_name},
    },
    chain,
    clock::clock,
    flight::{Flight, Joined, Value},
    group::SMALL,
    nodes::{epoch_of, is_free},
    rows::{count, sent_by, tenant},
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

/// Takes the id of a new session: only one append ever gets it.
const TAKE_ID: &str = "INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING id";
const MAKE: &str = concat!(
    "INSERT INTO sessions
 (id, pos, agent, subject, tenant, title, status, created_at, updated_at, pending, node, epoch, format)
 SELECT id, $2::bigint, $3::bytea, $4::bytea, $5::bytea, $6::bytea, $7::text, $8::bigint, $9::bigint, $10::bigint[],
   $11::bigint, ($11::bigint IS NOT NULL)::int, $12::bigint FROM taken
 RETURNING number, CASE WHEN node IS NOT NULL THEN epoch END AS lease, ",
    clock!(),
    " AS clock"
);
/// Of all appends at one position, the one whose update finds the session there wins; the others wait for it, and find
/// nothing. A node that stores an append with due effects takes the lease, if no other node has it. The outcome of the
/// last effect releases it; an input does not, since effects that it stops may still be ending. It also finds nothing
/// if a request id of `$13` is known from a sender of `$14`, or outside of the time from `$15` to before `$16`. Time is compared before the
/// row's lock is waited for: an append that reaches the row in time counts, since any append stored before it moves the
/// session.
const MOVE: &str = concat!(
    "UPDATE sessions s
 SET pos = $3, agent = $4, title = $5, status = $6, updated_at = $7, pending = $8,
   node = CASE WHEN ",
    is_free!("$9"),
    " THEN CASE WHEN $10::boolean THEN $9::bigint END WHEN $10::boolean OR $11::bigint IS NULL THEN s.node END,
   epoch = s.epoch + (CASE WHEN ",
    is_free!("$9"),
    " THEN $10::boolean ELSE false END)::int,
   format = greatest(s.format, $12)
 WHERE s.id = $1 AND s.pos = $2 AND ($11::bigint IS NULL OR (s.node = $9 AND s.epoch = $11))
   AND NOT EXISTS (SELECT FROM request_ids q WHERE q.session = s.number AND q.id = ANY($13) AND q.sent_by = ANY($14))
   AND ",
    "coalesce($15::bigint <= ",
    clock!(),
    ", true) AND coalesce($16::bigint > ",
    clock!(),
    ", true)
 RETURNING s.number, CASE WHEN s.node = $9 THEN s.epoch END AS lease, ",
    // Once the row is locked.
    clock!(),
    " AS clock"
);
const IS_FENCED: &str = "SELECT FROM sessions WHERE id = $1 AND (node IS DISTINCT FROM $2::bigint OR epoch <> $3)";
pub(super) const CLAIMED: &str = "SELECT q.id, q.sent_by, q.purpose, q.fingerprint
 FROM request_ids q JOIN sessions s ON s.number = q.session
 WHERE s.id = $1 AND q.id = ANY($2) AND q.sent_by = ANY($3)";
/// Whether a session with this id existed and was deleted.
const IS_DELETED: &str =
    "SELECT FROM session_ids i WHERE i.id = $1 AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = i.id)";
/// Locked, so that it is not deleted before the fork is made; others append to it meanwhile.
const PAST: &str = "SELECT number, pos, format FROM sessions WHERE id = $1 FOR KEY SHARE";
const COPY: &str = "WITH copied AS (
   INSERT INTO entries (session, pos, body)
   SELECT $1, pos, body FROM entries WHERE session = $2 AND pos > $3 AND pos <= $4 RETURNING 1
 ) SELECT count(*) FROM copied";
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

    /// The values of the session's row after it, those of [`MAKE`]; `node` gets its lease if effects are due.
    pub(super) fn row(&self) -> Vec<Value> {
        let Summary { agent, subject, tenant: of, title, status, created_at, updated_at, pending, .. } = &self.summary;
        vec![
            (&*self.session_id).into(),
            self.last().into(),
            (&**agent).into(),
            subject.as_deref().into(),
            tenant(of.as_deref()).into(),
            title.as_deref().into(),
            Value::Word(status.name()),
            (*created_at).into(),
            (*updated_at).into(),
            Value::Ints(pending.iter().map(|n| i64::from(n.get())).collect()),
            Value::Int(self.is_at_work.then_some(self.node)),
            self.format.into(),
        ]
    }

    pub(super) fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// Whether it may be stored together with others: it is one statement, and small. One with a deadline does not wait
    /// for others, which could make it late.
    pub(super) fn is_small_statement(&self) -> bool {
        let Guards { not_before, not_after, .. } = self.guards;
        let texts = self.bodies.iter().chain(&self.snapshot).map(Vec::len);
        let bytes = texts.chain(self.told.iter().map(String::len)).sum::<usize>();
        bytes <= SMALL && not_before.or(not_after).is_none() && self.is_one_statement()
    }

    /// Whether its statement does all of it, and nothing has to be checked afterwards.
    fn is_one_statement(&self) -> bool {
        let Guards { lease: _, rules, not_before, not_after } = &self.guards;
        let is_bound = !rules.is_empty() || (self.is_new() && not_before.or(*not_after).is_some());
        self.from.is_none() && !is_bound && self.by_turns().1.is_empty() && self.admit(&[]).is_ok()
    }

    /// The statement that makes the session's row, with everything that can be done in it.
    pub(super) fn made(&self, session: &'static str) -> Joined {
        self.statement(Joined::after(("taken", TAKE_ID), session, self.row()))
    }

    fn statement(&self, mut statement: Joined) -> Joined {
        self.write(&mut statement);
        for change in self.by_turns().0 {
            self.change(&mut statement, change);
        }
        statement
    }

    /// The statement that makes the session's row (it has no requests yet, and is bound to no time), or moves it if these request
    /// ids are new and it is in time; and stores its audit records.
    fn whole(&self, new: [Value; 2], time: (Option<Millis>, Option<Millis>)) -> Joined {
        let mut statement =
            if self.is_new() { self.made(MAKE) } else { self.statement(Joined::of(MOVE, self.moved(new, time))) };
        self.tell(&mut statement);
        statement
    }

    /// The steps that the statement did not do, except for rules.
    pub(super) fn rest(&self, flight: &mut Flight, session: i64) {
        for change in self.by_turns().1.into_iter().filter(|change| !change.is_of_rule()) {
            let mut statement = Joined::of("SELECT $1::bigint AS number", vec![session.into()]);
            self.change(&mut statement, change);
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

    /// The values of [`MOVE`], with ids that must be new and the time in which it must be.
    fn moved(&self, [ids, senders]: [Value; 2], (from, until): (Option<Millis>, Option<Millis>)) -> Vec<Value> {
        let Summary { agent, title, status, updated_at, pending, .. } = &self.summary;
        vec![
            (&*self.session_id).into(),
            int(self.expected).into(),
            self.last().into(),
            (&**agent).into(),
            title.as_deref().into(),
            Value::Word(status.name()),
            (*updated_at).into(),
            Value::Ints(pending.iter().map(|n| i64::from(n.get())).collect()),
            self.node.into(),
            self.is_at_work.into(),
            Value::Int(self.guards.lease.map(epoch_of)),
            self.format.into(),
            ids,
            senders,
            from.into(),
            until.into(),
        ]
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
        flight.push(self.whole([Value::Many(Vec::new()), Value::Many(Vec::new())], (None, None)));
        let mut answers = on.send(flight).await?;
        let (taken, known) = (answers.pop(), answers.pop());
        let Some(session) = taken.and_then(|mut rows| rows.pop()) else { return Err(self.why_not(on).await?.into()) };
        self.admit(&known.unwrap_or_default())?;
        Ok((session.try_get(0)?, lease_of(&session)?, session.try_get(2)?))
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
        let many = |texts: Vec<&str>| Value::Many(texts.into_iter().map(|text| text.as_bytes().to_vec()).collect());
        [many(ids().map(RequestId::id).collect()), many(ids().map(sent_by).collect())]
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

    fn write(&self, statement: &mut Joined) {
        let Summary { updated_at, .. } = self.summary;
        let places = (self.expected + 1..).take(self.bodies.len()).map(int).collect();
        statement.part(
            "INSERT INTO entries (session, pos, body) SELECT s.number, new.* FROM s, unnest(?, ?) AS new",
            vec![Value::Ints(places), Value::Many(self.bodies.clone())],
        );
        if let Some(snapshot) = &self.snapshot {
            let sql = "INSERT INTO snapshots (session, version, pos, body) SELECT s.number, ?, ?, ? FROM s
                       ON CONFLICT (session) DO UPDATE
                       SET version = excluded.version, pos = excluded.pos, body = excluded.body";
            statement.part(sql, vec![FOLD_VERSION.into(), self.last().into(), snapshot.clone().into()]);
        }
        // An id that is queued and reaches the conversation at once is there twice.
        let claims: BTreeMap<_, &Claim> = self.claims.iter().map(|claim| (claim.request_id.key(), claim)).collect();
        if !claims.is_empty() {
            let sql = "INSERT INTO request_ids (session, id, sent_by, purpose, fingerprint)
                       SELECT s.number, new.id, new.sent_by, new.purpose, nullif(new.fingerprint, '')
                       FROM s, unnest(?, ?, ?, ?) AS new (id, sent_by, purpose, fingerprint)
                       ON CONFLICT (session, id, sent_by)
                       DO UPDATE SET purpose = excluded.purpose, fingerprint = excluded.fingerprint";
            let of = |text: fn(&Claim) -> &str| claims.values().map(|claim| text(claim).to_owned()).collect::<Vec<_>>();
            let bytes = |text| Value::Many(of(text).into_iter().map(String::into_bytes).collect());
            statement.part(
                sql,
                vec![
                    bytes(|claim| claim.request_id.id()),
                    bytes(|claim| sent_by(&claim.request_id)),
                    Value::Texts(of(|claim| claim.purpose.kind())),
                    Value::Texts(of(|claim| claim.request_id.fingerprint().unwrap_or_default())),
                ],
            );
        }
        if self.reviewed {
            let sql = "UPDATE reviewers r SET updated_at = ? FROM s WHERE r.session = s.number AND r.updated_at <> ?";
            statement.part(sql, vec![updated_at.into(), updated_at.into()]);
        }
    }

    /// One change of the index of interruptions.
    fn change(&self, statement: &mut Joined, change: &Change) {
        match change {
            Change::Asked(row) => {
                statement.part(ASK, asked(row));
                self.reviewer(statement, &row.role);
            }
            Change::Reminded { n, next } => {
                let sql = "UPDATE interruptions i SET remind_at = ?, seen_to = NULL FROM s WHERE i.session = s.number AND i.number = ?";
                statement.part(sql, vec![(*next).into(), (*n).into()]);
            }
            Change::Reassigned { n, role } => {
                let sql = "UPDATE interruptions i SET role = ? FROM s WHERE i.session = s.number AND i.number = ?";
                statement.part(sql, vec![role.as_str().into(), (*n).into()]);
                self.reviewer(statement, role);
            }
            Change::Resolved { n, resolution, at, pos } => {
                let sql = "UPDATE interruptions i SET resolution = ?, resolved_at = ?, resolved_pos = ? FROM s
                           WHERE i.session = s.number AND i.number = ? AND i.resolution IS NULL";
                let how = Value::Word(resolution_name(*resolution));
                statement.part(sql, vec![how, (*at).into(), int(*pos).into(), (*n).into()]);
            }
            Change::RuleMade(_) | Change::RuleRevoked { .. } => {}
        }
    }

    /// Lists the session for those who hold the role. Its owner finds it by its subject.
    fn reviewer(&self, statement: &mut Joined, role: &str) {
        if Reviewer::is_owner_name(role) {
            return;
        }
        let sql =
            "INSERT INTO reviewers (session, role, session_id, tenant, updated_at) SELECT s.number, ?, ?, ?, ? FROM s
                   ON CONFLICT (session, role) DO NOTHING";
        let Summary { tenant: of, updated_at, .. } = &self.summary;
        let (id, of) = (Value::from(&*self.session_id), Value::from(tenant(of.as_deref())));
        statement.part(sql, vec![role.into(), id, of, (*updated_at).into()]);
    }

    /// Stores its audit records; see [`chain`].
    fn tell(&self, statement: &mut Joined) {
        if self.tells() {
            let bodies = self.told.iter().map(|body| body.as_bytes().to_vec()).collect();
            let of = tenant(self.summary.tenant.as_deref()).into();
            statement.part(
                "INSERT INTO audit_queue (body, tenant)
                 SELECT told.body, ? FROM s, unnest(?) WITH ORDINALITY AS told (body, place) ORDER BY told.place",
                vec![of, Value::Many(bodies)],
            );
        }
    }

    /// Whether it has audit records.
    pub(super) fn tells(&self) -> bool {
        !self.told.is_empty()
    }

    fn last(&self) -> i64 {
        int(self.expected.saturating_add(self.bodies.len() as u64))
    }
}

/// The lease in a row of [`MAKE`] or [`MOVE`].
fn lease_of(row: &Row) -> Result<Option<Epoch>, Undone> {
    let lease = row.try_get::<_, Option<i64>>(1)?;
    Ok(lease.map(|epoch| count(epoch).map(Epoch)).transpose()?)
}

const ASK: &str = "INSERT INTO interruptions
 (session, number, session_id, tenant, subject, role, agent, tools, asked_at, expires_at, remind_at, asked_pos)
 SELECT s.number, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM s";

fn asked(row: &InterruptionRow) -> Vec<Value> {
    vec![
        row.n.into(),
        (&*row.session_id).into(),
        tenant(row.tenant.as_deref()).into(),
        row.subject.as_deref().into(),
        row.role.as_str().into(),
        (&*row.agent).into(),
        Value::Many(row.tools.iter().map(|tool| tool.as_bytes().to_vec()).collect()),
        row.asked_at.into(),
        row.expires_at.into(),
        row.remind_at.into(),
        int(row.asked_pos).into(),
    ]
}

impl transaction::Change for Write {
    type Done = Option<Epoch>;

    /// It finds nothing if the session is not at the expected position, or an id is known; a transaction then finds the
    /// reason.
    fn alone(&self) -> Option<Joined> {
        let Guards { not_before, not_after, .. } = self.guards;
        self.is_one_statement().then(|| self.whole(self.claimed(), (not_before, not_after)))
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
pub(super) struct Delete(pub(super) Arc<str>, pub(super) Option<u64>);

impl transaction::Change for Delete {
    type Done = bool;

    fn apply<'a>(&'a self, on: &'a Transaction) -> BoxFuture<'a, Result<(Flight, bool), Undone>> {
        delete(on, &self.0, self.1).boxed()
    }
}

async fn delete(on: &Transaction, session_id: &str, at: Option<u64>) -> Result<(Flight, bool), Undone> {
    let sql = "DELETE FROM sessions WHERE id = $1 AND ($2::bigint IS NULL OR pos = $2) RETURNING number";
    let gone = on.ask(sql, vec![session_id.into(), Value::Int(at.map(int))]).await?.pop();
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
    Ok((flight, true))
}
