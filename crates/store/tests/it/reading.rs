//! Reads that one statement of the PostgreSQL store answers: each finds what it would find alone.

use std::sync::Arc;

use countersign_core::approval::{decision::Decision, rule::Always};
use countersign_store::{
    RuleOwner, Store as _,
    postgres::{PostgresOptions, PostgresStore, PostgresUrl},
};
use countersign_test_postgres::{Database, Fault, Proxy};
use futures::future::join_all;

use crate::store_support::{asks, begun, open_pooled, open_postgres, waiting};

const SESSIONS: usize = 24;

/// What one finds in the session within these limits, for comparing.
async fn tail(store: &PostgresStore, id: &str, limit: usize, bytes: usize) -> String {
    format!("{:?}", store.tail(id, limit, bytes).await)
}

/// The rules that stand for someone.
async fn rules(store: &PostgresStore, of: RuleOwner, agent: &str, tool: &str) -> String {
    format!("{:?}", store.standing(of, agent, tool).await)
}

#[tokio::test]
async fn r2_what_is_read_together_is_what_each_reads_alone() {
    for pooled in [false, true] {
        let database = Database::new();
        let store = if pooled { open_pooled(&database).await } else { open_postgres(&database).await }.expect("open");
        let mut wanted = Vec::new();
        for i in 0..SESSIONS {
            let id = format!("s{i}");
            if i % 2 == 0 {
                begun(&store, &id, 1, None).await;
            } else {
                waiting(&store, &id, 1, Some("ann"), "t", asks(None, 60)).await;
            }
            wanted.extend([(id.clone(), 99, 1 << 20), (id.clone(), 1, 1 << 20), (id, 99, 10)]);
        }
        store.delete("s3", None, None).await.expect("deleted");
        wanted.push(("none".to_owned(), 99, 1 << 20));
        let of = |id: &str| format!("session = (SELECT number FROM sessions WHERE id = '{id}')");
        database.run("UPDATE sessions SET format = 999 WHERE id = 's5'");
        // Every third session, and those with spoiled entries, have no snapshot: they are read from their entries alone.
        database.run("DELETE FROM snapshots USING sessions s WHERE s.number = session AND number % 3 = 0");
        database.run(&format!("DELETE FROM snapshots WHERE {} OR {}", of("s7"), of("s10")));
        database.run(&format!("UPDATE entries SET body = '{{' WHERE {}", of("s7")));
        database.run(&format!("UPDATE snapshots SET body = '{{' WHERE {}", of("s9")));
        database.run(&format!("DELETE FROM entries WHERE pos = 1 AND {}", of("s10")));
        let mut alone = Vec::new();
        for (id, limit, bytes) in &wanted {
            alone.push(tail(&store, id, *limit, *bytes).await);
        }
        for said in ["Deleted", "Newer", "Corrupt", "Ok(None)", "entries: [Entry"] {
            assert!(alone.iter().any(|found| found.contains(said)), "{said}");
        }
        // On one thread all of them wait before the first is answered.
        let together = join_all(wanted.iter().map(|(id, limit, bytes)| tail(&store, id, *limit, *bytes))).await;
        for ((together, alone), (id, ..)) in together.iter().zip(&alone).zip(&wanted) {
            assert_eq!(together, alone, "{id}");
        }
    }
}

#[tokio::test]
async fn s7_the_rules_that_are_read_together_are_each_owners_own() {
    let database = Database::new();
    let store = open_postgres(&database).await.expect("open");
    let owner = |subject: Option<&str>, tenant: Option<&str>| RuleOwner {
        subject: subject.map(Arc::from),
        tenant: tenant.map(Arc::from),
    };
    let mut wanted = Vec::new();
    for (i, subject) in [None, Some("ann"), Some("bob"), Some("cyd"), Some("")].into_iter().enumerate() {
        for (n, tool) in ["pay", "wire"].into_iter().enumerate() {
            let mut driven = waiting(&store, &format!("s{i}-{n}"), 1, subject, tool, asks(None, 60)).await;
            let always = Decision::approve().always(Always::Tool { until: 1_000_000 });
            driven.store(&store, driven.decides(2, 1, always, None).expect("decided")).await.expect("stored");
            wanted.push((owner(subject, None), "a", tool));
            wanted.push((owner(subject, Some("north")), "a", tool));
            wanted.push((owner(subject, None), "b", tool));
        }
    }
    database.run("UPDATE rules SET body = '{' WHERE session_id = 's3-1'");
    let mut alone = Vec::new();
    for (of, agent, tool) in &wanted {
        alone.push(rules(&store, of.clone(), agent, tool).await);
    }
    assert_eq!(alone.iter().filter(|found| found.contains("RuleRow")).count(), 9);
    assert_eq!(alone.iter().filter(|found| found.contains("Corrupt")).count(), 1);
    let together = join_all(wanted.iter().map(|(of, agent, tool)| rules(&store, of.clone(), agent, tool))).await;
    assert_eq!(together, alone);
}

#[tokio::test]
async fn r3_reads_whose_common_connection_ends_are_each_answered_by_another() {
    let database = Database::new();
    let proxy = Proxy::before(database.url()).await;
    let url: PostgresUrl = proxy.url().parse().expect("a URL");
    let store = PostgresStore::open(&url, &PostgresOptions::default()).await.expect("open");
    let ids: Vec<String> = (0..SESSIONS).map(|i| format!("sought{i}")).collect();
    for id in &ids {
        begun(&store, id, 1, None).await;
    }
    // Two neighbours in a binary array: only a statement for several sessions has them.
    proxy.arm(Fault::HalfAnswer, "sought5\0\0\0\u{7}sought6");
    for found in join_all(ids.iter().map(|id| store.tail(id, 99, 1 << 20))).await {
        assert_eq!(found.expect("read").expect("a session").head.pos, 2);
    }
    assert!(proxy.has_struck());
}

/// A store whose threads have ended refuses reads with an error, and no caller waits forever.
#[test]
fn r9_reads_end_also_if_the_threads_of_their_store_have() {
    let threads =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let (database, of_the_store) = (Database::new(), threads());
    let store = of_the_store.block_on(async { open_postgres(&database).await.expect("open") });
    of_the_store.shutdown_background();
    threads().block_on(async {
        let reads = join_all((0..SESSIONS).map(|_| store.tail("s", 99, 1 << 20)));
        let found = tokio::time::timeout(std::time::Duration::from_secs(60), reads).await.expect("an end");
        assert!(found.iter().all(Result::is_err), "{found:?}");
    });
}
