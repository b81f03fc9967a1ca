//! A database that fails over to a standby: the store notices what was lost, and continues if nothing was.

use std::{sync::Arc, time::Duration};

use countersign_core::{call::gate::Verdict, journal::graph};
use countersign_store::{
    Append, Store, StoreError,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
    restored,
};
use countersign_test_postgres::{Database, Standby};

use crate::store_support::{Driven, begun, load};

async fn open(url: &PostgresUrl) -> PostgresStore {
    PostgresStore::open(url, &PostgresOptions::default()).await.expect("open")
}

/// Why no session can be made once the database answers again.
async fn refused(store: &PostgresStore) -> StoreError {
    let new = Driven::new("new");
    for _ in 0..1000 {
        match store.append(new.append_of(new.created(9, None))).await {
            Err(StoreError::Failed(_) | StoreError::Unknown) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return error,
            Ok(_) => panic!("the store is open"),
        }
    }
    panic!("the database does not answer")
}

/// Appends once the database answers again.
async fn stored_at_last(store: &dyn Store, next: &Append) {
    let mut tries = 0;
    while let Err(error) = store.append(next.clone()).await {
        assert!(matches!(error, StoreError::Failed(_) | StoreError::Unknown), "{error:?}");
        tries += 1;
        assert!(tries < 1000, "{error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A call that needs no approval, which may have been carried out before the fail-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_a_store_whose_database_lost_something_by_a_fail_over_closes_and_its_turns_are_held() {
    let (database, standby) = Database::with_a_standby(false);
    let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
    let store = open(&url).await;
    let history = store.history_id().await.expect("read");
    let mut driven = begun(&store, "s", 1, None).await;
    driven.store(&store, driven.calls(2, &[("pay", Verdict::Allow)])).await.expect("stored");
    standby.cut_off(&database);
    assert_eq!(graph::next(&driven.state).start.len(), 1, "it begins now");
    let lost = begun(&store, "lost", 3, None).await;
    database.fail_over_to(&standby);
    let closed = loop {
        match store.head("s").await {
            Err(StoreError::Failed(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            other => break other.expect_err("it has not all that this process knows"),
        }
    };
    assert!(matches!(&closed, StoreError::Closed(why) if why.contains("timeline 2, and was on 1")), "{closed}");
    assert!(matches!(refused(&store).await, StoreError::Closed(_)), "for good");
    assert!(matches!(store.sync().await, Err(StoreError::Closed(_))), "nothing is acknowledged any more");
    let again = open(&url).await;
    assert!(again.head(&lost.id).await.expect("read").is_none());
    let held = load(&again, "s").await.expect("stored");
    assert!(graph::next(&held).start.is_empty(), "nothing begins");
    assert_ne!(again.history_id().await.expect("read"), history);
    assert!(restored::hold(&again).await.expect("held").sessions.is_empty(), "all were held");
    drop(again);
    let third = open(&url).await;
    let before = third.history_id().await.expect("read");
    drop(third);
    assert_eq!(open(&url).await.history_id().await.expect("read"), before, "once is enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_after_a_fail_over_to_a_standby_for_which_commits_waited_the_store_goes_on() {
    let (database, standby) = Database::with_a_standby(true);
    let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
    let store = Arc::new(open(&url).await);
    let history = store.history_id().await.expect("read");
    let mut driven = begun(&*store, "s", 1, None).await;
    while database.query("SELECT FROM countersign WHERE synchronous").is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    database.fail_over_to(&standby);
    // The former standby waits for nobody.
    let next = driven.append_of(driven.calls(2, &[("pay", Verdict::Allow)]));
    stored_at_last(&*store, &next).await;
    driven.take(next);
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state));
    drop(store);
    let again = open(&url).await;
    assert_eq!(again.history_id().await.expect("read"), history);
    assert_eq!(load(&again, "s").await.as_ref(), Some(&driven.state), "nothing is held");
}

/// It was cut off for longer than its lease, and processes have joined meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_node_that_was_taken_for_dead_before_a_fail_over_goes_on_after_it() {
    let (database, standby) = Database::with_a_standby(true);
    let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
    // It does not renew its term here.
    let mut options = PostgresOptions::default();
    options.lease = Duration::from_secs(3600);
    let store = PostgresStore::open(&url, &options).await.expect("open");
    let history = store.history_id().await.expect("read");
    let mut driven = begun(&store, "s", 1, None).await;
    while database.query("SELECT FROM countersign WHERE synchronous").is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Another node has taken its sessions over, and let them rest.
    database.run("UPDATE nodes SET until = '-infinity'; UPDATE sessions SET node = NULL");
    open(&url).await.nodes().expect("several").leave().await;
    database.fail_over_to(&standby);
    let next = driven.append_of(driven.calls(2, &[("pay", Verdict::Allow)]));
    stored_at_last(&store, &next).await;
    driven.take(next);
    let again = open(&url).await;
    assert_eq!(again.history_id().await.expect("read"), history);
    assert_eq!(load(&again, "s").await.as_ref(), Some(&driven.state), "nothing is held");
}

/// A store for whose commits a standby is waited, which is away: its first session, and an append to that.
async fn with_no_standby() -> (Database, Standby, Arc<PostgresStore>, Driven, Append) {
    let (database, standby) = Database::with_a_standby(true);
    let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
    let store = Arc::new(open(&url).await);
    let driven = begun(&*store, "s", 1, None).await;
    while database.query("SELECT FROM countersign WHERE synchronous").is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let next = driven.append_of(driven.calls(2, &[("pay", Verdict::Allow)]));
    // What was read before the database restarts is confirmed.
    store.sync().await.expect("the standby answers");
    standby.cut_off(&database);
    (database, standby, store, driven, next)
}

/// Waits until a commit of such a statement waits for the standby, and returns its sessions of the database.
async fn waiting(database: &Database, statement: &str) -> String {
    let sql = format!(
        "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%{statement}%'"
    );
    loop {
        if let Some(pids) = database.query(&sql).remove(0).remove(0) {
            return pids;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The start of a call that everybody sees, and no standby has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_what_became_visible_without_its_standby_is_not_taken_for_stored() {
    let (database, standby, store, driven, next) = with_no_standby().await;
    let append = tokio::spawn({
        let (store, next) = (store.clone(), next.clone());
        async move { store.append(next).await }
    });
    let pids = waiting(&database, "SET pos").await;
    let ended = database.query(&format!("SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{pids}]) AS pid"));
    assert!(!ended.is_empty());
    assert!(matches!(append.await.expect("it ends"), Err(StoreError::Unknown)));
    assert!(matches!(store.append(next.clone()).await, Err(StoreError::Conflict | StoreError::Fenced)), "all see it");
    let confirmed = tokio::spawn({
        let store = store.clone();
        async move { store.sync().await }
    });
    waiting(&database, "COMMIT").await;
    assert!(!confirmed.is_finished(), "it waits for the standby");
    database.fail_over_to(&standby);
    assert!(matches!(confirmed.await.expect("it ends"), Err(StoreError::Unknown)), "and never heard of it");
    let mut tries = 0;
    while let Err(error) = store.head("s").await {
        tries += 1;
        assert!(tries < 1000, "{error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state), "the call has not begun");
    store.append(next).await.expect("so it may begin now");
    store.sync().await.expect("and that is for good");
}

/// As an append does: a caller that waits for a lease does not lock the session forever.
#[tokio::test]
async fn r5_a_lease_that_waits_for_a_standby_without_end_is_told_as_unknown() {
    let (database, _standby, store, ..) = with_no_standby().await;
    let claim = tokio::spawn({
        let store = store.clone();
        async move { store.nodes().expect("several").claim("s").await }
    });
    waiting(&database, "SET node").await;
    tokio::time::pause();
    assert!(matches!(claim.await.expect("it ends"), Err(StoreError::Unknown)));
    assert!(matches!(store.sync().await, Err(StoreError::Unknown)), "what shows of it is not taken for stored");
}

/// Nobody would see why a server does not come up, and each start would leave a session of the database that waits.
#[tokio::test]
async fn r5_a_store_is_not_opened_while_no_standby_answers_and_says_so() {
    let (database, standby) = Database::with_a_standby(true);
    let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
    standby.cut_off(&database);
    for stored in ["its tables", "its node"] {
        let opened = tokio::spawn({
            let url = url.clone();
            async move { PostgresStore::open(&url, &PostgresOptions::default()).await }
        });
        waiting(&database, "COMMIT").await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(71)).await;
        tokio::time::resume();
        let refused = opened.await.expect("it ends").expect_err(stored);
        assert!(refused.to_string().contains("none answers"), "{stored}: {refused}");
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while !database.query(waits).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
