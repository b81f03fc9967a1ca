//! PostgreSQL's plans for the queries, in tables with many rows of other people.

use countersign_test_postgres::Database;

use super::{
    super::{
        PostgresUrl,
        connect::{Held, Own, first, pool},
        nodes::{OWN, TAKE_OVER},
        rows::{DUE, RUNNING},
        rules, schema,
    },
    *,
};
use crate::RuleFilter;

/// 20,000 sessions of 200 users and two tenants with as many interruptions for 20 roles and as many rules; few are running,
/// pending or due.
const FILL: &str = "
 INSERT INTO sessions (id, pos, agent, tenant, subject, status, created_at, updated_at, pending, node, epoch, format)
   SELECT convert_to('s' || i, 'UTF8'), 1, 'a', CASE WHEN i % 2 = 0 THEN '' ELSE '=north' END::bytea,
     convert_to('u' || i % 200, 'UTF8'), CASE WHEN i % 1000 = 0 THEN 'running' ELSE 'completed' END, i, i, '{}',
     CASE WHEN i % 1000 = 0 THEN i / 1000 % 4 END, 1, 1
   FROM generate_series(1, 20000) i;
 INSERT INTO interruptions
   SELECT number, 1, id, tenant, subject, convert_to('r' || number % 20, 'UTF8'), 'a', ARRAY['t'::bytea], number, number, number, 1,
     CASE WHEN number % 10 = 0 THEN NULL ELSE 'decided' END, 1, 1 FROM sessions;
 INSERT INTO reviewers SELECT session, role, session_id, tenant, asked_at FROM interruptions;
 INSERT INTO rules
   SELECT number, 1, 0, 1, id, subject, tenant, 'a', 't', true, convert_to('r' || number % 20, 'UTF8'), subject, '{}', number, NULL,
     CASE WHEN number / 2 % 2 = 0 THEN 1 END FROM sessions;
 INSERT INTO request_ids SELECT number, 'r', '', 'message', NULL FROM sessions;
 INSERT INTO audit SELECT number, 'h', '{}', CASE WHEN number % 100 = 0 THEN '=north' ELSE '' END::bytea FROM sessions;";

async fn filled(database: &Database) -> Own {
    let url: PostgresUrl = database.url().parse().expect("a URL");
    let (own, _) = first(&url).await.expect("a connection");
    schema::make(&own, &url).await.expect("tables");
    database.run(FILL);
    database.run("VACUUM ANALYZE");
    own
}

/// Which rows a query may read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    /// All, in the order of its list, until the page is full.
    InOrder,
    /// Those of one session.
    Session,
    /// Those that its caller may see: if they are few they may be sorted.
    Own,
}

/// Fails if a plan reads a whole table, or other rows than it may.
async fn check_plan(own: &Own, sql: &str, values: &[Value], reads: Reads) {
    let plan = ask_plan(own, sql, values).await;
    let has = |what: &str| plan.iter().any(|step| step.contains(what));
    let filters = |what: &str| plan.iter().any(|step| step.contains("Filter: ") && step.contains(what));
    // There are few nodes.
    let scans = plan.iter().any(|step| step.contains("Seq Scan") && !step.contains("Seq Scan on nodes"));
    let right = !scans
        && match reads {
            Reads::InOrder => !has("Sort") && !has("Bitmap"),
            Reads::Session => !filters("session = "),
            Reads::Own => !filters("tenant = "),
        };
    assert!(right, "{reads:?}: {sql}\n{values:?}\n{}", plan.join("\n"));
}

async fn ask_plan(own: &Own, sql: &str, values: &[Value]) -> Vec<String> {
    let rows = own.ask(&format!("EXPLAIN {sql}"), values).await.expect(sql);
    rows.iter().map(|row| row.get(0)).collect()
}

/// Someone who may see everything, and people with and without a name, a tenant and roles.
fn people() -> Vec<Option<Visible>> {
    let mut all = vec![None];
    for subject in [None, Some("u7".to_owned())] {
        for tenant in [None, Some("north".to_owned())] {
            for roles in [&[][..], &["user"], &["r1", "r2"]] {
                let roles = roles.iter().map(|role: &&str| (*role).to_owned()).collect();
                all.push(Some(Visible { subject: subject.clone(), tenant: tenant.clone(), roles }));
            }
        }
    }
    all
}

impl Query {
    async fn check_plan(self, own: &Own, order: &str, reads: Reads) {
        let sql = self.numbered(order);
        // If they are fewer than a page examines, they may be sorted.
        let reads = if self.is_filtered() && reads == Reads::InOrder { Reads::Own } else { reads };
        check_plan(own, &sql, &self.into_values(21), reads).await;
    }
}

#[tokio::test]
async fn r9_no_list_in_postgresql_looks_at_rows_of_others() {
    let database = Database::new();
    let own = filled(&database).await;
    let start = Key { at: 15_000, session_id: "s5".to_owned(), n: 7 };
    let mut seen = 0;
    for visible_to in people() {
        for bits in 0..32_u8 {
            let [one, two, session, started, filtered] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
            let named = |name: &str| filtered.then(|| name.to_owned());
            let start = started.then_some(&start);
            let reads = if visible_to.is_some() { Reads::Own } else { Reads::InOrder };
            let of_session = if session { Reads::Session } else { reads };
            let filter = InterruptionFilter {
                waiting: one.then_some(two),
                role: (two && !session).then(|| "r1".to_owned()),
                visible_to: visible_to.clone(),
                agent: named("a"),
                tool: named("t").filter(|_| one),
                session_id: None,
            };
            for query in inbox(&filter, session.then_some(1), start) {
                query.check_plan(&own, INBOX_ORDER, of_session).await;
                seen += 1;
            }
            let filter = RuleFilter {
                standing: one.then_some(two),
                now: 5,
                visible_to: visible_to.clone(),
                ..RuleFilter::default()
            };
            for query in rules::queries(&filter, session.then_some(1), start) {
                query.check_plan(&own, rules::ORDER, of_session).await;
                seen += 1;
            }
            let status = (filtered && two).then_some(Status::Running);
            let filter = SessionFilter { status, agent: named("a"), visible_to: visible_to.clone() };
            for (query, order) in used(&filter, start) {
                query.check_plan(&own, order, reads).await;
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

/// The rows of all pages of a list, and the number of pages.
async fn all_pages<T>(mut read: impl AsyncFnMut(&Page) -> Result<Paged<T>, StoreError>) -> (Vec<T>, usize) {
    let (mut rows, mut pages, mut page) = (Vec::new(), 0, Page { cursor: None, limit: 100 });
    loop {
        let paged = read(&page).await.expect("a page");
        rows.extend(paged.rows);
        (pages, page.cursor) = (pages + 1, paged.next);
        if page.cursor.is_none() {
            return (rows, pages);
        }
    }
}

#[tokio::test]
async fn r9_a_page_of_a_filtered_list_in_postgresql_looks_at_a_bounded_number_of_rows_and_the_next_ones_find_the_rest()
{
    let database = Database::new();
    let own = filled(&database).await;
    database.run("UPDATE interruptions SET agent = 'rare' WHERE session % 5000 = 1");
    let pool = pool(&database.url().parse().expect("a URL"), 2, std::sync::Arc::default()).expect("a pool");
    let held = Held::of(&pool).await.expect("a connection");
    let u7 = Visible { subject: Some("u7".to_owned()), tenant: Some("north".to_owned()), roles: vec!["r1".to_owned()] };
    for visible_to in [None, Some(u7)] {
        let inbox = InterruptionFilter { visible_to: visible_to.clone(), ..InterruptionFilter::default() };
        let list = async |filter: &InterruptionFilter| {
            let (rows, pages) = all_pages(async |page| interruptions(&held, filter, page).await).await;
            (rows.into_iter().map(|row| row.session_id.to_string()).collect::<Vec<_>>(), pages)
        };
        let nobody = InterruptionFilter { agent: Some("nobody".to_owned()), ..inbox.clone() };
        // 18,000 are resolved, 10,000 of them for a page.
        let pages = if visible_to.is_none() { 2 } else { 1 };
        assert_eq!(list(&nobody).await, (Vec::new(), pages));
        let rare = InterruptionFilter { agent: Some("rare".to_owned()), ..inbox.clone() };
        assert_eq!(list(&rare).await.0, ["s15001", "s10001", "s5001", "s1"]);
        let every = InterruptionFilter { tool: Some("t".to_owned()), ..inbox.clone() };
        assert_eq!(list(&every).await.0, list(&inbox).await.0, "none is left out or shown twice");
    }
    let running = SessionFilter { status: Some(Status::Running), ..SessionFilter::default() };
    let (rows, pages) = all_pages(async |page| sessions(&held, &running, page).await).await;
    assert_eq!((rows.len(), pages), (20, 3));
    let nobody = SessionFilter { agent: Some("nobody".to_owned()), ..SessionFilter::default() };
    let query = used(&nobody, None).remove(0).0;
    let sql = format!("EXPLAIN (ANALYZE, TIMING OFF) {}", query.numbered(USED_ORDER));
    let plan = own.ask(&sql, &query.into_values(101)).await.expect("a plan");
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let walks = plan.iter().find(|step| step.contains("Index Scan Backward using sessions_used")).expect("its order");
    assert!(walks.contains("(actual rows=10000 "), "{plan:#?}");
}

#[tokio::test]
async fn r9_what_is_due_running_or_claimed_is_found_by_its_index() {
    let database = Database::new();
    let own = filled(&database).await;
    for due in DUE {
        check_plan(&own, due, &[100_i64.into(), 10_i64.into(), 1_i64.into()], Reads::InOrder).await;
    }
    check_plan(&own, RUNNING, &[], Reads::InOrder).await;
    let left_out = Value::many([b"s5"]);
    check_plan(&own, TAKE_OVER, &[1_i64.into(), 9_i64.into(), 1_i64.into(), left_out], Reads::Own).await;
    for all in [false, true] {
        check_plan(&own, OWN, &[1_i64.into(), "s".into(), all.into(), 9_i64.into()], Reads::Own).await;
    }
    let of_one = |text: &[u8]| Value::many([text]);
    check_plan(&own, super::super::append::CLAIMED, &["s5".into(), of_one(b"r"), of_one(b"")], Reads::Session).await;
    for subject in [Some("u7"), None] {
        let asked = [(Some("north"), subject, "t", "a")];
        check_plan(&own, rules::STANDING, &rules::standing(asked.into_iter()), Reads::Own).await;
    }
    let values = [5_i64.into(), 10_i64.into(), i64::MAX.into(), tenant(Some("north")).into()];
    for of in [super::super::rows::AUDIT_OF, super::super::rows::AUDIT_NEWEST_OF] {
        check_plan(&own, of, &values, Reads::Own).await;
    }
}
