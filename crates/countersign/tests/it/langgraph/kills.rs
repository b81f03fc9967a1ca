//! M6: a process that is killed, for real, around a payment. The child is this test binary once more.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use countersign::{
    Decision,
    graph::{Context, Graph, Node, NodeError, Outcome},
    run::{NewDecision, Runs, Runtime},
    store::{
        Store,
        sqlite::{SqliteOptions, SqliteStore},
    },
};

use super::{Way, Work, WorkUpdate, graph_of, me, process, said};

/// The child's folder of store and marks, and its mode.
const FOLDER: &str = "COUNTERSIGN_TEST_M6_FOLDER";
const MODE: &str = "COUNTERSIGN_TEST_M6_MODE";
const PAYMENTS: i64 = 12;

/// When the child stops and waits for its end.
#[derive(Clone, Copy, PartialEq)]
enum Hangs {
    Never,
    /// In the middle of the payment: the money is gone, and no result is stored.
    InPayment,
    /// At the beginning of the node after it.
    AfterPayment,
}

/// The world outside: a line for each payment. It outlives the process.
fn paid(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("paid")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn write(folder: &Path, file: &str, line: &str) {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(folder.join(file)).expect("open");
    file.write_all(format!("{line}\n").as_bytes()).expect("write");
}

/// Asks, pays so many times, a step each, and ships.
fn shop(folder: &Path, payments: i64, hangs: Hangs) -> Graph<Work> {
    let folder = folder.to_owned();
    graph_of(|graph| {
        let ask = graph.node("ask", super::asks("pay?"));
        let at = folder.clone();
        let pay = graph.node("pay", move |ctx: Context<Work>| {
            let folder = at.clone();
            async move {
                let n = ctx.state().sum;
                ctx.step("pay", async move {
                    write(&folder, "paid", &n.to_string());
                    if hangs == Hangs::InPayment {
                        hang(&folder).await;
                    }
                    Ok::<_, NodeError>(n)
                })
                .await?;
                Ok(WorkUpdate::new().sum(1))
            }
        });
        let ship = graph.node("ship", move |_| {
            let folder = folder.clone();
            async move {
                if hangs == Hangs::AfterPayment {
                    hang(&folder).await;
                }
                Ok(said("shipped"))
            }
        });
        graph.start(ask);
        graph.edge(ask, pay);
        graph.route(
            pay,
            move |work| if work.sum < payments { Way::Back } else { Way::On },
            |way| match way {
                Way::Back => pay,
                Way::On => ship,
            },
        );
        graph.edge(ship, Node::END);
    })
}

async fn hang(folder: &Path) {
    write(folder, "hangs", "here");
    std::future::pending::<()>().await;
}

fn open(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.join("s.db"), &SqliteOptions::default()).expect("open"))
}

/// The child's work. Without the variables of a parent it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_the_child_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let (payments, hangs) = match std::env::var(MODE).as_deref() {
        Ok("in") => (1, Hangs::InPayment),
        Ok("after") => (1, Hangs::AfterPayment),
        _ => (PAYMENTS, Hangs::Never),
    };
    let (_runtime, runs) = process(&open(&folder), &shop(&folder, payments, hangs));
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    write(&folder, "begun", "here");
    let _ = runs.resume(&me(), "s_1", true).await.expect("resume");
}

/// A child over its own store.
fn child(folder: &Path, mode: &str) -> Child {
    Command::new(std::env::current_exe().expect("this binary"))
        .args(["langgraph::kills::m6_the_child_that_is_killed", "--exact", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(MODE, mode)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child")
}

fn wait_for(folder: &Path, mark: &str) {
    let since = Instant::now();
    while !folder.join(mark).exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "the child never came to {mark}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next process: resumes the run of the dead one.
async fn next(folder: &Path, payments: i64) -> (Runtime, Runs<Work>, Outcome<Work>) {
    let (runtime, runs) = process(&open(folder), &shop(folder, payments, Hangs::Never));
    runtime.start().await.expect("start");
    let outcome = runs.outcome(&me(), "s").await.expect("outcome");
    (runtime, runs, outcome)
}

async fn decide(runtime: &Runtime, runs: &Runs<Work>, key: &str, decision: Decision) -> Outcome<Work> {
    let new = NewDecision::new(key, vec![decision]);
    runtime.decide_and_run(&me(), new).await.expect("decided");
    runs.outcome(&me(), "s").await.expect("outcome")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_killed_after_a_payment_it_is_not_paid_again_and_nobody_is_asked() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().expect("directory");
        let mut child = child(dir.path(), "after");
        wait_for(dir.path(), "hangs");
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let (runtime, _, outcome) = next(dir.path(), 1).await;
        assert_eq!(outcome.done().expect("it goes on by itself").log, ["pay?: true", "shipped"]);
        assert_eq!(paid(dir.path()), ["0"]);
        runtime.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_killed_in_a_payment_a_person_is_asked_and_it_is_not_paid_again() {
    for pay_again in [false, true, false, false, true] {
        let dir = tempfile::tempdir().expect("directory");
        let mut child = child(dir.path(), "in");
        wait_for(dir.path(), "hangs");
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let (runtime, runs, outcome) = next(dir.path(), 1).await;
        let waiting = outcome.pending().to_vec();
        assert_eq!((waiting.len(), waiting[0].in_doubt, &*waiting[0].question), (1, true, "pay"));
        assert_eq!(paid(dir.path()), ["0"], "not by itself");
        let decision = if pay_again { Decision::approve() } else { Decision::respond("0") };
        let outcome = decide(&runtime, &runs, &waiting[0].key, decision).await;
        assert_eq!(outcome.done().expect("done").log, ["pay?: true", "shipped"]);
        assert_eq!(paid(dir.path()).len(), 1 + usize::from(pay_again));
        runtime.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m6_killed_at_any_moment_every_payment_is_made_exactly_once() {
    let mut killed = 0;
    for i in 0..15_u64 {
        let dir = tempfile::tempdir().expect("directory");
        let mut child = child(dir.path(), "run");
        wait_for(dir.path(), "begun");
        std::thread::sleep(Duration::from_micros(i * 1700));
        killed += u32::from(child.try_wait().expect("status").is_none());
        child.kill().expect("SIGKILL");
        child.wait().expect("its end");
        let (runtime, runs, mut outcome) = next(dir.path(), PAYMENTS).await;
        while let Some(waiting) = outcome.pending().first().cloned() {
            outcome = if waiting.in_doubt {
                // The person checks the account.
                let n = runs.state(&me(), "s").await.expect("state").sum;
                let done = paid(dir.path()).contains(&n.to_string());
                let decision = if done { Decision::respond(n.to_string()) } else { Decision::approve() };
                decide(&runtime, &runs, &waiting.key, decision).await
            } else {
                runs.resume(&me(), &waiting.key, true).await.expect("resume")
            };
        }
        assert_eq!(outcome.done().expect("done").sum, PAYMENTS);
        assert_eq!(paid(dir.path()), (0..PAYMENTS).map(|n| n.to_string()).collect::<Vec<_>>(), "kill {i}");
        runtime.shutdown(Duration::ZERO).await;
    }
    assert!(killed > 5, "only {killed} were in the middle");
}
