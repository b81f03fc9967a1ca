//! Who counts as alive, whatever the database's clock says, and who as dead though it renews its term (spec R5).

use std::time::Duration;

use countersign_store::{
    Store,
    nodes::{Epoch, Nodes},
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, Proxy};

use crate::store_support::{begun, url_of};

const LEASE: Duration = Duration::from_secs(2);

async fn node_at(url: &PostgresUrl) -> PostgresStore {
    let mut options = PostgresOptions::default();
    options.lease = LEASE;
    PostgresStore::open(url, &options).await.expect("open")
}

fn nodes(store: &PostgresStore) -> &dyn Nodes {
    store.nodes().expect("others may share it")
}

/// How many sessions it takes over.
async fn taken(store: &PostgresStore) -> usize {
    nodes(store).take_over(9, Vec::new()).await.expect("taken").len()
}

/// It has the lease of a session.
async fn works(store: &PostgresStore) -> Epoch {
    begun(store, "s", 1, None).await;
    nodes(store).claim("s").await.expect("claim").expect("its own")
}

/// A node that does this in a process which the test kills.
fn begins_in(process: &tokio::runtime::Runtime, url: &PostgresUrl) -> PostgresStore {
    std::thread::scope(|scope| {
        let begins = scope.spawn(|| {
            process.block_on(async {
                let one = node_at(url).await;
                works(&one).await;
                one
            })
        });
        begins.join().expect("a node")
    })
}

async fn within(seconds: u64, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(seconds), waited).await.unwrap_or_else(|_| panic!("not yet: {what}"));
}

/// A database whose clock the test sets.
fn clocked() -> Database {
    let database = Database::new();
    let name = database.query("SELECT current_database()")[0][0].clone().expect("a name");
    database.run(&format!(
        "CREATE SCHEMA clock;
         CREATE TABLE clock.clock (ahead interval);
         INSERT INTO clock.clock VALUES ('0');
         CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
           'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM clock.clock)';
         ALTER DATABASE {name} SET search_path = public, clock, pg_catalog"
    ));
    database
}

fn set(database: &Database, ahead: &str) {
    database.run(&format!("UPDATE clock.clock SET ahead = '{ahead}'"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_clock_of_the_database_that_is_set_forward_takes_nothing_from_nodes_that_are_alive() {
    let database = clocked();
    let (one, two) = (node_at(&url_of(&database)).await, node_at(&url_of(&database)).await);
    works(&one).await;
    assert_eq!(taken(&two).await, 0);
    set(&database, "1 hour");
    for _ in 0..30 {
        assert_eq!(taken(&two).await, 0, "it is alive");
        tokio::time::sleep(LEASE / 20).await;
    }
    drop(one);
    within(20, "it has left", async || taken(&two).await == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_that_died_is_taken_over_though_the_clock_of_the_database_is_set_back() {
    let database = clocked();
    set(&database, "40 days");
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let one = begins_in(&process, &url_of(&database));
    let two = node_at(&url_of(&database)).await;
    assert_eq!(taken(&two).await, 0);
    // Its tasks end where they are: it says nothing any more.
    process.shutdown_background();
    set(&database, "0");
    assert_eq!(taken(&two).await, 0, "it was alive a moment ago");
    within(20, "it is dead", async || taken(&two).await == 1).await;
    drop(one);
}

/// As a program does that only runs its sessions, and takes over none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_who_claims_a_session_of_a_dead_node_learns_that_it_is_dead() {
    let database = Database::new();
    let process = tokio::runtime::Runtime::new().expect("a runtime");
    let one = begins_in(&process, &url_of(&database));
    let two = node_at(&url_of(&database)).await;
    let claimed = async || nodes(&two).claim("s").await.expect("a claim").is_some();
    for _ in 0..20 {
        assert!(!claimed().await, "it is alive");
        tokio::time::sleep(LEASE / 10).await;
    }
    process.shutdown_background();
    within(20, "it is dead", claimed).await;
    drop(one);
}

/// The way by which it stores everything answers nothing, and the one by which it renews its term does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_whose_pooler_is_dead_is_taken_over_though_it_reaches_the_database_past_it() {
    let database = Database::new();
    let pooler = Proxy::before(database.url()).await;
    let through: PostgresUrl = pooler.url().parse().expect("a URL");
    let one = node_at(&through.through_pooler(Some(url_of(&database))).expect("no options")).await;
    let two = node_at(&url_of(&database)).await;
    works(&one).await;
    tokio::time::sleep(2 * LEASE).await;
    assert_eq!((nodes(&one).term(), taken(&two).await), (Some(0), 0), "it renews");
    pooler.hold(Duration::from_secs(15));
    within(12, "its term ends", async || nodes(&one).term().is_none()).await;
    within(12, "it is taken over", async || taken(&two).await == 1).await;
    within(40, "it renews again", async || nodes(&one).term() > Some(0)).await;
}
