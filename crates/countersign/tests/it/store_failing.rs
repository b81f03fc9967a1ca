//! A store that fails for a while: what could not be read is an error, and never taken for nothing (spec P2, S13, S18, R1).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Decision, Permit, Principal, Status,
    model::{Model, ModelError, ModelEvent, ModelRequest},
    run::{NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolEntry, ToolError, source::ToolSource},
};
use countersign_core::journal::record::{Record, records};
use countersign_engine::tool::function::FunctionTool;
use countersign_runtime::run::NewSession;
use futures::{FutureExt as _, future::BoxFuture, stream::BoxStream};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::Notify;

use crate::{
    failing::Failing,
    graph_edges::in_line,
    graphs::{Work, WorkUpdate, me, process},
    support::{Ledger, decide, entry, send},
    team::{Teller, call, ran, teller, text},
};

/// A model after whose first answer the next read of the session's context fails.
struct Breaks(Arc<Teller>, Arc<Failing>, AtomicU32);

impl Model for Breaks {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.1.firsts.store(self.2.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        self.0.call(request)
    }
}

/// A tool that says what the application gave its session.
fn sees(approval: Approval) -> ToolEntry {
    let function = |context: countersign::tool::ToolContext, _: Value| async move {
        Ok(context.context::<Value>().unwrap_or_else(|error| json!(error.to_string())))
    };
    FunctionTool::with_context("see", "", function).entry().needs_approval(approval)
}

/// A session with a context, whose agent calls that tool once.
async fn runtime(store: &Arc<Failing>, approval: Approval, breaks: u32) -> Runtime {
    let says = teller([vec![call("c", "see", "{}")], text("done")]);
    let model = Arc::new(Breaks(says, store.clone(), breaks.into()));
    let agent = Agent::new("a", ("m", model)).tool(sees(approval));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let context = Some(to_raw_value(&json!({ "user": "Bob" })).expect("JSON"));
    let new = NewSession { session_id: Some("s".to_owned()), context, ..NewSession::default() };
    runtime.create_session(&Principal::trusted(), new).await.expect("session");
    runtime
}

async fn results(store: &Arc<Failing>) -> Vec<String> {
    let entries = store.read("s", 0, 1000).await.expect("entries");
    let result = |record: &Record| match record {
        Record::CallFinished(done) => Some(done.output.clone()),
        _ => None,
    };
    records(&entries).filter_map(result).collect()
}

#[tokio::test]
async fn p2_a_call_whose_context_cannot_be_read_is_asked_about_and_says_why() {
    for (breaks, status) in [(0, Status::Completed), (1, Status::AwaitingInput)] {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        let runtime = runtime(&store, Approval::never(), breaks).await;
        let outcome = send(&runtime, "s", "go").await.expect("run");
        assert_eq!((outcome.status, store.failed.load(Ordering::SeqCst)), (status, breaks));
        if breaks > 0 {
            let told = serde_json::to_string(&outcome.interruptions).expect("json");
            assert!(told.contains("the disk is away"), "{told}");
            assert!(results(&store).await.is_empty(), "nothing ran");
        }
    }
}

#[tokio::test]
async fn s18_a_call_waits_for_its_context_and_never_runs_as_if_there_were_none() {
    for fails in [1, 4] {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        let runtime = runtime(&store, Approval::always(), 0).await;
        send(&runtime, "s", "go").await.expect("paused");
        store.firsts.store(fails, Ordering::SeqCst);
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
        assert_eq!((outcome.status, store.failed.load(Ordering::SeqCst)), (Status::Completed, fails));
        assert_eq!(results(&store).await, [r#"{"user":"Bob"}"#]);
    }
}

/// A source of one tool that does no harm when it is run again; it is reached when it is prepared often enough.
struct Source {
    prepared: AtomicU64,
    reached_after: u64,
    tool: ToolEntry,
}

impl Source {
    fn of(tool: ToolEntry, reached_after: u64) -> Arc<Source> {
        Arc::new(Source { prepared: AtomicU64::new(0), reached_after, tool: ToolEntry { idempotent: true, ..tool } })
    }
}

impl ToolSource for Source {
    fn name(&self) -> &'static str {
        "far away"
    }
    fn describe(&self) -> Value {
        json!("far away")
    }
    fn version(&self) -> u64 {
        u64::from(self.prepared.load(Ordering::SeqCst) >= self.reached_after)
    }
    fn tools(&self) -> Vec<ToolEntry> {
        (0..self.version()).map(|_| self.tool.clone()).collect()
    }
    fn prepare(&self) -> BoxFuture<'_, ()> {
        self.prepared.fetch_add(1, Ordering::SeqCst);
        async {}.boxed()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

/// A tool that says that it has begun, and never ends.
struct Endless(Arc<Notify>);

impl Tool for Endless {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        self.0.notify_one();
        std::future::pending().boxed()
    }
}

/// What a crash interrupted is looked at with the tools that there are, and not with none: also if the session could not be
/// loaded when they were to be reached.
#[tokio::test]
async fn s13_r4_a_load_that_fails_while_tools_are_reached_is_tried_again() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (ledger, begun) = (Ledger::default(), Arc::new(Notify::new()));
    let far = || entry("far", Approval::never(), &ledger);
    let agent = |source| Agent::new("a", ("m", teller([vec![call("c", "far", "{}")]]))).tools_of(source);
    let endless = ToolEntry { tool: Arc::new(Endless(begun.clone())), ..far() };
    let before = Runtime::builder(inner.clone()).agent(agent(Source::of(endless, 1))).build().expect("one");
    before.message(&Principal::trusted(), NewMessage::text("s", "go"), false).await.expect("stored");
    begun.notified().await;
    before.shutdown(Duration::ZERO).await;

    // The start does not reach it, and then the store does not answer.
    let store = Failing::over(inner);
    let after = Agent::new("a", ("m", teller([text("done")]))).tools_of(Source::of(far(), 2));
    let after = Runtime::builder(store.clone()).agent(after).build().expect("two");
    store.heads.store(3, Ordering::SeqCst);
    after.start().await.expect("start");
    let outcome = after.wait(&Principal::trusted(), "s").await.expect("wait");
    assert_eq!((outcome.status, ran(&ledger)), (Status::Completed, vec!["far".to_owned()]), "{outcome:?}");
    assert_eq!(store.failed.load(Ordering::SeqCst), 3);
}

/// What a journal says, without its times and names.
async fn kinds(store: &Arc<Failing>) -> Vec<String> {
    let entries = store.read("s", 0, 1000).await.expect("entries");
    let kind = |record: &Record| format!("{record:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    records(&entries).map(kind).collect()
}

/// Whether the first answer to each append is lost, and how many appends fail after that: more than anybody waits for.
const LOSSES: [(bool, u32); 3] = [(false, 0), (true, 0), (true, 20)];

fn lossy((loses, away): (bool, u32)) -> Arc<Failing> {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    store.loses_answers.store(loses, Ordering::SeqCst);
    store.away.store(away, Ordering::SeqCst);
    store
}

#[tokio::test(start_paused = true)]
async fn r3_an_append_whose_answer_is_lost_is_neither_lost_nor_stored_twice() {
    let mut told = Vec::new();
    for losses in LOSSES {
        let store = lossy(losses);
        let ledger = Ledger::default();
        let says = teller([
            // What is refused ends with its answer, which then looks as if it had not been given yet.
            vec![call("c", "nobody", "{}"), call("d", "nobody", "{}")],
            vec![call("e", "pay", "{}"), call("f", "nobody", "{}")],
            text("done"),
        ]);
        let agent = Agent::new("a", ("m", says)).tool(entry("pay", Approval::always(), &ledger));
        let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
        send(&runtime, "s", "go").await.expect("paused");
        let outcome = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
        assert_eq!((outcome.status, ran(&ledger).len()), (Status::Completed, 1));
        assert_eq!(store.lost() > 0, losses.0);
        told.push((kinds(&store).await, results(&store).await));
    }
    assert_eq!((&told[0], &told[0]), (&told[1], &told[2]));
}

#[tokio::test(start_paused = true)]
async fn r3_a_graphs_update_whose_answer_is_lost_counts_once() {
    let graph = in_line("count", |graph| {
        let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
        let ask = graph.node("ask", |ctx: countersign::graph::Context<Work>| async move {
            let _: bool = ctx.interrupt("more?", ()).typed().await;
            Ok(WorkUpdate::new().sum(10))
        });
        graph.start(one);
        graph.edge(one, ask);
        graph.edge(ask, one);
    });
    for losses in LOSSES {
        let store = lossy(losses);
        let plain: Arc<dyn Store> = store.clone();
        let (_, runs) = process(&plain, &graph);
        runs.run(&me(), "s", &Work::default()).await.expect("run");
        for n in 1..=2 {
            runs.resume(&me(), &format!("s_{n}"), true).await.expect("resume");
        }
        // As another process folds it.
        let (_, runs) = process(&plain, &graph);
        assert_eq!(runs.state(&me(), "s").await.expect("state").sum, 23, "{losses:?}");
        assert_eq!(store.lost() > 0, losses.0);
    }
}
