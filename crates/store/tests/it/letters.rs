//! What every store promises about deliveries. Each test runs on each store.

use countersign_core::call::gate::{Ask, Verdict};
use countersign_store::letters::{Letter, LetterPage, WHY_BYTES};
#[cfg(feature = "postgres")]
use countersign_store::{Store as _, postgres::PostgresStore};

use crate::store_support::{Tested, conformance, waiting};

conformance! {
    u4_an_endpoint_begins_at_the_end_of_the_log_and_its_cursor_moves_once,
    u4_letters_are_kept_with_the_cursor_that_passes_them,
    u4_letters_are_due_in_order_until_they_arrive_or_are_dead,
    u4_dead_letters_are_listed_in_pages_and_tried_again,
}

async fn asked(store: &Tested, id: &str) {
    waiting(&**store, id, 1, None, "t", Verdict::Ask(Ask::default())).await;
}

fn letter(n: u64, next_at: Option<i64>) -> Letter {
    Letter { n, attempts: 1, next_at, tried_at: 10, why: format!("because {n}") }
}

async fn numbers(store: &Tested, endpoint: &str, now: i64) -> Vec<u64> {
    let due = store.letters().waiting(endpoint, now, 9).await.expect("due");
    due.iter().map(|letter| letter.n).collect()
}

async fn u4_an_endpoint_begins_at_the_end_of_the_log_and_its_cursor_moves_once(store: Tested) {
    let letters = store.letters();
    assert_eq!(letters.progress("desk").await.expect("progress"), None, "it was never seen");
    assert!(!letters.advance("desk", 0, 1, Vec::new()).await.expect("none"), "nobody attends to it");
    assert_eq!(letters.attend("early").await.expect("attend"), Some(0), "the log is empty");
    asked(&store, "s").await;
    assert_eq!(letters.attend("desk").await.expect("attend"), Some(1));
    assert_eq!(letters.attend("early").await.expect("attend"), Some(0), "it stays where it was");
    let moves = futures::future::join_all((0..8).map(|_| letters.advance("desk", 1, 2, Vec::new()))).await;
    assert_eq!(moves.into_iter().filter(|moved| *moved.as_ref().expect("moved")).count(), 1);
    assert_eq!(letters.attend("desk").await.expect("attend"), Some(2));
    assert_eq!(letters.progress("desk").await.expect("progress").expect("it is known").cursor, 2);
}

async fn u4_letters_are_kept_with_the_cursor_that_passes_them(store: Tested) {
    let letters = store.letters();
    letters.attend("desk").await.expect("attend");
    let long = Letter { why: "ữ".repeat(WHY_BYTES), ..letter(2, Some(20)) };
    assert!(letters.advance("desk", 0, 3, vec![letter(1, Some(20)), long]).await.expect("moved"));
    assert!(!letters.advance("desk", 0, 3, vec![letter(3, Some(20))]).await.expect("not from there"));
    let all = letters.failed("desk", LetterPage { after: 0, limit: 9 }).await.expect("letters");
    assert_eq!(all.iter().map(|letter| letter.n).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(all[0], letter(1, Some(20)));
    assert!(all[1].why.len() <= WHY_BYTES && all[1].why.starts_with('ữ'), "{}", all[1].why.len());
    assert_eq!(numbers(&store, "other", 99).await, Vec::<u64>::new());
}

async fn u4_letters_are_due_in_order_until_they_arrive_or_are_dead(store: Tested) {
    let letters = store.letters();
    letters.attend("desk").await.expect("attend");
    let failed = vec![letter(1, Some(30)), letter(2, Some(20)), letter(3, None), letter(4, Some(20))];
    assert!(letters.advance("desk", 0, 4, failed).await.expect("moved"));
    assert_eq!(numbers(&store, "desk", 19).await, Vec::<u64>::new());
    assert_eq!(numbers(&store, "desk", 20).await, [2, 4]);
    assert_eq!(numbers(&store, "desk", 30).await, [2, 4, 1]);
    assert!(letters.settle("desk", 2, 1, None).await.expect("arrived"));
    let again = Letter { attempts: 2, next_at: Some(40), tried_at: 20, ..letter(4, None) };
    assert!(letters.settle("desk", 4, 1, Some(again.clone())).await.expect("failed again"));
    assert!(!letters.settle("desk", 4, 1, None).await.expect("that try is over"));
    assert!(!letters.settle("desk", 2, 1, Some(letter(2, None))).await.expect("it has arrived"));
    assert_eq!(numbers(&store, "desk", 99).await, [1, 4]);
    let progress = letters.progress("desk").await.expect("progress").expect("it is known");
    assert_eq!((progress.waiting, progress.dead, progress.last), (2, 1, Some(again)));
}

async fn u4_dead_letters_are_listed_in_pages_and_tried_again(store: Tested) {
    let letters = store.letters();
    letters.attend("desk").await.expect("attend");
    let failed = (1..=5).map(|n| letter(n, (n == 2).then_some(70))).collect();
    assert!(letters.advance("desk", 0, 5, failed).await.expect("moved"));
    let page = |after| letters.failed("desk", LetterPage { after, limit: 2 });
    let (first, second) = (page(0).await.expect("page"), page(2).await.expect("page"));
    assert_eq!(first.iter().chain(&second).map(|letter| letter.n).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(letters.retry("desk", Some(3), 50).await.expect("one"), 1);
    assert_eq!(letters.retry("desk", Some(9), 50).await.expect("none"), 0);
    let due = letters.waiting("desk", 50, 9).await.expect("due");
    assert_eq!(due, [Letter { attempts: 0, next_at: Some(50), ..letter(3, None) }]);
    assert_eq!(letters.retry("desk", None, 60).await.expect("the others"), 3, "one was not dead");
    assert_eq!(numbers(&store, "desk", 70).await, [3, 1, 4, 5, 2]);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u4_of_several_nodes_one_sends_for_an_endpoint_and_another_after_it_has_died() {
    let database = countersign_test_postgres::Database::new();
    let open = || crate::store_support::open_postgres(&database);
    let (one, two): (PostgresStore, PostgresStore) = (open().await.expect("open"), open().await.expect("open"));
    let (ours, theirs) = (one.letters(), two.letters());
    assert_eq!(ours.attend("desk").await.expect("attend"), Some(0));
    assert_eq!(theirs.attend("desk").await.expect("attend"), None, "the other is alive");
    assert_eq!(theirs.attend("other").await.expect("attend"), Some(0), "each endpoint is somebody's");
    assert!(!theirs.advance("desk", 0, 1, Vec::new()).await.expect("not its own"));
    assert!(ours.advance("desk", 0, 2, vec![letter(1, Some(20)), letter(2, Some(20))]).await.expect("moved"));
    assert!(!theirs.settle("desk", 1, 1, None).await.expect("not its own"));
    // As if it had been killed long ago.
    database.run("UPDATE nodes SET until = '-infinity' WHERE id = (SELECT min(id) FROM nodes)");
    assert_eq!(theirs.attend("desk").await.expect("attend"), Some(2));
    assert!(!ours.advance("desk", 2, 3, Vec::new()).await.expect("it was taken over"));
    assert!(!ours.settle("desk", 1, 1, None).await.expect("it was taken over"));
    assert!(theirs.settle("desk", 1, 1, None).await.expect("its own"));
    assert_eq!(theirs.retry("desk", Some(2), 5).await.expect("any node"), 1);
}
