//! A graph whose state's type has changed since its runs were stored (spec G1).

use std::sync::Arc;

use countersign::{
    graph::{Context, Graph, GraphState, Node, Outcome, StateGraph},
    run::{Runs, Runtime},
    store::{Store, memory::MemoryStore},
};
use serde::{Deserialize, Serialize};

use crate::{graph_support::me, store_support::conformance};

/// The first version: an amount in euros.
#[derive(Clone, Debug, Default, Serialize, Deserialize, GraphState)]
struct Euros {
    amount: u64,
    paid: bool,
}

/// The second one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Cents {
    cents: u64,
    paid: bool,
}

/// Doubles the amount, beside a node that asks.
macro_rules! invoices {
    ($state:ty, $update:ty, $amount:ident, $graph:ident => $version:expr) => {{
        let mut $graph = StateGraph::<$state>::new("invoice");
        let double = $graph.node("double", |ctx: Context<$state>| async move {
            Ok(<$update>::new().$amount(ctx.state().$amount * 2))
        });
        let pay = $graph.node("pay", |ctx: Context<$state>| async move {
            Ok(<$update>::new().paid(ctx.interrupt("pay?", ()).typed::<bool>().await))
        });
        let check = $graph.node("check", |ctx: Context<$state>| async move {
            Ok(<$update>::new().paid(ctx.interrupt("sure?", ()).typed::<bool>().await))
        });
        $graph.start(double);
        $graph.start(pay);
        $graph.edge(double, Node::END);
        $graph.edge(pay, check);
        $graph.edge(check, Node::END);
        let () = $version;
        $graph.compile().expect("graph")
    }};
}

fn first() -> Graph<Euros> {
    invoices!(Euros, EurosUpdate, amount, graph => ())
}

fn changed() -> Graph<Cents> {
    invoices!(Cents, CentsUpdate, cents, graph => ())
}

fn second() -> Graph<Cents> {
    invoices!(Cents, CentsUpdate, cents, graph => graph.state_version(2, |from, mut json| {
        assert_eq!(from, 1);
        let old = json.as_object_mut().and_then(|fields| fields.remove("amount"));
        if let Some(euros) = old.and_then(|amount| amount.as_u64()) {
            json["cents"] = (euros * 100).into();
        }
        json
    }))
}

fn runs<S: GraphState>(store: &Arc<dyn Store>, graph: &Graph<S>) -> Runs<S> {
    Runtime::builder(store.clone()).graph(graph).build().expect("runtime").runs(graph).expect("runs")
}

/// The state that the run began with and an update of its open round are on record in the first version; the updates after
/// that in the second.
async fn g1_a_run_goes_on_after_the_type_of_its_state_has_a_new_version(store: Arc<dyn Store>) {
    let _ = runs(&store, &first()).run(&me(), "s", &Euros { amount: 7, paid: false }).await.expect("run");

    let Outcome::Failed { code, message, .. } =
        runs(&store, &changed()).resume(&me(), "s_1", true).await.expect("resume")
    else {
        panic!("it was read")
    };
    assert_eq!(code, "state_unreadable");
    for what in ["\"invoice\"", "version 1", "missing field `cents`", "StateGraph::state_version", "retry"] {
        assert!(message.contains(what), "{what}: {message}");
    }

    let paused = runs(&store, &second()).retry(&me(), "s").await.expect("retry");
    let Outcome::Paused { state, .. } = &paused else { panic!("{paused:?}") };
    assert_eq!(*state, Cents { cents: 1400, paid: true });
    let key = paused.key("sure?").expect("a question").to_owned();
    let done = runs(&store, &second()).resume(&me(), &key, true).await.expect("resume").done();
    assert_eq!(done, Some(Cents { cents: 1400, paid: true }));

    // The program before cannot read that, and says so.
    let older = runs(&store, &first()).state(&me(), "s").await.map(|state| format!("{state:?}"));
    let said = older.expect_err("it was read").message;
    assert!(said.contains("version 2") && said.contains("a newer program"), "{said}");
}

conformance!(g1_a_run_goes_on_after_the_type_of_its_state_has_a_new_version);

/// A state with an amount that no 64-bit integer holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, GraphState)]
struct Large {
    paid: bool,
    wei: u128,
}

#[tokio::test]
async fn g1_an_upgrade_that_would_change_a_number_is_refused_with_its_field() {
    let version = |version: u32| {
        invoices!(Large, LargeUpdate, wei, graph => if version > 1 {
            graph.state_version(version, |_, json| json);
        })
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for (id, wei, lost) in
        [("a", 1_u128 << 62, None), ("b", (1 << 64) + 1, Some("wei: the number 18446744073709551617 has"))]
    {
        let _ = runs(&store, &version(1)).run(&me(), id, &Large { paid: false, wei }).await.expect("run");
        let state = runs(&store, &version(2)).state(&me(), id).await.map_err(|error| error.message);
        match lost {
            None => assert!(state.is_ok(), "{state:?}"),
            Some(lost) => assert!(state.expect_err("it was read").contains(lost)),
        }
        // What is on record has not changed.
        assert!(runs(&store, &version(1)).state(&me(), id).await.is_ok());
    }
}
