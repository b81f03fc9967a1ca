//! The effect of one append or deletion on the tables.

use std::sync::Arc;

use countersign_core::{
    audit::{self, Anchor},
    call::reviewer::Reviewer,
    journal::{checkpoint::FOLD_VERSION, record::Millis, state::Status},
};
use rusqlite::{Connection, params, types::Value};

use super::{
    super::{
        Append, Durability, Guards, InterruptionRow, StoreError, Summary,
        index::{self, Change, Claim},
        machine_time,
        seal::Place,
        sql::{json, resolution_name},
    },
    rows, rules, running,
    schema::key,
    sealing::{Ending, Values},
    statement::{find, run},
    unfinished,
};
use crate::sql::int;

/// An append with its texts serialised and sealed, so that the writer only writes.
#[derive(Debug)]
pub(super) struct Write {
    session_id: Arc<str>,
    expected: u64,
    /// The number under which the past was copied, if this ends a fork.
    copied: Option<i64>,
    /// The highest format of its entries.
    format: u32,
    bodies: Vec<Value>,
    summary: Summary,
    title: Option<Value>,
    pending: String,
    snapshot: Option<Value>,
    claims: Vec<Claim>,
    changes: Vec<Indexed>,
    /// The bodies of the audit records, which are sealed when they get their numbers.
    told: Vec<String>,
    /// Whether a role was ever asked in it, so that the role's list has it too.
    reviewed: bool,
    guards: Guards,
    pub(super) durability: Durability,
}

/// A session's row, before an append.
struct Known {
    row: i64,
    status: String,
    updated_at: Millis,
}

#[derive(Debug)]
struct Indexed {
    change: Change,
    /// Its JSON: the tools of an interruption, or a rule.
    json: Value,
}

impl Write {
    /// Serialises an append.
    pub(super) fn of(append: &Append, values: &Values) -> Result<Write, StoreError> {
        index::check(append)?;
        let Append { session_id, before, entries, after, snapshot, durability, guards } = append;
        let expected = append.expected();
        let summary = Summary::of(after);
        let (session, born) = (&**session_id, summary.created_at);
        let body = |entry: &Arc<_>, pos| values.text(Place::Entry { session, born, pos }, json(entry)?);
        let changes = index::changes(after, entries).into_iter().map(|change| {
            let json = match &change {
                Change::Asked(row) => Value::Text(json(&row.tools)?),
                Change::RuleMade(row) => rules::body(values, born, row)?,
                _ => Value::Null,
            };
            Ok(Indexed { change, json })
        });
        let ending = Ending { pos: after.pos, title: summary.title.as_deref() };
        let title = values.head(session, born, &ending)?;
        let snapshot = snapshot.then(|| values.text(Place::Snapshot { session, born }, json(after)?));
        Ok(Write {
            session_id: session_id.clone(),
            expected,
            copied: None,
            format: entries.iter().map(|entry| entry.format()).max().unwrap_or_default(),
            bodies: entries.iter().zip(expected + 1..).map(|(e, pos)| body(e, pos)).collect::<Result<_, _>>()?,
            title,
            pending: json(&summary.pending)?,
            summary,
            snapshot: snapshot.transpose()?,
            claims: index::claims(entries),
            changes: changes.collect::<Result<_, StoreError>>()?,
            told: audit::events(before, entries).iter().map(audit::Event::body).collect(),
            reviewed: !after.reviewers.is_empty(),
            guards: guards.clone(),
            durability: *durability,
        })
    }

    /// The same for a new session whose past was copied under this number, with entries up to this format.
    pub(super) fn after_copy(mut self, number: i64, format: u32) -> Write {
        self.copied = Some(number);
        self.format = self.format.max(format);
        self
    }

    /// Whether it makes a rule that applies to more than its session.
    pub(super) fn makes_standing_rule(&self) -> bool {
        self.changes.iter().any(|i| matches!(&i.change, Change::RuleMade(row) if row.rule.is_everywhere()))
    }

    /// Roughly how many bytes it writes.
    pub(super) fn size(&self) -> usize {
        let told: usize = self.told.iter().map(String::len).sum();
        told + self.bodies.iter().chain(&self.snapshot).map(rows::length).sum::<usize>()
    }

    /// Writes it. After an error it may be half written: the caller rolls back.
    pub(super) fn apply(&self, conn: &Connection, values: &Values) -> Result<(), StoreError> {
        let session = self.check(conn)?;
        let now = machine_time();
        self.guards.check_time(now)?;
        rules::check(conn, values, &self.guards.rules, now)?;
        let Summary { agent, subject, tenant, status, created_at, updated_at, .. } = &self.summary;
        let (last, title) = (self.last()?, &self.title);
        let session = match session {
            Some(known) => {
                self.update(conn, &known)?;
                known.row
            }
            None => {
                let id = &self.session_id;
                let pending = &self.pending;
                let row = match self.copied {
                    None => unfinished::number(conn)?,
                    Some(number) if unfinished::end(conn, number)? => number,
                    Some(_) => return Err(StoreError::Failed("the copied past is not there".to_owned())),
                };
                let values = params![
                    row,
                    id,
                    last,
                    agent,
                    subject,
                    tenant,
                    title,
                    status.name(),
                    created_at,
                    updated_at,
                    pending,
                    self.format
                ];
                if *status == Status::Running {
                    running::mark(conn, row)?;
                }
                run(
                    conn,
                    "INSERT INTO sessions
                     (number, id, pos, agent, subject, tenant, title, status, created_at, updated_at, pending, format)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                    values,
                )?;
                row
            }
        };
        for (body, pos) in self.bodies.iter().zip(self.expected + 1..) {
            run(conn, "INSERT INTO entries (key, body) VALUES (?1, ?2)", params![key(session, pos)?, body])?;
        }
        if let Some(snapshot) = &self.snapshot {
            let sql = "INSERT OR REPLACE INTO snapshots (session, version, pos, body) VALUES (?1, ?2, ?3, ?4)";
            run(conn, sql, params![session, FOLD_VERSION, last, snapshot])?;
        }
        for Claim { request_id, purpose } in &self.claims {
            let (by, fingerprint) = (rows::sent_by(request_id), request_id.fingerprint());
            let sql = "INSERT OR REPLACE INTO request_ids (session, id, sent_by, purpose, fingerprint)
                       VALUES (?1, ?2, ?3, ?4, ?5)";
            run(conn, sql, params![session, request_id.id(), by, purpose.kind(), fingerprint])?;
        }
        self.changes.iter().try_for_each(|indexed| indexed.apply(conn, session, &self.summary, values))?;
        tell(conn, values, self.summary.tenant.as_deref(), &self.told)
    }

    /// Updates a session's row. SQLite rewrites each index of which a column is assigned, changed or not, and with it a
    /// page of the log.
    fn update(&self, conn: &Connection, known: &Known) -> Result<(), StoreError> {
        let Summary { agent, status, updated_at, .. } = &self.summary;
        let values = params![known.row, self.last()?, agent, self.title, self.pending, self.format];
        let sql = "UPDATE sessions SET pos = ?2, agent = ?3, title = ?4, pending = ?5, format = max(format, ?6)
                   WHERE number = ?1";
        run(conn, sql, values)?;
        if known.status != status.name() {
            run(conn, "UPDATE sessions SET status = ?2 WHERE number = ?1", params![known.row, status.name()])?;
            if *status == Status::Running {
                running::mark(conn, known.row)?;
            }
        }
        if known.updated_at != *updated_at {
            run(conn, "UPDATE sessions SET updated_at = ?2 WHERE number = ?1", params![known.row, updated_at])?;
            if self.reviewed {
                let used = "UPDATE reviewers SET updated_at = ?2 WHERE session = ?1";
                run(conn, used, params![known.row, updated_at])?;
            }
        }
        Ok(())
    }

    /// The session's row, if it is at the expected position and the request ids are new.
    fn check(&self, conn: &Connection) -> Result<Option<Known>, StoreError> {
        let sql = "SELECT pos, number, status, updated_at FROM sessions WHERE id = ?1";
        let found: Option<(i64, Known)> = find(conn, sql, [&*self.session_id], |r| {
            Ok((r.get(0)?, Known { row: r.get(1)?, status: r.get(2)?, updated_at: r.get(3)? }))
        })?;
        let session = match found {
            None => {
                rows::check_not_deleted(conn, &self.session_id)?;
                if self.expected > 0 && self.copied.is_none() {
                    return Err(StoreError::Conflict);
                }
                None
            }
            Some((pos, known))
                if self.copied.is_none() && self.expected > 0 && u64::try_from(pos) == Ok(self.expected) =>
            {
                Some(known)
            }
            _ => return Err(StoreError::Conflict),
        };
        index::admit(&self.claims, |id| {
            let Some(session) = session.as_ref().map(|known| known.row) else { return Ok(None) };
            let sql = "SELECT purpose, fingerprint FROM request_ids WHERE session = ?1 AND id = ?2 AND sent_by = ?3";
            find(conn, sql, params![session, id.id(), rows::sent_by(id)], rows::purpose)
        })?;
        Ok(session)
    }

    fn last(&self) -> Result<i64, StoreError> {
        key(0, self.expected + self.bodies.len() as u64)
    }
}

impl Indexed {
    fn apply(&self, conn: &Connection, session: i64, of: &Summary, values: &Values) -> Result<(), StoreError> {
        match &self.change {
            Change::Asked(row) => {
                let InterruptionRow { n, role, agent, asked_at, expires_at, remind_at, asked_pos, .. } = row;
                let InterruptionRow { tenant, subject, .. } = row;
                let (key, asked_pos) = (key(session, u64::from(n.get()))?, key(0, *asked_pos)?);
                run(
                    conn,
                    "INSERT OR REPLACE INTO interruptions
                     (key, tenant, subject, role, agent, tools, asked_at, expires_at, remind_at, asked_pos)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    params![key, tenant, subject, role, agent, self.json, asked_at, expires_at, remind_at, asked_pos],
                )?;
                reviewer(conn, session, of, role)?;
            }
            Change::Reminded { n, next } => {
                let key = key(session, u64::from(n.get()))?;
                run(conn, "UPDATE interruptions SET remind_at = ?2 WHERE key = ?1", params![key, next])?;
            }
            Change::Reassigned { n, role } => {
                let key = key(session, u64::from(n.get()))?;
                run(conn, "UPDATE interruptions SET role = ?2 WHERE key = ?1", params![key, role])?;
                reviewer(conn, session, of, role)?;
            }
            Change::RuleMade(row) => rules::make(conn, values, session, row, &self.json)?,
            Change::RuleRevoked { id, at, by } => rules::revoke(conn, values, session, *id, *at, by.as_ref())?,
            Change::Resolved { n, resolution, at, pos } => {
                let (key, pos) = (key(session, u64::from(n.get()))?, key(0, *pos)?);
                run(
                    conn,
                    "UPDATE interruptions SET resolution = ?2, resolved_at = ?3, resolved_pos = ?4
                     WHERE key = ?1 AND resolution IS NULL",
                    params![key, resolution_name(*resolution), at, pos],
                )?;
            }
        }
        Ok(())
    }
}

/// Whether the id is free for a new session.
pub(super) fn check_free(conn: &Connection, session_id: &str) -> Result<(), StoreError> {
    rows::check_not_deleted(conn, session_id)?;
    match find(conn, "SELECT 1 FROM sessions WHERE id = ?1", [session_id], |_| Ok(()))? {
        Some(()) => Err(StoreError::Conflict),
        None => Ok(()),
    }
}

/// Lists the session for those who hold the role. Its owner finds it by its subject.
fn reviewer(conn: &Connection, session: i64, of: &Summary, role: &str) -> Result<(), StoreError> {
    if Reviewer::is_owner_name(role) {
        return Ok(());
    }
    let sql = "INSERT OR IGNORE INTO reviewers (session, role, tenant, updated_at) VALUES (?1, ?2, ?3, ?4)";
    run(conn, sql, params![session, role, of.tenant, of.updated_at])?;
    Ok(())
}

/// Adds to the audit log, in the same transaction: nothing happens without its record (spec R8).
fn tell(conn: &Connection, values: &Values, tenant: Option<&str>, told: &[String]) -> Result<(), StoreError> {
    if told.is_empty() {
        return Ok(());
    }
    let newest = "SELECT n, hash, tenants_since FROM audit ORDER BY n DESC LIMIT 1";
    let last: Option<(i64, Vec<u8>, Option<i64>)> = find(conn, newest, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    let (mut last, since) = match last {
        Some((n, hash, since)) => {
            let n = u64::try_from(n).map_err(|_| StoreError::Corrupt(format!("audit record {n} has no number")))?;
            (Anchor { n, hash: hex::encode(rows::audit_hash(values, n, hash)) }, since)
        }
        None => (Anchor::start(), None),
    };
    let since = since.or_else(|| tenant.map(|_| int(last.n + 1)));
    for body in told {
        let n = last.n + 1;
        let hash = audit::hash(&last.hash, n, body);
        let stored = params![
            int(n),
            values.bytes(Place::AuditHash { n }, hash.as_bytes())?,
            values.text(Place::Audit { n }, body.clone())?,
            tenant,
            since,
        ];
        let sql = "INSERT INTO audit (n, hash, body, tenant, tenants_since) VALUES (?1, ?2, ?3, ?4, ?5)";
        run(conn, sql, stored)?;
        last = Anchor { n, hash: hash.to_string() };
    }
    Ok(())
}

/// The deletion of a session, if it ends at the position, where one is given.
pub(super) struct Delete {
    session_id: Box<str>,
    at: Option<u64>,
    tenant: Option<Box<str>>,
    /// The body of its audit record.
    told: Option<String>,
}

impl Delete {
    pub(super) fn of(session_id: &str, at: Option<u64>, told: Option<&audit::Event>) -> Delete {
        let tenant = told.and_then(audit::Event::tenant).map(Into::into);
        Delete { session_id: session_id.into(), at, tenant, told: told.map(audit::Event::body) }
    }

    /// Deletes it with everything except its id. The writer removes its entries and waypoints later, in pieces (see
    /// [`unfinished`](super::unfinished)). Returns its number; `None` if there is no such session, or it ends elsewhere.
    pub(super) fn apply(&self, conn: &Connection, values: &Values) -> Result<Option<i64>, StoreError> {
        let (session_id, at) = (&*self.session_id, self.at);
        let sql = "SELECT number FROM sessions WHERE id = ?1 AND (?2 IS NULL OR pos = ?2)";
        let session: Option<i64> = find(conn, sql, params![session_id, at.map(int)], |r| r.get(0))?;
        let Some(session) = session else { return Ok(None) };
        run(conn, "INSERT INTO deleted_sessions (id) VALUES (?1)", [session_id])?;
        for sql in [
            "DELETE FROM sessions WHERE number = ?1",
            "INSERT INTO unowned_entries (session) VALUES (?1)",
            "DELETE FROM interruptions WHERE key BETWEEN ?1 << 32 AND (?1 << 32 | 4294967295)",
            "DELETE FROM rules WHERE key BETWEEN ?1 << 32 AND (?1 << 32 | 4294967295)",
            "DELETE FROM snapshots WHERE session = ?1",
            "DELETE FROM request_ids WHERE session = ?1",
            "DELETE FROM reviewers WHERE session = ?1",
            "DELETE FROM running_sessions WHERE session = ?1",
        ] {
            run(conn, sql, [session])?;
        }
        tell(conn, values, self.tenant.as_deref(), self.told.as_slice())?;
        Ok(Some(session))
    }
}

/// Writes a page and removes it, to check that there is room.
pub(super) fn probe(conn: &Connection) -> Result<(), StoreError> {
    run(conn, "INSERT OR REPLACE INTO write_probe (only_row, body) VALUES (1, zeroblob(16384))", [])?;
    run(conn, "DELETE FROM write_probe", [])?;
    Ok(())
}
