//! The lists: interruptions and sessions, a page at a time.
//!
//! As in the SQLite store a list is one query for each reason for which its caller may see a row, each of which reads an index
//! in the list's order, and they are merged. Their statements are many and are planned for their values, so they are not
//! prepared.

use std::sync::Arc;

use countersign_core::{
    journal::{record::Millis, state::Status},
    number::InterruptionNo,
};
use tokio_postgres::Row;

use super::{
    super::{
        InterruptionFilter, InterruptionRow, PENDING, Page, Paged, PendingCount, SessionFilter, StoreError, Summary,
        Visible,
        page::{self, Found, Key, LOOKS_AT},
        sql::{self, resolution},
    },
    connect::{Link, error},
    flight::{Value, ask, ask_once},
    rows::{count, get, get_maybe, get_text, small, tenant, tenant_of, text},
};
use crate::sql::int;

pub(super) type Query = sql::Query<Value>;

impl Query {
    /// The whole statement, as PostgreSQL numbers values.
    fn numbered(&self, order: &str) -> String {
        let mut sql = String::new();
        for (i, part) in self.sql(order).split('?').enumerate() {
            if i > 0 {
                sql += &format!("${i}");
            }
            sql += part;
        }
        sql
    }

    /// The rows of a page, and one more.
    async fn rows(self, on: &Link, order: &str, page: &Page) -> Result<Vec<Row>, StoreError> {
        let sql = self.numbered(order);
        ask_once(on, &sql, &self.into_values(sql::limit(page))).await.map_err(|e| error(&e))
    }
}

/// A query of a list, and its order.
pub(super) type Ordered = (Query, &'static str);

/// A page of a list.
pub(super) async fn merged<T: page::Row>(
    on: &Link,
    queries: Vec<Ordered>,
    page: &Page,
    place: fn(&Row) -> Result<Key, StoreError>,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Paged<T>, StoreError> {
    let mut found = Vec::new();
    for (query, order) in queries {
        let is_filtered = query.is_filtered();
        for row in query.rows(on, order, page).await? {
            let one = Found::fitting(place(&row)?, read(&row))?;
            found.push(if is_filtered { Found { fits: fits(&row)?, is_last: is_last(&row)?, ..one } } else { one });
        }
    }
    Ok(page::merged(found, page))
}

fn fits(row: &Row) -> Result<bool, StoreError> {
    let fits: Option<bool> = row.try_get("fits").map_err(|e| error(&e))?;
    Ok(fits == Some(true))
}

fn is_last(row: &Row) -> Result<bool, StoreError> {
    let nth: i64 = row.try_get("nth").map_err(|e| error(&e))?;
    Ok(nth == int(LOOKS_AT))
}

/// The roles by which a person may see other people's rows.
pub(super) fn roles(who: &Visible) -> Value {
    Value::many(who.reviewing().map(String::as_bytes))
}

macro_rules! columns {
    () => {
        "SELECT i.session_id, i.number, i.subject, i.role, i.agent, i.tools, i.asked_at, i.expires_at, i.asked_pos,
         i.resolution, i.resolved_at, i.resolved_pos, i.tenant, i.remind_at, i.place FROM interruptions i"
    };
}
const COLUMNS: &str = columns!();
const ONE: &str =
    concat!(columns!(), " WHERE i.session = (SELECT number FROM sessions WHERE id = $1) AND i.number = $2");
const INBOX_ORDER: &str = "i.place DESC, i.session_id DESC, i.number DESC";

/// See [`super::super::Store::interruption`].
pub(super) async fn interruption(
    on: &Link,
    session_id: &str,
    n: InterruptionNo,
) -> Result<Option<InterruptionRow>, StoreError> {
    let rows = ask(on, ONE, vec![session_id.into(), n.into()]).await.map_err(|e| error(&e))?;
    rows.first().map(interruption_row).transpose()
}

/// The number of a session, by which its rows are found.
pub(super) async fn number(on: &Link, session_id: &str) -> Result<Option<i64>, StoreError> {
    let rows = ask(on, "SELECT number FROM sessions WHERE id = $1", vec![session_id.into()]).await;
    rows.map_err(|e| error(&e))?.first().map(|row| get(row, 0)).transpose()
}

/// The number of the session that a filter names, if it names one; `None` if there is no such session.
pub(super) async fn wanted(on: &Link, session_id: Option<&str>) -> Result<Option<Option<i64>>, StoreError> {
    match session_id {
        None => Ok(Some(None)),
        Some(id) => Ok(number(on, id).await?.map(Some)),
    }
}

/// See [`super::super::Store::interruptions`].
pub(super) async fn interruptions(
    on: &Link,
    filter: &InterruptionFilter,
    page: &Page,
) -> Result<Paged<InterruptionRow>, StoreError> {
    let start = page::start::<InterruptionRow>(page)?;
    let Some(session) = wanted(on, filter.session_id.as_deref()).await? else {
        return Ok(Paged { rows: Vec::new(), unread: Vec::new(), next: None });
    };
    let queries = inbox(filter, session, start.as_ref()).into_iter().map(|query| (query, INBOX_ORDER)).collect();
    merged(on, queries, page, inbox_place, interruption_row).await
}

/// The queries of a list of interruptions. `session` is the number of the one that the filter names.
fn inbox(filter: &InterruptionFilter, session: Option<i64>, start: Option<&Key>) -> Vec<Query> {
    let InterruptionFilter { waiting, role, agent, tool, session_id: _, visible_to } = filter;
    let mut queries = Vec::new();
    if let Some(session) = session {
        let mut query = Query::new(COLUMNS).with("i.session = ?", [session.into()]);
        match waiting {
            Some(true) => query.and("i.resolution IS NULL", []),
            Some(false) => query.and("i.resolution IS NOT NULL", []),
            None => {}
        }
        if let Some(who) = visible_to {
            let values = [tenant(who.tenant.as_deref()).into(), who.subject.as_deref().into(), roles(who)];
            query.and("i.tenant = ? AND (i.subject = ? OR i.role = ANY(?))", values);
        }
        if let Some(role) = role {
            query.and("i.role = ?", [role.as_str().into()]);
        }
        queries.push(query);
    } else {
        // Pending and resolved rows have separate indexes.
        for (is_waiting, condition) in [(true, "i.resolution IS NULL"), (false, "i.resolution IS NOT NULL")] {
            if waiting.is_none_or(|waiting| waiting == is_waiting) {
                let half = || Query::new(COLUMNS).with(condition, []);
                by_reason(half, role.as_deref(), visible_to.as_ref(), |query| queries.push(query));
            }
        }
    }
    for query in &mut queries {
        if let Some(agent) = agent {
            query.filter("i", "i.agent = ?", [agent.as_str().into()]);
        }
        if let Some(tool) = tool {
            query.filter("i", "? = ANY(i.tools)", [tool.as_str().into()]);
        }
        if let Some(Key { at, session_id, n }) = start {
            let place = [(*at).into(), session_id.as_str().into(), (*n).into()];
            query.and("(i.place, i.session_id, i.number) < (?, ?, ?)", place);
        }
    }
    queries
}

/// One query for each reason for which pending or resolved rows may be seen.
fn by_reason(half: impl Fn() -> Query, role: Option<&str>, visible_to: Option<&Visible>, mut push: impl FnMut(Query)) {
    let Some(who) = visible_to else {
        return push(match role {
            None => half(),
            Some(role) => half().with("i.role = ?", [role.into()]),
        });
    };
    let tenant = || Value::from(tenant(who.tenant.as_deref()));
    if let Some(subject) = &who.subject {
        let mut own = half().with("i.tenant = ? AND i.subject = ?", [tenant(), subject.as_str().into()]);
        if let Some(role) = role {
            own.filter("i", "i.role = ?", [role.into()]);
        }
        push(own);
    }
    for held in who.reviewing().filter(|held| role.is_none_or(|role| role == *held)) {
        push(half().with("i.tenant = ? AND i.role = ?", [tenant(), held.as_str().into()]));
    }
}

fn inbox_place(r: &Row) -> Result<Key, StoreError> {
    Ok(Key { at: get(r, 14)?, session_id: get_text(r, 0)?.to_string(), n: small(get(r, 1)?)? })
}

fn interruption_row(r: &Row) -> Result<InterruptionRow, StoreError> {
    let (session_id, named): (_, Option<&str>) = (get_text(r, 0)?, get(r, 9)?);
    let unknown = |name: &str| StoreError::Corrupt(format!("session {session_id:?}: unknown resolution {name:?}"));
    let resolution = named.map(|name| resolution(name).ok_or_else(|| unknown(name))).transpose()?;
    Ok(InterruptionRow {
        session_id,
        n: InterruptionNo::new(small(get(r, 1)?)?),
        subject: get_maybe(r, 2)?,
        role: get_text(r, 3)?.to_string(),
        agent: get_text(r, 4)?,
        tools: get::<Vec<&[u8]>>(r, 5)?.into_iter().map(text).collect::<Result<_, _>>()?,
        asked_at: get(r, 6)?,
        expires_at: get(r, 7)?,
        asked_pos: count(get(r, 8)?)?,
        resolution,
        resolved_at: get(r, 10)?,
        resolved_pos: get::<Option<i64>>(r, 11)?.map(count).transpose()?,
        tenant: tenant_of(get(r, 12)?)?,
        remind_at: get(r, 13)?,
    })
}

/// See [`super::super::Store::sessions`].
pub(super) async fn sessions(on: &Link, filter: &SessionFilter, page: &Page) -> Result<Paged<Summary>, StoreError> {
    let start = page::start::<Summary>(page)?;
    merged(on, used(filter, start.as_ref()), page, used_place, summary).await
}

const SUMMARY: &str =
    "SELECT s.id, s.agent, s.subject, s.title, s.status, s.created_at, s.updated_at, s.pending, s.tenant";
const USED_ORDER: &str = "s.updated_at DESC, s.id DESC";
const REVIEWED_ORDER: &str = "v.updated_at DESC, v.session_id DESC";

/// The queries of a list of sessions, each with its order.
fn used(filter: &SessionFilter, start: Option<&Key>) -> Vec<Ordered> {
    let SessionFilter { status, agent, visible_to } = filter;
    let of_all = || Query::new(format!("{SUMMARY} FROM sessions s"));
    let mut queries = Vec::new();
    match visible_to {
        None => queries.push((of_all(), USED_ORDER)),
        Some(who) => {
            let tenant = || Value::from(tenant(who.tenant.as_deref()));
            if let Some(subject) = &who.subject {
                let own = of_all().with("s.tenant = ? AND s.subject = ?", [tenant(), subject.as_str().into()]);
                queries.push((own, USED_ORDER));
            }
            for role in who.reviewing() {
                // One after the other, as they are read: joined at once, many of them would read all sessions.
                let one = "CROSS JOIN LATERAL (SELECT * FROM sessions WHERE number = v.session LIMIT 1) s";
                let from = format!("{SUMMARY} FROM reviewers v {one}");
                let held = Query::new(from).with("v.tenant = ? AND v.role = ?", [tenant(), role.as_str().into()]);
                queries.push((held, REVIEWED_ORDER));
            }
        }
    }
    for (query, order) in &mut queries {
        if let Some(status) = status {
            query.filter("s", "s.status = ?", [Value::Word(status.name())]);
        }
        if let Some(agent) = agent {
            query.filter("s", "s.agent = ?", [agent.as_str().into()]);
        }
        if let Some(Key { at, session_id, .. }) = start {
            let place = if *order == USED_ORDER {
                "(s.updated_at, s.id) < (?, ?)"
            } else {
                "(v.updated_at, v.session_id) < (?, ?)"
            };
            query.and(place, [(*at).into(), session_id.as_str().into()]);
        }
    }
    queries
}

fn used_place(r: &Row) -> Result<Key, StoreError> {
    Ok(Key { at: get(r, 6)?, session_id: get_text(r, 0)?.to_string(), n: 0 })
}

fn summary(r: &Row) -> Result<Summary, StoreError> {
    let (session_id, status): (_, &str) = (get_text(r, 0)?, get(r, 4)?);
    let unknown = || StoreError::Corrupt(format!("session {session_id:?}: unknown status {status:?}"));
    let known = Status::from_name(status).ok_or_else(unknown)?;
    Ok(Summary {
        session_id,
        agent: get_text(r, 1)?,
        subject: get_maybe(r, 2)?,
        title: get_maybe(r, 3)?,
        status: known,
        created_at: get(r, 5)?,
        updated_at: get(r, 6)?,
        pending: get::<Vec<i64>>(r, 7)?
            .into_iter()
            .map(|n| small(n).map(InterruptionNo::new))
            .collect::<Result<_, _>>()?,
        tenant: tenant_of(get(r, 8)?)?,
    })
}

const RESTED: &str = "SELECT s.id, s.pos FROM sessions s
 WHERE s.updated_at < $1 AND s.status NOT IN ('running', 'awaiting_input') AND s.pending = '{}' AND s.node IS NULL
   AND NOT EXISTS (SELECT FROM interruptions i WHERE i.session = s.number AND i.resolution IS NULL)
   AND NOT EXISTS (SELECT FROM rules r WHERE r.session = s.number
     AND r.scope <> 'session' AND r.revoked_at IS NULL AND (r.until IS NULL OR r.until > $2))
   AND s.format <= $4
 ORDER BY s.updated_at LIMIT $3";

/// See [`super::super::Store::rested`]. Sessions that this node cannot read are left out.
pub(super) async fn rested(
    on: &Link,
    before: Millis,
    now: Millis,
    limit: usize,
    knows: u32,
) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
    let values = vec![before.into(), now.into(), int(limit).into(), knows.into()];
    let rows = ask_once(on, RESTED, &values).await.map_err(|e| error(&e))?;
    rows.iter().map(|row| Ok((get_text(row, 0)?, count(get(row, 1)?)?))).collect()
}

/// Reads only pending rows, by their index.
const PENDING_ROWS: &str = "SELECT count(*), min(asked_at) FROM
 (SELECT asked_at FROM interruptions WHERE resolution IS NULL LIMIT $1) pending";

/// See [`super::super::Store::pending`].
pub(super) async fn pending(on: &Link) -> Result<PendingCount, StoreError> {
    let rows = ask_once(on, PENDING_ROWS, &[i64::from(PENDING).into()]).await.map_err(|e| error(&e))?;
    let Some(row) = rows.first() else { return Ok(PendingCount::default()) };
    Ok(PendingCount { count: count(get(row, 0)?)?, oldest: get(row, 1)? })
}

#[cfg(test)]
mod tests;
