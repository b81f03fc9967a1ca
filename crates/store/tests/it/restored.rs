//! What `store restored` finds in a store (spec R4).

use std::sync::Arc;

use countersign_core::{
    call::gate::Verdict,
    journal::{graph, record::Retried, state::Status},
};
use countersign_store::{
    Store,
    restored::{self, Holding},
    sqlite::SqliteStore,
};

use crate::store_support::{Anything, Driven, begun, conformance};

/// A call that nobody has to approve, in a turn that has failed before it began: its retry may have come after the backup.
async fn r4_a_store_that_is_restored_holds_failed_turns_too(store: Arc<dyn Store>) {
    let mut session = Driven::new("s");
    session.store(&*store, session.created(1, None)).await.expect("stored");
    let said = session.says(2, "pay", None, None).expect("a message");
    session.store(&*store, said).await.expect("stored");
    session.store(&*store, session.calls(3, &[("pay", Verdict::Allow)])).await.expect("stored");
    session
        .store(&*store, session.draft(4).fail("budget_exceeded", "spent".into(), None, &Anything))
        .await
        .expect("stored");
    let retried = session.draft(5).retry(Retried::default(), &Anything).expect("retried");
    assert_eq!(graph::next(retried.state()).start.len(), 1, "so it is without a restore");
    assert_eq!(restored::hold(&*store).await.expect("held").sessions, [Arc::from("s")]);
    let again = restored::hold(&*store).await.expect("held");
    assert_eq!(again, Holding { already_held: vec!["s".into()], ..Holding::default() }, "once is enough");
    for entry in store.read("s", session.state.pos, usize::MAX).await.expect("entries") {
        session.state.append(&entry).expect("legal");
    }
    assert_eq!(session.state.status, Status::Failed);
    let retried = session.draft(7).retry(Retried::default(), &Anything).expect("retried");
    assert!(graph::next(retried.state()).start.is_empty() && retried.state().open.len() == 1, "a person is asked");
}

/// By it clients know that what they have seen may not be there.
async fn w2_a_store_that_is_restored_has_another_history(store: Arc<dyn Store>) {
    let id = async || store.history_id().await.expect("read");
    let before = id().await;
    assert_eq!(id().await, before, "it stays");
    restored::hold(&*store).await.expect("held");
    // What is in memory has none: it is restored from no backup.
    assert!(id().await != before || before.is_none());
    assert_eq!(id().await.is_some(), before.is_some());
}

conformance!(r4_a_store_that_is_restored_holds_failed_turns_too, w2_a_store_that_is_restored_has_another_history);

/// A row of a list is made from entries, and those are sound.
#[tokio::test]
async fn r4_a_turn_whose_row_in_lists_cannot_be_read_is_held_too() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("s.db");
    let open = || SqliteStore::open(path.clone(), &Default::default()).expect("open");
    let store = open();
    for id in ["sound", "damaged", "odd", "gone"] {
        begun(&store, id, 1, None).await;
    }
    drop(store);
    let damage = "UPDATE sessions SET pending = '{' WHERE id = 'damaged';
                  UPDATE sessions SET status = 'dormant' WHERE id = 'odd';
                  UPDATE sessions SET pos = -1 WHERE id = 'gone'";
    rusqlite::Connection::open(&path).expect("open").execute_batch(damage).expect("damaged");
    let held = restored::hold(&open()).await.expect("held");
    let mut sessions: Vec<&str> = held.sessions.iter().map(|id| &**id).collect();
    sessions.sort_unstable();
    assert_eq!(sessions, ["damaged", "odd", "sound"]);
    let named: Vec<&str> = held.unreadable.iter().map(|(id, _)| &**id).collect();
    assert_eq!(named, ["gone"], "of which not even the end is known");
}

#[tokio::test]
async fn w2_a_store_that_is_opened_again_has_the_same_history_and_another_store_another() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ids = Vec::new();
    for name in ["a.db", "a.db", "b.db"] {
        let store = SqliteStore::open(dir.path().join(name), &Default::default()).expect("open");
        ids.push(store.history_id().await.expect("read").expect("an id"));
    }
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
}
