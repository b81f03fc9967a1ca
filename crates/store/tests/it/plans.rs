//! What the statements of the PostgreSQL store read, however large its tables have become since they were planned.

use std::time::Duration;

use countersign_core::approval::decision::Decision;
use countersign_store::{RuleOwner, Store, postgres::PostgresStore};
use countersign_test_postgres::Database;
use futures::future::join_all;

use crate::store_support::{Driven, asks, open_postgres, waiting};

async fn open(database: &Database) -> PostgresStore {
    open_postgres(database).await.expect("open")
}

/// Plans are made while the tables are small, and have to be right when they are not.
#[tokio::test]
async fn r10_nothing_at_work_reads_a_table_or_an_index_from_end_to_end() {
    const MANY: i64 = 3000;
    let database = Database::new();
    // A connection's reads are counted at the latest when it has ended. Making an index reads its table.
    let ended = async || {
        let others = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        while !database.query(others).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    drop(open(&database).await);
    ended().await;
    database.run("SELECT pg_stat_reset()");
    let store = open(&database).await;
    for i in 0..12 {
        if i == 4 {
            database.run(&format!(
                "WITH others AS (
                   INSERT INTO sessions (id, pos, agent, tenant, status, created_at, updated_at, pending, epoch, format)
                   SELECT ('other' || n)::bytea, 1, 'a', '', 'paused', n, n, '{{}}', 0, 1 FROM generate_series(1, {MANY}) n
                   RETURNING number, id
                 ), seen AS (
                   INSERT INTO reviewers (session, role, session_id, tenant, updated_at) SELECT number, 'admin', id, '', 1 FROM others
                 ), stands AS (
                   INSERT INTO rules (session, interruption, action, number, session_id, tenant, agent, tool, scope, body, made_at)
                   SELECT number, 1, 0, 1, id, '', 'a', 'u', 'user', '{{}}', 1 FROM others
                 ), known AS (
                   INSERT INTO request_ids (session, id, sent_by, purpose) SELECT number, 'yes', '', 'message' FROM others
                 )
                 INSERT INTO interruptions (session, number, session_id, tenant, role, agent, tools, asked_at, asked_pos)
                 SELECT number, 1, id, '', 'admin', 'a', '{{}}', 1, 1 FROM others"
            ));
        }
        let id = format!("s{i}");
        let mut driven = waiting(&store, &id, i, Some("ann"), "t", asks(Some("admin"), 60)).await;
        let n = driven.state.open[0].asked.n;
        let yes = driven.decides(i + 1, n.get(), Decision::approve(), Some("yes")).expect("decide");
        driven.store(&store, yes).await.expect("decided");
        assert!(store.tail(&id, 99, 1 << 20).await.expect("tail").is_some());
        store.head(&id).await.expect("head");
        store.read(&id, 0, 99).await.expect("read");
        store.request(&id, &"yes".into()).await.expect("known");
        // Of one row the planner does not know whether it was looked up.
        match i {
            0 => continue,
            1 => database.run("ANALYZE"),
            _ => {}
        }
        // More of these than are sent one by one: the others are stored together.
        let mut crowd = Vec::new();
        for one in 0..32 {
            crowd.push(waiting(&store, &format!("s{i}-{one}"), i, Some("ann"), "t", asks(Some("admin"), 60)).await);
        }
        // Those are read together too.
        join_all(crowd.iter().map(|driven| store.tail(&driven.id, 99, 1 << 20))).await;
        join_all(crowd.iter().map(|_| store.standing(RuleOwner::default(), "a", "t"))).await;
        let yes = |driven: &Driven| {
            driven.append_of(driven.decides(i + 1, 1, Decision::approve(), Some("yes")).expect("decide"))
        };
        for decided in join_all(crowd.iter().map(|driven| store.append(yes(driven)))).await {
            decided.expect("decided");
        }
        // Planned for its values each time, by what the database last knew of the table.
        if i < 4 {
            store.due(i, 9).await.expect("due");
        }
    }
    drop(store);
    ended().await;
    let tables = "WHERE relname IN ('sessions', 'entries', 'snapshots', 'interruptions', 'request_ids', 'session_ids', 'reviewers',
      'rules')";
    let used = format!("SELECT FROM pg_stat_user_tables {tables} AND idx_scan >= 12");
    assert_eq!(database.query(&used).len(), 8);
    let read =
        format!("SELECT relname || ' ' || seq_tup_read FROM pg_stat_user_tables {tables} AND seq_tup_read >= {MANY}");
    assert_eq!(database.query(&read), Vec::<Vec<Option<String>>>::new());
    let read = format!(
        "SELECT indexrelname || ' ' || idx_tup_read FROM pg_stat_user_indexes {tables} AND idx_tup_read >= {MANY}"
    );
    assert_eq!(database.query(&read), Vec::<Vec<Option<String>>>::new());
}
