//! The statement of appends: of one alone, or shared by several.

use std::collections::{BTreeMap, HashMap};

use countersign_core::{call::reviewer::Reviewer, journal::checkpoint::FOLD_VERSION, number::InterruptionNo};
use tokio_postgres::{Row, types::Type};

use super::Write;
use crate::{
    Guards, InterruptionRow, Summary,
    index::{Change, Claim},
    nodes::Epoch,
    postgres::{
        clock::clock,
        flight::{Columns, Joined, Value},
        nodes::{epoch_of, is_free},
        rows::{count, sent_by, tenant},
        transaction::Undone,
    },
    sql::{int, resolution_name},
};

/// Takes the ids of new sessions, which are `n`: only one append ever gets each.
const TAKE_ID: &str = "INSERT INTO session_ids (id) SELECT id FROM n ON CONFLICT DO NOTHING RETURNING id";
/// The row of a session.
const ROW: Columns = &[
    ("id", Type::BYTEA),
    ("pos", Type::INT8),
    ("agent", Type::BYTEA),
    ("subject", Type::BYTEA),
    ("tenant", Type::BYTEA),
    ("title", Type::BYTEA),
    ("status", Type::TEXT),
    ("created_at", Type::INT8),
    ("updated_at", Type::INT8),
    ("pending", Type::TEXT),
    ("node", Type::INT8),
    ("format", Type::INT8),
];
const MAKE: &str = concat!(
    "INSERT INTO sessions
 (id, pos, agent, subject, tenant, title, status, created_at, updated_at, pending, node, epoch, format)
 SELECT n.id, n.pos, n.agent, n.subject, n.tenant, n.title, n.status, n.created_at, n.updated_at, n.pending::bigint[],
   n.node, (n.node IS NOT NULL)::int, n.format FROM n JOIN taken ON taken.id = n.id
 RETURNING number, id, CASE WHEN node IS NOT NULL THEN epoch END AS lease, ",
    clock!(),
    " AS clock"
);
/// What an append makes of a session's row, and what it expects of it; `me` is the node that stores it.
const MOVED: Columns = &[
    ("id", Type::BYTEA),
    ("pos", Type::INT8),
    ("last", Type::INT8),
    ("agent", Type::BYTEA),
    ("title", Type::BYTEA),
    ("status", Type::TEXT),
    ("updated_at", Type::INT8),
    ("pending", Type::TEXT),
    ("me", Type::INT8),
    ("works", Type::BOOL),
    ("epoch", Type::INT8),
    ("format", Type::INT8),
    ("not_before", Type::INT8),
    ("not_after", Type::INT8),
];
/// Of all appends at one position, the one whose update finds the session there wins; the others wait for it, and find
/// nothing. A node that stores an append with due effects takes the lease, if no other node has it. The outcome of the
/// last effect releases it; an input does not, since effects that it stops may still be ending.
///
/// Here and below `= ANY(ARRAY[…])` is an equality that can only be looked up: an index that is small when the statement
/// is planned could otherwise be read from end to end, and still would be once it is large.
const MOVE: &str = concat!(
    "UPDATE sessions s
 SET pos = w.last, agent = w.agent, title = w.title, status = w.status, updated_at = w.updated_at, pending = w.pending::bigint[],
   node = CASE WHEN ",
    is_free!("w.me"),
    " THEN CASE WHEN w.works THEN w.me END WHEN w.works OR w.epoch IS NULL THEN s.node END,
   epoch = s.epoch + (CASE WHEN ",
    is_free!("w.me"),
    " THEN w.works ELSE false END)::int,
   format = greatest(s.format, w.format)
 FROM w WHERE s.id = ANY(ARRAY[w.id]) AND s.pos = w.pos AND (w.epoch IS NULL OR (s.node = w.me AND s.epoch = w.epoch))"
);
/// [`MOVE`] then also finds nothing outside of the append's time. That is compared before the row's lock is waited for: an append that reaches the
/// row in time counts, since any append stored before it moves the session.
const IN_TIME: &str =
    concat!(" AND coalesce(w.not_before <= ", clock!(), ", true) AND coalesce(w.not_after > ", clock!(), ", true)");
/// [`MOVE`] then also finds nothing if one of the append's request ids is known; `?` stands for the ids of all. With OFFSET it is
/// looked up for each session, and not joined.
const ARE_NEW: &str = " AND NOT EXISTS (SELECT FROM ? JOIN request_ids q ON q.session = s.number AND q.id = r.id AND q.sent_by = r.sent_by
   WHERE r.session_id = s.id OFFSET 0)";
const RETURNING: &str = concat!(
    " RETURNING s.number, s.id, CASE WHEN s.node = w.me THEN s.epoch END AS lease, ",
    // Once the row is locked.
    clock!(),
    " AS clock"
);
const CLAIMS: Columns = &[
    ("session_id", Type::BYTEA),
    ("id", Type::BYTEA),
    ("sent_by", Type::BYTEA),
    ("purpose", Type::TEXT),
    ("fingerprint", Type::TEXT),
];
/// Rows with the numbers of their sessions. With OFFSET they are paired first: otherwise each row could be looked up in each
/// session.
macro_rules! numbered {
    () => {
        " FROM (SELECT s.number, r.* FROM s JOIN ? ON r.session_id = s.id OFFSET 0) k"
    };
}
/// Which interruptions are changed: those of the sessions and numbers in rows with a `session_id` and an `n`.
macro_rules! of_sessions {
    () => {
        concat!(numbered!(), " WHERE i.session = ANY(ARRAY[k.number]) AND i.number = k.n")
    };
}
const ASKED: Columns = &[
    ("session_id", Type::BYTEA),
    ("n", Type::INT8),
    ("tenant", Type::BYTEA),
    ("subject", Type::BYTEA),
    ("role", Type::BYTEA),
    ("agent", Type::BYTEA),
    ("tools", Type::TEXT),
    ("asked_at", Type::INT8),
    ("expires_at", Type::INT8),
    ("remind_at", Type::INT8),
    ("asked_pos", Type::INT8),
];
const ASK: &str = "INSERT INTO interruptions
 (session, number, session_id, tenant, subject, role, agent, tools, asked_at, expires_at, remind_at, asked_pos)
 SELECT s.number, r.n, s.id, r.tenant, r.subject, r.role, r.agent, r.tools::bytea[], r.asked_at, r.expires_at, r.remind_at,
   r.asked_pos FROM s JOIN ? ON r.session_id = s.id";

impl Write {
    /// The session's row after it, as [`ROW`]; `node` gets its lease if effects are due.
    fn row(&self) -> Vec<Value> {
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
            array(pending),
            Value::Int(self.is_at_work.then_some(self.node)),
            self.format.into(),
        ]
    }

    /// Its row as [`MOVED`].
    fn moved(&self) -> Vec<Value> {
        let Summary { agent, title, status, updated_at, pending, .. } = &self.summary;
        let Guards { lease, not_before, not_after, .. } = self.guards;
        vec![
            self.id(),
            int(self.expected).into(),
            self.last().into(),
            (&**agent).into(),
            title.as_deref().into(),
            Value::Word(status.name()),
            (*updated_at).into(),
            array(pending),
            self.node.into(),
            self.is_at_work.into(),
            Value::Int(lease.map(epoch_of)),
            self.format.into(),
            not_before.into(),
            not_after.into(),
        ]
    }

    /// Its request ids as [`CLAIMS`]. One that is queued and reaches the conversation at once is there twice.
    fn claim_rows(&self) -> Vec<Vec<Value>> {
        let claims: BTreeMap<_, &Claim> = self.claims.iter().map(|claim| (claim.request_id.key(), claim)).collect();
        let row = |Claim { request_id, purpose }: &Claim| {
            vec![
                self.id(),
                request_id.id().into(),
                sent_by(request_id).into(),
                Value::text(purpose.kind()),
                Value::Text(request_id.fingerprint().map(ToOwned::to_owned)),
            ]
        };
        claims.into_values().map(row).collect()
    }

    /// One of its interruptions as [`ASKED`].
    fn asked(&self, row: &InterruptionRow) -> Vec<Value> {
        let tools: Vec<_> = row.tools.iter().map(|tool| format!("\"\\\\x{}\"", hex::encode(&**tool))).collect();
        vec![
            self.id(),
            row.n.into(),
            tenant(row.tenant.as_deref()).into(),
            row.subject.as_deref().into(),
            row.role.as_str().into(),
            (&*row.agent).into(),
            Value::text(format!("{{{}}}", tools.join(","))),
            row.asked_at.into(),
            row.expires_at.into(),
            row.remind_at.into(),
            int(row.asked_pos).into(),
        ]
    }

    /// A row that lists the session for those who hold the role. Its owner finds it by its subject.
    fn reviewer(&self, role: &str) -> Option<Vec<Value>> {
        let Summary { tenant: of, updated_at, .. } = &self.summary;
        let row = || vec![self.id(), role.into(), tenant(of.as_deref()).into(), (*updated_at).into()];
        (!Reviewer::is_owner_name(role)).then(row)
    }
}

/// The statement that creates the row of a new session, with everything that can be done in it.
#[cfg(feature = "sqlite")]
pub(in crate::postgres) fn made(write: &Write, session: &str) -> Joined {
    let mut statement = Joined::new(false);
    insert_sessions(&mut statement, &[write], "s", session);
    parts_of(&[write], statement)
}

/// The statement that creates the rows of new sessions (they have no requests yet, and are bound to no time), moves
/// those of others, and stores their audit records. `guarded`: it moves them only if their request ids are new, and in
/// their time.
pub(super) fn whole(writes: &[&Write], guarded: bool) -> Joined {
    let (new, known): (Vec<&Write>, Vec<&Write>) = writes.iter().partition(|write| write.is_new());
    let mut statement = Joined::new(writes.len() > 1);
    match (&*new, &*known) {
        (new, []) => insert_sessions(&mut statement, new, "s", MAKE),
        ([], known) => update_sessions(&mut statement, known, "s", guarded),
        (new, known) => {
            insert_sessions(&mut statement, new, "made", MAKE);
            update_sessions(&mut statement, known, "moved", guarded);
            statement.named("s", "SELECT * FROM made UNION ALL SELECT * FROM moved");
        }
    }
    let mut statement = parts_of(writes, statement);
    tell(&mut statement, writes);
    statement
}

/// Adds the rows of new sessions, `n`, and the parts that store them, under a name.
fn insert_sessions(statement: &mut Joined, new: &[&Write], name: &str, session: &str) {
    statement.given("n", ROW, new.iter().map(|write| write.row()).collect());
    statement.named("taken", TAKE_ID);
    statement.named(name, session);
}

/// Adds the new state of known sessions, `w`, and the part that moves them, under a name.
fn update_sessions(statement: &mut Joined, known: &[&Write], name: &str, guarded: bool) {
    statement.given("w", MOVED, known.iter().map(|write| write.moved()).collect());
    let mut sql = MOVE.to_owned();
    if guarded && (statement.is_of_many() || known.iter().any(|write| write.is_timed())) {
        sql.push_str(IN_TIME);
    }
    let claims: Vec<_> = known.iter().flat_map(|write| write.claim_rows()).collect();
    if guarded && !claims.is_empty() {
        sql.push_str(&ARE_NEW.replacen('?', &statement.rows(CLAIMS, claims, true), 1));
    }
    sql.push_str(RETURNING);
    statement.named(name, &sql);
}

/// Adds everything but the sessions' rows and the audit records.
fn parts_of(writes: &[&Write], mut statement: Joined) -> Joined {
    let entries = writes.iter().flat_map(|write| {
        let places = (write.expected + 1..).map(int);
        places.zip(&write.bodies).map(|(pos, body)| vec![write.id(), pos.into(), body.clone().into()])
    });
    statement.list(
        "INSERT INTO entries (session, pos, body) SELECT s.number, r.pos, r.body FROM s JOIN ? ON r.session_id = s.id",
        &[("session_id", Type::BYTEA), ("pos", Type::INT8), ("body", Type::BYTEA)],
        entries.collect(),
    );
    let snapshots = writes.iter().filter_map(|write| {
        let body = write.snapshot.clone()?;
        Some(vec![write.id(), FOLD_VERSION.into(), write.last().into(), body.into()])
    });
    statement.common(
        "INSERT INTO snapshots (session, version, pos, body)
         SELECT s.number, r.version, r.pos, r.body FROM s JOIN ? ON r.session_id = s.id
         ON CONFLICT (session) DO UPDATE SET version = excluded.version, pos = excluded.pos, body = excluded.body",
        &[("session_id", Type::BYTEA), ("version", Type::INT8), ("pos", Type::INT8), ("body", Type::BYTEA)],
        snapshots.collect(),
    );
    statement.list(
        "INSERT INTO request_ids (session, id, sent_by, purpose, fingerprint)
         SELECT s.number, r.id, r.sent_by, r.purpose, r.fingerprint FROM s JOIN ? ON r.session_id = s.id
         ON CONFLICT (session, id, sent_by)
         DO UPDATE SET purpose = excluded.purpose, fingerprint = excluded.fingerprint",
        CLAIMS,
        writes.iter().flat_map(|write| write.claim_rows()).collect(),
    );
    let reviewed = writes.iter().filter(|write| write.reviewed);
    statement.common(
        concat!(
            "UPDATE reviewers v SET updated_at = k.updated_at",
            numbered!(),
            " WHERE v.session = ANY(ARRAY[k.number]) AND v.updated_at <> k.updated_at"
        ),
        &[("session_id", Type::BYTEA), ("updated_at", Type::INT8)],
        reviewed.map(|write| vec![write.id(), write.summary.updated_at.into()]).collect(),
    );
    let changes: Vec<_> =
        writes.iter().flat_map(|write| write.by_turns().0.into_iter().map(|change| (*write, change))).collect();
    changed(&mut statement, &changes);
    statement
}

/// Adds changes of the index of interruptions.
pub(super) fn changed(statement: &mut Joined, changes: &[(&Write, &Change)]) {
    let (mut asked, mut reminded, mut reassigned, mut resolved, mut reviewers) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (write, change) in changes {
        match change {
            Change::Asked(row) => {
                asked.push(write.asked(row));
                reviewers.extend(write.reviewer(&row.role));
            }
            Change::Reminded { n, next } => reminded.push(vec![write.id(), (*n).into(), (*next).into()]),
            Change::Reassigned { n, role } => {
                reassigned.push(vec![write.id(), (*n).into(), role.as_str().into()]);
                reviewers.extend(write.reviewer(role));
            }
            Change::Resolved { n, resolution, at, pos } => {
                let how = Value::Word(resolution_name(*resolution));
                resolved.push(vec![write.id(), (*n).into(), how, (*at).into(), int(*pos).into()]);
            }
            Change::RuleMade(_) | Change::RuleRevoked { .. } => {}
        }
    }
    statement.common(ASK, ASKED, asked);
    statement.part(
        concat!("UPDATE interruptions i SET remind_at = k.next, seen_to = NULL", of_sessions!()),
        &[("session_id", Type::BYTEA), ("n", Type::INT8), ("next", Type::INT8)],
        reminded,
    );
    statement.part(
        concat!("UPDATE interruptions i SET role = k.role", of_sessions!()),
        &[("session_id", Type::BYTEA), ("n", Type::INT8), ("role", Type::BYTEA)],
        reassigned,
    );
    // Not `resolution IS NULL`: the planner might also use an index of all pending ones.
    statement.common(
        concat!(
            "UPDATE interruptions i SET resolution = k.how, resolved_at = k.at, resolved_pos = k.pos",
            of_sessions!(),
            " AND coalesce(i.resolution, '') = ''"
        ),
        &[("session_id", Type::BYTEA), ("n", Type::INT8), ("how", Type::TEXT), ("at", Type::INT8), ("pos", Type::INT8)],
        resolved,
    );
    statement.list(
        "INSERT INTO reviewers (session, role, session_id, tenant, updated_at)
         SELECT s.number, r.role, s.id, r.tenant, r.updated_at FROM s JOIN ? ON r.session_id = s.id
         ON CONFLICT (session, role) DO NOTHING",
        &[("session_id", Type::BYTEA), ("role", Type::BYTEA), ("tenant", Type::BYTEA), ("updated_at", Type::INT8)],
        reviewers,
    );
}

/// Stores audit records; see [`chain`].
fn tell(statement: &mut Joined, writes: &[&Write]) {
    let told = writes.iter().flat_map(|write| {
        let of = || tenant(write.summary.tenant.as_deref()).into();
        write.told.iter().map(move |body| (write.id(), body.as_str().into(), of()))
    });
    let rows = told.zip(0_i64..).map(|((session, body, of), place)| vec![session, place.into(), body, of]);
    statement.list(
        "INSERT INTO audit_queue (body, tenant) SELECT r.body, r.tenant FROM s JOIN ? ON r.session_id = s.id ORDER BY r.place",
        &[("session_id", Type::BYTEA), ("place", Type::INT8), ("body", Type::BYTEA), ("tenant", Type::BYTEA)],
        rows.collect(),
    );
}

/// The sessions of the rows that it returns, with the leases.
pub(super) fn stored(rows: &[Row]) -> Result<HashMap<&[u8], Option<Epoch>>, Undone> {
    rows.iter().map(|row| Ok((row.try_get(1)?, lease_of(row)?))).collect()
}

/// The lease in a row of [`MAKE`] or [`MOVE`].
pub(super) fn lease_of(row: &Row) -> Result<Option<Epoch>, Undone> {
    let lease = row.try_get::<_, Option<i64>>(2)?;
    Ok(lease.map(|epoch| count(epoch).map(Epoch)).transpose()?)
}

/// Numbers as the text of an array: an array of arrays would not be one row for each.
fn array(numbers: &[InterruptionNo]) -> Value {
    let numbers: Vec<_> = numbers.iter().map(|n| n.get().to_string()).collect();
    Value::text(format!("{{{}}}", numbers.join(",")))
}
