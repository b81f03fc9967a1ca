//! A database that fails over to a standby: what it lost is noticed, and where it lost nothing the store goes on.

use std::{sync::Arc, time::Duration};

use countersign_core::{call::gate::Verdict, journal::graph};
use countersign_store::{
    Store, StoreError,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
    restored,
};
use countersign_test_postgres::Database;

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
    let mut tries = 0;
    while let Err(error) = store.append(next.clone()).await {
        assert!(matches!(error, StoreError::Failed(_) | StoreError::Unknown), "{error:?}");
        tries += 1;
        assert!(tries < 1000, "{error:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    driven.take(next);
    assert_eq!(load(&*store, "s").await.as_ref(), Some(&driven.state));
    drop(store);
    let again = open(&url).await;
    assert_eq!(again.history_id().await.expect("read"), history);
    assert_eq!(load(&again, "s").await.as_ref(), Some(&driven.state), "nothing is held");
}
