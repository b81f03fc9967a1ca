//! The PostgreSQL store through a transaction pooler, which gives each transaction any session of the database: the
//! store must neither rely on the state of a session nor leave any behind.

use std::{sync::Arc, time::Duration};

use countersign_core::journal::draft::OnPending;
use countersign_store::{
    Append, Guards, SessionFilter, Store, StoreError,
    nodes::{Hint, Said, TextId, TextPlace},
    postgres::{Past, PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, SESSIONS};

use crate::{
    postgres::{commits_unheard, of_a_rule, survives_cuts},
    store_support::{Tested, asks, begun, ids, open_pooled, open_postgres, pooled_url_of, url_of, waiting},
};

/// A node with a direct connection beside the pooler.
async fn open_past(database: &Database) -> PostgresStore {
    let url = pooled_url_of(database, Some(url_of(database)));
    PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open")
}

/// What a client of the pooler finds in the session that it gets.
async fn found(database: &Database, sql: &str) -> String {
    let (client, connection) =
        tokio_postgres::connect(&database.pooled_url(), tokio_postgres::NoTls).await.expect("connect");
    tokio::spawn(connection);
    client.query_typed(sql, &[]).await.expect("a row")[0].get(0)
}

#[tokio::test]
async fn c_a_transaction_pooler_that_the_url_does_not_admit_is_refused_with_what_to_set() {
    let database = Database::new();
    drop(open_postgres(&database).await.expect("a store"));
    let unsaid: PostgresUrl = database.pooled_url().parse().expect("a URL");
    let options = PostgresOptions::default();
    let refused = [
        PostgresStore::open(&unsaid, &options).await.err(),
        PostgresStore::open_existing(&unsaid, &options).await.err(),
        Past::open(&unsaid).await.err(),
    ];
    for refused in refused {
        let told = refused.expect("a pooler").to_string();
        assert!(told.contains("transaction pooler") && told.contains("`pooled = true`"), "{told}");
    }
    assert_eq!(found(&database, "SELECT current_setting('statement_timeout')").await, "0", "nothing is left there");
    let optional = format!("{}?options=-c%20search_path%3Dpublic", database.pooled_url()).parse().expect("a URL");
    let refused = PostgresStore::open(&optional, &options).await.expect_err("PgBouncer refuses it").to_string();
    assert!(refused.contains("unsupported startup parameter") && refused.contains("`pooled = true`"), "{refused}");
}

#[tokio::test]
async fn c_a_way_past_the_pooler_leads_past_it_and_to_the_same_place() {
    let (database, other) = (Database::new(), Database::new());
    let options = PostgresOptions::default();
    let pooled = pooled_url_of(&database, Some(database.pooled_url().parse().expect("a URL")));
    let refused = PostgresStore::open(&pooled, &options).await.expect_err("a pooler").to_string();
    assert!(refused.contains("`direct_url` in [store] must name the database itself"), "{refused}");
    let elsewhere = pooled_url_of(&database, Some(url_of(&other)));
    let refused = PostgresStore::open(&elsewhere, &options).await.expect_err("another database").to_string();
    assert!(refused.contains("lead to different places"), "{refused}");
    for database in [&database, &other] {
        let tables = database.query("SELECT count(*)::text FROM pg_class WHERE relname = 'sessions'");
        assert_eq!(tables[0][0].as_deref(), Some("0"), "nothing was made");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c_many_nodes_open_an_empty_database_through_a_pooler_at_once() {
    let database = Arc::new(Database::new());
    let nodes: Vec<_> = (0..6)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move { open_pooled(&database).await })
        })
        .collect();
    for node in nodes {
        node.await.expect("task").expect("open");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_many_clients_share_the_poolers_few_sessions_and_leave_nothing_in_them() {
    let database = Database::new();
    let store: Tested = Arc::new(open_pooled(&database).await.expect("open"));
    let tasks: Vec<_> = (0..40)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                waiting(&*store, &format!("s{i}"), i, None, "t", asks(None, 60)).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
    assert_eq!(ids(&store, SessionFilter::default()).await.len(), 40);
    let shared = "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database()
                  AND pid <> pg_backend_pid()";
    let shared: u32 = database.query(shared)[0][0].as_deref().and_then(|n| n.parse().ok()).expect("a number");
    assert!(shared <= SESSIONS, "{shared}");
    for _ in 0..2 * SESSIONS {
        let left = "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
                      current_setting('idle_in_transaction_session_timeout'),
                      (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
                      (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()))";
        assert_eq!(found(&database, left).await, "0 0 0 0 0 0");
    }
}

/// A statement by itself is a transaction too: whatever is acknowledged is on the disk.
#[tokio::test]
async fn r3_every_write_has_its_settings_through_a_pooler_and_past_it() {
    for pooled in [true, false] {
        let database = Database::new();
        let name = database.query("SELECT current_database()")[0][0].clone().expect("a name");
        for setting in ["synchronous_commit = off", "default_transaction_isolation = 'repeatable read'"] {
            database.run(&format!("ALTER DATABASE {name} SET {setting}"));
        }
        let opened = if pooled { open_pooled(&database).await } else { open_postgres(&database).await };
        writes_with_its_settings(&database, opened.expect("open")).await;
    }
}

async fn writes_with_its_settings(database: &Database, store: PostgresStore) {
    database.run(
        "CREATE TABLE had (by text, settings text);
         CREATE FUNCTION had() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO had SELECT tg_table_name, concat_ws(' ', current_setting('synchronous_commit'),
             current_setting('statement_timeout'), current_setting('lock_timeout'),
             current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'));
           RETURN NEW;
         END $$;
         CREATE TRIGGER had BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION had();
         CREATE TRIGGER had BEFORE UPDATE ON countersign FOR EACH ROW EXECUTE FUNCTION had();
         CREATE TRIGGER had BEFORE INSERT OR UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION had()",
    );
    let bound = of_a_rule(&store).await;
    let mut driven = begun(&store, "s", 1, None).await;
    // One append that is one statement, and one in a transaction.
    for guards in [Guards::default(), bound] {
        let said = driven.says(2, "more", None, Some(OnPending::Queue)).expect("queue");
        let append = Append { guards, ..driven.append_of(said) };
        store.append(append.clone()).await.expect("stored");
        driven.take(append);
    }
    store.check().await.expect("written");
    store.nodes().expect("nodes").leave().await;
    let had = database.query("SELECT DISTINCT by, settings FROM had ORDER BY by");
    let all = |by: &str| vec![Some(by.to_owned()), Some("on 1min 20s 5s read committed".to_owned())];
    assert_eq!(had, [all("countersign"), all("entries"), all("nodes")]);
}

/// A text that another node follows.
fn wanted() -> Said {
    let text = TextId { block: 1, epoch: 2, n: 3 };
    Said::Wanted { session_id: "s".into(), known: TextPlace { text, offset: 4 } }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r7_nodes_behind_a_pooler_hear_each_other_past_it_and_not_without() {
    let database = Database::new();
    let (one, two) = (open_past(&database).await, open_past(&database).await);
    let nodes = two.nodes().expect("nodes");
    let (mut hints, mut texts) = (nodes.hints(), nodes.said());
    // Notifications from before the other one listens are lost.
    let told = async {
        for n in 0.. {
            begun(&one, &format!("s{n}"), 1, None).await;
            one.nodes().expect("nodes").say(wanted());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let heard = async {
        while !matches!(hints.recv().await.expect("hints"), Hint::Changed(_)) {}
        assert_eq!(texts.recv().await.expect("texts"), wanted());
    };
    let heard = async {
        tokio::select! { () = told => {}, () = heard => {} }
    };
    tokio::time::timeout(Duration::from_secs(30), heard).await.expect("it is heard");
    // Without one, changes by others are found by polling, and their texts are not seen.
    let three = open_pooled(&database).await.expect("open");
    let alone = three.nodes().expect("nodes");
    let (mut hints, mut texts) = (alone.hints(), alone.said());
    assert!(!alone.say(wanted()), "nobody would hear it");
    one.nodes().expect("nodes").say(wanted());
    begun(&one, "t", 1, None).await;
    one.nodes().expect("nodes").leave().await;
    let taken = alone.take_over(9999, Vec::new()).await.expect("taken");
    assert!(taken.iter().any(|(id, _)| &**id == "t"), "{taken:?}");
    assert!(hints.try_recv().is_err() && texts.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_an_append_whose_commit_is_not_answered_through_a_pooler_is_unknown_and_stored() {
    let database = Database::new();
    // An append of one statement has a COMMIT too.
    commits_unheard(&database.pooled_url(), ["COMMIT", "COMMIT"], |url| url.through_pooler(None).expect("no options"))
        .await;
}

/// Sessions of the database end under the pooler: its clients lose their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r3_sessions_cut_behind_a_pooler_lose_nothing_that_was_acknowledged() {
    let database = Database::new();
    survives_cuts(&database, open_pooled(&database).await.expect("open")).await;
}

#[tokio::test]
async fn r2_what_gave_way_to_others_behind_a_pooler_is_tried_again_and_stored_once() {
    let database = Database::new();
    let store = open_pooled(&database).await.expect("open");
    crate::postgres::gives_way(&database, &store, "40001", true).await;
}

#[tokio::test]
async fn r9_past_and_errors_through_a_pooler_are_those_of_the_database() {
    let database = Database::new();
    let store = open_pooled(&database).await.expect("open");
    begun(&store, "s", 1, None).await;
    let past = Past::open(&pooled_url_of(&database, None)).await.expect("a store");
    assert_eq!(past.entries("s", 0, 9).await.expect("entries").len(), 2);
    database.run("DROP TABLE past_snapshots");
    let failed = store.waypoint("s", 1, 1).await.expect_err("it has no such table");
    assert!(matches!(&failed, StoreError::Failed(told) if told.contains("42P01")), "{failed:?}");
    assert!(store.head("s").await.expect("the connection is good").is_some());
}
