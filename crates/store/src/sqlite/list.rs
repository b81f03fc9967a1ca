//! The lists: interruptions and sessions, a page at a time.
//!
//! A list is one query for each reason for which its caller may see a row: as the subject, or by each role. Each reads
//! an index in the list's order, and they are merged, so the cost of a page depends on what it shows and not on other
//! people's rows. Interruptions and reviewers therefore repeat their session's tenant, subject and last use.

use std::sync::Arc;

use countersign_core::{
    journal::{
        record::{FORMAT, Millis},
        state::Status,
    },
    number::InterruptionNo,
};
use rusqlite::{
    Connection, Row, params_from_iter,
    types::{Type, Value},
};

use super::{
    super::{
        InterruptionFilter, InterruptionRow, PENDING, Page, Paged, PendingCount, SessionFilter, StoreError, Summary,
        Visible,
        page::{self, Found, Key, LOOKS_AT},
        sql::{self, resolution},
    },
    schema::key,
    sealing::{Values, column},
    statement::{all, find},
};
use crate::sql::int;

pub(super) type Query = sql::Query<Value>;

impl Query {
    /// The rows of a page, and one more.
    pub(super) fn rows<T>(
        self,
        conn: &Connection,
        order: &str,
        page: &Page,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<(Key, Result<T, StoreError>)>,
    ) -> Result<Vec<Found<T>>, StoreError> {
        let (sql, is_filtered) = (self.sql(order), self.is_filtered());
        let found = all(conn, &sql, params_from_iter(self.into_values(sql::limit(page))), |r| {
            let (fits, nth) = if is_filtered { (r.get("fits")?, r.get("nth")?) } else { (Some(true), 0) };
            Ok((row(r)?, fits == Some(true), nth == int(LOOKS_AT)))
        })?;
        let one = |((key, row), fits, is_last)| Ok(Found { fits, is_last, ..Found::fitting(key, row)? });
        found.into_iter().map(one).collect()
    }
}

/// The person's tenant, their name (or one that nobody has), and their roles as JSON.
pub(super) fn visible(who: &Visible) -> [Value; 3] {
    let roles = serde_json::Value::from(who.reviewing().map(String::as_str).collect::<Vec<_>>()).to_string();
    [text(who.tenant.as_ref()), text(who.subject.as_ref()), roles.into()]
}

pub(super) fn text(text: Option<&String>) -> Value {
    text.cloned().map_or(Value::Null, Value::from)
}

/// The rows of all queries of a list, in its order, without duplicates.
pub(super) fn merged<T: page::Row>(
    queries: Vec<Query>,
    page: &Page,
    mut rows: impl FnMut(Query) -> Result<Vec<Found<T>>, StoreError>,
) -> Result<Paged<T>, StoreError> {
    let mut found = Vec::new();
    for query in queries {
        found.extend(rows(query)?);
    }
    Ok(page::merged(found, page))
}

const COLUMNS: &str = "SELECT s.id, i.key & 4294967295, s.subject, i.role, i.agent, i.tools, i.asked_at, i.expires_at,
 i.asked_pos, i.resolution, i.resolved_at, i.resolved_pos, s.tenant, i.remind_at, i.place FROM interruptions i";
const SESSION_OF: &str = "CROSS JOIN sessions s ON s.number = i.key >> 32";
const INBOX_ORDER: &str = "i.place DESC, s.id DESC, i.key DESC";

/// See [`super::super::Store::interruption`].
pub(super) fn interruption(
    conn: &Connection,
    session_id: &str,
    n: InterruptionNo,
) -> Result<Option<InterruptionRow>, StoreError> {
    let Some(session) = number(conn, session_id)? else { return Ok(None) };
    let (sql, key) = (format!("{COLUMNS} {SESSION_OF} WHERE i.key = ?1"), key(session, u64::from(n.get()))?);
    find(conn, &sql, [key], |r| Ok(named(session_id, interruption_row(r))))?.transpose()
}

/// The number of a session, by which its rows are found.
pub(super) fn number(conn: &Connection, session_id: &str) -> Result<Option<i64>, StoreError> {
    find(conn, "SELECT number FROM sessions WHERE id = ?1", [session_id], |r| r.get(0))
}

/// See [`super::super::Store::interruptions`].
pub(super) fn interruptions(
    conn: &mut Connection,
    filter: &InterruptionFilter,
    page: &Page,
) -> Result<Paged<InterruptionRow>, StoreError> {
    let start = page::start::<InterruptionRow>(page)?;
    let session = match &filter.session_id {
        None => None,
        Some(id) => match number(conn, id)? {
            None => return Ok(Paged { rows: Vec::new(), unread: Vec::new(), next: None }),
            session => session,
        },
    };
    let queries = inbox(filter, session, start.as_ref())?;
    merged(queries, page, |query| {
        query.rows(conn, INBOX_ORDER, page, |r| {
            let key = Key { at: r.get(14)?, session_id: r.get(0)?, n: r.get(1)? };
            let row = named(&key.session_id, interruption_row(r));
            Ok((key, row))
        })
    })
}

/// The queries of a list of interruptions. `session` is the number of the one that the filter names.
fn inbox(filter: &InterruptionFilter, session: Option<i64>, start: Option<&Key>) -> Result<Vec<Query>, StoreError> {
    let InterruptionFilter { waiting, role, agent, tool, session_id, visible_to } = filter;
    let mut queries = Vec::new();
    if let (Some(session), Some(id)) = (session, session_id) {
        let mut query = Query::new(format!("{COLUMNS} NOT INDEXED {SESSION_OF}"));
        // The id too: by now the number may belong to another session.
        query.and("i.key BETWEEN ? AND ?", [key(session, 0)?.into(), key(session, u64::from(u32::MAX))?.into()]);
        query.and("s.id = ?", [id.clone().into()]);
        match waiting {
            Some(true) => query.and("i.resolution IS NULL", []),
            Some(false) => query.and("i.resolution IS NOT NULL", []),
            None => {}
        }
        if let Some(who) = visible_to {
            query.and("i.tenant IS ? AND (i.subject = ? OR i.role IN (SELECT value FROM json_each(?)))", visible(who));
        }
        if let Some(role) = role {
            query.and("i.role = ?", [role.clone().into()]);
        }
        queries.push(query);
    } else {
        by_reason(role.as_ref(), visible_to.as_ref(), |mut query| {
            // Pending ones have the highest places.
            match waiting {
                Some(true) => query.and("i.place >= ?", [InterruptionRow::WAITING.into()]),
                Some(false) => query.and("i.place < ?", [InterruptionRow::WAITING.into()]),
                None => {}
            }
            queries.push(query);
        });
    }
    for query in &mut queries {
        if let Some(agent) = agent {
            query.filter("i", "i.agent = ?", [agent.clone().into()]);
        }
        if let Some(tool) = tool {
            query.filter("i", "EXISTS (SELECT 1 FROM json_each(i.tools) t WHERE t.value = ?)", [tool.clone().into()]);
        }
        if let Some(Key { at, session_id, n }) = start {
            let place = [(*at).into(), session_id.clone().into(), i64::from(*n).into()];
            query.and("i.place <= ?", [(*at).into()]);
            query.and("(i.place, s.id, i.key & 4294967295) < (?, ?, ?)", place);
        }
    }
    Ok(queries)
}

/// One query for each reason for which rows may be seen.
fn by_reason(role: Option<&String>, visible_to: Option<&Visible>, mut push: impl FnMut(Query)) {
    let query = |index: &str| Query::new(format!("{COLUMNS} INDEXED BY interruptions_{index} {SESSION_OF}"));
    let Some(who) = visible_to else {
        return push(match role {
            None => query("place"),
            Some(role) => query("role_place").with("i.role = ?", [role.clone().into()]),
        });
    };
    let tenant = text(who.tenant.as_ref());
    if let Some(subject) = &who.subject {
        let mut own =
            query("subject").with("i.tenant IS ? AND i.subject = ?", [tenant.clone(), subject.clone().into()]);
        if let Some(role) = role {
            own.filter("i", "i.role = ?", [role.clone().into()]);
        }
        push(own);
    }
    for held in who.reviewing().filter(|held| role.is_none_or(|role| role == *held)) {
        push(query("role").with("i.tenant IS ? AND i.role = ?", [tenant.clone(), held.clone().into()]));
    }
}

fn interruption_row(r: &Row<'_>) -> rusqlite::Result<InterruptionRow> {
    let tools: String = r.get(5)?;
    let named: Option<String> = r.get(9)?;
    Ok(InterruptionRow {
        session_id: r.get(0)?,
        n: InterruptionNo::new(r.get(1)?),
        subject: r.get(2)?,
        role: r.get(3)?,
        agent: r.get(4)?,
        tools: json(5, &tools)?,
        asked_at: r.get(6)?,
        expires_at: r.get(7)?,
        asked_pos: position(r, 8)?.unwrap_or_default(),
        resolution: named
            .map(|name| resolution(&name).ok_or_else(|| unreadable(9, format!("unknown resolution {name:?}"))))
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
    filter: &SessionFilter,
    page: &Page,
    values: &Values,
) -> Result<Paged<Summary>, StoreError> {
    let start = page::start::<Summary>(page)?;
    merged(used(filter, start.as_ref()), page, |query| {
        query.rows(conn, USED_ORDER, page, |r| {
            let key = Key { at: r.get(10)?, session_id: r.get(0)?, n: 0 };
            let row = named(&key.session_id, summary(r, values));
            Ok((key, row))
        })
    })
}

const USED_ORDER: &str = "used DESC, s.id DESC";

/// The queries of a list of sessions.
fn used(filter: &SessionFilter, start: Option<&Key>) -> Vec<Query> {
    let SessionFilter { status, agent, visible_to } = filter;
    let query = |of: &str, from: &str| {
        Query::new(format!(
            "SELECT s.id, s.agent, s.subject, s.title, s.status, s.created_at, s.updated_at, s.pending, s.tenant, s.pos,
             {of}.updated_at AS used FROM {from}"
        ))
    };
    let mut queries = Vec::new();
    match visible_to {
        None => queries.push(query("s", "sessions s INDEXED BY sessions_used")),
        Some(who) => {
            let tenant = text(who.tenant.as_ref());
            if let Some(subject) = &who.subject {
                queries.push(
                    query("s", "sessions s INDEXED BY sessions_subject")
                        .with("s.tenant IS ? AND s.subject = ?", [tenant.clone(), subject.clone().into()]),
                );
            }
            for role in who.reviewing() {
                let from = "reviewers v INDEXED BY reviewers_used CROSS JOIN sessions s ON s.number = v.session";
                queries
                    .push(query("v", from).with("v.tenant IS ? AND v.role = ?", [tenant.clone(), role.clone().into()]));
            }
        }
    }
    for query in &mut queries {
        if let Some(status) = status {
            query.filter("s", "s.status = ?", [status.name().to_owned().into()]);
        }
        if let Some(agent) = agent {
            query.filter("s", "s.agent = ?", [agent.clone().into()]);
        }
        if let Some(Key { at, session_id, .. }) = start {
            query.and("used <= ?", [(*at).into()]);
            query.and("(used, s.id) < (?, ?)", [(*at).into(), session_id.clone().into()]);
        }
    }
    queries
}

fn summary(r: &Row<'_>, values: &Values) -> rusqlite::Result<Summary> {
    let (session_id, status, pending): (Arc<str>, String, String) = (r.get(0)?, r.get(4)?, r.get(7)?);
    let pos = position(r, 9)?.unwrap_or_default();
    let title = values.read_head(&session_id, r.get(5)?, pos, column(r, 3)?).unwrap_or_else(|e| {
        // One broken title must not hide the page's other sessions.
        tracing::warn!("{e}; the session is listed without a title");
        None
    });
    Ok(Summary {
        session_id,
        agent: r.get(1)?,
        subject: r.get(2)?,
        title: title.map(Arc::from),
        status: Status::from_name(&status).ok_or_else(|| unreadable(4, format!("unknown status {status:?}")))?,
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

/// A row of a session, or what is wrong with it.
fn named<T>(session_id: &str, row: rusqlite::Result<T>) -> Result<T, StoreError> {
    row.map_err(|e| {
        let what = match e {
            rusqlite::Error::FromSqlConversionFailure(.., what) => what.to_string(),
            other => other.to_string(),
        };
        StoreError::Corrupt(format!("session {session_id:?}: {what}"))
    })
}

fn unreadable(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

const RESTED: &str = "SELECT s.id, s.pos FROM sessions s INDEXED BY sessions_used
 WHERE s.updated_at < ?1 AND s.status NOT IN ('running', 'awaiting_input') AND s.pending = '[]'
   AND NOT EXISTS (SELECT 1 FROM interruptions i
     WHERE i.key BETWEEN s.number << 32 AND (s.number << 32 | 4294967295) AND i.resolution IS NULL)
   AND NOT EXISTS (SELECT 1 FROM rules r WHERE r.key BETWEEN s.number << 32 AND (s.number << 32 | 4294967295)
     AND r.scope <> 'session' AND r.revoked_at IS NULL AND (r.until IS NULL OR r.until > ?2))
   AND s.format <= ?4
 ORDER BY s.updated_at LIMIT ?3";

/// See [`super::super::Store::rested`]. Sessions that this build cannot read are left out.
pub(super) fn rested(
    conn: &Connection,
    before: Millis,
    now: Millis,
    limit: usize,
) -> Result<Vec<(Arc<str>, u64)>, StoreError> {
    let limit = int(limit);
    let found: Vec<(Arc<str>, i64)> =
        all(conn, RESTED, [before, now, limit, FORMAT.into()], |r| Ok((r.get(0)?, r.get(1)?)))?;
    Ok(found.into_iter().filter_map(|(id, pos)| Some((id, u64::try_from(pos).ok()?))).collect())
}

/// Reads only pending rows, by their index. Of more than the limit, those without a deadline first, the oldest of them
/// first.
const PENDING_ROWS: &str = "SELECT count(*), min(asked_at) FROM
 (SELECT asked_at FROM interruptions INDEXED BY interruptions_place WHERE place >= ?1 LIMIT ?2)";

/// See [`super::super::Store::pending`].
pub(super) fn pending(conn: &Connection) -> Result<PendingCount, StoreError> {
    let counted =
        find(conn, PENDING_ROWS, [InterruptionRow::WAITING, PENDING.into()], |r| Ok((r.get::<_, i64>(0)?, r.get(1)?)))?;
    let (count, oldest) = counted.unwrap_or_default();
    Ok(PendingCount { count: u64::try_from(count).unwrap_or_default(), oldest })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{rows, schema},
        *,
    };

    /// SQLite's plan for a query, with its parameters unbound.
    fn plan(conn: &Connection, sql: &str) -> Vec<String> {
        let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(sql);
        let mut steps = query.raw_query();
        let mut plan = Vec::new();
        while let Some(step) = steps.next().expect("a step") {
            plan.push(step.get::<_, String>(3).expect("a text"));
        }
        plan
    }

    impl Query {
        /// Fails unless SQLite searches by index, in the list's order; `walks` is the scan it may use for those who may
        /// see all rows.
        pub(in super::super) fn check_plan(&self, conn: &Connection, order: &str, walks: Option<&str>) {
            let sql = self.read(order) + "?";
            let plan = plan(conn, &sql);
            let harmless = |step: &String| {
                // Scans of JSON lists: a person's roles, a row's tools.
                step.starts_with("SEARCH ") || step.ends_with("VIRTUAL TABLE INDEX 1:") || !step.starts_with("SCAN ")
            };
            let finds = plan[0].starts_with("SEARCH ") || walks.is_some_and(|walks| plan[0].starts_with(walks));
            assert!(finds && plan[1..].iter().all(harmless), "{sql}: {plan:?}");
            // Rows of one session are all sorted; those of a person only where times are equal.
            let sorts = plan.iter().any(|step| step == "USE TEMP B-TREE FOR ORDER BY");
            assert!(!sorts || sql.contains("BETWEEN"), "{sql}: {plan:?}");
        }

        fn is_of_subject(&self) -> bool {
            self.read("").contains("INDEXED BY interruptions_subject")
        }
    }

    fn conn() -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().expect("directory");
        let conn = schema::made(&dir.path().join("s.db"));
        (dir, conn)
    }

    /// Someone who may see everything, and people with and without a name, a tenant and roles.
    fn people() -> Vec<Option<Visible>> {
        let mut all = vec![None];
        for subject in [None, Some("ann".to_owned())] {
            for tenant in [None, Some("north".to_owned())] {
                for roles in [&[][..], &["user"], &["admin", "cfo"]] {
                    let roles = roles.iter().map(|role: &&str| (*role).to_owned()).collect();
                    all.push(Some(Visible { subject: subject.clone(), tenant: tenant.clone(), roles }));
                }
            }
        }
        all
    }

    #[test]
    fn r9_no_list_of_interruptions_looks_at_rows_of_others() {
        let (_dir, conn) = conn();
        let text = |yes: bool, text: &str| yes.then(|| text.to_owned());
        let start = Key { at: 5, session_id: "s".to_owned(), n: 7 };
        let mut seen = 0;
        for visible_to in people() {
            for waiting in [None, Some(true), Some(false)] {
                for bits in 0..32_u8 {
                    let [role, agent, tool, session, started] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
                    let filter = InterruptionFilter {
                        waiting,
                        role: text(role, "admin"),
                        agent: text(agent, "a"),
                        tool: text(tool, "t"),
                        session_id: text(session, "s"),
                        visible_to: visible_to.clone(),
                    };
                    let queries = inbox(&filter, session.then_some(1), started.then_some(&start)).expect("queries");
                    for query in queries {
                        let walks = visible_to.is_none() && !session && !role;
                        query.check_plan(&conn, INBOX_ORDER, walks.then_some("SCAN i USING INDEX "));
                        assert_eq!(query.is_filtered(), agent || tool || (role && query.is_of_subject()));
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen > 1000, "{seen}");
    }

    #[test]
    fn r9_no_list_of_sessions_looks_at_rows_of_others() {
        let (_dir, conn) = conn();
        let start = Key { at: 5, session_id: "s".to_owned(), n: 0 };
        for visible_to in people() {
            for bits in 0..8_u8 {
                let [status, agent, started] = [1, 2, 4].map(|bit| bits & bit != 0);
                let filter = SessionFilter {
                    status: status.then_some(Status::Running),
                    agent: agent.then(|| "a".to_owned()),
                    visible_to: visible_to.clone(),
                };
                for query in used(&filter, started.then_some(&start)) {
                    let walks = visible_to.is_none().then_some("SCAN s USING INDEX sessions_used");
                    query.check_plan(&conn, USED_ORDER, walks);
                    assert_eq!(query.is_filtered(), status || agent);
                }
            }
        }
    }

    /// Rows of many sessions, few of which are running or pending.
    const FILL: &str = "
     WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 20500)
       INSERT INTO sessions SELECT n, 's' || n, 1, 'a', NULL, 'u' || n % 2, NULL,
         CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'completed' END, n, n / 3, '[]', 1 FROM i;
     INSERT INTO interruptions (key, subject, role, agent, tools, asked_at, asked_pos, resolution, resolved_at, resolved_pos)
       SELECT number << 32 | 1, subject, 'r', CASE WHEN number % 5000 = 0 THEN 'rare' ELSE 'a' END, '[\"t\"]', updated_at, 1,
         CASE WHEN number % 10 = 0 THEN NULL ELSE 'decided' END, 1, 1 FROM sessions;";

    /// The rows of all pages of a list, and the number of pages.
    fn all_pages<T>(mut read: impl FnMut(&Page) -> Paged<T>) -> (Vec<T>, usize) {
        let (mut rows, mut pages, mut page) = (Vec::new(), 0, Page { cursor: None, limit: 100 });
        loop {
            let paged = read(&page);
            rows.extend(paged.rows);
            (pages, page.cursor) = (pages + 1, paged.next);
            if page.cursor.is_none() {
                return (rows, pages);
            }
        }
    }

    #[test]
    fn r9_a_page_of_a_filtered_list_looks_at_a_bounded_number_of_rows_and_the_next_ones_find_the_rest() {
        let (_dir, mut conn) = conn();
        conn.execute_batch(FILL).expect("rows");
        let ann = Visible { subject: Some("u1".to_owned()), tenant: None, roles: vec!["r".to_owned()] };
        for visible_to in [None, Some(ann)] {
            let inbox = InterruptionFilter { visible_to: visible_to.clone(), ..InterruptionFilter::default() };
            let mut list = |filter: &InterruptionFilter| {
                let (rows, pages) = all_pages(|page| interruptions(&mut conn, filter, page).expect("a page"));
                (rows.into_iter().map(|row| row.session_id.to_string()).collect::<Vec<_>>(), pages)
            };
            let nobody = InterruptionFilter { agent: Some("nobody".to_owned()), ..inbox.clone() };
            assert_eq!(list(&nobody), (Vec::new(), 3), "20,500 rows, 10,000 of them for each page");
            let rare = InterruptionFilter { agent: Some("rare".to_owned()), ..inbox.clone() };
            assert_eq!(list(&rare).0, ["s20000", "s15000", "s10000", "s5000"]);
            let every = InterruptionFilter { tool: Some("t".to_owned()), ..inbox.clone() };
            assert_eq!(list(&every).0, list(&inbox).0, "none is left out or shown twice");
        }
        let running = SessionFilter { status: Some(Status::Running), ..SessionFilter::default() };
        let (rows, pages) = all_pages(|page| sessions(&conn, &running, page, &Values::plain()).expect("a page"));
        assert_eq!((rows.len(), pages), (20, 3));
    }

    #[test]
    fn r9_a_tenants_audit_log_is_found_by_its_index() {
        let (_dir, conn) = conn();
        assert_eq!(plan(&conn, rows::AUDIT_OF), ["SEARCH audit USING INDEX audit_tenant (tenant=? AND rowid>?)"]);
        // The records before the first one of a tenant are in no index; the scan ends with the newest record.
        let before =
            ["SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "SCALAR SUBQUERY 1", "SCAN audit"];
        assert_eq!(plan(&conn, rows::AUDIT_BEFORE_TENANTS), before);
        assert_eq!(
            plan(&conn, rows::AUDIT_NEWEST_OF),
            ["SEARCH audit USING INDEX audit_tenant (tenant=? AND rowid<?)"]
        );
        let newest = ["SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)", "SCALAR SUBQUERY 1", "SCAN audit"];
        assert_eq!(plan(&conn, rows::AUDIT_NEWEST_BEFORE_TENANTS), newest);
    }
}
