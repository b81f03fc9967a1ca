//! What a newer build has stored beside: builds of two versions work with one database (spec R9). Its rows are changed by hand
//! here, and each test runs on each store that is kept.

use std::{path::PathBuf, sync::Arc};

use countersign_core::{
    approval::{
        decision::Decision,
        rule::{Always, RuleId},
    },
    journal::{draft::OnPending, record::FORMAT, state::Status},
    number::InterruptionNo,
};
use countersign_store::{
    InterruptionFilter, RuleFilter, RuleOwner, SessionFilter, StoreError, Visible,
    sqlite::{SqliteOptions, SqliteStore},
};
use countersign_test_postgres::Database;

use crate::store_support::{Tested, asks, begun, ids, keys, open_pooled, open_postgres, open_sealed, page, waiting};

/// Where a store is kept.
enum Place {
    File { path: PathBuf, sealed: bool, _folder: tempfile::TempDir },
    Database { database: Database, pooled: bool },
}

impl Place {
    fn all() -> [Place; 4] {
        let file = |sealed| {
            let folder = tempfile::tempdir().expect("a folder");
            Place::File { path: folder.path().join("s.db"), sealed, _folder: folder }
        };
        let database = |pooled| Place::Database { database: Database::new(), pooled };
        [file(false), file(true), database(false), database(true)]
    }

    async fn open(&self) -> Tested {
        match self {
            Place::File { path, sealed: true, .. } => Arc::new(open_sealed(path).expect("open")),
            Place::File { path, .. } => {
                Arc::new(SqliteStore::open(path.clone(), &SqliteOptions::default()).expect("open"))
            }
            Place::Database { database, pooled: true } => Arc::new(open_pooled(database).await.expect("open")),
            Place::Database { database, .. } => Arc::new(open_postgres(database).await.expect("open")),
        }
    }

    /// The store after a change of its rows. `SESSION` in it is the number of the session that a row is of.
    async fn changed(&self, store: Tested, sql: &str) -> Tested {
        drop(store);
        let number = match self {
            Place::File { .. } => "key >> 32",
            Place::Database { .. } => "session",
        };
        let sql = sql.replace("SESSION", number);
        match self {
            Place::File { path, .. } => {
                rusqlite::Connection::open(path).expect("open").execute_batch(&sql).expect("changed");
            }
            Place::Database { database, .. } => database.run(&sql),
        }
        self.open().await
    }
}

#[tokio::test]
async fn r9_a_status_that_this_build_does_not_know_hides_no_other_session() {
    for place in Place::all() {
        let store = place.open().await;
        for (id, at) in [("one", 1), ("two", 2), ("three", 3)] {
            begun(&*store, id, at, Some("ann")).await;
        }
        let store = place.changed(store, "UPDATE sessions SET status = 'dormant' WHERE id = 'two'").await;
        let ann = Visible { subject: Some("ann".into()), ..Visible::default() };
        for filter in [
            SessionFilter::default(),
            SessionFilter { visible_to: Some(ann), ..SessionFilter::default() },
            SessionFilter { status: Some(Status::Running), ..SessionFilter::default() },
        ] {
            assert_eq!(ids(&store, filter).await, ["three", "one"]);
        }
        // It keeps its place: the next page begins after it.
        let (mut pages, mut unread, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let listed = store.sessions(SessionFilter::default(), page(cursor.as_deref(), 1)).await.expect("a page");
            pages.push(listed.rows.iter().map(|row| row.session_id.to_string()).collect::<Vec<_>>());
            unread.extend(listed.unread.into_iter().map(|(session_id, _)| session_id.to_string()));
            cursor = listed.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, [vec!["three"], vec![], vec!["one"]]);
        assert_eq!(unread, ["two"]);
    }
}

#[tokio::test]
async fn r9_a_resolution_that_this_build_does_not_know_hides_no_other_request() {
    for place in Place::all() {
        let store = place.open().await;
        for id in ["one", "two", "three"] {
            waiting(&*store, id, 1, Some("ann"), "t", asks(None, 0)).await;
        }
        let change = "UPDATE interruptions SET resolution = 'superseded', resolved_at = 9, resolved_pos = 9
                      WHERE SESSION = (SELECT number FROM sessions WHERE id = 'two')";
        let store = place.changed(store, change).await;
        assert_eq!(keys(&store, InterruptionFilter::default()).await, ["three_1", "one_1"]);
        let resolved = InterruptionFilter { waiting: Some(false), ..InterruptionFilter::default() };
        assert_eq!(keys(&store, resolved).await, Vec::<String>::new());
        let error = store.interruption("two", InterruptionNo::FIRST).await.expect_err("it is not known");
        let text = error.to_string();
        assert!(matches!(error, StoreError::Corrupt(_)) && text.contains("\"superseded\""), "{text}");
    }
}

#[tokio::test]
async fn s7_a_rule_of_a_newer_build_allows_nothing_and_says_so() {
    for place in Place::all() {
        let store = place.open().await;
        for (id, tool) in [("new", "pay"), ("old", "wire")] {
            let mut driven = waiting(&*store, id, 1, Some("ann"), tool, asks(None, 0)).await;
            let always = Decision::approve().always(Always::Arguments { until: None });
            let decided = driven.decides(1, 1, always, None).expect("decided");
            driven.store(&*store, decided).await.expect("stored");
        }
        let change = format!("UPDATE sessions SET format = {} WHERE id = 'new'", FORMAT + 1);
        let store = place.changed(store, &change).await;
        let standing = async |tool| {
            let of = RuleOwner { subject: Some("ann".into()), ..RuleOwner::default() };
            store.standing(of, "a", tool).await.map(|rows| rows.len())
        };
        assert_eq!(standing("wire").await.expect("that of the other session"), 1);
        let refused = standing("pay").await.expect_err("what limits it may not be known here");
        let named = matches!(&refused, StoreError::Newer { session_id, .. } if **session_id == *"new");
        assert!(named && refused.to_string().contains("newer version"), "{refused}");
        let listed = store.rules(RuleFilter::default(), page(None, 9)).await.expect("a list").rows;
        assert_eq!(listed.iter().map(|row| &*row.session_id).collect::<Vec<_>>(), ["old"]);
        // Nor is an append stored that such a rule decides: it is judged again.
        let driven = begun(&*store, "another", 1, Some("ann")).await;
        let mut append = driven.append_of(driven.says(2, "more", None, Some(OnPending::Queue)).expect("a message"));
        append.guards.rules = vec![("new".into(), RuleId { n: InterruptionNo::FIRST, action: 0 })];
        assert!(matches!(store.append(append).await, Err(StoreError::Outdated)));
    }
}
