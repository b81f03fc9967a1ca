//! The lists: interruptions and sessions, a page at a time.

use std::sync::Arc;

use countersign_core::journal::state::Status;
use rusqlite::{
    Connection, Row, params_from_iter,
    types::{Type, Value},
};

use super::{
    super::{
        InterruptionFilter, InterruptionRow, Page, Paged, SessionFilter, StoreError, Summary, Visible,
        page::{self, Key},
    },
    schema::key,
    sealing::{Values, column},
    statement::{all, find, resolution},
};

/// A query in the making: its conditions, and their values in order.
#[derive(Default)]
pub(super) struct Query {
    conditions: Vec<&'static str>,
    pub(super) values: Vec<Value>,
}

impl Query {
    pub(super) fn and<const N: usize>(&mut self, condition: &'static str, values: [Value; N]) {
        self.conditions.push(condition);
        self.values.extend(values);
    }

    pub(super) fn sql(&mut self, select: &str, order: &str, page: &Page) -> String {
        let limit = i64::try_from(page::limit(page)).unwrap_or(i64::MAX).saturating_add(1);
        self.values.push(limit.into());
        let (begin, conditions) =
            if self.conditions.is_empty() { ("", String::new()) } else { (" WHERE ", self.conditions.join(" AND ")) };
        format!("{select}{begin}{conditions} ORDER BY {order} LIMIT ?")
    }
}

/// The person's tenant, its name, or one that nobody has, and its roles as JSON.
pub(super) fn visible(who: &Visible) -> [Value; 3] {
    let roles = serde_json::Value::from(who.reviewing().map(String::as_str).collect::<Vec<_>>()).to_string();
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::from);
    [text(&who.tenant), text(&who.subject), roles.into()]
}

const INTERRUPTIONS: &str =
    "SELECT s.id, i.key & 4294967295, s.subject, i.role, i.agent, i.tools, i.asked_at, i.expires_at,
 i.asked_pos, i.resolution, i.resolved_at, i.resolved_pos, s.tenant, i.remind_at
 FROM interruptions i CROSS JOIN sessions s ON s.row = i.key >> 32";

/// See [`super::super::Store::interruption`].
pub(super) fn interruption(conn: &Connection, session_id: &str, n: u32) -> Result<Option<InterruptionRow>, StoreError> {
    let Some(session) = number(conn, session_id)? else { return Ok(None) };
    find(conn, &format!("{INTERRUPTIONS} WHERE i.key = ?1"), [key(session, u64::from(n))?], interruption_row)
}

/// The number of a session, by which its rows are found.
pub(super) fn number(conn: &Connection, session_id: &str) -> Result<Option<i64>, StoreError> {
    find(conn, "SELECT row FROM sessions WHERE id = ?1", [session_id], |r| r.get(0))
}

/// See [`super::super::Store::interruptions`].
pub(super) fn interruptions(
    conn: &mut Connection,
    filter: InterruptionFilter,
    page: &Page,
) -> Result<Paged<InterruptionRow>, StoreError> {
    let start = page::start::<InterruptionRow>(page)?;
    let InterruptionFilter { waiting, role, agent, tool, session_id, visible_to } = filter;
    let mut query = Query::default();
    match waiting {
        Some(true) => query.and("i.resolution IS NULL", []),
        Some(false) => query.and("i.resolution IS NOT NULL", []),
        None => {}
    }
    if let Some(role) = role {
        query.and("i.role = ?", [role.into()]);
    }
    if let Some(agent) = agent {
        query.and("i.agent = ?", [agent.into()]);
    }
    if let Some(tool) = tool {
        query.and("EXISTS (SELECT 1 FROM json_each(i.tools) t WHERE t.value = ?)", [tool.into()]);
    }
    if let Some(session_id) = session_id {
        let Some(session) = number(conn, &session_id)? else { return Ok(Paged { rows: Vec::new(), next: None }) };
        // The id too: by the time of the list the number may be another session's.
        query.and("i.key BETWEEN ? AND ?", [key(session, 0)?.into(), key(session, u64::from(u32::MAX))?.into()]);
        query.and("s.id = ?", [session_id.into()]);
    }
    if let Some(who) = visible_to {
        query.and("s.tenant IS ? AND (s.subject = ? OR i.role IN (SELECT value FROM json_each(?)))", visible(&who));
    }
    if let Some(Key { at, session_id, n }) = start {
        query.and("i.asked_at <= ?", [at.into()]);
        query.and(
            "(i.asked_at, s.id, i.key & 4294967295) < (?, ?, ?)",
            [at.into(), session_id.into(), i64::from(n).into()],
        );
    }
    let sql = query.sql(INTERRUPTIONS, "i.asked_at DESC, s.id DESC, i.key DESC", page);
    let rows = all(conn, &sql, params_from_iter(query.values), interruption_row)?;
    Ok(page::cut(rows, page))
}

fn interruption_row(r: &Row<'_>) -> rusqlite::Result<InterruptionRow> {
    let tools: String = r.get(5)?;
    let named: Option<String> = r.get(9)?;
    Ok(InterruptionRow {
        session_id: r.get(0)?,
        n: r.get(1)?,
        subject: r.get(2)?,
        role: r.get(3)?,
        agent: r.get(4)?,
        tools: json(5, &tools)?,
        asked_at: r.get(6)?,
        expires_at: r.get(7)?,
        asked_pos: position(r, 8)?.unwrap_or_default(),
        resolution: named
            .map(|name| resolution(&name).ok_or_else(|| unreadable(9, format!("resolution {name:?}"))))
            .transpose()?,
        resolved_at: r.get(10)?,
        resolved_pos: position(r, 11)?,
        tenant: r.get(12)?,
        remind_at: r.get(13)?,
    })
}

/// See [`super::super::Store::sessions`].
pub(super) fn sessions(
    conn: &Connection,
    filter: SessionFilter,
    page: &Page,
    values: &Values,
) -> Result<Paged<Summary>, StoreError> {
    let start = page::start::<Summary>(page)?;
    let SessionFilter { status, agent, visible_to } = filter;
    let mut query = Query::default();
    if let Some(status) = status {
        query.and("s.status = ?", [status.name().to_owned().into()]);
    }
    if let Some(agent) = agent {
        query.and("s.agent = ?", [agent.into()]);
    }
    if let Some(who) = visible_to {
        let [tenant, subject, roles] = visible(&who);
        if who.reviewing().next().is_none() {
            // By the index of subjects: few of many sessions are one person's.
            query.and("s.tenant IS ? AND s.subject = ?", [tenant, subject]);
        } else {
            query.and(
                "s.tenant IS ? AND (s.subject = ? OR EXISTS (SELECT 1 FROM reviewers v WHERE v.session = s.row AND v.role IN (SELECT value FROM json_each(?))))",
                [tenant, subject, roles],
            );
        }
    }
    if let Some(Key { at, session_id, .. }) = start {
        query.and("s.updated_at <= ?", [at.into()]);
        query.and("(s.updated_at, s.id) < (?, ?)", [at.into(), session_id.into()]);
    }
    let sql = query.sql(
        "SELECT s.id, s.agent, s.subject, s.title, s.status, s.created_at, s.updated_at, s.pending, s.tenant, s.pos
         FROM sessions s",
        "s.updated_at DESC, s.id DESC",
        page,
    );
    let rows = all(conn, &sql, params_from_iter(query.values), |r| summary(r, values))?;
    Ok(page::cut(rows, page))
}

fn summary(r: &Row<'_>, values: &Values) -> rusqlite::Result<Summary> {
    let (session_id, status, pending): (Arc<str>, String, String) = (r.get(0)?, r.get(4)?, r.get(7)?);
    let pos = position(r, 9)?.unwrap_or_default();
    let title = values.read_head(&session_id, r.get(5)?, pos, column(r, 3)?).unwrap_or_else(|e| {
        // One broken title must not hide the other sessions of the page.
        tracing::warn!("{e}; the session is listed without a title");
        None
    });
    Ok(Summary {
        session_id,
        agent: r.get(1)?,
        subject: r.get(2)?,
        title: title.map(Arc::from),
        status: Status::from_name(&status).ok_or_else(|| unreadable(4, format!("status {status:?}")))?,
        created_at: r.get(5)?,
        updated_at: r.get(6)?,
        pending: json(7, &pending)?,
        tenant: r.get(8)?,
    })
}

fn position(r: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let pos: Option<i64> = r.get(column)?;
    pos.map(|pos| u64::try_from(pos).map_err(|_| unreadable(column, format!("position {pos}")))).transpose()
}

pub(super) fn json<T: serde::de::DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|e| unreadable(column, e.to_string()))
}

fn unreadable(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}
