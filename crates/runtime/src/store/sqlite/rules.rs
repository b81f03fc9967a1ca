//! Standing rules: how the journal's records change them, and how they are read.

use std::sync::Arc;

use countersign_core::{approval::rule::RuleId, journal::record::Millis};
use rusqlite::{Connection, Row, params, params_from_iter, types::Value};

use super::{
    super::{
        Page, Paged, RuleFilter, RuleOwner, RuleRow, StoreError,
        page::{self, Key, RULES_EACH, rule_number},
        seal::Place,
    },
    list::{Query, visible},
    schema::key,
    sealing::{Values, column},
    statement::{all, run},
};

const SELECT: &str =
    "SELECT s.id, s.subject, r.body, r.key & 4294967295, r.action, r.made_at, r.revoked_at, r.revoked_by, s.tenant, s.created_at, r.key
 FROM rules r CROSS JOIN sessions s ON s.row = r.key >> 32";

/// A rule stands; what it replaces does not any more.
pub(super) fn make(
    conn: &Connection,
    values: &Values,
    session: i64,
    row: &RuleRow,
    body: &Value,
) -> Result<(), StoreError> {
    let rule = &row.rule;
    for older in replaceable(conn, values, session, row)? {
        if row.replaces(&older.1) {
            run(
                conn,
                "UPDATE rules SET revoked_at = ?3, revoked_by = ?4 WHERE key = ?1 AND action = ?2",
                params![older.0, older.1.id.action, row.made_at, rule.by],
            )?;
        }
    }
    run(
        conn,
        "INSERT OR REPLACE INTO rules (key, action, agent, tool, everywhere, role, made_by, body, made_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            key(session, u64::from(row.id.n))?,
            row.id.action,
            rule.agent,
            rule.tool,
            rule.everywhere,
            rule.role,
            rule.by,
            body,
            row.made_at
        ],
    )?;
    Ok(())
}

/// Standing rules for the same tool of the same agent, with their keys.
fn replaceable(
    conn: &Connection,
    values: &Values,
    session: i64,
    row: &RuleRow,
) -> Result<Vec<(i64, RuleRow)>, StoreError> {
    let sql = format!(
        "{SELECT} WHERE r.revoked_at IS NULL AND r.tool = ?1 AND r.agent = ?2 AND r.everywhere = ?3
         AND (?3 OR r.key >> 32 = ?4)"
    );
    let of = params![row.rule.tool, row.rule.agent, row.rule.everywhere, session];
    let stored = all(conn, &sql, of, |r| Ok((r.get(10)?, stored(r)?)))?;
    stored.into_iter().map(|(key, stored)| Ok((key, stored.open(values)?))).collect()
}

/// A rule does not stand any more.
pub(super) fn revoke(
    conn: &Connection,
    session: i64,
    id: RuleId,
    at: Millis,
    by: Option<&Arc<str>>,
) -> Result<(), StoreError> {
    run(
        conn,
        "UPDATE rules SET revoked_at = ?3, revoked_by = ?4 WHERE key = ?1 AND action = ?2 AND revoked_at IS NULL",
        params![key(session, u64::from(id.n))?, id.action, at, by],
    )?;
    Ok(())
}

/// Whether any rule is for more than its session.
pub(super) fn any(conn: &Connection) -> Result<bool, StoreError> {
    let found: Vec<()> = all(conn, "SELECT 1 FROM rules WHERE everywhere LIMIT 1", [], |_| Ok(()))?;
    Ok(!found.is_empty())
}

/// See [`super::super::Store::standing`].
pub(super) fn standing(
    conn: &Connection,
    values: &Values,
    of: &RuleOwner,
    agent: &str,
    tool: &str,
) -> Result<Vec<RuleRow>, StoreError> {
    let sql = format!(
        "{SELECT} WHERE r.revoked_at IS NULL AND r.everywhere AND r.tool = ?1 AND r.agent = ?2 AND s.subject IS ?3 AND s.tenant IS ?4
         ORDER BY r.made_at, r.key, r.action"
    );
    opened(values, all(conn, &sql, params![tool, agent, of.subject, of.tenant], stored)?)
}

/// See [`super::super::Store::rules`].
pub(super) fn list(
    conn: &Connection,
    values: &Values,
    filter: RuleFilter,
    page: &Page,
) -> Result<Paged<RuleRow>, StoreError> {
    let start = page::start::<RuleRow>(page)?;
    let RuleFilter { standing, session_id, id, visible_to } = filter;
    let mut query = Query::default();
    match standing {
        Some(true) => query.and("r.revoked_at IS NULL", []),
        Some(false) => query.and("r.revoked_at IS NOT NULL", []),
        None => {}
    }
    if let Some(session_id) = session_id {
        query.and("s.id = ?", [session_id.into()]);
    }
    if let Some(RuleId { n, action }) = id {
        query.and("r.key & 4294967295 = ? AND r.action = ?", [i64::from(n).into(), i64::from(action).into()]);
    }
    if let Some(who) = visible_to {
        let [tenant, subject, roles]: [Value; 3] = visible(&who);
        query.and(
            "s.tenant IS ? AND (s.subject = ? OR r.made_by = ? OR r.role IN (SELECT value FROM json_each(?)))",
            [tenant, subject.clone(), subject, roles],
        );
    }
    if let Some(Key { at, session_id, n }) = start {
        let place = "(r.made_at, s.id, min((r.key & 4294967295) * 256 + r.action, 4294967295)) < (?, ?, ?)";
        const { assert!(RULES_EACH == 256) };
        query.and(place, [at.into(), session_id.into(), i64::from(n).into()]);
    }
    let sql = query.sql(SELECT, "r.made_at DESC, s.id DESC, r.key DESC, r.action DESC", page);
    let rows = all(conn, &sql, params_from_iter(query.values), stored)?;
    Ok(page::cut(opened(values, rows)?, page))
}

/// A row whose rule is not opened yet.
struct Stored {
    session_id: Arc<str>,
    subject: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
    /// When the session was made.
    born: Millis,
    body: Value,
    id: RuleId,
    made_at: Millis,
    revoked_at: Option<Millis>,
    revoked_by: Option<Arc<str>>,
}

impl Stored {
    fn open(self, values: &Values) -> Result<RuleRow, StoreError> {
        let Stored { session_id, subject, tenant, born, body, id, made_at, revoked_at, revoked_by } = self;
        let place = Place::Rule { session: &session_id, born, n: rule_number(id) };
        let text = values.read_text(place, body)?;
        let rule = serde_json::from_str(&text).map_err(|e| StoreError::Corrupt(format!("{place} {e}")))?;
        Ok(RuleRow { session_id, subject, tenant, rule, id, made_at, revoked_at, revoked_by })
    }
}

fn opened(values: &Values, rows: Vec<Stored>) -> Result<Vec<RuleRow>, StoreError> {
    rows.into_iter().map(|stored| stored.open(values)).collect()
}

fn stored(r: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        session_id: r.get(0)?,
        subject: r.get(1)?,
        body: column(r, 2)?,
        id: RuleId { n: r.get(3)?, action: r.get(4)? },
        made_at: r.get(5)?,
        revoked_at: r.get(6)?,
        revoked_by: r.get(7)?,
        tenant: r.get(8)?,
        born: r.get(9)?,
    })
}
