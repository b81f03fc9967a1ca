//! Nodes of the users in an agent's loop: no call passes by them (spec G2).

use std::sync::Arc;

use countersign::{
    Agent, Args, Decision, InterruptionKind, Permit, Raw, RunConfig, RunState, Runner, Status,
    graph::{
        Context, Graph, NodeError,
        agent_loop::{AfterApproval, AgentLoop, AgentState, AgentUpdate, CallStage, after_approval},
    },
    model::scripted::Scripted,
    run::{Code, NewDecision, NewMessage, OnPending, Reply, Runtime},
    store::{Store, memory::MemoryStore},
    tool::{Approval, Tool, ToolError},
};
use countersign_runtime::run::{CheckpointQuery, NewFork};
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::{
    graph_support::me,
    store_support::conformance,
    support::{Ledger, Recorder, decide, entry, ran, send},
};
/// A loop whose gate asks about every call that may run.
fn gated() -> Graph<AgentState> {
    async fn gate(ctx: Context<AgentState>) -> Result<AgentUpdate, NodeError> {
        let mut update = AgentUpdate::new();
        for call in ctx.state().calls().filter(|call| call.stage == CallStage::MayRun) {
            let yes: bool = ctx.interrupt(call.name, call.args).typed().await;
            if !yes {
                update = update.reject(call.id, None);
            }
        }
        Ok(update)
    }
    let AgentLoop { mut graph, agent, approval, tools, .. } = AgentLoop::new();
    let gate = graph.node("gate", gate);
    graph.detach(approval);
    for (from, on) in [(approval, gate), (gate, tools)] {
        graph.route(from, after_approval, |way| match way {
            AfterApproval::Tools => on,
            AfterApproval::Approval => approval,
            AfterApproval::Agent => agent,
        });
    }
    graph.compile().expect("graph")
}

const SCRIPT: &str = r#"{"turns":[{"tool_calls":[{"name":"trade","args":{"n":1}},{"name":"wipe","args":{"n":2}}]},
    {"text":"done"}],"at_end":"repeat"}"#;

fn agent(store: &Arc<dyn Store>, ledger: &Ledger) -> Runtime {
    let agent = Agent::new("a", ("m", Arc::new(Scripted::from_json(SCRIPT).expect("script"))))
        .tool(entry("trade", Approval::always(), ledger))
        .tool(entry("wipe", Approval::always().levels(["boss"]), ledger))
        .graph(&gated());
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

async fn say(runtime: &Runtime, key: &str, yes: bool) -> countersign::run::TurnOutcome {
    let resume = Raw::of(&yes).expect("JSON");
    let new = NewDecision::new(key, Reply::Resume(resume));
    runtime.decide_and_run(&me(), new).await.expect("decided")
}

/// A call that is approved while the loop is at the user's own node, or runs earlier calls, passes that node too.
async fn g2_no_approved_call_passes_by_a_node_of_the_users(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(&store, &ledger);
    let asked = send(&runtime, "s", "go").await.expect("asked");
    assert_eq!(asked.pending, ["s_1", "s_2"], "one for each who decides");
    let gate = decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("approved");
    assert_eq!(gate.pending, ["s_2", "s_3"]);
    // The other is approved while the gate asks about the first.
    let both = decide(&runtime, "s_2", vec![Decision::approve()]).await.expect("approved");
    assert_eq!((both.pending, ran(&ledger)), (vec!["s_3".to_owned()], Vec::new()));
    let next = say(&runtime, "s_3", true).await;
    assert_eq!(
        (next.pending, ran(&ledger)),
        (vec!["s_4".to_owned()], vec!["trade".to_owned()]),
        "it comes to the gate too"
    );
    let done = say(&runtime, "s_4", false).await;
    assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["trade".to_owned()]));
}

/// No message takes a turn that has begun to an agent with nodes of its own, past those, or away from one.
async fn g2_no_message_takes_a_turn_past_the_nodes_of_another_agent(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let front = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"looked"}],"at_end":"repeat"}"#;
    let model = |script: &str| ("m", Arc::new(Scripted::from_json(script).expect("script")));
    let front = Agent::new("front", model(front)).tool(entry("look", Approval::always(), &ledger));
    let gated = Agent::new("gated", model(SCRIPT))
        .tool(entry("trade", Approval::always(), &ledger))
        .tool(entry("wipe", Approval::always().levels(["boss"]), &ledger))
        .graph(&gated());
    let runtime = Runtime::builder(store.clone()).agent(front).agent(gated).build().expect("runtime");
    let to = |session: &str, agent: &str, on_pending| NewMessage {
        agent: Some(agent.to_owned()),
        on_pending,
        ..NewMessage::text(session, "go")
    };
    let pending = async |session: &str| runtime.wait(&me(), session).await.expect("wait").pending;
    // To the agent with the gate: its turn begins when the other's has ended.
    assert_eq!(runtime.run(&me(), to("s", "front", None)).await.expect("asked").pending, ["s_1"]);
    let refused = runtime.message(&me(), to("s", "gated", Some(OnPending::Reject))).await.expect_err("in the middle");
    assert_eq!(refused.code, Code::InvalidMessage, "{refused}");
    runtime.message(&me(), to("s", "gated", Some(OnPending::Queue))).await.expect("queued");
    decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("approved");
    assert_eq!(pending("s").await, ["s_2", "s_3"]);
    decide(&runtime, "s_2", vec![Decision::approve()]).await.expect("approved");
    assert_eq!((pending("s").await, ran(&ledger)), (vec!["s_3".to_owned(), "s_4".to_owned()], vec!["look".to_owned()]));
    // Away from it: the turn ends at its own nodes.
    runtime.message(&me(), to("s", "front", Some(OnPending::Queue))).await.expect("queued");
    decide(&runtime, "s_3", vec![Decision::reject(None)]).await.expect("rejected");
    let next = say(&runtime, "s_4", true).await;
    assert_ne!(next.status, Status::Failed, "{next:?}");
    assert_eq!(
        (pending("s").await, ran(&ledger)),
        (vec!["s_5".to_owned()], vec!["look".to_owned(), "trade".to_owned()])
    );
    let asked = serde_json::to_value(runtime.state(&me(), "s").await.expect("state")).expect("JSON");
    assert_eq!(asked["agent"], "front");
}

/// The application takes the middle of a turn to another agent (spec S19): that agent's calls pass its nodes, and those
/// that are open pass the nodes of the agent that made them.
async fn g2_s19_no_change_of_agent_takes_a_call_past_the_nodes_of_its_own(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let model = |name: &'static str, script: &str| (name, Arc::new(Scripted::from_json(script).expect("script")));
    let look = r#"{"turns":[{"tool_calls":[{"name":"look","args":{"n":1}}]},{"text":"looked"}]}"#;
    let front = Agent::new("front", model("f", look)).tool(entry("look", Approval::always(), &ledger));
    let gated = Agent::new("gated", model("g", SCRIPT))
        .tool(entry("trade", Approval::always(), &ledger))
        .tool(entry("wipe", Approval::always(), &ledger))
        .graph(&gated());
    let own_loop = AgentLoop::new().graph.compile().expect("graph");
    let loose = Agent::new("loose", model("l", look)).graph(&own_loop);

    // To it.
    let runner = Runner::new(RunConfig::new().store(store.clone()).session("s").principal(me()));
    let mut state = runner.run(&front, "go").await.expect("asked").state;
    state.reject(&state.interruptions()[0]).expect("rejected");
    state.set_current_agent("gated");
    let mut state = runner.run(&gated, state).await.expect("asked").state;
    for item in state.interruptions() {
        state.approve(&item).expect("approved");
    }
    let gate = runner.run(&gated, state).await.expect("the gate asks").interruptions;
    let asks: Vec<_> = gate.iter().map(|item| (item.kind, &*item.tool)).collect();
    assert_eq!((asks, ran(&ledger).len()), (vec![(InterruptionKind::Interrupt, "trade")], 0));

    // Away from it.
    let before = Runtime::builder(store.clone()).agent(gated.clone()).build().expect("runtime");
    assert_eq!(send(&before, "t", "go").await.expect("asked").pending, ["t_1"]);
    let mut state = RunState::load(&*store, "t").await.expect("loaded");
    state.set_current_agent("loose");
    let elsewhere = Arc::new(MemoryStore::new());
    state.save(&*elsewhere).await.expect("saved");
    let after = Runtime::builder(elsewhere).agent(gated).agent(loose).build().expect("runtime");
    let gate = decide(&after, "t_1", vec![Decision::approve(), Decision::reject(None)]).await.expect("decided");
    assert_eq!((gate.pending, ran(&ledger).len()), (vec!["t_2".to_owned()], 0), "the gate asks about it");
    let done = say(&after, "t_2", false).await;
    assert_eq!((done.status, &*done.text, ran(&ledger).len()), (Status::Completed, "looked", 0));
}

/// Runs only when it is told to.
struct Held {
    begun: Arc<Notify>,
    ends: Arc<Notify>,
    recorder: Recorder,
}

impl Tool for Held {
    fn run(&self, permit: Permit) -> BoxFuture<'static, Result<String, ToolError>> {
        let (begun, ends, ran) = (self.begun.clone(), self.ends.clone(), self.recorder.run(permit));
        Box::pin(async move {
            begun.notify_one();
            ends.notified().await;
            ran.await
        })
    }
}

/// The agent whose tool has this description, and another tool that does this.
fn trader(store: &Arc<dyn Store>, ledger: &Ledger, text: &str, wipes: Arc<dyn Tool>) -> Runtime {
    let mut trade = entry("trade", Approval::always(), ledger);
    trade.spec.description = text.into();
    let mut wipe = entry("wipe", Approval::always().levels(["boss"]), ledger);
    wipe.tool = wipes;
    let model = Scripted::from_json(SCRIPT).expect("script");
    let agent = Agent::new("a", ("m", Arc::new(model))).tool(trade).tool(wipe).graph(&gated());
    Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
}

/// Nothing else of the answer is left that could run, or be decided.
async fn g2_s13_a_call_whose_tool_has_changed_behind_a_node_of_the_users_is_asked_about(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let recorder = Arc::new(Recorder(ledger.clone()));
    let before = trader(&store, &ledger, "Trades.", recorder.clone());
    send(&before, "s", "go").await.expect("asked");
    decide(&before, "s_2", vec![Decision::reject(None)]).await.expect("rejected");
    assert_eq!(decide(&before, "s_1", vec![Decision::approve()]).await.expect("approved").pending, ["s_3"]);
    let after = trader(&store, &ledger, "Trades twice.", recorder);
    let asked = say(&after, "s_3", true).await;
    assert_eq!((asked.status, asked.pending), (Status::AwaitingInput, vec!["s_4".to_owned()]));
    let gate = decide(&after, "s_4", vec![Decision::approve()]).await.expect("approved");
    assert_eq!((gate.pending, ran(&ledger).len()), (vec!["s_5".to_owned()], 0));
    let done = say(&after, "s_5", true).await;
    assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["trade".to_owned()]));
}

/// A call that had passed the gate is asked about again, since its tool has changed, and is decided, or even edited,
/// while another call runs: the gate has not seen what would run now.
async fn g2_s13_r1_what_is_decided_anew_passes_by_no_node_of_the_users(store: Arc<dyn Store>) {
    let anew = [Decision::approve(), Decision::edit("trade", Args::parse(r#"{"n":9}"#).expect("args"))];
    for (id, decision) in ["s", "t"].into_iter().zip(anew) {
        let (begun, ends, ledger) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Ledger::default());
        let recorder = Recorder(ledger.clone());
        let held = Arc::new(Held { begun: begun.clone(), ends: ends.clone(), recorder });
        let key = |n: u32| format!("{id}_{n}");
        let before = trader(&store, &ledger, "Trades.", held.clone());
        send(&before, id, "go").await.expect("asked");
        let gate = decide(&before, &key(1), vec![Decision::approve()]).await.expect("approved");
        assert_eq!(gate.pending, [key(2), key(3)]);

        let after = trader(&store, &ledger, "Trades twice.", held);
        let asked = say(&after, &key(3), true).await;
        assert_eq!((asked.pending, ran(&ledger)), (vec![key(2), key(4)], Vec::new()), "another tool than was approved");
        let gate = decide(&after, &key(2), vec![Decision::approve()]).await.expect("approved");
        assert_eq!(gate.pending, [key(4), key(5)]);
        let lets = NewDecision::new(key(5), Reply::Resume(Raw::of(&true).expect("JSON")));
        after.decide(&me(), lets).await.expect("decided");
        begun.notified().await;
        after.decide(&me(), NewDecision::new(key(4), vec![decision])).await.expect("decided");
        ends.notify_one();
        let gate = after.wait(&me(), id).await.expect("asked");
        assert_eq!((gate.pending, ran(&ledger)), (vec![key(6)], vec!["wipe".to_owned()]), "it comes to the gate again");
        let done = say(&after, &key(6), false).await;
        assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["wipe".to_owned()]));
    }
}

/// When the gate refuses all of its calls and others are still pending, the model is not called before they are
/// decided.
async fn g2_the_model_is_not_asked_while_calls_are_open(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(&store, &ledger);
    send(&runtime, "s", "go").await.expect("asked");
    decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("approved");
    let waits = say(&runtime, "s_3", false).await;
    assert_eq!((waits.status, waits.pending), (Status::AwaitingInput, vec!["s_2".to_owned()]));
    let done = decide(&runtime, "s_2", vec![Decision::reject(None)]).await.expect("rejected");
    assert_eq!((done.status, done.text.as_str(), ran(&ledger)), (Status::Completed, "done", Vec::new()));
}

/// A fork behind a gate is before it again: the gate's approval was for the original.
async fn g6_a_fork_reuses_no_answer_of_a_node_of_the_users(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(&store, &ledger);
    send(&runtime, "s", "go").await.expect("asked");
    decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("approved");
    say(&runtime, "s_3", true).await;
    let before = ran(&ledger).len();
    let page = runtime
        .checkpoints(&me(), "s", CheckpointQuery { limit: Some(200), ..CheckpointQuery::default() })
        .await
        .expect("checkpoints");
    for (i, at) in
        page.rows.iter().enumerate().filter(|(_, at)| matches!(at.status, Status::Running | Status::AwaitingInput))
    {
        let id = format!("fork{i}");
        let fork =
            NewFork { checkpoint: Some(at.checkpoint), session_id: Some(id.clone()), run: true, ..NewFork::default() };
        runtime.fork(&me(), "s", fork).await.expect("fork");
        runtime.wait(&me(), &id).await.expect("wait");
        assert_eq!(ran(&ledger).len(), before, "a fork of checkpoint {} has run something", at.checkpoint);
    }
}

/// A process ends while two calls run. The next one goes on with the idempotent one; whether the other runs again is for
/// the gate to say too, and not only for whom the call itself asks.
async fn g2_r4_a_call_that_is_run_again_passes_the_nodes_of_the_users_again(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let recorder = || Recorder(ledger.clone());
    let (begun, ends) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let held = || Held { begun: begun.clone(), ends: ends.clone(), recorder: recorder() };
    let process = |trades: Arc<dyn Tool>| {
        let mut trade = entry("trade", Approval::always(), &ledger);
        trade.tool = trades;
        let mut wipe = entry("wipe", Approval::always(), &ledger).idempotent(true);
        wipe.tool = Arc::new(held());
        let model = Scripted::from_json(SCRIPT).expect("script");
        let agent = Agent::new("a", ("m", Arc::new(model))).tool(trade).tool(wipe).graph(&gated());
        Runtime::builder(store.clone()).agent(agent).build().expect("runtime")
    };
    let before = process(Arc::new(Held { begun: Arc::default(), ends: Arc::default(), recorder: recorder() }));
    assert_eq!(send(&before, "s", "go").await.expect("asked").pending, ["s_1"]);
    let gate = decide(&before, "s_1", vec![Decision::approve(); 2]).await.expect("approved");
    assert_eq!(gate.pending, ["s_2"]);
    assert_eq!(say(&before, "s_2", true).await.pending, ["s_3"]);
    let yes = |key: &str| NewDecision::new(key, Reply::Resume(Raw::of(&true).expect("JSON")));
    before.decide(&me(), yes("s_3")).await.expect("decided");
    begun.notified().await;
    before.shutdown(std::time::Duration::ZERO).await;
    ledger.lock().expect("ledger").clear();

    let after = process(Arc::new(recorder()));
    after.start().await.expect("start");
    begun.notified().await;
    let again = NewDecision::new("s_4", vec![Decision::approve()]);
    while let Err(refusal) = after.decide(&me(), again.clone()).await {
        assert_eq!(refusal.code, Code::ApprovalNotFound, "{refusal}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    ends.notify_one();
    let gate = after.wait(&me(), "s").await.expect("asked");
    assert_eq!((gate.pending, ran(&ledger)), (vec!["s_5".to_owned()], vec!["wipe".to_owned()]));
    let done = say(&after, "s_5", true).await;
    assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["wipe".to_owned(), "trade".to_owned()]));
}

/// The gate's question is asked again when the gate runs again: an answer before would be to nobody.
async fn g6_a_fork_asks_nothing_of_a_node_that_it_goes_back_behind(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let runtime = agent(&store, &ledger);
    send(&runtime, "s", "go").await.expect("asked");
    assert_eq!(decide(&runtime, "s_1", vec![Decision::approve()]).await.expect("approved").pending, ["s_2", "s_3"]);
    let fork = NewFork { session_id: Some("f".to_owned()), run: true, ..NewFork::default() };
    runtime.fork(&me(), "s", fork).await.expect("fork");
    let asked = runtime.wait(&me(), "f").await.expect("wait").interruptions;
    let kinds: Vec<InterruptionKind> = asked.iter().map(|one| one.kind()).collect();
    assert_eq!(kinds, [InterruptionKind::Approval; 2], "of both calls");
}

/// An agent at work for a call goes on in a fork, and so does the loop.
async fn g6_s5_a_fork_goes_on_while_an_agent_works_for_a_call_of_its_loop(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    // The answers of a session are counted together.
    let model = |script: &str| ("m", Arc::new(Scripted::from_json(script).expect("script")));
    let asks = r#"{"turns":[{"tool_calls":[{"name":"ask","args":{"input":"trade"}}]}]}"#;
    let trades = r#"{"turns":[{"text":""},{"tool_calls":[{"name":"trade","args":{"n":1}}]},{"text":"traded"}]}"#;
    let helper = Agent::new("helper", model(trades)).tool(entry("trade", Approval::always(), &ledger));
    let front = Agent::new("front", model(asks)).tool(helper.as_tool("ask", "Asks.")).graph(&gated());
    let runtime = Runtime::builder(store.clone()).agent(front).build().expect("runtime");
    let asked = send(&runtime, "s", "go").await.expect("asked");
    assert_eq!(asked.pending, ["s_1"], "{asked:?}");
    let fork = NewFork { session_id: Some("f".to_owned()), run: true, ..NewFork::default() };
    runtime.fork(&me(), "s", fork).await.expect("fork");
    let asked = runtime.wait(&me(), "f").await.expect("wait");
    assert_eq!((asked.status, asked.pending), (Status::AwaitingInput, vec!["f_2".to_owned()]));
    let done = decide(&runtime, "f_2", vec![Decision::approve()]).await.expect("approved");
    assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["trade".to_owned()]));
}

conformance!(
    g2_no_approved_call_passes_by_a_node_of_the_users,
    g2_no_message_takes_a_turn_past_the_nodes_of_another_agent,
    g2_s19_no_change_of_agent_takes_a_call_past_the_nodes_of_its_own,
    g2_s13_a_call_whose_tool_has_changed_behind_a_node_of_the_users_is_asked_about,
    g2_s13_r1_what_is_decided_anew_passes_by_no_node_of_the_users,
    g2_the_model_is_not_asked_while_calls_are_open,
    g6_a_fork_reuses_no_answer_of_a_node_of_the_users,
    g2_r4_a_call_that_is_run_again_passes_the_nodes_of_the_users_again,
    g6_a_fork_asks_nothing_of_a_node_that_it_goes_back_behind,
    g6_s5_a_fork_goes_on_while_an_agent_works_for_a_call_of_its_loop,
);
