//! A node whose leases ended while the start of an effect was stored, and were renewed after that: another node may have
//! taken the session over in between, and asked about the effect (spec R5).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use countersign::graph::{Context, Node, NodeError};
use countersign_core::journal::record::{Kind, Record};
use countersign_store::{Store, memory::MemoryStore};

use crate::{
    failing::Failing,
    graph_edges::in_line,
    graphs::{Work, me, process, said},
    support::{Ledger, runtime, send},
};

async fn records(store: &dyn Store) -> Vec<Record> {
    let entries = store.read("s", 0, 100).await.expect("journal");
    entries.iter().flat_map(|entry| entry.records.iter().cloned()).collect()
}

#[tokio::test]
async fn r5_a_step_whose_start_was_stored_in_a_term_that_ended_begins_with_a_new_start() {
    let store: Arc<dyn Store> = Failing::renewed_at(Arc::new(MemoryStore::new()), "step_started");
    let (paid, starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (did, seen, journal) = (paid.clone(), starts.clone(), store.clone());
    let graph = in_line("payments", |graph| {
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let (did, seen, journal) = (did.clone(), seen.clone(), journal.clone());
            async move {
                ctx.step("charge", async move {
                    did.fetch_add(1, Ordering::SeqCst);
                    let started = |record: &&Record| matches!(record, Record::StepStarted { .. });
                    let count = records(&*journal).await.iter().filter(started).count();
                    seen.store(u32::try_from(count).expect("few"), Ordering::SeqCst);
                    Ok::<_, NodeError>(())
                })
                .await?;
                Ok(said("paid"))
            }
        });
        graph.start(pay);
        graph.edge(pay, Node::END);
    });
    let (_runtime, runs) = process(&store, &graph);
    let outcome = runs.run(&me(), "s", &Work::default()).await.expect("run");
    assert_eq!(outcome.done().expect("done").log, ["paid"]);
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    assert_eq!(starts.load(Ordering::SeqCst), 2, "it ran after its second start was stored, not after the first");
}

#[tokio::test]
async fn r5_a_call_whose_start_was_stored_in_a_term_that_ended_is_asked_about() {
    const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"done"}]}"#;
    let store: Arc<dyn Store> = Failing::renewed_at(Arc::new(MemoryStore::new()), "call_started");
    let ledger = Ledger::default();
    let runtime = runtime(store.clone(), SCRIPT, &ledger);
    send(&runtime, "s", "look").await.expect("paused");
    assert!(ledger.lock().expect("ledger").is_empty(), "the call began in a term that had ended");
    let asked = records(&*store).await.into_iter().find_map(|record| match record {
        Record::Interrupted(asked) => Some(asked.kind),
        _ => None,
    });
    assert_eq!(asked, Some(Kind::InDoubt));
}
