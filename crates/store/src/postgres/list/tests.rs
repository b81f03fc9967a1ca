//! How PostgreSQL goes about the queries, in tables with many rows of others.

use countersign_test_postgres::Database;

use super::{
    super::{
        PostgresUrl,
        connect::{Own, first},
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
 INSERT INTO sessions (id, pos, agent, tenant, subject, status, created_at, updated_at, pending, node, epoch, needs)
   SELECT convert_to('s' || i, 'UTF8'), 1, 'a', CASE WHEN i % 2 = 0 THEN '' ELSE '=north' END::bytea,
     convert_to('u' || i % 200, 'UTF8'), CASE WHEN i % 1000 = 0 THEN 'running' ELSE 'completed' END, i, i, '{}',
     CASE WHEN i % 1000 = 0 THEN i / 1000 % 4 END, 1, 1
   FROM generate_series(1, 20000) i;
 INSERT INTO interruptions
   SELECT row, 1, id, tenant, subject, convert_to('r' || row % 20, 'UTF8'), 'a', ARRAY['t'::bytea], row, row, row, 1,
     CASE WHEN row % 10 = 0 THEN NULL ELSE 'decided' END, 1, 1 FROM sessions;
 INSERT INTO reviewers SELECT session, role, id, tenant, asked_at FROM interruptions;
 INSERT INTO rules
   SELECT row, 1, 0, 1, id, subject, tenant, 'a', 't', true, convert_to('r' || row % 20, 'UTF8'), subject, '{}', row, NULL,
     CASE WHEN row / 2 % 2 = 0 THEN 1 END FROM sessions;
 INSERT INTO requests SELECT row, 'r', false FROM sessions;
 INSERT INTO audit SELECT row, 'h', '{}', CASE WHEN row % 100 = 0 THEN '=north' ELSE '' END::bytea FROM sessions;";

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
    async fn check_plan(mut self, own: &Own, order: &str, reads: Reads) {
        let sql = self.numbered(order);
        self.values.push(21_i64.into());
        check_plan(own, &sql, &self.values, reads).await;
    }
}

#[tokio::test]
async fn r9_no_list_in_postgresql_looks_at_rows_of_others() {
    let database = Database::new();
    let own = filled(&database).await;
    let start = Key { at: 15_000, session_id: "s5".to_owned(), n: 7 };
    let mut seen = 0;
    for visible_to in people() {
        for bits in 0..16_u8 {
            let [one, two, session, started] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
            let start = started.then_some(&start);
            let reads = if visible_to.is_some() { Reads::Own } else { Reads::InOrder };
            let of_session = if session { Reads::Session } else { reads };
            let filter = InterruptionFilter {
                waiting: one.then_some(two),
                role: (two && !session).then(|| "r1".to_owned()),
                visible_to: visible_to.clone(),
                ..InterruptionFilter::default()
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
            let filter = SessionFilter { status: None, agent: None, visible_to: visible_to.clone() };
            for (query, order) in used(&filter, start) {
                query.check_plan(&own, order, reads).await;
                seen += 1;
            }
        }
    }
    assert!(seen > 300, "{seen}");
}

#[tokio::test]
async fn r9_what_is_due_running_or_claimed_is_found_by_its_index() {
    let database = Database::new();
    let own = filled(&database).await;
    for due in DUE {
        check_plan(&own, due, &[100_i64.into(), 10_i64.into(), 1_i64.into()], Reads::InOrder).await;
    }
    check_plan(&own, RUNNING, &[], Reads::InOrder).await;
    check_plan(&own, TAKE_OVER, &[1_i64.into(), 9_i64.into(), 1_i64.into()], Reads::Own).await;
    for all in [false, true] {
        check_plan(&own, OWN, &[1_i64.into(), "s".into(), all.into(), 9_i64.into()], Reads::Own).await;
    }
    check_plan(&own, super::super::append::CLAIMED, &["s5".into(), Value::Many(vec![b"r".to_vec()])], Reads::Session)
        .await;
    let [of, subject, tool, agent] = [tenant(Some("north")).into(), "u7".into(), "t".into(), "a".into()];
    check_plan(&own, rules::STANDING, &[of, tool, agent, subject], Reads::Own).await;
    let values = [5_i64.into(), 10_i64.into(), tenant(Some("north")).into()];
    for of in [super::super::rows::AUDIT_OF, super::super::rows::AUDIT_NEWEST_OF] {
        check_plan(&own, of, &values, Reads::Own).await;
    }
}
