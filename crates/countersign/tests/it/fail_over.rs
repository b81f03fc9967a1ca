//! A node that has an append in memory which a fail-over of the database has lost, and another in its place (spec R1, R2,
//! W2).

use std::{sync::Arc, time::Duration};

use countersign::{
    Decision, Status,
    run::{NewDecision, NewMessage, Refusal, Runtime},
    store::Store,
};
use countersign_core::journal::draft::OnPending;
use countersign_runtime::run::subscription::Subscription;
use countersign_store::postgres::{PostgresOptions, PostgresStore, PostgresUrl};
use countersign_test_postgres::{Database, Standby};
use tokio::time::{sleep, timeout};

use crate::{
    paced::{self, Paced, Part, call, input, stop, text},
    support::me,
};

const SOON: Duration = Duration::from_millis(20);

/// What somebody says or decides in the session.
#[derive(Clone)]
enum Input {
    Message(&'static str),
    Decision(Decision),
}

async fn give(runtime: &Runtime, input: Input) -> Result<(), Refusal> {
    // Sent again, it is the same.
    let request_id = Some("r".to_owned());
    match input {
        Input::Message(text) => {
            let on_pending = Some(OnPending::Queue);
            let message = NewMessage { request_id, on_pending, ..NewMessage::text("s", text) };
            runtime.message(&me(), message).await.map(drop)
        }
        Input::Decision(decision) => {
            let decision = NewDecision { request_id, ..NewDecision::new("s_1", vec![decision]) };
            runtime.decide(&me(), decision).await.map(drop)
        }
    }
}

/// Waits for what the database shows.
async fn shows(database: &Database, sql: &str) {
    while database.query(sql).is_empty() {
        sleep(SOON).await;
    }
}

/// A node that has a session in memory, with a follower there, and another that only takes inputs.
struct Two {
    first: Runtime,
    second: Runtime,
    model: Arc<Paced>,
    store: Arc<dyn Store>,
    follower: Subscription,
    _servers: (Database, Standby),
}

impl Two {
    /// Of a session that a model has begun like this, the first node has an input in memory that was lost, and the other
    /// node has stored another one in its place.
    async fn after(begins: Vec<Part>, lost: Input, kept: Input) -> Two {
        let (database, standby) = Database::with_a_standby(true);
        let url: PostgresUrl = database.url_with(&standby).parse().expect("a URL");
        let mut options = PostgresOptions::default();
        options.lease = Duration::from_secs(600);
        let open = async || Arc::new(PostgresStore::open(&url, &options).await.expect("open")) as Arc<dyn Store>;
        let (one, store) = (open().await, open().await);
        let model = Paced::new([begins]);
        let first = paced::runtime(&one, &model);
        let second = Runtime::builder(store.clone()).agent(paced::agent(&model)).without_effects();
        let second = second.build().expect("runtime");
        shows(&database, "SELECT FROM countersign WHERE synchronous").await;
        first.message(&me(), NewMessage::text("s", "hello")).await.expect("a message");
        if matches!(kept, Input::Decision(_)) {
            model.release(3);
        }
        model.settle(&first, "s").await;
        let mut follower = first.subscribe(&me(), "s", None).await.expect("followed");
        one.sync().await.expect("the standby answers");
        standby.cut_off(&database);
        let given = tokio::spawn({
            let second = second.clone();
            async move { give(&second, lost).await }
        });
        // Once it waits for the standby, its session of the database ends: then it is visible.
        let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE wait_event = 'SyncRep' AND query NOT LIKE '%INTO nodes%'";
        while !given.is_finished() {
            let _ = database.query(ends);
            sleep(SOON).await;
        }
        given.await.expect("it ends").expect_err("nobody knows what became of it");
        // Neither is answered while the standby is away.
        let by = me();
        let read = async { tokio::join!(first.session(&by, "s"), follower.next()) };
        timeout(Duration::from_secs(3), read).await.expect_err("they wait");
        database.fail_over_to(&standby);
        let mut tries = 0;
        while let Err(error) = give(&second, kept.clone()).await {
            tries += 1;
            assert!(tries < 1000 && error.code.is_temporary(), "{error:?}");
            sleep(SOON).await;
        }
        Two { first, second, model, store, follower, _servers: (database, standby) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_a_node_continues_from_nothing_that_a_fail_over_has_lost() {
    let begins = vec![text("Hello."), stop()];
    let two = Two::after(begins, Input::Message("is lost"), Input::Message("is kept")).await;
    two.model.release(100);
    assert_eq!(two.first.wait(&me(), "s").await.expect("it goes on").status, Status::Completed);
    assert_eq!(two.second.wait(&me(), "s").await.expect("it is sound").status, Status::Completed);
    let entries = two.store.read("s", 0, 100).await.expect("journal");
    let journal = serde_json::to_string(&entries).expect("JSON");
    assert!(journal.contains("is kept") && !journal.contains("is lost"), "{journal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w2_an_event_that_a_fail_over_lost_is_shown_to_no_follower() {
    let begins = vec![call("c", "trade"), input(r#"{"n":1}"#), stop()];
    let (lost, kept) = (Decision::approve(), Decision::reject(None));
    let mut two = Two::after(begins, Input::Decision(lost), Input::Decision(kept)).await;
    let mut tries = 0;
    let next = loop {
        match two.follower.next().await {
            Ok(frame) if frame.json.contains("\"decisions\":") => break frame,
            Ok(_) => {}
            Err(error) => assert!(error.code.is_temporary(), "{error:?}"),
        }
        tries += 1;
        assert!(tries < 1000);
        sleep(SOON).await;
    };
    assert!(next.json.contains("\"reject\""), "{}", next.json);
}
