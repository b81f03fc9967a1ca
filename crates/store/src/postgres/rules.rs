//! Standing rules: how the journal's records change them, and how they are read. Only the body is trusted; the columns
//! beside it are for searching, and what they find is checked against it.

use std::sync::Arc;

use countersign_core::{approval::rule::RuleId, journal::record::Millis, number::InterruptionNo};
use tokio_postgres::Row;

use super::{
    super::{
        Page, Paged, RuleFilter, RuleName, RuleOwner, RuleRow, StoreError,
        index::Change,
        page::{self, Key},
        sql::json,
    },
    connect::{Link, error},
    flight::{Value, ask},
    list::{Query, merged, number, roles, wanted},
    reads::{Answer, Read, nth},
    rows::{get, get_text, readable, small, tenant},
    transaction::{Transaction, Undone},
};

/// A rule, and the format of its session's records.
macro_rules! select {
    ($($from:literal),*) => {
        concat!(
            "SELECT r.session_id, r.interruption, r.action, r.body, r.session,
             (SELECT s.format FROM sessions s WHERE s.number = r.session), r.made_at, r.number FROM rules r"
            $(, $from)*
        )
    };
}
const SELECT: &str = select!("");
macro_rules! standing {
    ($of:literal) => {
        select!(
            " WHERE r.scope <> 'session' AND r.revoked_at IS NULL AND r.tenant = asked.tenant AND r.tool = asked.tool
               AND r.agent = asked.agent AND ",
            $of
        )
    };
}
/// For each that is asked for, a subject's rules for all sessions, by their index; without a subject, those of sessions without
/// one. With OFFSET they are looked up for each, and not joined: that could read all rules.
pub(super) const STANDING: &str = concat!(
    "SELECT r.*, asked.nth FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) WITH ORDINALITY
       AS asked (tenant, subject, tool, agent, nth)
     CROSS JOIN LATERAL (",
    standing!("r.subject = asked.subject"),
    " UNION ALL ",
    standing!("r.subject IS NULL AND asked.subject IS NULL"),
    " OFFSET 0) r ORDER BY r.made_at, r.session, r.interruption, r.action"
);
/// Those of one session.
const OF_SESSION: &str = select!(
    " WHERE r.session = $1 AND r.scope = 'session' AND r.revoked_at IS NULL AND r.tool = $2 AND r.agent = $3
 ORDER BY r.interruption, r.action"
);
const ONE: &str = select!(" WHERE r.session = $1 AND r.interruption = $2 AND r.action = $3");
const MAKE: &str = "INSERT INTO rules
 (session, interruption, action, number, session_id, subject, tenant, agent, tool, scope, role, made_by, body, made_at, until,
  revoked_at)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

/// Locked, so that it is not revoked before the commit.
const HOLD: &str = select!(
    " WHERE r.session = (SELECT number FROM sessions WHERE id = $1) AND r.interruption = $2 AND r.action = $3 FOR SHARE OF r"
);

/// Locks rules until the commit; all must be in force.
pub(super) async fn hold(on: &Transaction, names: &[RuleName], now: Millis, knows: u32) -> Result<(), Undone> {
    for (session_id, id) in names {
        let held = on.ask(HOLD, vec![(&**session_id).into(), id.n.into(), id.action.into()]).await?.pop();
        let held = match held.map(|row| opened(&row, knows)).transpose() {
            // A newer build has stored something in its session since: it is judged again, and not applied.
            Err(StoreError::Newer { .. }) => None,
            held => held?,
        };
        if !held.is_some_and(|row| row.is_in_force(now)) {
            return Err(StoreError::Outdated.into());
        }
    }
    Ok(())
}

/// Makes or revokes a rule.
pub(super) async fn apply(
    on: &Transaction,
    (session, of): (i64, &str),
    change: &Change,
    knows: u32,
) -> Result<(), Undone> {
    match change {
        Change::RuleMade(row) => make(on, session, row, knows).await,
        Change::RuleRevoked { id, at, by } => revoke(on, (session, of), *id, (*at, by.as_ref()), knows).await,
        _ => Ok(()),
    }
}

/// Adds a rule, and ends those it replaces.
async fn make(on: &Transaction, session: i64, row: &RuleRow, knows: u32) -> Result<(), Undone> {
    let rule = &row.rule;
    for stored in replaceable(on, session, row).await? {
        match opened(&stored, knows) {
            Ok(older) if row.replaces(&older) => {
                end(on, get(&stored, 4)?, older, row.made_at, rule.by.as_ref()).await?
            }
            Ok(_) => {}
            // A rule that cannot be read is never applied, so there is nothing to replace: it must not block the new
            // one.
            Err(e) => tracing::warn!("{e}; it is not replaced"),
        }
    }
    on.ask(MAKE, made(session, row)?).await.map(drop)
}

/// Stores a rule of another store as it is.
#[cfg(feature = "sqlite")]
pub(super) fn keep(flight: &mut super::flight::Flight, session: i64, row: &RuleRow) -> Result<(), StoreError> {
    flight.add(MAKE, made(session, row)?);
    Ok(())
}

/// The values of a rule's row.
fn made(session: i64, row: &RuleRow) -> Result<Vec<Value>, StoreError> {
    let rule = &row.rule;
    Ok(vec![
        session.into(),
        rule.id.n.into(),
        rule.id.action.into(),
        row.number().into(),
        (&*row.session_id).into(),
        row.subject.as_deref().into(),
        tenant(row.tenant.as_deref()).into(),
        (&*rule.agent).into(),
        (&*rule.tool).into(),
        Value::Word(rule.scope.name()),
        rule.role.role().into(),
        rule.by.as_deref().into(),
        json(row)?.into_bytes().into(),
        row.made_at.into(),
        rule.until.into(),
        row.revoked_at.into(),
    ])
}

/// Rules for the same tool of the same agent, of the same user or the same session.
async fn replaceable(on: &Transaction, session: i64, row: &RuleRow) -> Result<Vec<Row>, Undone> {
    let rule = &row.rule;
    if rule.is_everywhere() {
        let asked = (row.tenant.as_deref(), row.subject.as_deref(), &*rule.tool, &*rule.agent);
        return on.ask(STANDING, standing([asked].into_iter())).await;
    }
    on.ask(OF_SESSION, vec![session.into(), (&*rule.tool).into(), (&*rule.agent).into()]).await
}

/// The values of [`STANDING`]: a tenant, a subject, a tool and an agent for each that is asked for.
pub(super) fn standing<'a>(
    asked: impl Iterator<Item = (Option<&'a str>, Option<&'a str>, &'a str, &'a str)>,
) -> Vec<Value> {
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let rows =
        asked.map(|(of, subject, tool, agent)| [Some(tenant(of)), subject.and_then(bytes), bytes(tool), bytes(agent)]);
    let mut columns = [const { Vec::new() }; 4];
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    columns.into_iter().map(Value::Many).collect()
}

/// Revokes a rule.
async fn revoke(
    on: &Transaction,
    (session, of): (i64, &str),
    id: RuleId,
    (at, by): (Millis, Option<&Arc<str>>),
    knows: u32,
) -> Result<(), Undone> {
    let found = on.ask(ONE, vec![session.into(), id.n.into(), id.action.into()]).await?.pop();
    let Some(stored) = found else { return Ok(()) };
    match opened(&stored, knows) {
        Ok(row) if row.revoked_at.is_none() => end(on, session, row, at, by).await,
        Ok(_) => Ok(()),
        Err(e) => {
            // An unreadable rule is never applied, and not read again.
            tracing::warn!("{e}; {} is revoked unread", id.name(of));
            let sql = "UPDATE rules SET revoked_at = $4 WHERE session = $1 AND interruption = $2 AND action = $3";
            on.ask(sql, vec![session.into(), id.n.into(), id.action.into(), at.into()]).await.map(drop)
        }
    }
}

/// Rewrites a rule as ended.
async fn end(on: &Transaction, session: i64, row: RuleRow, at: Millis, by: Option<&Arc<str>>) -> Result<(), Undone> {
    let row = RuleRow { revoked_at: Some(at), revoked_by: by.cloned(), ..row };
    let id = row.rule.id;
    let sql = "UPDATE rules SET revoked_at = $4, body = $5 WHERE session = $1 AND interruption = $2 AND action = $3";
    let body = json(&row)?.into_bytes();
    on.ask(sql, vec![session.into(), id.n.into(), id.action.into(), at.into(), body.into()]).await.map(drop)
}

/// A tool of an agent, whose standing rules for an owner are wanted: see [`super::super::Store::standing`].
pub(super) struct StandingFor {
    pub(super) of: RuleOwner,
    pub(super) agent: Arc<str>,
    pub(super) tool: Arc<str>,
    /// The format of records that this node knows.
    pub(super) knows: u32,
}

impl Read for StandingFor {
    type Found = Vec<RuleRow>;

    async fn all(on: &Link, wanted: &[&StandingFor]) -> Result<Vec<Answer<StandingFor>>, StoreError> {
        let owners = wanted.iter().map(|one| (one.of.tenant.as_deref(), one.of.subject.as_deref()));
        let asked = owners.zip(wanted).map(|((of, subject), one)| (of, subject, &*one.tool, &*one.agent));
        let rows = ask(on, STANDING, standing(asked)).await.map_err(|e| error(&e))?;
        let mut found: Vec<Answer<StandingFor>> = wanted.iter().map(|_| Ok(Vec::new())).collect();
        for row in &rows {
            if let Some((found, one)) = nth(row, 8, &mut found, wanted)?
                && let Ok(rules) = found
            {
                match opened(row, one.knows) {
                    Ok(rule) if rule.applies_to(&one.of, &one.agent, &one.tool) => rules.push(rule),
                    Ok(_) => {}
                    Err(error) => *found = Err(error),
                }
            }
        }
        Ok(found)
    }
}

/// One rule, whether it is in force or not.
pub(super) async fn rule(on: &Link, session_id: &str, id: RuleId, knows: u32) -> Result<Option<RuleRow>, StoreError> {
    let Some(session) = number(on, session_id).await? else { return Ok(None) };
    let rows = ask(on, ONE, vec![session.into(), id.n.into(), id.action.into()]).await.map_err(|e| error(&e))?;
    rows.first().map(|row| opened(row, knows)).transpose()
}

/// See [`super::super::Store::rules`].
pub(super) async fn list(
    on: &Link,
    filter: &RuleFilter,
    page: &Page,
    knows: u32,
) -> Result<Paged<RuleRow>, StoreError> {
    let start = page::start::<RuleRow>(page)?;
    let Some(session) = wanted(on, filter.session_id.as_deref()).await? else {
        return Ok(Paged { rows: Vec::new(), unread: Vec::new(), next: None });
    };
    let queries = queries(filter, session, start.as_ref()).into_iter().map(|query| (query, ORDER)).collect();
    let mut paged = merged(on, queries, page, place, |row| opened(row, knows)).await?;
    paged.rows.retain(|row| filter.matches(row));
    Ok(paged)
}

pub(super) const ORDER: &str = "r.made_at DESC, r.session_id DESC, r.number DESC";

/// The queries of a list of rules. `session` is the number of the one that the filter names.
pub(super) fn queries(filter: &RuleFilter, session: Option<i64>, start: Option<&Key>) -> Vec<Query> {
    let RuleFilter { standing, now, everywhere, session_id: _, id, visible_to } = filter;
    let all = || Query::new(SELECT);
    let mut queries = Vec::new();
    if let Some(session) = session {
        let mut query = all().with("r.session = ?", [session.into()]);
        if let Some(who) = visible_to {
            let subject = || Value::from(who.subject.as_deref());
            let values = [tenant(who.tenant.as_deref()).into(), subject(), subject(), roles(who)];
            query.and("r.tenant = ? AND (r.subject = ? OR r.made_by = ? OR r.role = ANY(?))", values);
        }
        queries.push(query);
    } else if let Some(who) = visible_to {
        let tenant = || Value::from(tenant(who.tenant.as_deref()));
        if let Some(subject) = &who.subject {
            let own = || [tenant(), subject.as_str().into()];
            queries.push(all().with("r.tenant = ? AND r.subject = ?", own()));
            queries.push(all().with("r.tenant = ? AND r.made_by = ?", own()));
        }
        for role in who.reviewing() {
            queries.push(all().with("r.tenant = ? AND r.role = ?", [tenant(), role.as_str().into()]));
        }
    } else {
        queries.push(all());
    }
    for query in &mut queries {
        match standing {
            Some(true) => query.and("r.revoked_at IS NULL AND (r.until IS NULL OR r.until > ?)", [(*now).into()]),
            Some(false) => query.and("(r.revoked_at IS NOT NULL OR r.until <= ?)", [(*now).into()]),
            None => {}
        }
        if let Some(everywhere) = everywhere {
            query.and("(r.scope <> 'session') = ?", [(*everywhere).into()]);
        }
        if let Some(RuleId { n, action }) = *id {
            query.and("r.interruption = ? AND r.action = ?", [n.into(), action.into()]);
        }
        if let Some(Key { at, session_id, n }) = start {
            let place = [(*at).into(), session_id.as_str().into(), (*n).into()];
            query.and("(r.made_at, r.session_id, r.number) < (?, ?, ?)", place);
        }
    }
    queries
}

fn place(r: &Row) -> Result<Key, StoreError> {
    Ok(Key { at: get(r, 6)?, session_id: get_text(r, 0)?.to_string(), n: small(get(r, 7)?)? })
}

/// The rule of a row.
fn opened(stored: &Row, knows: u32) -> Result<RuleRow, StoreError> {
    let session_id = get_text(stored, 0)?;
    // The part that this build does not know may be what limits it.
    readable(stored, 5, &session_id, knows)?;
    let id = RuleId { n: InterruptionNo::new(small(get(stored, 1)?)?), action: small(get(stored, 2)?)? };
    let name = id.name(&session_id);
    let row: RuleRow =
        serde_json::from_slice(get(stored, 3)?).map_err(|e| StoreError::Corrupt(format!("rule {name}: {e}")))?;
    if row.session_id != session_id || row.rule.id != id {
        let other = row.rule.id.name(&row.session_id);
        return Err(StoreError::Corrupt(format!("rule {name}: it says that it is {other}")));
    }
    Ok(row)
}
