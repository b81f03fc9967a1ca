//! A run that its caller drops while its process lives on, or whose process is killed: other processes get the session
//! (spec R4, R5).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use countersign::{
    Agent, ApprovalResolved, BoxFuture, InterruptionKind, RunConfig, RunHooks, RunResult, RunState, Runner,
    store::{
        Store,
        postgres::{PostgresOptions, PostgresStore},
    },
};
use countersign_test_postgres::Database;
use tokio::{sync::Notify, time::timeout};

use super::at_work::Slow;
use crate::store_support::url_of;

/// The store of a process.
async fn process(database: &Database) -> Arc<dyn Store> {
    Arc::new(PostgresStore::open(&url_of(database), &PostgresOptions::default()).await.expect("open"))
}

fn runner(store: &Arc<dyn Store>, id: &str) -> Runner {
    Runner::new(RunConfig::new().store(store.clone()).session(id))
}

/// A state with an approved call.
async fn approved(store: &Arc<dyn Store>, id: &str, agent: &Agent) -> RunState {
    let mut paused = runner(store, id).run(agent, "Pay.").await.expect("paused");
    paused.state.approve(&paused.interruptions[0]).expect("approved");
    paused.state
}

/// Another process continues the session as it is in the store.
async fn continued(store: &Arc<dyn Store>, id: &str, agent: &Agent) -> RunResult {
    let state = RunState::load(&**store, id).await.expect("saved");
    let run = timeout(Duration::from_secs(30), runner(store, id).run(agent, state)).await;
    run.expect("it does not wait for the other process").expect("it goes on")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_r5_what_a_dropped_run_was_doing_is_in_doubt_for_other_processes_at_once() {
    let database = Database::new();
    let (one, two) = (process(&database).await, process(&database).await);
    for streamed in [false, true] {
        let id = format!("s-{streamed}");
        let slow = Slow::default();
        let agent = slow.agent();
        let state = approved(&one, &id, &agent).await;
        if streamed {
            let stream = runner(&one, &id).run_streamed(&agent, state).await.expect("streamed");
            slow.begun.notified().await;
            drop(stream);
        } else {
            let first = runner(&one, &id);
            tokio::select! {
                _ = first.run(&agent, state) => panic!("it waits for its tool"),
                () = slow.begun.notified() => {}
            }
        }
        let mut doubt = continued(&two, &id, &agent).await;
        assert_eq!(doubt.interruptions.iter().map(|item| item.kind).collect::<Vec<_>>(), [InterruptionKind::InDoubt]);
        assert_eq!(slow.runs.load(Ordering::SeqCst), 1);
        doubt.state.respond(&doubt.interruptions[0], "paid").expect("reported");
        let over = runner(&two, &id).run(&agent, doubt.state).await.expect("over");
        assert_eq!((&*over.final_output, slow.runs.load(Ordering::SeqCst)), ("paid", 1));
    }
}

/// No server and no other runtime is there, which would take sessions over by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_r5_what_a_killed_process_was_doing_is_in_doubt_for_the_next_that_runs_the_session() {
    let database = Arc::new(Database::new());
    let two = process(&database).await;
    let slow = Slow::default();
    let killed = tokio::runtime::Runtime::new().expect("a runtime");
    let same = database.clone();
    let one = killed.spawn(async move { process(&same).await }).await.expect("a store");
    let (store, agent) = (one.clone(), slow.agent());
    killed.spawn(async move {
        let state = approved(&store, "s", &agent).await;
        runner(&store, "s").run(&agent, state).await
    });
    slow.begun.notified().await;
    // Its tasks end where they are: it says nothing any more.
    killed.shutdown_background();
    let doubt = continued(&two, "s", &slow.agent()).await;
    assert_eq!(doubt.interruptions.iter().map(|item| item.kind).collect::<Vec<_>>(), [InterruptionKind::InDoubt]);
    assert_eq!(slow.runs.load(Ordering::SeqCst), 1);
    drop(one);
}

/// A hook that never ends.
struct Stuck(Arc<Notify>);

impl RunHooks for Stuck {
    fn approval_resolved<'a>(&'a self, _: &'a ApprovalResolved<'a>) -> BoxFuture<'a, ()> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// The decision's append brought the lease, and no driver has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r5_a_run_that_is_dropped_before_it_is_driven_continues_in_other_processes() {
    let database = Database::new();
    let (one, two) = (process(&database).await, process(&database).await);
    let slow = Slow::default();
    let agent = slow.agent();
    let state = approved(&one, "s", &agent).await;
    let resolved = Arc::new(Notify::new());
    let first = runner(&one, "s");
    let hooks = RunConfig::new().hooks(Stuck(resolved.clone()));
    tokio::select! {
        _ = first.run_with(&agent, state, hooks) => panic!("it waits for its hook"),
        () = resolved.notified() => {}
    }
    slow.end.notify_one();
    assert_eq!(continued(&two, "s", &agent).await.final_output, "paid in run 1");
}
