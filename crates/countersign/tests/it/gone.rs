//! Callers who give their command up half way, by a timeout or a `select!`: what is stored takes effect (spec R3, R7).
//!
//! No runtime here is started, so nothing else finds out what was stored.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign::{
    Agent, Decision, Permit, Raw, Status,
    graph::{Context, Graph, Node},
    model::{Model, ModelError, ModelEvent, ModelRequest, scripted::Scripted},
    run::{NewDecision, NewMessage, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolError},
};
use countersign_core::approval::rule::Always;
use countersign_runtime::run::{CheckpointQuery, NewFork, NewNote, NewRetry, NewRun, NewSession, RuleQuery, RuleState};
use futures::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use serde_json::json;
use tokio::task::yield_now;

use crate::{
    failing::Failing,
    graph_support::{Work, in_line, process, said},
    support::{Ledger, decide, entry, me, send},
};

/// More than any command takes until its effects begin.
const YIELDS: u32 = 12;
const LONG: Duration = Duration::from_secs(300);
const DONE: &str = r#"{"turns":[{"text":"done"}],"at_end":"repeat"}"#;
const TRADE: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"done"}],"at_end":"repeat"}"#;

fn slow() -> Arc<Failing> {
    Failing::slow(Arc::new(MemoryStore::new()))
}

fn runtime(store: Arc<dyn Store>, script: &str, timeout: Duration) -> Runtime {
    let model = Scripted::from_json(script).expect("script");
    let trade = Approval::always().timeout(timeout);
    let agent = Agent::new("a", ("m", Arc::new(model))).tool(entry("trade", trade, &Ledger::default()));
    Runtime::builder(store).agent(agent).build().expect("runtime")
}

/// Drops a command after this many turns of other tasks.
async fn given_up(yields: u32, command: impl Future) {
    let gone = async {
        for _ in 0..yields {
            yield_now().await;
        }
    };
    tokio::select! { biased; () = gone => {}, _ = command => {} }
}

type Seen = Option<(Status, Vec<String>)>;

/// A session's status and pending keys, if it exists.
async fn seen(runtime: &Runtime, session: &str) -> Seen {
    runtime.session(&me(), session).await.ok().map(|session| (session.status, session.pending))
}

/// Whether the command was stored: then the session comes to this.
async fn comes_to(end: (Status, &[&str]), before: Seen, runtime: &Runtime, session: &str) -> bool {
    // What is under way is stored by then.
    for _ in 0..200 {
        yield_now().await;
    }
    if seen(runtime, session).await == before {
        return false;
    }
    let end = Some((end.0, end.1.iter().map(|key| (*key).to_owned()).collect()));
    let comes = async {
        while seen(runtime, session).await != end {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(20), comes).await;
    assert!(came.is_ok(), "{:?} and no {end:?}", seen(runtime, session).await);
    true
}

const COMPLETED: (Status, &[&str]) = (Status::Completed, &[]);

#[tokio::test]
async fn r3_a_message_whose_caller_is_gone_is_answered_if_it_is_stored() {
    let mut stored = 0;
    for yields in 0..YIELDS {
        let runtime = runtime(slow(), DONE, LONG);
        given_up(yields, runtime.message(&me(), NewMessage::text("s", "go"))).await;
        stored += u32::from(comes_to(COMPLETED, None, &runtime, "s").await);
    }
    assert!(stored > 0);
}

#[tokio::test]
async fn r3_a_decision_whose_caller_is_gone_takes_effect_if_it_is_stored() {
    let mut stored = 0;
    for yields in 0..YIELDS {
        let runtime = runtime(slow(), TRADE, LONG);
        send(&runtime, "s", "go").await.expect("paused");
        let before = seen(&runtime, "s").await;
        let approves = NewDecision::new("s_1", vec![Decision::approve()]);
        given_up(yields, runtime.decide(&me(), approves)).await;
        stored += u32::from(comes_to(COMPLETED, before, &runtime, "s").await);
    }
    assert!(stored > 0);
}

/// Never ends. Its future says when it is dropped.
#[derive(Clone, Default)]
struct Endless {
    begun: Arc<tokio::sync::Notify>,
    dropped: Arc<AtomicBool>,
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tool for Endless {
    fn run(&self, _: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (begun, dropped) = (self.begun.clone(), Dropped(self.dropped.clone()));
        Box::pin(async move {
            let _dropped = dropped;
            begun.notify_one();
            std::future::pending().await
        })
    }
}

impl Endless {
    /// A runtime in which a call of this kind runs in the session `s`.
    async fn runs() -> (Endless, Runtime) {
        let endless = Endless::default();
        let mut trade = entry("trade", Approval::never(), &Ledger::default());
        trade.tool = Arc::new(endless.clone());
        let model = Scripted::from_json(TRADE).expect("script");
        let agent = Agent::new("a", ("m", Arc::new(model))).tool(trade);
        let runtime = Runtime::builder(slow()).agent(agent).build().expect("runtime");
        runtime.message(&me(), NewMessage::text("s", "go")).await.expect("message");
        endless.begun.notified().await;
        (endless, runtime)
    }

    async fn is_stopped(&self) {
        let stops = async {
            while !self.dropped.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), stops).await.expect("the call is stopped");
    }
}

#[tokio::test]
async fn w1_a_cancel_whose_caller_is_gone_stops_what_runs_if_it_is_stored() {
    let mut stored = 0;
    for yields in 0..YIELDS {
        let (endless, runtime) = Endless::runs().await;
        let before = seen(&runtime, "s").await;
        given_up(yields, runtime.cancel(&me(), "s", None)).await;
        if comes_to((Status::Cancelled, &[]), before, &runtime, "s").await {
            stored += 1;
            endless.is_stopped().await;
        }
    }
    assert!(stored > 0);
}

/// It first cancels what runs.
#[tokio::test]
async fn w1_a_deletion_whose_caller_is_gone_stops_what_runs_and_deletes_if_it_has_begun() {
    let mut begun = 0;
    for yields in 0..YIELDS {
        let (endless, runtime) = Endless::runs().await;
        let before = seen(&runtime, "s").await;
        given_up(yields, runtime.delete_session(&me(), "s")).await;
        for _ in 0..200 {
            yield_now().await;
        }
        if seen(&runtime, "s").await == before {
            continue;
        }
        begun += 1;
        endless.is_stopped().await;
        let goes = async {
            while seen(&runtime, "s").await.is_some() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), goes).await.expect("the session goes");
    }
    assert!(begun > 0);
}

/// Fails once.
#[derive(Default)]
struct Recovers(AtomicBool);

impl Model for Recovers {
    fn call(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let said = match self.0.swap(true, Ordering::SeqCst) {
            true => vec![Ok(ModelEvent::Text("done".to_owned())), Ok(ModelEvent::Stop)],
            false => vec![Err(ModelError::permanent("no"))],
        };
        futures::stream::iter(said).boxed()
    }
}

#[tokio::test]
async fn w2_a_retry_whose_caller_is_gone_continues_the_turn_if_it_is_stored() {
    let mut stored = 0;
    for yields in 0..YIELDS {
        let agent = Agent::new("a", ("m", Arc::new(Recovers::default())));
        let runtime = Runtime::builder(slow()).agent(agent).build().expect("runtime");
        assert_eq!(send(&runtime, "s", "go").await.expect("run").status, Status::Failed);
        let before = seen(&runtime, "s").await;
        given_up(yields, runtime.retry(&me(), "s", NewRetry::default())).await;
        stored += u32::from(comes_to(COMPLETED, before, &runtime, "s").await);
    }
    assert!(stored > 0);
}

#[tokio::test]
async fn g6_a_fork_that_is_to_run_runs_though_its_caller_is_gone_if_it_is_stored() {
    let mut stored = 0;
    for yields in 0..YIELDS {
        let runtime = runtime(slow(), TRADE, LONG);
        send(&runtime, "s", "go").await.expect("paused");
        decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("decided");
        let query = CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() };
        let page = runtime.checkpoints(&me(), "s", query).await.expect("checkpoints");
        let said = page.rows.iter().filter(|at| at.status == Status::Running).map(|at| at.checkpoint).min();
        let fork = NewFork { checkpoint: said, session_id: Some("f".into()), run: true, ..NewFork::default() };
        given_up(yields, runtime.fork(&me(), "s", fork)).await;
        stored += u32::from(comes_to((Status::AwaitingInput, &["f_1"]), None, &runtime, "f").await);
    }
    assert!(stored > 0);
}

fn asks() -> Graph<Work> {
    in_line("asks", |graph| {
        let ask = graph
            .node("ask", |ctx: Context<Work>| async move { Ok(said(ctx.interrupt("go on?", ()).await.to_string())) });
        graph.start(ask);
        graph.edge(ask, Node::END);
    })
}

#[tokio::test]
async fn g1_a_run_whose_caller_is_gone_runs_if_it_is_stored() {
    let graph = asks();
    let mut stored = 0;
    for (yields, typed) in (0..YIELDS).flat_map(|yields| [(yields, false), (yields, true)]) {
        let store: Arc<dyn Store> = slow();
        let (runtime, runs) = process(&store, &graph);
        let (me, work) = (me(), Work::default());
        if typed {
            given_up(yields, runs.start(&me, Some("s".into()), &work, None)).await;
        } else {
            let new = NewRun { session_id: Some("s".into()), state: Raw::of(&work).expect("JSON"), request_id: None };
            given_up(yields, runtime.start_run(&me, "asks", new)).await;
        }
        stored += u32::from(comes_to((Status::AwaitingInput, &["s_1"]), None, &runtime, "s").await);
    }
    assert!(stored > 0);
}

#[tokio::test]
async fn g6_an_edit_of_a_state_whose_caller_is_gone_is_asked_about_if_it_is_stored() {
    let graph = asks();
    let mut stored = 0;
    for yields in 0..YIELDS {
        let store: Arc<dyn Store> = slow();
        let (runtime, runs) = process(&store, &graph);
        let _ = runs.run(&me(), "s", &Work::default()).await.expect("run");
        let before = seen(&runtime, "s").await;
        let update = Raw::of(&json!({ "sum": { "add": 1 } })).expect("JSON");
        given_up(yields, runtime.edit_run(&me(), "s", update, None)).await;
        stored += u32::from(comes_to((Status::AwaitingInput, &["s_2"]), before, &runtime, "s").await);
    }
    assert!(stored > 0);
}

/// A late decision stores the time-out, which is not the caller's own: others wait for what follows from it.
#[tokio::test]
async fn r6_what_a_late_decision_times_out_goes_on_though_its_caller_is_gone() {
    let mut paused = Vec::new();
    for _ in 0..YIELDS {
        let runtime = runtime(slow(), TRADE, Duration::from_secs(1));
        send(&runtime, "s", "go").await.expect("paused");
        paused.push(runtime);
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut stored = 0;
    for (runtime, yields) in paused.into_iter().zip(0..) {
        let before = seen(&runtime, "s").await;
        given_up(yields, decide(&runtime, "s_1", vec![Decision::approve()])).await;
        stored += u32::from(comes_to(COMPLETED, before, &runtime, "s").await);
    }
    assert!(stored > 0);
}

/// Nothing has to continue after these, but they are the same commands wherever they come from.
#[tokio::test]
async fn r3_a_command_that_has_begun_is_stored_though_its_caller_is_gone() {
    // Of none of them is the first step the last.
    for yields in 1..YIELDS {
        let runtime = runtime(slow(), TRADE, LONG);
        let stored = async || {
            for _ in 0..200 {
                yield_now().await;
            }
            runtime.session(&me(), "s").await.expect("session")
        };
        let new = NewSession { session_id: Some("s".into()), ..NewSession::default() };
        given_up(yields, runtime.create_session(&me(), new)).await;
        assert_eq!(stored().await.status, Status::Idle);

        given_up(yields, runtime.rename_session(&me(), "s", "Trades")).await;
        assert_eq!(stored().await.title.as_deref(), Some("Trades"));

        send(&runtime, "s", "go").await.expect("paused");
        given_up(yields, runtime.note(&me(), "s_1", NewNote::Comment("why?".into()), None)).await;
        stored().await;
        assert_eq!(runtime.approval(&me(), "s_1").await.expect("approval").updates.len(), 1);

        decide(&runtime, "s_1", vec![Decision::approve().always(Always::Session)]).await.expect("a rule");
        given_up(yields, runtime.revoke_rule(&me(), "s_1.0")).await;
        stored().await;
        let rules = runtime.rules(&me(), RuleQuery { limit: Some(10), ..RuleQuery::default() }).await.expect("rules");
        assert_eq!(rules.rows.iter().map(|rule| rule.state).collect::<Vec<_>>(), [RuleState::Ended]);
    }
}
