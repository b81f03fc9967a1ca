//! In which schema of a database a store is, and that it stays there.

use std::time::Duration;

use countersign_store::{
    Store,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::Database;

use crate::store_support::{begun, load};

/// Ends the connections of others.
const ENDED: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// By default a schema with the name of the user is the first that PostgreSQL looks into.
#[tokio::test]
async fn r5_a_schema_that_is_made_before_that_of_a_store_leads_no_node_elsewhere() {
    for pooled in [false, true] {
        let database = Database::new();
        let url = if pooled { database.pooled_url() } else { database.url().to_owned() };
        let mut url: PostgresUrl = url.parse().expect("a URL");
        if pooled {
            url = url.through_pooler(None).expect("no options");
        }
        let open = async || PostgresStore::open(&url, &PostgresOptions::default()).await;
        let store = open().await.expect("open");
        let one = begun(&store, "one", 1, None).await;
        database.run("CREATE SCHEMA AUTHORIZATION CURRENT_USER");
        let two = begun(&store, "two", 2, None).await;
        database.run(ENDED);
        let mut tries = 0;
        while let Err(error) = store.head("one").await {
            tries += 1;
            assert!(tries < 1000, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for driven in [one, two] {
            assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state), "also on a new connection");
        }
        drop(store);
        let refused = open().await.expect_err("which is meant?").to_string();
        assert!(refused.contains("a store in the schema public, and before that"), "{refused}");
        let tables = "SELECT FROM pg_class WHERE relname = 'countersign'";
        assert_eq!(database.query(tables).len(), 1, "no other store was made");
    }
}

#[tokio::test]
async fn r5_a_node_does_not_go_on_in_another_store() {
    let database = Database::new();
    let url: PostgresUrl = database.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    begun(&store, "s", 1, None).await;
    database.run("UPDATE countersign SET notification_key = uuid_send(gen_random_uuid())");
    database.run(ENDED);
    let mut tries = 0;
    let refused = loop {
        match store.head("s").await {
            Err(error) if error.to_string().contains("another store") => break error.to_string(),
            other => assert!(tries < 1000, "{other:?}"),
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(refused.contains("another store is in the database now"), "{refused}");
}
