//! Which of the turns that were under way are held when processes end in the middle of them.

use std::{sync::Arc, time::Duration};

use countersign::{
    Agent, Principal,
    run::{NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
};
use countersign_core::journal::record::{Record, Restarted, records};

/// A process: its tasks end with it.
fn process<T>(store: &Arc<MemoryStore>, what: impl AsyncFnOnce(&Runtime) -> T) -> T {
    let executor =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("tokio");
    executor.block_on(async {
        // A model that takes longer than any test.
        let agent = Agent::new("slow", |_| std::future::pending::<String>());
        let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
        runtime.start().await.expect("start");
        let result = what(&runtime).await;
        // It dies, without an orderly shutdown.
        std::mem::forget(runtime);
        result
    })
}

/// How often each was resumed, and whether it is held, by the end of the journal.
async fn taken_up(store: &MemoryStore, sessions: &[&str]) -> Vec<(u32, bool)> {
    let mut said = Vec::new();
    for session in sessions {
        let entries = store.read(session, 0, usize::MAX).await.expect("entries");
        let last = records(&entries).rev().find_map(|record| match record {
            Record::Restarted(Restarted { times, held, .. }) => Some((*times, *held)),
            _ => None,
        });
        said.push(last.unwrap_or_default());
    }
    said
}

#[test]
fn r9_a_turn_that_only_takes_long_is_not_blamed_for_the_end_of_the_process() {
    let store = Arc::new(MemoryStore::new());
    let sessions = ["a", "b", "c"];
    process(&store, async |runtime| {
        for session in sessions {
            runtime.message(&Principal::trusted(), NewMessage::text(session, "go")).await.expect("message");
        }
    });
    // Each is resumed once, all concurrently.
    let said = process(&store, async |_| taken_up(&store, &sessions).await);
    assert_eq!(said, [(1, false); 3]);
    // Then one by one: those that survived alone are not blamed, only the one that is running alone now.
    let said = process(&store, async |_| {
        tokio::time::sleep(Duration::from_secs(25)).await;
        taken_up(&store, &sessions).await
    });
    assert_eq!(said.iter().filter(|said| **said == (2, false)).count(), 1, "{said:?}");
    assert_eq!(said.iter().filter(|said| **said == (1, false)).count(), 2, "{said:?}");
    // That one is held, and no other.
    let said = process(&store, async |_| {
        tokio::time::sleep(Duration::from_secs(5)).await;
        taken_up(&store, &sessions).await
    });
    assert_eq!(said.iter().filter(|said| said.1).count(), 1, "{said:?}");
    assert!(said.iter().all(|said| said.0 <= 2), "{said:?}");
}

#[test]
fn r9_a_turn_that_is_alone_and_takes_long_is_held_after_two_ends() {
    let store = Arc::new(MemoryStore::new());
    let process = |seconds: u64| {
        process(&store, async |runtime| {
            if store.head("a").await.expect("head").is_none() {
                runtime.message(&Principal::trusted(), NewMessage::text("a", "go")).await.expect("message");
            }
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            taken_up(&store, &["a"]).await[0]
        })
    };
    assert_eq!([process(1), process(1), process(60), process(1)], [(0, false), (1, false), (2, false), (2, true)]);
}
