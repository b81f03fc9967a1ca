//! A store that fails for a while: a failed read is an error, and never taken for absence (spec P2, S13, S18, R1).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Args, Decision, GuardrailOutput, Permit, Principal, RunErrorKind, Status,
    graph::{Graph, GraphState, NodeError, Outcome, StateGraph},
    model::{Model, ModelError, ModelEvent, ModelRequest},
    run::{Code, NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolEntry, ToolError, source::ToolSource},
};
use countersign_core::{
    approval::rule::Always,
    call::preview::{Preview, PreviewKind},
    journal::{
        record::{Record, records},
        run::Raw,
    },
};
use countersign_engine::tool::{CallFacts, Previewer, function::FunctionTool};
use countersign_runtime::run::{ApprovalQuery, Direction, HistoryQuery, NewSession, RuleQuery, SessionQuery};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json, value::to_raw_value};
use tokio::sync::Notify;

use crate::{
    failing::Failing,
    graph_support::{Count, Work, WorkUpdate, in_line, me, process},
    logged::Log,
    support::{self, Ledger, decide, entry, kept, send},
    team::{Teller, call, ran, teller, text},
};

/// A commit that waits for a standby takes as long as that does, and its session is locked meanwhile.
#[tokio::test(start_paused = true)]
async fn r5_nobody_waits_without_end_to_read_a_session_in_which_something_is_being_stored() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = runtime(&store, Approval::never(), 0).await;
    send(&runtime, "s", "go").await.expect("run");
    let (begun, begins) = futures::channel::oneshot::channel();
    let (end, ends) = futures::channel::oneshot::channel();
    store.meanwhile(|record| matches!(record, Record::UserMessage(_)), async {
        begun.send(()).expect("heard");
        ends.await.expect("told");
    });
    let sends = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.message(&Principal::trusted(), NewMessage::text("s", "more")).await.map(drop) }
    });
    begins.await.expect("it is being stored");
    let asked = tokio::time::Instant::now();
    let refused = runtime.session(&Principal::trusted(), "s").await.expect_err("what comes of it is not known");
    assert_eq!((refused.code, asked.elapsed().as_secs()), (Code::StoreUnavailable, 10), "{refused}");
    let followed = runtime.subscribe(&Principal::trusted(), "s", None).await;
    assert_eq!(followed.err().map(|refused| refused.code), Some(Code::StoreUnavailable));
    // Its outcome does not depend on who waits for it.
    sends.abort();
    sends.await.expect_err("it is given up");
    end.send(()).expect("it is still being stored");
    let is_done = async {
        loop {
            let state = runtime.state(&Principal::trusted(), "s").await.expect("it can be read");
            if (state.session.status, state.turns) == (Status::Completed, 2) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_done).await.expect("the turn ends");
}

/// A model after whose first answer the next read of the session's context fails.
struct Breaks(Arc<Teller>, Arc<Failing>, AtomicU32);

impl Model for Breaks {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.1.firsts.store(self.2.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        self.0.call(request)
    }
}

/// A tool that returns the application's data of its session.
fn sees(approval: Approval) -> ToolEntry {
    let function = |context: countersign::tool::ToolContext, _: Value| async move {
        Ok(context.context::<Value>().unwrap_or_else(|error| json!(error.to_string())))
    };
    FunctionTool::with_context("see", "", function).entry().needs_approval(approval)
}

/// A session with a context, whose agent calls that tool once.
async fn runtime(store: &Arc<Failing>, approval: Approval, breaks: u32) -> Runtime {
    runtime_of(store, sees(approval), breaks).await
}

async fn runtime_of(store: &Arc<Failing>, tool: ToolEntry, breaks: u32) -> Runtime {
    let says = teller([vec![call("c", "see", "{}")], text("done")]);
    let model = Arc::new(Breaks(says, store.clone(), breaks.into()));
    let agent = Agent::new("a", ("m", model)).tool(tool);
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    let context = Some(to_raw_value(&json!({ "user": "Bob" })).expect("JSON"));
    let new = NewSession { session_id: Some("s".to_owned()), context, ..NewSession::default() };
    runtime.create_session(&Principal::trusted(), new).await.expect("session");
    runtime
}

/// Lists are polled.
#[tokio::test]
async fn r9_each_session_of_which_lists_leave_something_out_is_named_once_in_the_log() {
    let (store, log) = (Failing::over(Arc::new(MemoryStore::new())), Log::start());
    let trade = json!({ "tool_calls": [{ "name": "trade", "args": { "n": 1 } }] });
    let script = json!({ "turns": [trade, { "text": "done" }], "at_end": "repeat" });
    let runtime = support::runtime(store.clone(), &script.to_string(), &Ledger::default());
    for session in ["s", "t"] {
        send(&runtime, session, "go").await.expect("it asks");
        let always = Decision::approve().always(Always::Session);
        decide(&runtime, &format!("{session}_1"), vec![always]).await.expect("decided");
    }
    store.unread.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(runtime.sessions(&me(), SessionQuery::default()).await.expect("a page").rows.is_empty());
        assert!(runtime.approvals(&me(), ApprovalQuery::default()).await.expect("a page").rows.is_empty());
        let rules = RuleQuery { limit: Some(10), ..RuleQuery::default() };
        assert!(runtime.rules(&me(), rules).await.expect("a page").rows.is_empty());
    }
    let log = log.text();
    for what in ["a session", "a request", "a standing rule"] {
        for session in ["session=\"s\"", "session=\"t\""] {
            let told = |line: &&str| line.contains(&format!("{what} cannot be read")) && line.contains(session);
            assert_eq!(log.lines().filter(told).count(), 1, "{what}, {session}: {log}");
        }
    }
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

/// A preview of any call.
struct Shows;

impl Previewer for Shows {
    fn preview<'a>(&'a self, call: &'a CallFacts<'a>) -> BoxFuture<'a, Result<Preview, String>> {
        async { Ok(Preview::text(call.args.text())) }.boxed()
    }
}

#[tokio::test]
async fn s12_an_edited_call_whose_context_cannot_be_read_has_no_preview_and_says_why() {
    for (fails, shown) in [(0, (PreviewKind::Text, r#"{"n":1}"#)), (2, (PreviewKind::Failed, "the disk is away"))] {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        let tool = sees(Approval::always().levels(["first", "second"])).preview(Arc::new(Shows));
        let runtime = runtime_of(&store, tool, 0).await;
        send(&runtime, "s", "go").await.expect("paused");
        // For the verdict on the edited call, and for its preview.
        store.firsts.store(fails, Ordering::SeqCst);
        let edit = Decision::edit("see", Args::parse(r#"{"n":1}"#).expect("args"));
        let outcome = decide(&runtime, "s_1", vec![edit]).await.expect("edited");
        let preview = outcome.interruptions[0].actions()[0].preview.clone().expect("a preview");
        assert_eq!(preview.kind, shown.0);
        assert!(preview.text.contains(shown.1), "{}", preview.text);
    }
}

/// A source of one idempotent tool; it is reached when it is prepared often enough.
pub(crate) struct Source {
    prepared: AtomicU64,
    reached_after: u64,
    tool: ToolEntry,
}

impl Source {
    pub(crate) fn of(tool: ToolEntry, reached_after: u64) -> Arc<Source> {
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

/// A tool that signals its start, and never ends.
struct Endless(Arc<Notify>);

impl Tool for Endless {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        self.0.notify_one();
        std::future::pending().boxed()
    }
}

/// A call that a crash interrupted is judged with the existing tools, not with none: also if the session could not be
/// loaded when its tools' source had to be connected.
#[tokio::test]
async fn s13_r4_a_load_that_fails_while_tools_are_reached_is_tried_again() {
    let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (ledger, begun) = (Ledger::default(), Arc::new(Notify::new()));
    let far = || entry("far", Approval::never(), &ledger);
    let agent = |source| Agent::new("a", ("m", teller([vec![call("c", "far", "{}")]]))).tools_of(source);
    let endless = ToolEntry { tool: Arc::new(Endless(begun.clone())), ..far() };
    let before = Runtime::builder(inner.clone()).agent(agent(Source::of(endless, 1))).build().expect("one");
    before.message(&Principal::trusted(), NewMessage::text("s", "go")).await.expect("stored");
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

/// The records of a journal, without times and names.
async fn kinds(store: &Arc<Failing>) -> Vec<String> {
    let entries = store.read("s", 0, 1000).await.expect("entries");
    let kind = |record: &Record| format!("{record:?}").split(['(', ' ']).next().unwrap_or_default().to_owned();
    records(&entries).map(kind).collect()
}

/// Whether the first answer to each append is lost, and how many appends fail after that: more than anything retries.
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
            // A refused call ends with its answer, which then looks as if it had not been stored yet.
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

/// As while it is shown by a database whose standby has not got it.
#[tokio::test(start_paused = true)]
async fn r3_an_append_whose_answer_is_lost_counts_once_a_fail_over_does_not_lose_it() {
    let store = lossy((true, 0));
    let agent = Agent::new("a", ("m", teller([text("done")])));
    let runtime = Runtime::builder(store.clone()).agent(agent).build().expect("runtime");
    store.unsynced.store(u32::MAX, Ordering::SeqCst);
    let unknown = send(&runtime, "s", "go").await.expect_err("it is not known");
    assert_eq!(unknown.code, Code::OutcomeUnknown, "{unknown}");
    assert!(store.head("s").await.expect("read").is_some(), "all see it");
    store.unsynced.store(0, Ordering::SeqCst);
    let busy = send(&runtime, "s", "and on").await.expect_err("it is at work");
    assert_eq!(busy.code, Code::SessionBusy, "{busy}");
}

#[tokio::test(start_paused = true)]
async fn r3_a_graphs_update_whose_answer_is_lost_counts_once() {
    // Every second unanswered append is stored all the same: with one more round before, it is the other half.
    for rounds in [1, 2] {
        let graph = in_line("count", |graph| {
            let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
            let ask = graph.node("ask", |ctx: countersign::graph::Context<Work>| async move {
                let _: bool = ctx.interrupt("more?", ()).typed().await;
                Ok(WorkUpdate::new().sum(10))
            });
            graph.start(one);
            if rounds == 1 {
                graph.edge(one, ask);
            } else {
                let two = graph.node("two", |_| async { Ok(WorkUpdate::new()) });
                graph.edge(one, two);
                graph.edge(two, ask);
            }
            graph.edge(ask, one);
        });
        for losses in LOSSES {
            let store = lossy(losses);
            let plain: Arc<dyn Store> = store.clone();
            let (_, runs) = process(&plain, &graph);
            let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
            for n in 1..=2 {
                // People answer after the outage.
                store.appends.store(0, Ordering::SeqCst);
                let paused = runs.resume(&me(), &format!("s_{n}"), true).await.expect("resume");
                assert_eq!(paused.pending().len(), 1, "{losses:?}");
            }
            // As another process folds it.
            let (_, runs) = process(&plain, &graph);
            assert_eq!(runs.state(&me(), "s").await.expect("state").sum, 23, "{losses:?}");
            assert_eq!(store.lost() > 0, losses.0);
        }
    }
}

/// A step's start and its end are each on record, whichever answer is lost.
#[tokio::test(start_paused = true)]
async fn r3_r4_a_step_of_which_an_answer_is_lost_is_done_once() {
    for steps in [1, 2, 3] {
        for losses in LOSSES {
            let store = lossy(losses);
            let done = Count::default();
            let counted = done.clone();
            let graph = in_line("steps", |graph| {
                let node = graph.node("node", move |ctx: countersign::graph::Context<Work>| {
                    let counted = counted.clone();
                    async move {
                        for step in 0..steps {
                            let counted = counted.clone();
                            ctx.step(&format!("step {step}"), async move { Ok::<_, NodeError>(counted.up()) }).await?;
                        }
                        Ok(WorkUpdate::new().sum(1))
                    }
                });
                graph.start(node);
                graph.edge(node, countersign::graph::Node::END);
            });
            let plain: Arc<dyn Store> = store.clone();
            let (_, runs) = process(&plain, &graph);
            let run = async { runs.run(&me(), "s", &Work::default()).await.expect("run") };
            let outcome = tokio::time::timeout(std::time::Duration::from_secs(600), run).await.expect("it hangs");
            let work = outcome.done();
            assert_eq!((work.map(|work| work.sum), done.get()), (Some(1), steps), "{losses:?}");
            assert_eq!(store.lost() > 0, losses.0);
        }
    }
}

/// A runtime with its session's state in memory, and a store that has lost the entries.
async fn with_a_gap(store: &Arc<Failing>, agent: Agent) -> Runtime {
    let before = Agent::new("a", ("m", teller([text("hello")])));
    let before = Runtime::builder(store.clone()).agent(before).build().expect("one");
    send(&before, "s", "the first").await.expect("run");
    before.shutdown(Duration::ZERO).await;
    let after = Runtime::builder(store.clone()).agent(agent).build().expect("two");
    after.session(&me(), "s").await.expect("session");
    store.gap.store(true, Ordering::SeqCst);
    after
}

const GAP: &str = "the session's journal has a gap";

#[tokio::test]
async fn r9_a_page_of_history_does_not_end_at_a_gap() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = with_a_gap(&store, Agent::new("a", ("m", teller([])))).await;
    for direction in [Direction::Forward, Direction::Backward] {
        let query = HistoryQuery { direction, cursor: None, limit: 10 };
        let refused = runtime.history(&me(), "s", query).await.expect_err("a gap");
        assert_eq!((refused.code, &*refused.message), (Code::Internal, GAP), "{direction:?}");
    }
}

/// A model that answers how many messages it has read.
struct Counts;

impl Model for Counts {
    fn call(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = async move {
            let read = request.conversation.messages().await.map(|messages| messages.len().to_string());
            let events = read.map(|read| [ModelEvent::Text(read), ModelEvent::Stop].map(Ok).to_vec());
            futures::stream::iter(events.unwrap_or_else(|error| vec![Err(error)]))
        };
        answer.flatten_stream().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn s13_no_model_reads_a_conversation_with_a_gap() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let runtime = with_a_gap(&store, Agent::new("a", ("m", Arc::new(Counts)))).await;
    let outcome = send(&runtime, "s", "the second").await.expect("run");
    assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
    assert!(outcome.error.is_some_and(|error| error.message.contains(GAP)));
}

/// An agent with a guardrail, and that guardrail's input.
fn guarded() -> (Agent, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = seen.clone();
    let agent = Agent::new("a", ("m", teller([text("done")]))).input_guardrail("reads", move |_, text| {
        heard.lock().expect("seen").push(text);
        async { GuardrailOutput::pass() }
    });
    (agent, seen)
}

#[tokio::test(start_paused = true)]
async fn s13_a_guardrail_waits_for_the_whole_input() {
    let (store, (agent, seen)) = (Failing::over(Arc::new(MemoryStore::new())), guarded());
    let runtime = with_a_gap(&store, agent).await;
    store.gap.store(false, Ordering::SeqCst);
    store.pages.store(u32::MAX, Ordering::SeqCst);
    let run = tokio::spawn(async move { send(&runtime, "s", "the second").await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(seen.lock().expect("seen").is_empty() && !run.is_finished());
    store.pages.store(0, Ordering::SeqCst);
    let outcome = run.await.expect("task").expect("run");
    assert_eq!((outcome.status, &**seen.lock().expect("seen")), (Status::Completed, &["the second".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn s13_a_turn_whose_input_no_guardrail_can_ever_read_fails_and_says_so() {
    let (store, (agent, seen)) = (Failing::over(Arc::new(MemoryStore::new())), guarded());
    let runtime = with_a_gap(&store, agent).await;
    let outcome = tokio::time::timeout(Duration::from_mins(5), send(&runtime, "s", "the second")).await;
    let outcome = outcome.expect("it waits for nothing").expect("run");
    assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
    assert!(outcome.error.is_some_and(|error| error.message.contains(GAP)));
    assert!(seen.lock().expect("seen").is_empty());
}

#[tokio::test]
async fn g6_a_graphs_state_is_not_folded_over_a_gap() {
    let graph = in_line("one", |graph| {
        let one = graph.node("one", |_| async { Ok(WorkUpdate::new().sum(1)) });
        graph.start(one);
        graph.edge(one, countersign::graph::Node::END);
    });
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let plain: Arc<dyn Store> = store.clone();
    let (_, runs) = process(&plain, &graph);
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let (runtime, runs) = process(&plain, &graph);
    runtime.session(&me(), "s").await.expect("session");
    store.gap.store(true, Ordering::SeqCst);
    assert_eq!(&*runs.state(&me(), "s").await.expect_err("a gap").message, GAP);
}

/// A graph that asks for a number.
fn how_many() -> Graph<Work> {
    in_line("ask", |graph| {
        let ask = graph.node("ask", |ctx: countersign::graph::Context<Work>| async move {
            let n: i64 = ctx.interrupt("how many?", ()).typed().await;
            Ok(WorkUpdate::new().sum(n))
        });
        graph.start(ask);
        graph.edge(ask, countersign::graph::Node::END);
    })
}

/// A question that is asked again is on record already: it has been asked again only once that is stored.
#[tokio::test(start_paused = true)]
async fn g3_what_is_to_be_asked_again_is_not_forgotten_when_the_store_fails() {
    let store = Failing::over(Arc::new(MemoryStore::new()));
    let plain: Arc<dyn Store> = store.clone();
    let (_runtime, runs) = process(&plain, &how_many());
    let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
    let failed = runs.resume(&me(), "s_1", 3.0).await.expect("it fits the schema");
    assert!(matches!(&failed, Outcome::Failed { code, .. } if code == "unreadable_answer"), "{failed:?}");
    let away = store.clone();
    let fails = async move { away.appends.store(1, Ordering::SeqCst) };
    store.meanwhile(|record| matches!(record, Record::Retried(_)), fails);
    let asked = runs.retry(&me(), "s").await.expect("retry");
    assert_eq!(asked.pending().iter().map(|one| &*one.key).collect::<Vec<_>>(), ["s_2"], "{asked:?}");
    assert_eq!(store.failed.load(Ordering::SeqCst), 1);
    assert!(!kinds(&store).await.contains(&"TaskWaits".to_owned()), "nothing has arrived that it could go on with");
    assert_eq!(runs.resume(&me(), "s_2", 3).await.expect("resume").done().expect("done").sum, 3);
}

/// Wherever the store fails, the given answers are in the error, and the run resumes with them.
#[tokio::test(start_paused = true)]
async fn s17_a_graphs_run_gives_its_state_back_when_its_store_fails() {
    let graph = how_many();
    for (elsewhere, appends, heads) in [(false, 0, 1), (false, 1, 0), (true, 0, 1), (true, 1, 0)] {
        let store = Failing::over(Arc::new(MemoryStore::new()));
        // A store that does not have the run yet, or its own.
        let asked = match elsewhere {
            true => graph.run(Work::default()).await,
            false => graph.run_with(Work::default(), kept(store.clone())).await,
        };
        let mut asked = asked.expect("paused");
        asked.state.answer(&asked.interruptions[0], &5).expect("answered");
        store.appends.store(appends, Ordering::SeqCst);
        store.heads.store(heads, Ordering::SeqCst);
        let error = graph.run_with(asked.state, kept(store.clone())).await.expect_err("the store fails");
        let given = error.into_state().expect("the state comes back");
        let done = graph.run_with(given, kept(store.clone())).await.expect("resumed").outcome.done();
        assert_eq!(done.expect("done").sum, 5);
    }
}

#[tokio::test]
async fn s17_a_graphs_run_that_another_has_put_into_the_store_meanwhile_is_claimed() {
    let (inner, graph) = (Arc::new(MemoryStore::new()), how_many());
    let store = Failing::over(inner.clone());
    let mut asked = graph.run(Work::default()).await.expect("paused");
    asked.state.answer(&asked.interruptions[0], &5).expect("answered");
    let other = asked.state.clone();
    let restored = async move { other.save(&*inner).await.expect("restored") };
    store.meanwhile(|record| matches!(record, Record::SessionCreated(_)), restored);
    let error = graph.run_with(asked.state, kept(store.clone())).await.expect_err("the other was first");
    assert_eq!(error.kind(), RunErrorKind::Claimed);
    assert!(error.state().is_some());
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, GraphState)]
struct Measured {
    value: Length,
}

/// A length that is not read as it is written, once it has been measured.
#[derive(Clone, Debug, Default, Deserialize)]
struct Length(f64);

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 > 0.0 { serializer.serialize_str(&format!("{} m", self.0)) } else { self.0.serialize(serializer) }
    }
}

#[tokio::test]
async fn s17_a_graphs_run_whose_state_cannot_be_read_back_does_nothing_twice() {
    let paid = Arc::new(AtomicU32::new(0));
    let pays = paid.clone();
    let mut graph = StateGraph::new("pay");
    let pay = graph.node("pay", move |ctx: countersign::graph::Context<Measured>| {
        let pays = pays.clone();
        async move {
            let _: bool = ctx.interrupt("pay?", ()).typed().await;
            let work = async move {
                pays.fetch_add(1, Ordering::SeqCst);
                Ok::<_, NodeError>(())
            };
            ctx.step("pay", work).await?;
            Ok(MeasuredUpdate::new().value(Length(1.0)))
        }
    });
    graph.start(pay);
    graph.edge(pay, countersign::graph::Node::END);
    let graph = graph.compile().expect("graph");
    let mut asked = graph.run(Measured::default()).await.expect("paused");
    asked.state.answer(&asked.interruptions[0], &true).expect("answered");
    let error = graph.run(asked.state).await.expect_err("it cannot be read back");
    let state = error.into_state().expect("where the run is now");
    graph.run(state).await.expect_err("it still cannot");
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn g6_an_edited_run_continues_even_if_it_cannot_be_read_then() {
    let (store, graph) = (Failing::over(Arc::new(MemoryStore::new())), how_many());
    let plain: Arc<dyn Store> = store.clone();
    let _ = process(&plain, &graph).1.run(&me(), "s", &Work::default()).await.expect("run");
    let (runtime, runs) = process(&plain, &graph);
    let gap = store.clone();
    let breaks = async move { gap.gap.store(true, Ordering::SeqCst) };
    store.meanwhile(|record| matches!(record, Record::StateEdited(_)), breaks);
    let update = Raw::of(&WorkUpdate::new().sum(1)).expect("JSON");
    let refused = runtime.edit_run(&me(), "s", update, None).await.expect_err("a gap");
    assert_eq!(&*refused.message, GAP);
    store.gap.store(false, Ordering::SeqCst);
    // The node starts over with it, and asks again.
    let outcome = runs.outcome(&me(), "s").await.expect("outcome");
    assert_eq!(outcome.pending().iter().map(|waiting| &*waiting.key).collect::<Vec<_>>(), ["s_2"]);
}
