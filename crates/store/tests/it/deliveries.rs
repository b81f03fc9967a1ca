//! What every store promises about deliveries. Each test runs on each store.

use countersign_core::call::gate::{Ask, Verdict};
use countersign_store::deliveries::{FailedDelivery, FailedPage, WHY_BYTES};
#[cfg(feature = "postgres")]
use countersign_store::{Store as _, postgres::PostgresStore};

use crate::store_support::{Tested, conformance, waiting};

conformance! {
    u4_an_endpoint_begins_at_the_end_of_the_log_and_its_cursor_moves_once,
    u4_failed_deliveries_are_kept_with_the_cursor_that_passes_them,
    u4_failed_deliveries_are_due_in_order_until_they_arrive_or_are_dead,
    u4_dead_letters_are_listed_in_pages_and_tried_again,
    u4_a_delivery_that_was_tried_in_the_future_is_due,
    u4_an_endpoint_that_is_gone_is_nobodys_until_it_is_said_to_be_back,
    u4_an_endpoint_that_is_forgotten_begins_at_the_end_of_the_log,
}

async fn asked(store: &Tested, id: &str) {
    waiting(&**store, id, 1, None, "t", Verdict::Ask(Ask::default())).await;
}

fn delivery(n: u64, next_at: Option<i64>) -> FailedDelivery {
    FailedDelivery { n, attempts: 1, next_at, tried_at: 10, why: format!("because {n}") }
}

async fn numbers(store: &Tested, endpoint: &str, now: i64) -> Vec<u64> {
    let due = store.deliveries().due_again(endpoint, now, 9).await.expect("due");
    due.iter().map(|delivery| delivery.n).collect()
}

async fn u4_an_endpoint_begins_at_the_end_of_the_log_and_its_cursor_moves_once(store: Tested) {
    let deliveries = store.deliveries();
    assert_eq!(deliveries.progress("desk").await.expect("progress"), None, "it was never seen");
    assert!(!deliveries.advance("desk", 0, 1, Vec::new()).await.expect("none"), "nobody attends to it");
    assert_eq!(deliveries.claim("early").await.expect("claim"), Some(0), "the log is empty");
    asked(&store, "s").await;
    assert_eq!(deliveries.claim("desk").await.expect("claim"), Some(1));
    assert_eq!(deliveries.claim("early").await.expect("claim"), Some(0), "it stays where it was");
    let moves = futures::future::join_all((0..8).map(|_| deliveries.advance("desk", 1, 2, Vec::new()))).await;
    assert_eq!(moves.into_iter().filter(|moved| *moved.as_ref().expect("moved")).count(), 1);
    assert_eq!(deliveries.claim("desk").await.expect("claim"), Some(2));
    assert_eq!(deliveries.progress("desk").await.expect("progress").expect("it is known").cursor, 2);
}

async fn u4_failed_deliveries_are_kept_with_the_cursor_that_passes_them(store: Tested) {
    let deliveries = store.deliveries();
    deliveries.claim("desk").await.expect("claim");
    let long = FailedDelivery { why: "ữ".repeat(WHY_BYTES), ..delivery(2, Some(20)) };
    assert!(deliveries.advance("desk", 0, 3, vec![delivery(1, Some(20)), long]).await.expect("moved"));
    assert!(!deliveries.advance("desk", 0, 3, vec![delivery(3, Some(20))]).await.expect("not from there"));
    let all = deliveries.failed("desk", FailedPage { after: 0, limit: 9 }).await.expect("deliveries");
    assert_eq!(all.iter().map(|delivery| delivery.n).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(all[0], delivery(1, Some(20)));
    assert!(all[1].why.len() <= WHY_BYTES && all[1].why.starts_with('ữ'), "{}", all[1].why.len());
    assert_eq!(numbers(&store, "other", 99).await, Vec::<u64>::new());
}

async fn u4_failed_deliveries_are_due_in_order_until_they_arrive_or_are_dead(store: Tested) {
    let deliveries = store.deliveries();
    deliveries.claim("desk").await.expect("claim");
    let failed = vec![delivery(1, Some(30)), delivery(2, Some(20)), delivery(3, None), delivery(4, Some(20))];
    assert!(deliveries.advance("desk", 0, 4, failed).await.expect("moved"));
    assert_eq!(numbers(&store, "desk", 19).await, Vec::<u64>::new());
    assert_eq!(numbers(&store, "desk", 20).await, [2, 4]);
    assert_eq!(numbers(&store, "desk", 30).await, [2, 4, 1]);
    assert!(deliveries.finish("desk", 2, 1, None).await.expect("arrived"));
    let again = FailedDelivery { attempts: 2, next_at: Some(40), tried_at: 20, ..delivery(4, None) };
    assert!(deliveries.finish("desk", 4, 1, Some(again.clone())).await.expect("failed again"));
    assert!(!deliveries.finish("desk", 4, 1, None).await.expect("that try is over"));
    assert!(!deliveries.finish("desk", 2, 1, Some(delivery(2, None))).await.expect("it has arrived"));
    assert_eq!(numbers(&store, "desk", 99).await, [1, 4]);
    let progress = deliveries.progress("desk").await.expect("progress").expect("it is known");
    assert_eq!((progress.waiting, progress.dead, progress.last), (2, 1, Some(again)));
}

async fn u4_dead_letters_are_listed_in_pages_and_tried_again(store: Tested) {
    let deliveries = store.deliveries();
    deliveries.claim("desk").await.expect("claim");
    let failed = (1..=5).map(|n| delivery(n, (n == 2).then_some(70))).collect();
    assert!(deliveries.advance("desk", 0, 5, failed).await.expect("moved"));
    let page = |after| deliveries.failed("desk", FailedPage { after, limit: 2 });
    let (first, second) = (page(0).await.expect("page"), page(2).await.expect("page"));
    assert_eq!(first.iter().chain(&second).map(|delivery| delivery.n).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(deliveries.retry("desk", Some(3), 50).await.expect("one"), 1);
    assert_eq!(deliveries.retry("desk", Some(9), 50).await.expect("none"), 0);
    let due = deliveries.due_again("desk", 50, 9).await.expect("due");
    assert_eq!(due, [FailedDelivery { attempts: 0, next_at: Some(50), ..delivery(3, None) }]);
    assert_eq!(deliveries.retry("desk", None, 60).await.expect("the others"), 3, "one was not dead");
    assert_eq!(numbers(&store, "desk", 70).await, [3, 1, 4, 5, 2]);
}

async fn u4_a_delivery_that_was_tried_in_the_future_is_due(store: Tested) {
    let deliveries = store.deliveries();
    deliveries.claim("desk").await.expect("claim");
    // Tried at 10, with the clock set back since.
    let failed = vec![delivery(1, Some(30)), delivery(2, None), delivery(3, Some(20))];
    assert!(deliveries.advance("desk", 0, 3, failed).await.expect("moved"));
    assert_eq!(numbers(&store, "desk", 9).await, [3, 1], "the dead one is not");
    assert_eq!(deliveries.due_again("desk", 9, 1).await.expect("due").len(), 1);
    assert_eq!(numbers(&store, "desk", 10).await, Vec::<u64>::new());
    assert_eq!(numbers(&store, "desk", 20).await, [3], "each once");
}

async fn u4_an_endpoint_that_is_gone_is_nobodys_until_it_is_said_to_be_back(store: Tested) {
    let deliveries = store.deliveries();
    assert!(!deliveries.set_gone("desk", true).await.expect("set"), "it was never seen");
    deliveries.claim("desk").await.expect("claim");
    assert!(deliveries.set_gone("desk", true).await.expect("set"));
    assert_eq!(deliveries.claim("desk").await.expect("claim"), None);
    assert!(deliveries.advance("desk", 0, 1, vec![delivery(1, None)]).await.expect("what was under way is kept"));
    assert!(deliveries.progress("desk").await.expect("progress").expect("it is known").gone);
    assert!(deliveries.set_gone("desk", false).await.expect("set"));
    assert_eq!(deliveries.claim("desk").await.expect("claim"), Some(1));
    assert!(!deliveries.progress("desk").await.expect("progress").expect("it is known").gone);
}

async fn u4_an_endpoint_that_is_forgotten_begins_at_the_end_of_the_log(store: Tested) {
    let deliveries = store.deliveries();
    assert_eq!(deliveries.forget("desk").await.expect("forget"), None, "it was never seen");
    for name in ["other", "desk"] {
        deliveries.claim(name).await.expect("claim");
        asked(&store, name).await;
    }
    let failed = vec![delivery(2, None), delivery(3, Some(20))];
    assert!(deliveries.advance("desk", 1, 3, failed).await.expect("moved"));
    assert_eq!(deliveries.endpoints(9).await.expect("endpoints"), ["desk", "other"]);
    assert_eq!(deliveries.endpoints(1).await.expect("endpoints"), ["desk"]);
    assert_eq!(deliveries.forget("desk").await.expect("forget"), Some(2));
    assert_eq!(deliveries.endpoints(9).await.expect("endpoints"), ["other"]);
    assert_eq!(deliveries.progress("desk").await.expect("progress"), None);
    assert!(!deliveries.advance("desk", 3, 4, Vec::new()).await.expect("it is nobody's"));
    assert!(!deliveries.finish("desk", 3, 1, Some(delivery(3, None))).await.expect("it was dropped"));
    assert_eq!(deliveries.claim("desk").await.expect("claim"), Some(2), "the end of the log");
    assert_eq!(deliveries.failed("desk", FailedPage { after: 0, limit: 9 }).await.expect("none"), []);
    assert_eq!(deliveries.claim("other").await.expect("claim"), Some(0), "it stays where it was");
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u4_of_several_nodes_one_sends_for_an_endpoint_and_another_after_it_has_died() {
    let database = countersign_test_postgres::Database::new();
    let open = || crate::store_support::open_postgres(&database);
    let (one, two): (PostgresStore, PostgresStore) = (open().await.expect("open"), open().await.expect("open"));
    let (ours, theirs) = (one.deliveries(), two.deliveries());
    assert_eq!(ours.claim("desk").await.expect("claim"), Some(0));
    assert_eq!(theirs.claim("desk").await.expect("claim"), None, "the other is alive");
    assert_eq!(theirs.claim("other").await.expect("claim"), Some(0), "each endpoint is somebody's");
    assert!(!theirs.advance("desk", 0, 1, Vec::new()).await.expect("not its own"));
    assert!(ours.advance("desk", 0, 2, vec![delivery(1, Some(20)), delivery(2, Some(20))]).await.expect("moved"));
    assert!(!theirs.finish("desk", 1, 1, None).await.expect("not its own"));
    // A node that waits for the end of another's lease writes nothing: a write would be refused.
    database.run("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no writing'; END $$");
    database.run("CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON endpoints EXECUTE FUNCTION refuse()");
    assert_eq!(theirs.claim("desk").await.expect("it only reads"), None);
    assert_eq!(ours.claim("desk").await.expect("it only reads"), Some(2));
    database.run("DROP TRIGGER refuse ON endpoints");
    assert!(theirs.set_gone("desk", true).await.expect("any node"));
    assert_eq!((ours.claim("desk").await.expect("gone"), theirs.claim("desk").await.expect("gone")), (None, None));
    assert!(ours.set_gone("desk", false).await.expect("any node"));
    // As if it had been killed long ago.
    database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
    assert_eq!(theirs.claim("desk").await.expect("claim"), Some(2));
    assert!(!ours.advance("desk", 2, 3, Vec::new()).await.expect("it was taken over"));
    assert!(!ours.finish("desk", 1, 1, None).await.expect("it was taken over"));
    assert!(theirs.finish("desk", 1, 1, None).await.expect("its own"));
    assert_eq!(theirs.retry("desk", Some(2), 5).await.expect("any node"), 1);
}
