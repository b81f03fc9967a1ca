//! Standing rules: how the journal's records change them, and how they are read. Only the body is trusted; the plain
//! columns beside it are for searching, and what they find is checked against it.

use std::sync::Arc;

use countersign_core::{approval::rule::RuleId, journal::record::Millis, number::InterruptionNo};
use rusqlite::{Connection, Params, Row, params, types::Value};

use super::{
    super::{
        Page, Paged, RuleFilter, RuleName, RuleOwner, RuleRow, StoreError,
        page::{self, Key, RULES_EACH, rule_number},
        seal::Place,
        sql::json,
    },
    list::{Query, merged, number, text, visible},
    rows::readable,
    schema::key,
    sealing::{Values, column},
    statement::{all, find, run},
};

const SELECT: &str = "SELECT s.id, s.created_at, r.key, r.action, r.body, r.made_at, s.format
 FROM rules r CROSS JOIN sessions s ON s.number = r.key >> 32";
/// A subject's rules for all sessions, by their index.
const STANDING: &str =
    "r.scope <> 'session' AND r.revoked_at IS NULL AND r.subject IS ?1 AND r.tool = ?2 AND r.agent = ?3 AND r.tenant IS ?4
 ORDER BY r.made_at, r.key, r.action";
/// Those of one session, by its range of keys.
const OF_SESSION: &str =
    "r.key BETWEEN ?1 AND ?2 AND r.scope = 'session' AND r.revoked_at IS NULL AND r.tool = ?3 AND r.agent = ?4
 ORDER BY r.key, r.action";

/// Adds a rule, and ends those it replaces.
pub(super) fn make(
    conn: &Connection,
    values: &Values,
    session: i64,
    row: &RuleRow,
    body: &Value,
) -> Result<(), StoreError> {
    let rule = &row.rule;
    for stored in replaceable(conn, session, row)? {
        let key = stored.key;
        let born = stored.born;
        match stored.open(values) {
            Ok(older) if row.replaces(&older) => end(conn, values, key, born, older, row.made_at, rule.by.as_ref())?,
            Ok(_) => {}
            // A rule that cannot be read is never applied, so there is nothing to replace: it must not block the new
            // one.
            Err(e) => tracing::warn!("{e}; it is not replaced"),
        }
    }
    run(
        conn,
        "INSERT OR REPLACE INTO rules
         (key, action, subject, tenant, agent, tool, scope, role, made_by, body, made_at, until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            key(session, u64::from(row.rule.id.n.get()))?,
            row.rule.id.action,
            row.subject,
            row.tenant,
            rule.agent,
            rule.tool,
            rule.scope.name(),
            rule.role.role(),
            rule.by,
            body,
            row.made_at,
            rule.until,
        ],
    )?;
    Ok(())
}

/// Rules for the same tool of the same agent, of the same user or the same session.
fn replaceable(conn: &Connection, session: i64, row: &RuleRow) -> Result<Vec<Stored>, StoreError> {
    let rule = &row.rule;
    if rule.is_everywhere() {
        return select(conn, STANDING, params![row.subject, rule.tool, rule.agent, row.tenant]);
    }
    select(conn, OF_SESSION, params![key(session, 0)?, key(session, u64::from(u32::MAX))?, rule.tool, rule.agent])
}

/// Revokes a rule.
pub(super) fn revoke(
    conn: &Connection,
    values: &Values,
    session: i64,
    id: RuleId,
    at: Millis,
    by: Option<&Arc<str>>,
) -> Result<(), StoreError> {
    let Some(stored) = one(conn, key(session, u64::from(id.n.get()))?, id.action)? else { return Ok(()) };
    let (key, born) = (stored.key, stored.born);
    match stored.open(values) {
        Ok(row) if row.revoked_at.is_none() => end(conn, values, key, born, row, at, by),
        Ok(_) => Ok(()),
        Err(e) => {
            // An unreadable rule is never applied, and not read again.
            tracing::warn!("{e}; it is revoked unread");
            let sql = "UPDATE rules SET revoked_at = ?3 WHERE key = ?1 AND action = ?2";
            run(conn, sql, params![key, id.action, at]).map(drop)
        }
    }
}

/// Rewrites a rule as ended.
fn end(
    conn: &Connection,
    values: &Values,
    key: i64,
    born: Millis,
    row: RuleRow,
    at: Millis,
    by: Option<&Arc<str>>,
) -> Result<(), StoreError> {
    let row = RuleRow { revoked_at: Some(at), revoked_by: by.cloned(), ..row };
    let sql = "UPDATE rules SET revoked_at = ?3, body = ?4 WHERE key = ?1 AND action = ?2";
    run(conn, sql, params![key, row.rule.id.action, at, body(values, born, &row)?]).map(drop)
}

/// The stored body of a rule.
pub(super) fn body(values: &Values, born: Millis, row: &RuleRow) -> Result<Value, StoreError> {
    values.text(Place::Rule { session: &row.session_id, born, n: row.number() }, json(row)?)
}

/// Whether any rule may apply to more than its session.
pub(super) fn any(conn: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM rules WHERE scope <> 'session' AND revoked_at IS NULL LIMIT 1";
    find(conn, sql, [], |_| Ok(())).map(|found| found.is_some())
}

/// See [`super::super::Store::standing`].
pub(super) fn standing(
    conn: &Connection,
    values: &Values,
    of: &RuleOwner,
    agent: &str,
    tool: &str,
) -> Result<Vec<RuleRow>, StoreError> {
    let mut rows = opened(values, select(conn, STANDING, params![of.subject, tool, agent, of.tenant])?)?;
    rows.retain(|row| row.applies_to(of, agent, tool));
    Ok(rows)
}

/// One rule, whether it is in force or not.
pub(super) fn rule(
    conn: &Connection,
    values: &Values,
    session_id: &str,
    id: RuleId,
) -> Result<Option<RuleRow>, StoreError> {
    let Some(session) = number(conn, session_id)? else { return Ok(None) };
    one(conn, key(session, u64::from(id.n.get()))?, id.action)?.map(|stored| stored.open(values)).transpose()
}

/// Whether these rules are in force.
pub(super) fn check(conn: &Connection, values: &Values, names: &[RuleName], now: Millis) -> Result<(), StoreError> {
    for (session_id, id) in names {
        let held = match rule(conn, values, session_id, *id) {
            // A newer build has stored something in its session since: it is judged again, and not applied.
            Err(StoreError::Newer { .. }) => None,
            held => held?,
        };
        if !held.is_some_and(|row| row.is_in_force(now)) {
            return Err(StoreError::Outdated);
        }
    }
    Ok(())
}

/// All rules that were made in a session.
#[cfg(feature = "postgres")]
pub(super) fn of_session(conn: &Connection, values: &Values, session_id: &str) -> Result<Vec<RuleRow>, StoreError> {
    let Some(session) = number(conn, session_id)? else { return Ok(Vec::new()) };
    let range = params![key(session, 0)?, key(session, u64::from(u32::MAX))?];
    opened(values, select(conn, "r.key BETWEEN ?1 AND ?2 ORDER BY r.key, r.action", range)?)
}

/// See [`super::super::Store::rules`].
pub(super) fn list(
    conn: &Connection,
    values: &Values,
    filter: &RuleFilter,
    page: &Page,
) -> Result<Paged<RuleRow>, StoreError> {
    let start = page::start::<RuleRow>(page)?;
    let session = match &filter.session_id {
        None => None,
        Some(id) => match number(conn, id)? {
            None => return Ok(Paged { rows: Vec::new(), unread: Vec::new(), next: None }),
            session => session,
        },
    };
    let queries = queries(filter, session, start.as_ref())?;
    let mut paged = merged(queries, page, |query| {
        query.rows(conn, ORDER, page, |r| {
            let found = stored(r)?;
            let key = Key { at: r.get(5)?, session_id: found.session_id.to_string(), n: rule_number(found.id) };
            Ok((key, found.open(values)))
        })
    })?;
    paged.rows.retain(|row| filter.matches(row));
    Ok(paged)
}

const ORDER: &str = "r.made_at DESC, s.id DESC, r.key DESC, r.action DESC";

/// The queries of a list of rules. `session` is the number of the one that the filter names.
fn queries(filter: &RuleFilter, session: Option<i64>, start: Option<&Key>) -> Result<Vec<Query>, StoreError> {
    let RuleFilter { standing, now, everywhere, session_id, id, visible_to } = filter;
    let by = |index: &str| Query::new(SELECT.replace("rules r", &format!("rules r INDEXED BY {index}")));
    let mut queries = Vec::new();
    if let (Some(session), Some(session_id)) = (session, session_id) {
        let (first, last) = id.map_or((0, u64::from(u32::MAX)), |id| (u64::from(id.n.get()), u64::from(id.n.get())));
        let mut query = by("sqlite_autoindex_rules_1");
        // The id too: by now the number may belong to another session.
        query.and("r.key BETWEEN ? AND ?", [key(session, first)?.into(), key(session, last)?.into()]);
        query.and("s.id = ?", [session_id.clone().into()]);
        if let Some(who) = visible_to {
            let [tenant, subject, roles]: [Value; 3] = visible(who);
            query.and(
                "r.tenant IS ? AND (r.subject = ? OR r.made_by = ? OR r.role IN (SELECT value FROM json_each(?)))",
                [tenant, subject.clone(), subject, roles],
            );
        }
        queries.push(query);
    } else if let Some(who) = visible_to {
        let tenant = text(who.tenant.as_ref());
        if let Some(subject) = &who.subject {
            let own = [tenant.clone(), subject.clone().into()];
            queries.push(by("rules_subject").with("r.tenant IS ? AND r.subject = ?", own.clone()));
            queries.push(by("rules_maker").with("r.tenant IS ? AND r.made_by = ?", own));
        }
        for role in who.reviewing() {
            let held = [tenant.clone(), role.clone().into()];
            queries.push(by("rules_role").with("r.tenant IS ? AND r.role = ?", held));
        }
    } else {
        queries.push(by("rules_made"));
    }
    for query in &mut queries {
        match standing {
            Some(true) => query.and("r.revoked_at IS NULL AND (r.until IS NULL OR r.until > ?)", [(*now).into()]),
            Some(false) => query.and("(r.revoked_at IS NOT NULL OR r.until <= ?)", [(*now).into()]),
            None => {}
        }
        if let Some(everywhere) = everywhere {
            query.and("(r.scope <> 'session') = ?", [i64::from(*everywhere).into()]);
        }
        if let Some(RuleId { n, action }) = *id {
            query.and("r.key & 4294967295 = ? AND r.action = ?", [i64::from(n.get()).into(), i64::from(action).into()]);
        }
        if let Some(Key { at, session_id, n }) = start {
            const { assert!(RULES_EACH == 256) };
            let place = "(r.made_at, s.id, min((r.key & 4294967295) * 256 + r.action, 4294967295)) < (?, ?, ?)";
            query.and("r.made_at <= ?", [(*at).into()]);
            query.and(place, [(*at).into(), session_id.clone().into(), i64::from(*n).into()]);
        }
    }
    Ok(queries)
}

/// A row whose rule is not opened yet.
struct Stored {
    session_id: Arc<str>,
    /// When the session was made.
    born: Millis,
    key: i64,
    id: RuleId,
    body: Value,
    /// The format of the session's entries.
    format: u32,
}

impl Stored {
    fn open(self, values: &Values) -> Result<RuleRow, StoreError> {
        let Stored { session_id, born, id, body, format, .. } = self;
        // The part that this build does not know may be what limits it.
        readable(&session_id, format)?;
        let place = Place::Rule { session: &session_id, born, n: rule_number(id) };
        let text = values.read_text(place, body)?;
        let row: RuleRow = serde_json::from_str(&text).map_err(|e| StoreError::Corrupt(format!("{place} {e}")))?;
        if row.session_id != session_id || row.rule.id != id {
            return Err(StoreError::Corrupt(format!("{place} says that it is {}", row.rule.id.name(&row.session_id))));
        }
        Ok(row)
    }
}

fn select(conn: &Connection, conditions: &str, params: impl Params) -> Result<Vec<Stored>, StoreError> {
    all(conn, &format!("{SELECT} WHERE {conditions}"), params, stored)
}

fn one(conn: &Connection, key: i64, action: u32) -> Result<Option<Stored>, StoreError> {
    find(conn, &format!("{SELECT} WHERE r.key = ?1 AND r.action = ?2"), params![key, action], stored)
}

fn opened(values: &Values, rows: Vec<Stored>) -> Result<Vec<RuleRow>, StoreError> {
    rows.into_iter().map(|stored| stored.open(values)).collect()
}

fn stored(r: &Row<'_>) -> rusqlite::Result<Stored> {
    let key: i64 = r.get(2)?;
    let n = u32::try_from(key & i64::from(u32::MAX)).unwrap_or_default();
    let id = RuleId { n: InterruptionNo::new(n), action: r.get(3)? };
    Ok(Stored { session_id: r.get(0)?, born: r.get(1)?, key, id, body: column(r, 4)?, format: r.get(6)? })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::Visible, schema},
        *,
    };

    /// SQLite's plan for a query, with its parameters unbound.
    fn plan(conn: &Connection, conditions: &str) -> String {
        let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {SELECT} WHERE {conditions}")).expect("a query");
        let mut steps = query.raw_query();
        let mut plan = Vec::new();
        while let Some(step) = steps.next().expect("a step") {
            plan.push(step.get::<_, String>(3).expect("a text"));
        }
        plan.join("; ")
    }

    #[test]
    fn s7_standing_rules_are_found_by_their_owner_and_tool() {
        let dir = tempfile::tempdir().expect("directory");
        let conn = schema::made(&dir.path().join("s.db"));
        for (conditions, by) in [
            (STANDING, "SEARCH r USING INDEX rules_standing (subject=? AND tool=? AND agent=?)"),
            (OF_SESSION, "SEARCH r USING INDEX sqlite_autoindex_rules_1 (key>? AND key<?)"),
            ("r.key = ?1 AND r.action = ?2", "SEARCH r USING INDEX sqlite_autoindex_rules_1 (key=? AND action=?)"),
        ] {
            let plan = plan(&conn, conditions);
            assert!(plan.starts_with(by), "{conditions}: {plan}");
        }
    }

    #[test]
    fn r9_no_list_of_rules_looks_at_rows_of_others() {
        let dir = tempfile::tempdir().expect("directory");
        let conn = schema::made(&dir.path().join("s.db"));
        let start = Key { at: 5, session_id: "s".to_owned(), n: 7 };
        let who = |subject: Option<&str>, roles: &[&str]| Visible {
            subject: subject.map(str::to_owned),
            tenant: None,
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        };
        let people =
            [None, Some(who(Some("ann"), &[])), Some(who(Some("ann"), &["admin", "cfo"])), Some(who(None, &["cfo"]))];
        let mut seen = 0;
        for (visible_to, standing, everywhere, session, started) in combinations(&people) {
            let filter = RuleFilter {
                standing,
                everywhere,
                session_id: session.then(|| "s".to_owned()),
                id: session.then_some(RuleId { n: InterruptionNo::FIRST, action: 0 }),
                visible_to: visible_to.clone(),
                ..RuleFilter::default()
            };
            for query in queries(&filter, session.then_some(1), started.then_some(&start)).expect("queries") {
                let walks = visible_to.is_none() && !session;
                query.check_plan(&conn, ORDER, walks.then_some("SCAN r USING INDEX rules_made"));
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }

    type Combination = (Option<Visible>, Option<bool>, Option<bool>, bool, bool);

    /// Each combination of filters.
    fn combinations(people: &[Option<Visible>]) -> Vec<Combination> {
        let maybe = [None, Some(true), Some(false)];
        let mut all = Vec::new();
        for who in people {
            for standing in maybe {
                for everywhere in maybe {
                    for (session, started) in [(false, false), (false, true), (true, false), (true, true)] {
                        all.push((who.clone(), standing, everywhere, session, started));
                    }
                }
            }
        }
        all
    }
}
