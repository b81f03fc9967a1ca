//! Agents whose loop has a node of the user's: `approval → critical_approval → tools` (spec G2).

use std::sync::Arc;

use countersign::{
    Agent, CallStatus, Decision, Locale, Raw, Status,
    graph::{
        Context, Graph, Node, NodeError,
        agent_loop::{
            AfterAgent, AfterApproval, AfterTools, AgentLoop, AgentState, AgentUpdate, CallStage, after_agent,
            after_approval, after_tools,
        },
    },
    model::scripted::Scripted,
    run::{NewDecision, Reply, Runtime, TurnOutcome},
    store::Store,
    tool::Approval,
};
use countersign_core::journal::{
    graph::{self as nodes, Node as At},
    record::{Block, Entry, Record, records},
    state::{Phase, State},
};
use proptest::prelude::*;

use super::{Way, journal, me};
use crate::{
    store_support::conformance,
    support::{Ledger, decide, entry, ran, send},
    world::{World, ops},
};

/// Ordinary, gated and critical calls in one answer; some providers make ids that no question can be named by.
const SCRIPT: &str = r#"{"turns":[
    {"tool_calls":[{"id":"wipe#1","name":"wipe","args":{"n":3}},{"name":"look","args":{"n":1}},{"name":"trade","args":{"n":2}}]},
    {"text":"{{ last_tool_result }}"}],"at_end":"repeat"}"#;

async fn ask(ctx: Context<AgentState>) -> Result<AgentUpdate, NodeError> {
    let mut update = AgentUpdate::new();
    let critical = |call: &countersign_runtime::graph::agent_loop::AgentCall<'_>| {
        call.name == "wipe" && call.stage == CallStage::MayRun
    };
    for call in ctx.state().calls().filter(critical) {
        let yes: bool = ctx.interrupt(call.name, (call.name, call.args)).typed().role("admin").await;
        if !yes {
            update = update.reject(call.id, None);
        }
    }
    Ok(update)
}

/// The loop with one more node, under this name.
fn critical(name: &str) -> Graph<AgentState> {
    let AgentLoop { mut graph, agent, approval, tools, .. } = AgentLoop::new();
    let critical = graph.node(name, ask);
    graph.detach(approval);
    graph.route(approval, after_approval, |way| match way {
        AfterApproval::Tools => critical,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => agent,
    });
    graph.route(critical, after_approval, |way| match way {
        AfterApproval::Tools => tools,
        AfterApproval::Approval => approval,
        AfterApproval::Agent => agent,
    });
    graph.compile().expect("graph")
}

fn runtime(store: &Arc<dyn Store>, ledger: &Ledger, graph: &Graph<AgentState>) -> Runtime {
    let agent = Agent::new("a", ("m", Arc::new(Scripted::from_json(SCRIPT).expect("script"))))
        .tool(entry("look", Approval::never(), ledger))
        .tool(entry("trade", Approval::always(), ledger))
        .tool(entry("wipe", Approval::always(), ledger))
        .graph(graph);
    Runtime::builder(store.clone()).agent(agent).locale(Locale::Zh).build().expect("runtime")
}

async fn yes_or_no(runtime: &Runtime, key: &str, yes: bool) -> TurnOutcome {
    let resume = Raw::of(&yes).expect("JSON");
    let new = NewDecision::new(key, Reply::Resume(resume));
    runtime.decide_and_run(&me(), new).await.expect("decided")
}

/// The results of calls: tool, outcome and text for the model, in the order in which they came.
fn results(journal: &[Arc<Entry>]) -> Vec<(String, CallStatus, String)> {
    let result = |record: &Record| match record {
        Record::CallFinished(done) => Some((done.name.to_string(), done.status, done.output.clone())),
        _ => None,
    };
    records(journal).filter_map(result).collect()
}

/// Ordinary calls run first; the user's approval is not enough for a critical one; the admin rejects in another
/// process, and the model gets that result under the call's own id.
async fn l1_a_second_approval_refuses_one_call_after_a_restart(store: Arc<dyn Store>) {
    let (ledger, graph) = (Ledger::default(), critical("critical_approval"));
    let first = runtime(&store, &ledger, &graph);
    let paused = send(&first, "s", "go").await.expect("paused");
    assert_eq!((paused.pending.clone(), ran(&ledger)), (vec!["s_1".to_owned()], vec!["look".to_owned()]));
    let second = runtime(&store, &ledger, &graph);
    let paused = decide(&second, "s_1", vec![Decision::approve(), Decision::approve()]).await.expect("decided");
    assert_eq!((paused.status, paused.pending.clone()), (Status::AwaitingInput, vec!["s_2".to_owned()]));
    assert_eq!(second.state(&me(), "s").await.expect("state").nodes, ["critical_approval"]);
    assert_eq!(ran(&ledger), ["look"], "nothing of the answer runs before the second approval");
    let third = runtime(&store, &ledger, &graph);
    assert_eq!(third.wait(&me(), "s").await.expect("outcome").pending, ["s_2"]);
    let done = yes_or_no(&third, "s_2", false).await;
    assert_eq!((done.status, ran(&ledger)), (Status::Completed, vec!["look".to_owned(), "trade".to_owned()]));
    let journal = journal(&store, "s").await;
    let wiped = results(&journal).into_iter().find(|(name, ..)| name == "wipe").expect("it has its result");
    assert_eq!((wiped.1, &*wiped.2), (CallStatus::Rejected, "操作已被用户取消"));
    let wipe = |block: &Block| match block {
        Block::ToolUse(call) if &*call.name == "wipe" => Some(call.id.to_string()),
        _ => None,
    };
    let asked = records(&journal).find_map(|record| match record {
        Record::BlockShown(block) => wipe(block),
        Record::ModelResponded(answer) => answer.blocks.iter().find_map(wipe),
        _ => None,
    });
    assert!(asked.is_some());
    let told = records(&journal).find_map(|record| match record {
        Record::CallFinished(done) if &*done.name == "wipe" => Some(done.tool_use_id.to_string()),
        _ => None,
    });
    assert_eq!(asked, told, "under the call's own id");
}

/// The admin approves: each call runs once.
async fn l1_a_second_approval_lets_all_run_once(store: Arc<dyn Store>) {
    let (ledger, graph) = (Ledger::default(), critical("critical_approval"));
    let runtime = runtime(&store, &ledger, &graph);
    send(&runtime, "s", "go").await.expect("paused");
    decide(&runtime, "s_1", vec![Decision::approve(), Decision::approve()]).await.expect("decided");
    let done = yes_or_no(&runtime, "s_2", true).await;
    let mut all = ran(&ledger);
    all.sort();
    assert_eq!((done.status, all), (Status::Completed, ["look", "trade", "wipe"].map(str::to_owned).to_vec()));
}

/// The node at which it is pending is gone from the program: the turn fails by its name, no call runs, and each has its
/// result.
async fn l2_a_node_that_is_gone_fails_the_turn_by_name(store: Arc<dyn Store>) {
    let ledger = Ledger::default();
    let first = runtime(&store, &ledger, &critical("critical_approval"));
    send(&first, "s", "go").await.expect("paused");
    decide(&first, "s_1", vec![Decision::approve(), Decision::approve()]).await.expect("decided");
    let second = runtime(&store, &ledger, &critical("another_name"));
    let done = yes_or_no(&second, "s_2", true).await;
    let error = done.error.expect("why");
    assert_eq!((done.status, &*error.code), (Status::Failed, "node_gone"));
    assert!(error.message.contains("critical_approval"), "{}", error.message);
    assert_eq!(ran(&ledger), ["look"]);
    assert_eq!(results(&journal(&store, "s").await).len(), 1, "what was approved can still be carried out");
    // A message abandons that turn.
    let next = send(&second, "s", "again").await.expect("run");
    assert_ne!(next.status, Status::Failed, "{:?}", next.error);
    assert_eq!(results(&journal(&store, "s").await).len(), 3, "none is left without a result");
}

/// Routes that loop forever are stopped.
async fn l3_a_loop_that_goes_round_for_ever_is_stopped(store: Arc<dyn Store>) {
    let AgentLoop { mut graph, agent, compression, .. } = AgentLoop::new();
    let spin = graph.node("spin", |_| async { Ok(AgentUpdate::new()) });
    graph.detach(compression);
    graph.edge(compression, spin);
    graph.route(
        spin,
        |_| Way::Back,
        |way| match way {
            Way::Back => spin,
            Way::On => agent,
        },
    );
    graph.max_rounds(25);
    let ledger = Ledger::default();
    let runtime = runtime(&store, &ledger, &graph.compile().expect("graph"));
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    assert_eq!((outcome.status, &*outcome.error.expect("why").code), (Status::Failed, "round_limit"));
    assert!(ran(&ledger).is_empty());
}

/// A route to the end with open calls gives each of them a result.
async fn l4_a_route_to_the_end_leaves_no_call_without_a_result(store: Arc<dyn Store>) {
    let AgentLoop { mut graph, agent, tools, approval, .. } = AgentLoop::new();
    graph.detach(agent);
    // The other nodes are reachable, as every node of a graph must be, and never chosen.
    graph.route(
        agent,
        |_| AfterAgent::End,
        |way| match way {
            AfterAgent::Tools | AfterAgent::Compression => tools,
            AfterAgent::Approval => approval,
            AfterAgent::End => Node::END,
        },
    );
    let ledger = Ledger::default();
    let runtime = runtime(&store, &ledger, &graph.compile().expect("graph"));
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    assert_eq!((outcome.status, outcome.pending.len()), (Status::Completed, 0));
    assert!(ran(&ledger).is_empty(), "nothing runs that its loop does not lead to");
    let results = results(&journal(&store, "s").await);
    assert_eq!(results.len(), 3, "{results:?}");
    send(&runtime, "s", "again").await.expect("the session goes on");
}

/// A node cannot permit a call, whatever it returns, and one that refuses an unknown call fails by name.
async fn l5_a_node_only_refuses(store: Arc<dyn Store>) {
    let AgentLoop { mut graph, agent, approval, tools, compression, .. } = AgentLoop::new();
    let wrong = graph.node("wrong", |_| async { Ok(AgentUpdate::new().reject("no such call", None)) });
    graph.detach(agent);
    graph.route(agent, after_agent, |way| match way {
        AfterAgent::Tools => wrong,
        AfterAgent::Approval => approval,
        AfterAgent::Compression => compression,
        AfterAgent::End => Node::END,
    });
    graph.edge(wrong, tools);
    let ledger = Ledger::default();
    let runtime = runtime(&store, &ledger, &graph.compile().expect("graph"));
    let outcome = send(&runtime, "s", "go").await.expect("outcome");
    let error = outcome.error.expect("why");
    assert_eq!((outcome.status, &*error.code), (Status::Failed, "invalid_update"));
    assert!(error.message.contains("no such call"), "{}", error.message);
    assert!(ran(&ledger).is_empty());
}

/// The agent's turn as its routes see it.
fn seen(state: &State) -> AgentState {
    serde_json::from_value(serde_json::to_value(state).expect("JSON")).expect("a state")
}

/// Where the routes of the loop lead, by the phases of the calls.
fn walk(state: &State) -> Vec<At> {
    let turn = seen(state);
    let agent = match after_agent(&turn) {
        AfterAgent::Tools => At::Tools,
        AfterAgent::Approval => At::Approval,
        AfterAgent::Compression => At::Compression,
        AfterAgent::End => At::End,
    };
    let tools = match after_tools(&turn) {
        AfterTools::Approval => At::Approval,
        AfterTools::Compression => At::Compression,
    };
    let approval = match after_approval(&turn) {
        AfterApproval::Tools => At::Tools,
        AfterApproval::Approval => At::Approval,
        AfterApproval::Agent => At::Agent,
    };
    let open = |what: CallStage| turn.calls().any(|call| call.stage == what);
    let unfinished = turn.calls().any(|call| call.stage != CallStage::Finished);
    match (open(CallStage::MayRun), unfinished) {
        // Something may run: the model and the people both lead to the tools.
        (true, _) => vec![agent, approval],
        // People are needed: the model and the tools both lead to them.
        (false, true) => vec![agent, tools],
        // Everything has its result: the model and the tools lead to compression, the people to the model.
        (false, false) => vec![agent, tools, approval],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// On random sessions the public routes of the loop lead to the same nodes as in sessions without such a graph.
    #[test]
    fn l6_the_public_routes_lead_where_sessions_go(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            let _refused = world.apply(op);
            let state = &world.state;
            // Before the first answer, while calls run, and between turns no route is evaluated.
            let running = state.calls.iter().any(|call| matches!(call.phase, Phase::Started(_) | Phase::Delegated));
            if !state.status.is_active() || state.held || running || state.calls.is_empty() {
                continue;
            }
            let at = nodes::position(state);
            for to in walk(state) {
                // From compression one edge leads to the model.
                let same = at == to || matches!((at, to), (At::Compression | At::Agent, At::Compression | At::Agent));
                prop_assert!(same, "position {at:?}, route {to:?}: {:?}", state.calls);
            }
        }
    }
}

conformance!(
    l1_a_second_approval_refuses_one_call_after_a_restart,
    l1_a_second_approval_lets_all_run_once,
    l2_a_node_that_is_gone_fails_the_turn_by_name,
    l3_a_loop_that_goes_round_for_ever_is_stopped,
    l4_a_route_to_the_end_leaves_no_call_without_a_result,
    l5_a_node_only_refuses,
);
