//! Appends of several sessions that the PostgreSQL store commits together: each has the outcome that it would have by
//! itself.

use std::{sync::Arc, time::Duration};

use countersign_core::{approval::decision::Decision, journal::draft::OnPending, number::InterruptionNo};
use countersign_store::{
    Append, Store, StoreError,
    nodes::Epoch,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, Fault, Proxy};
use futures::future::join_all;

use crate::store_support::{Driven, asks, begun, load, open_pooled, open_postgres, texts, waiting};

const SESSIONS: usize = 40;

/// An append with this message for each of many sessions.
async fn appends(store: &PostgresStore, says: &str) -> Vec<Append> {
    let mut appends = Vec::new();
    for i in 0..SESSIONS {
        let driven = begun(store, &format!("s{i}"), 1, None).await;
        appends.push(queued(&driven, says));
    }
    appends
}

fn queued(driven: &Driven, says: &str) -> Append {
    driven.append_of(driven.says(2, says, None, Some(OnPending::Queue)).expect("queue"))
}

/// Stores all at once: on one thread all are queued before the first is sent.
async fn store_all(store: &PostgresStore, appends: &[Append]) -> Vec<Result<Option<Epoch>, StoreError>> {
    join_all(appends.iter().map(|append| store.append(append.clone()))).await
}

async fn assert_stored(store: &PostgresStore, append: &Append) {
    assert_eq!(load(store, &append.session_id).await.as_ref(), Some(&append.after));
    let again = store.append(append.clone()).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "it is stored once: {again:?}");
}

#[tokio::test]
async fn c_appends_that_wait_are_committed_together_and_each_is_stored() {
    for pooled in [false, true] {
        let database = Database::new();
        let store = if pooled { open_pooled(&database).await } else { open_postgres(&database).await }.expect("open");
        let appends = appends(&store, "hi").await;
        for stored in store_all(&store, &appends).await {
            stored.expect("stored");
        }
        let commits =
            format!("SELECT count(DISTINCT xmin::text)::text FROM entries WHERE pos > {}", appends[0].expected());
        let commits: usize = database.query(&commits)[0][0].as_deref().expect("a number").parse().expect("a number");
        assert!(commits < SESSIONS / 4, "{commits} transactions of {SESSIONS} appends");
        for append in &appends {
            assert_stored(&store, append).await;
        }
    }
}

/// Messages and decisions meet in one transaction.
#[tokio::test]
async fn r2_sessions_that_are_stored_together_are_what_they_are_apart() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let mut sessions = Vec::new();
    for i in 0..SESSIONS {
        sessions.push(waiting(&store, &format!("s{i}"), 1, Some("ann"), "t", asks(Some("admin"), 60)).await);
    }
    for turn in 2..6 {
        let mut appends = Vec::new();
        for (i, driven) in sessions.iter().enumerate() {
            let decided = || driven.decides(turn, 1, Decision::approve(), Some("yes")).ok();
            let next = if i % 4 == 0 { decided() } else { None };
            let said = || driven.says(turn, "more", Some(&format!("r{turn}")), Some(OnPending::Queue)).expect("queue");
            appends.push(driven.append_of(next.unwrap_or_else(said)));
        }
        let stored = store_all(&store, &appends).await;
        for ((driven, append), stored) in sessions.iter_mut().zip(appends).zip(stored) {
            stored.expect("stored");
            driven.take(append);
        }
    }
    for driven in &sessions {
        assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        assert_eq!(texts(&store.read(&driven.id, 0, usize::MAX).await.expect("read")), texts(&driven.entries));
        let row = store.interruption(&driven.id, InterruptionNo::FIRST).await.expect("read").expect("a row");
        assert_eq!(row.resolution.is_none(), !driven.state.open.is_empty(), "{row:?}");
    }
}

#[tokio::test]
async fn r2_an_append_that_comes_too_late_hinders_no_other_that_is_stored_with_it() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let appends = appends(&store, "hi").await;
    let before = appends[5].clone();
    store.append(before.clone()).await.expect("stored");
    for (i, stored) in store_all(&store, &appends).await.into_iter().enumerate() {
        match i {
            5 => assert!(matches!(stored, Err(StoreError::Conflict)), "{stored:?}"),
            _ => drop(stored.expect("stored")),
        }
        assert_stored(&store, &appends[i]).await;
    }
}

#[tokio::test]
async fn r2_an_append_that_the_database_refuses_hinders_no_other_that_is_stored_with_it() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let mut appends = appends(&store, "hi").await;
    let driven = begun(&store, "refused", 1, None).await;
    appends.insert(5, queued(&driven, "planted"));
    database.run(
        "CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF position('planted'::bytea IN NEW.body) > 0 THEN RAISE EXCEPTION 'planted'; END IF;
           RETURN NEW;
         END $$;
         CREATE TRIGGER refuses BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION refuses()",
    );
    for (append, stored) in appends.iter().zip(store_all(&store, &appends).await) {
        if *append.session_id == *driven.id {
            assert!(matches!(stored, Err(StoreError::Failed(_))), "{stored:?}");
            assert_eq!(load(&store, &driven.id).await.as_ref(), Some(&driven.state));
        } else {
            stored.expect("stored");
            assert_stored(&store, append).await;
        }
    }
}

#[tokio::test]
async fn r2_appends_whose_common_commit_is_not_answered_are_unknown_and_stored() {
    let database = Database::new();
    let proxy = Proxy::before(database.url()).await;
    let url: PostgresUrl = proxy.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    let appends = appends(&store, "sought").await;
    proxy.arm(Fault::Lost("COMMIT"), "sought");
    let stored = store_all(&store, &appends).await;
    assert!(proxy.has_struck());
    let unknown = stored.iter().filter(|stored| matches!(stored, Err(StoreError::Unknown))).count();
    assert!(unknown > 1, "{stored:?}");
    assert!(stored.iter().all(|stored| matches!(stored, Ok(_) | Err(StoreError::Unknown))), "{stored:?}");
    for append in &appends {
        assert_stored(&store, append).await;
    }
}

/// More of them than there are transactions at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r9_sessions_that_are_locked_hold_up_no_others() {
    let database = Database::new();
    let store = Arc::new(open_postgres(&database).await.expect("open"));
    let appends = appends(&store, "hi").await;
    let (mut client, connection) =
        tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.expect("connect");
    tokio::spawn(connection);
    let holds = client.transaction().await.expect("begin");
    let locked = holds.query("SELECT id FROM sessions WHERE id < 's2' FOR UPDATE", &[]).await.expect("locked").len();
    assert!(locked > 8, "{locked}");
    let (held, free): (Vec<Append>, Vec<Append>) = appends.into_iter().partition(|append| *append.session_id < *"s2");
    let waits = {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store_all(&store, &held).await })
    };
    let stored = tokio::time::timeout(Duration::from_secs(10), store_all(&store, &free)).await;
    for stored in stored.expect("they do not wait") {
        stored.expect("stored");
    }
    assert!(!waits.is_finished());
    holds.commit().await.expect("commit");
    for stored in waits.await.expect("task") {
        stored.expect("stored");
    }
    for append in held.iter().chain(&free) {
        assert_stored(&store, append).await;
    }
}

/// A store whose threads have ended refuses appends with an error, and no caller waits for ever.
#[test]
fn r9_appends_end_also_if_the_threads_of_their_store_have() {
    let threads =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let (database, of_the_store) = (Database::new(), threads());
    let (store, appends) = of_the_store.block_on(async {
        let store = open_postgres(&database).await.expect("open");
        let appends = appends(&store, "hi").await;
        (store, appends)
    });
    of_the_store.shutdown_background();
    threads().block_on(async {
        let stored = tokio::time::timeout(Duration::from_secs(60), store_all(&store, &appends)).await.expect("an end");
        assert!(stored.iter().all(|stored| matches!(stored, Err(StoreError::Unknown))), "{stored:?}");
    });
}
